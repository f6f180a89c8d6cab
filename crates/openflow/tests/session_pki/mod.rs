//! An authority of a test's own.

use osier_openflow::session::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::path::PathBuf;

pub(crate) struct Pki {
    dir: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    pub(crate) fn new(dir: PathBuf) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // By default all have the same name, and OpenSSL takes a certificate that has the name of
        // its authority for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
        Self { dir, authority }
    }

    /// A key and a certificate for a name, and the authority's certificate.
    pub(crate) fn issue(&self, name: &str) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        let files = TlsFiles {
            private_key: self.dir.join(format!("{name}.key")),
            certificate: self.dir.join(format!("{name}.pem")),
            ca_certificate: self.dir.join("ca.pem"),
        };
        fs::write(&files.private_key, key.serialize_pem()).unwrap();
        fs::write(&files.certificate, certificate.pem()).unwrap();
        files
    }
}
