//! An agent's certificate and key, in a folder of their own.

use super::cache::write;
use crate::pki::AgentTls;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Where an agent's certificate and key are.
#[derive(Debug, Clone)]
pub struct Credentials {
    folder: PathBuf,
}

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// A file cannot be read or written.
    #[error("{} cannot be used", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
    },
    /// No key can be made.
    #[error("the key cannot be made")]
    Key(#[from] rcgen::Error),
}

/// A key for which a certificate is asked.
pub(crate) struct Asked {
    pub(crate) key: KeyPair,
    /// PKCS #10, DER.
    pub(crate) request: Vec<u8>,
}

// === impl Asked ===

impl Asked {
    pub(crate) fn new() -> Result<Self, rcgen::Error> {
        Self::with(KeyPair::generate()?)
    }

    fn with(key: KeyPair) -> Result<Self, rcgen::Error> {
        let request = CertificateParams::default().serialize_request(&key)?.der().to_vec();
        Ok(Self { key, request })
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.serialize_der().into())
    }
}

// === impl Credentials ===

impl Credentials {
    /// Kept in this folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The certificate, if the node has joined.
    pub fn load(&self) -> Result<Option<AgentTls>, CredentialsError> {
        let path = self.folder.join("agent.bundle");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CredentialsError::File { path, source }),
        };
        let mut parts = bytes.as_slice();
        let mut part = || {
            let (length, rest) = parts.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (part, rest) = rest.split_at_checked(length)?;
            parts = rest;
            Some(part.to_vec())
        };
        let read = [part(), part(), part()];
        let [Some(authority), Some(certificate), Some(key)] = read else {
            return Err(CredentialsError::Damaged { path });
        };
        Ok(Some(AgentTls {
            authority: CertificateDer::from(authority),
            certificate: CertificateDer::from(certificate),
            key: PrivateKeyDer::Pkcs8(key.into()),
        }))
    }

    /// Keeps a certificate: all of it in one file, so that key and certificate always fit.
    pub fn store(&self, tls: &AgentTls) -> Result<(), CredentialsError> {
        let path = self.folder.join("agent.bundle");
        let mut bytes = Vec::new();
        for part in [tls.authority.as_ref(), tls.certificate.as_ref(), tls.key.secret_der()] {
            bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(0).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        write(&path, &bytes).map(drop).map_err(|source| CredentialsError::File { path, source })
    }

    /// The key of a join that has no answer yet: the same again after a restart, so that a token
    /// whose answer was lost can be used once more.
    pub(crate) fn joining_key(&self) -> Result<Asked, CredentialsError> {
        let path = self.folder.join("joining.key");
        if let Ok(pem) = std::fs::read_to_string(&path)
            && let Ok(key) = KeyPair::from_pem(&pem)
        {
            return Ok(Asked::with(key)?);
        }
        let asked = Asked::new()?;
        let written = write(&path, asked.key.serialize_pem().as_bytes());
        written.map_err(|source| CredentialsError::File { path, source })?;
        Ok(asked)
    }

    pub(crate) fn joined(&self) {
        // Left behind it would only be used for a later join.
        let _ = std::fs::remove_file(self.folder.join("joining.key"));
    }
}
