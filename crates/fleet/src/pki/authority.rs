//! The cluster's authority.

use crate::token::{Fingerprint, sha256};
use osier_model::NodeName;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
    string::Ia5String,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// How long the authority's own certificate holds.
const LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
/// Clocks differ: a certificate holds from a little earlier.
const SLACK: Duration = Duration::from_mins(5);

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// The key or certificate is wrong.
    #[error("the certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// No randomness.
    #[error("the system has no random numbers")]
    Random,
    /// A request that is none, or whose signature is not by its own key.
    #[error("the certificate request is wrong")]
    Request(#[source] rcgen::Error),
    /// A name that certificates cannot carry.
    #[error("{0:?} cannot stand in a certificate")]
    Name(String),
}

// === impl Authority ===

impl Authority {
    /// A new authority.
    pub fn generate(cluster: &str, now: SystemTime) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = params(&format!("Osier authority of {cluster}"), now, LIFETIME)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The authority of a certificate and a key, as [`Authority::key_pem`] gave it.
    pub fn load(certificate: &[u8], key_pem: &str) -> Result<Self, AuthorityError> {
        let certificate = CertificateDer::from(certificate.to_vec());
        let key = KeyPair::from_pem(key_pem)?;
        Ok(Self { issuer: Issuer::from_ca_cert_der(&certificate, key)?, certificate })
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Its key: the cluster's deepest secret.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// How tokens name it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(sha256(&self.certificate))
    }

    /// A certificate for a controller. Agents look for [`SERVER_NAME`](crate::SERVER_NAME), whatever
    /// its address; `names` and `addresses` are for other clients.
    pub fn issue_server(
        &self,
        names: &[String],
        addresses: &[IpAddr],
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<Issued, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = params("Osier controller", now, lifetime)?;
        for name in std::iter::once(crate::SERVER_NAME).chain(names.iter().map(String::as_str)) {
            params.subject_alt_names.push(SanType::DnsName(text(name)?));
        }
        params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(Issued { certificate, key })
    }

    /// A certificate for a node's agent, for the key of its request. What else the request says is
    /// ignored.
    pub fn issue_agent(
        &self,
        node: &NodeName,
        request: &[u8],
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, AuthorityError> {
        let request = CertificateSigningRequestDer::from(request);
        let request =
            CertificateSigningRequestParams::from_der(&request).map_err(AuthorityError::Request)?;
        let mut params = params(&format!("Osier agent {node}"), now, lifetime)?;
        params.subject_alt_names.push(SanType::URI(text(&super::identity::uri(node))?));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(params.signed_by(&request.public_key, &self.issuer)?.der().clone())
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "authority {}", self.fingerprint())
    }
}

fn text(name: &str) -> Result<Ia5String, AuthorityError> {
    Ia5String::try_from(name).map_err(|_| AuthorityError::Name(name.to_owned()))
}

fn params(
    subject: &str,
    now: SystemTime,
    lifetime: Duration,
) -> Result<CertificateParams, AuthorityError> {
    let mut serial = [0; 16];
    SystemRandom::new().fill(&mut serial).map_err(|_| AuthorityError::Random)?;
    // Positive, as serial numbers are.
    serial[0] &= 0x7f;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // X.520 allows 64 characters; who it is, is in the URI.
    let subject: String = subject.chars().take(64).collect();
    params.distinguished_name.push(DnType::CommonName, subject);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = (now - SLACK.min(lifetime / 10)).into();
    params.not_after = (now + lifetime).into();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
