//! etcd: where several controllers keep one model.

use super::kubernetes::Range;
use serde::Deserialize;
use std::path::PathBuf;

/// Where etcd is, and who leads for how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdConfig {
    /// Its members: `http://HOST:PORT`, or `https`.
    pub members: Vec<String>,
    /// For `https`: whom to trust, and who we are.
    #[serde(default)]
    pub tls: Option<EtcdTls>,
    /// A user of etcd, where it wants to know.
    #[serde(default)]
    pub user: Option<String>,
    /// Where that user's password is.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// What this controller is called in the election; its addresses if it is not said.
    #[serde(default)]
    pub name: Option<String>,
    /// A leader that is not heard for so long is over.
    #[serde(default = "lease")]
    pub lease_seconds: u32,
}

/// Files of TLS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdTls {
    /// Whose certificates members have.
    pub ca_certificate: PathBuf,
    /// Our certificate, where members ask for one, and its key.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// See `certificate`.
    #[serde(default)]
    pub private_key: Option<PathBuf>,
}

fn lease() -> u32 {
    3
}

impl EtcdConfig {
    pub(super) fn ranges(&self) -> Vec<Range> {
        let members = u64::try_from(self.members.len()).unwrap_or(u64::MAX);
        let is_half = |one: bool, other: bool| u64::from(one != other);
        let tls = self.tls.as_ref();
        let pair = tls
            .map_or((false, false), |tls| (tls.certificate.is_some(), tls.private_key.is_some()));
        let login = is_half(self.user.is_some(), self.password_file.is_some());
        vec![
            ("etcd.user", login, 0..=0, "there with etcd.password_file, or neither of them"),
            (
                "etcd.tls.certificate",
                is_half(pair.0, pair.1),
                0..=0,
                "there with etcd.tls.private_key, or neither of them",
            ),
            ("etcd.members", members, 1..=16, "addresses, 1 to 16"),
            ("etcd.lease_seconds", self.lease_seconds.into(), 2..=600, "2 to 600"),
        ]
    }
}
