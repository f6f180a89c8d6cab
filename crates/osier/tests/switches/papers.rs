//! Keys and certificates for a controller and its switches.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An authority, and a key with a certificate of it for each side.
pub(crate) struct Papers(TempDir);

impl Papers {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let params = |name: &str| {
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let mut authority = params("authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let write = |file: &str, text: String| fs::write(folder.path().join(file), text).unwrap();
        write("ca.pem", authority.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(authority, key);
        for name in ["controller", "switch"] {
            let key = KeyPair::generate().unwrap();
            write(&format!("{name}.pem"), params(name).signed_by(&key, &issuer).unwrap().pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        Self(folder)
    }

    /// A side's key, its certificate, and the authority's.
    pub(crate) fn files(&self, name: &str) -> [PathBuf; 3] {
        let at = |file: &str| -> PathBuf { Path::new(self.0.path()).join(file) };
        [at(&format!("{name}.key")), at(&format!("{name}.pem")), at("ca.pem")]
    }
}
