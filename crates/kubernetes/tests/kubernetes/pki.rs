//! Certificates for an API server of a test.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use std::path::Path;

/// Makes an authority, the server's certificate, an administrator's, and the service accounts' key.
pub(crate) fn make(folder: &Path, addresses: &[&str]) {
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("ca.crt", authority.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(authority, key);
    let issue = |file: &str, organization: Option<&str>, names: Vec<SanType>| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        if let Some(organization) = organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.distinguished_name.push(DnType::CommonName, file);
        params.subject_alt_names = names;
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        write(&format!("{file}.crt"), params.signed_by(&key, &issuer).unwrap().pem());
        write(&format!("{file}.key"), key.serialize_pem());
    };
    let names = addresses.iter().map(|text| SanType::IpAddress(text.parse().unwrap())).collect();
    issue("server", None, names);
    issue("admin", Some("system:masters"), Vec::new());
    let accounts = KeyPair::generate().unwrap();
    write("sa.key", accounts.serialize_pem());
    write("sa.pub", accounts.public_key_pem());
}
