//! Whose a certificate is.

use osier_model::NodeName;
use rustls::pki_types::CertificateDer;
use std::time::{Duration, SystemTime};
use x509_parser::extensions::GeneralName;

const SCHEME: &str = "osier://node/";

/// When a certificate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From when.
    pub from: SystemTime,
    /// Until when.
    pub until: SystemTime,
}

// === impl Validity ===

impl Validity {
    /// Of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let time = |seconds: i64| {
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
        };
        let validity = parsed.validity();
        let (from, until) =
            (time(validity.not_before.timestamp())?, time(validity.not_after.timestamp())?);
        Some(Self { from, until })
    }

    /// When two thirds of it are over: time for the next one.
    pub fn renewal(self) -> SystemTime {
        let whole = self.until.duration_since(self.from).unwrap_or_default();
        self.from + whole * 2 / 3
    }

    /// How long it still holds; nothing if it does not any more.
    pub fn left(self, now: SystemTime) -> Option<Duration> {
        self.until.duration_since(now).ok()
    }
}

pub(super) fn uri(node: &NodeName) -> String {
    format!("{SCHEME}{node}")
}

/// The node that a certificate names, if it names exactly one. That the authority signed it is TLS's
/// to check.
pub fn identity_of(certificate: &CertificateDer<'_>) -> Option<NodeName> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()??;
    let [GeneralName::URI(uri)] = names.value.general_names.as_slice() else { return None };
    NodeName::new(uri.strip_prefix(SCHEME)?).ok()
}

/// A hash of the key that a certificate is for.
pub(crate) fn key_hash(certificate: &CertificateDer<'_>) -> [u8; 32] {
    match x509_parser::parse_x509_certificate(certificate) {
        Ok((_, parsed)) => crate::token::sha256(parsed.public_key().raw),
        Err(_) => crate::token::sha256(certificate),
    }
}
