//! etcd: where several controllers keep one model.

use super::kubernetes::Range;
use serde::Deserialize;

/// Where etcd is, and who leads for how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdConfig {
    /// Its members: `http://HOST:PORT`.
    pub members: Vec<String>,
    /// What this controller is called in the election; its addresses if it is not said.
    #[serde(default)]
    pub name: Option<String>,
    /// A leader that is not heard for so long is over.
    #[serde(default = "lease")]
    pub lease_seconds: u32,
}

fn lease() -> u32 {
    3
}

impl EtcdConfig {
    pub(super) fn ranges(&self) -> Vec<Range> {
        let members = u64::try_from(self.members.len()).unwrap_or(u64::MAX);
        vec![
            ("etcd.members", members, 1..=16, "addresses, 1 to 16"),
            ("etcd.lease_seconds", self.lease_seconds.into(), 2..=600, "2 to 600"),
        ]
    }
}
