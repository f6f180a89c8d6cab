//! Tokens with which nodes join: one node, one use, a short life.
//!
//! A token's text carries a random secret, the fingerprint of the cluster's authority (so that a
//! node knows whom it talks to before it has any certificate) and the node's name. The controller
//! keeps only the secret's hash, with the address from which the node must come.

use osier_model::{NameError, NodeName};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::str::FromStr;
use std::time::SystemTime;
use thiserror::Error;

/// What a token's text begins with.
const PREFIX: &str = "osier1";

/// A token, as its node gets it. Its text is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Whose.
    pub node: NodeName,
    /// SHA-256 of the authority's certificate.
    pub authority: Fingerprint,
    pub(crate) secret: [u8; 32],
}

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// A token, as the controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Whose.
    pub node: NodeName,
    /// From where it must come.
    pub address: IpAddr,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// Until when.
    pub expires: SystemTime,
    /// The key that it was used for. A node whose answer was lost may ask again with that key.
    #[serde(default)]
    pub used_for: Option<[u8; 32]>,
}

/// A request to join, as the server saw it.
#[derive(Debug, Clone)]
pub struct Redemption {
    /// Who says to join.
    pub node: NodeName,
    /// What it showed.
    pub proof: Proof,
    /// From where the request came.
    pub address: IpAddr,
    /// SHA-256 of the public key that the certificate is for.
    pub key: [u8; 32],
    /// When.
    pub now: SystemTime,
}

/// What a node shows to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// SHA-256 of a token's secret.
    Token([u8; 32]),
    /// A token of its Kubernetes service account.
    ServiceAccount(ServiceAccountToken),
}

/// A token of a Kubernetes service account: a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceAccountToken(pub String);

/// What an agent joins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Whose.
    pub node: NodeName,
    /// SHA-256 of the authority's certificate.
    pub authority: Fingerprint,
    pub(crate) secret: Secret,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    Token([u8; 32]),
    ServiceAccount(ServiceAccountToken),
}

/// Why a node may not join. The node hears only that it may not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JoinRefused {
    /// No token for this node, or another secret.
    #[error("there is no such token for node {0}")]
    NoToken(NodeName),
    /// Too late.
    #[error("the token of node {0} has expired")]
    Expired(NodeName),
    /// Not the first.
    #[error("the token of node {0} was used before, with another key")]
    Used(NodeName),
    /// Not from where the node is.
    #[error("node {node} joins from {registered}, not from {found}")]
    Address {
        /// Who.
        node: NodeName,
        /// From where it must come.
        registered: IpAddr,
        /// From where it came.
        found: IpAddr,
    },
    /// Not by whom this controller asks.
    #[error("node {node} may not join: {why}")]
    Stranger {
        /// Who says to join.
        node: NodeName,
        /// What is wrong with its proof.
        why: String,
    },
    /// The store failed.
    #[error("the token of node {0} could not be redeemed: {1}")]
    Store(NodeName, String),
}

/// Text that is no token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseTokenError {
    /// Not of the form.
    #[error("this is no token: it has the form {PREFIX}.SECRET.AUTHORITY.NODE")]
    Form,
    /// It names no node.
    #[error("the token names no node")]
    Node(#[from] NameError),
}

// === impl Token ===

impl Token {
    /// A new token, and what the controller keeps of it.
    pub fn issue(
        node: NodeName,
        address: IpAddr,
        authority: Fingerprint,
        expires: SystemTime,
    ) -> Result<(Self, TokenRecord), ring::error::Unspecified> {
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret)?;
        let hash = sha256(&secret);
        let record = TokenRecord { node: node.clone(), address, hash, expires, used_for: None };
        Ok((Self { node, authority, secret }, record))
    }

    /// The text for the node: a secret.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}.{}.{}.{}", hex(&self.secret), self.authority, self.node)
    }
}

impl FromStr for Token {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<Self, ParseTokenError> {
        let mut parts = text.trim().splitn(4, '.');
        let mut part = || parts.next().ok_or(ParseTokenError::Form);
        if part()? != PREFIX {
            return Err(ParseTokenError::Form);
        }
        let secret = unhex(part()?).ok_or(ParseTokenError::Form)?;
        let authority = Fingerprint(unhex(part()?).ok_or(ParseTokenError::Form)?);
        Ok(Self { node: NodeName::new(part()?)?, authority, secret })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token of node {}", self.node)
    }
}

// === impl Ticket ===

impl Ticket {
    /// By the service account that Kubernetes gave the agent of a node.
    pub fn service_account(node: NodeName, authority: Fingerprint, token: String) -> Self {
        let secret = Secret::ServiceAccount(ServiceAccountToken(token));
        Self { node, authority, secret }
    }
}

impl From<&Token> for Ticket {
    fn from(token: &Token) -> Self {
        let (node, secret) = (token.node.clone(), Secret::Token(token.secret));
        Self { node, authority: token.authority, secret }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

impl fmt::Debug for ServiceAccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a service account's token")
    }
}

// === impl TokenRecord ===

impl TokenRecord {
    /// Redeems the token, if it is the right one in the right hands. On success the caller must
    /// store the record, in the same transaction in which it read it.
    pub fn redeem(&mut self, by: &Redemption) -> Result<(), JoinRefused> {
        let node = || by.node.clone();
        // Hashes of random secrets: the time of a comparison could tell nothing of use, but costs
        // nothing to hide.
        let same = matches!(&by.proof, Proof::Token(hash) if equal(&self.hash, hash));
        if !same || self.node != by.node {
            return Err(JoinRefused::NoToken(node()));
        }
        if by.now >= self.expires {
            return Err(JoinRefused::Expired(node()));
        }
        if self.address.to_canonical() != by.address.to_canonical() {
            let (registered, found) = (self.address, by.address);
            return Err(JoinRefused::Address { node: node(), registered, found });
        }
        match self.used_for {
            Some(key) if !equal(&key, &by.key) => Err(JoinRefused::Used(node())),
            _ => {
                self.used_for = Some(by.key);
                Ok(())
            }
        }
    }
}

// === impl Fingerprint ===

impl Fingerprint {
    /// Of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Self {
        Self(sha256(certificate))
    }

    /// Of the first certificate in a PEM file.
    pub fn of_pem(pem: &str) -> Option<Self> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        Some(Self::of(&certificate))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Whether two hashes are equal, in the same time whether they are or not.
fn equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let plain = text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
    for (i, byte) in bytes.iter_mut().enumerate().filter(|_| plain) {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    plain.then_some(bytes)
}
