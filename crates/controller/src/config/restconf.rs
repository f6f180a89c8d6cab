//! RESTCONF: off until it is asked for, and in the clear only for named addresses.

use super::kubernetes::Range;
use ipnet::IpNet;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};

/// RESTCONF.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RestconfConfig {
    /// Where it is served, over TLS.
    pub listen: SocketAddr,
    /// Whether pods of different namespaces are kept apart.
    pub isolation: bool,
    /// How long a client that has started anew has been silent when what it no longer names goes.
    pub heal_seconds: u32,
    /// How long a pod may be gone from its switch, where that has no agent, before it goes here, too.
    pub age_seconds: u32,
    /// The same in the clear, for clients that know no TLS.
    pub plain: Option<PlainConfig>,
}

/// RESTCONF in the clear: passwords can be read on the way.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainConfig {
    /// Where it is served.
    #[serde(default = "plain")]
    pub listen: SocketAddr,
    /// From where clients may come; at least one.
    pub allow: Vec<IpNet>,
}

fn plain() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8181))
}

impl Default for RestconfConfig {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8443));
        Self { listen, isolation: false, heal_seconds: 120, age_seconds: 300, plain: None }
    }
}

impl RestconfConfig {
    pub(super) fn ranges(&self) -> Vec<Range> {
        let mut ranges = vec![
            ("restconf.heal_seconds", self.heal_seconds.into(), 1..=86_400, "1 to 86400"),
            ("restconf.age_seconds", self.age_seconds.into(), 1..=86_400, "1 to 86400"),
        ];
        if let Some(plain) = &self.plain {
            let count = u64::try_from(plain.allow.len()).unwrap_or(u64::MAX);
            let said = "addresses, 1 to 1024: in the clear nobody else may come";
            ranges.push(("restconf.plain.allow", count, 1..=1024, said));
        }
        ranges
    }
}
