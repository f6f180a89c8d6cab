//! Kinds of resources, and the names by which users call them.

use osier_model::{DeviceName, InterfaceName, NameError, PortKey};
use osier_model::{
    NamespaceName, NetworkName, NodeName, PolicyName, PoolName, RouterName, ServiceName, SliceName,
};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What holds for the whole cluster; there is one, named `default`.
    Fabric,
    /// A machine with a switch.
    Node,
    /// Addresses to give out.
    Pool,
    /// An L3 domain.
    Router,
    /// An L2 domain with subnets.
    Network,
    /// An attachment of a device to a network.
    Port,
    /// Addresses behind which endpoints answer.
    Service,
    /// Some of a Service's endpoints.
    Endpoints,
    /// What workloads are in, with labels.
    Namespace,
    /// Who may talk to whom.
    NetworkPolicy,
    /// What has ports, with labels.
    Workload,
}

/// A word that is no kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{found:?} is no kind: there are {}", Kind::ALL.map(Kind::name).join(", "))]
pub struct UnknownKind {
    /// The word.
    pub found: String,
}

/// A name that a resource of a kind cannot have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadName {
    /// It is not a name at all.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It is not a port's.
    #[error("{0:?} is no port's name: namespace:pod, or namespace:pod:interface")]
    Port(String),
    /// It does not say in which namespace.
    #[error("{0:?} has no namespace: it is namespace:name")]
    Namespace(String),
    /// A port's first interface needs no name.
    #[error("the first interface is not named: did you mean {meant:?}?")]
    First {
        /// As it would be right.
        meant: String,
    },
    /// There is one fabric only.
    #[error("{found:?} is no fabric's name: the only one is {:?}", Kind::THE_FABRIC)]
    Fabric {
        /// The name.
        found: String,
    },
}

// === impl Kind ===

impl Kind {
    /// All of them, in an order in which none refers to a later one.
    pub const ALL: [Self; 11] = [
        Self::Fabric,
        Self::Node,
        Self::Pool,
        Self::Router,
        Self::Network,
        Self::Port,
        Self::Service,
        Self::Endpoints,
        Self::Namespace,
        Self::NetworkPolicy,
        Self::Workload,
    ];

    /// The name of the one fabric.
    pub const THE_FABRIC: &str = "default";

    /// As it stands in `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fabric => "Fabric",
            Self::Node => "Node",
            Self::Pool => "Pool",
            Self::Router => "Router",
            Self::Network => "Network",
            Self::Port => "Port",
            Self::Service => "Service",
            Self::Endpoints => "Endpoints",
            Self::Namespace => "Namespace",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Workload => "Workload",
        }
    }

    /// As it stands in paths and keys.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Fabric => "fabrics",
            Self::Node => "nodes",
            Self::Pool => "pools",
            Self::Router => "routers",
            Self::Network => "networks",
            Self::Port => "ports",
            Self::Service => "services",
            Self::Endpoints => "endpoints",
            Self::Namespace => "namespaces",
            Self::NetworkPolicy => "policies",
            Self::Workload => "workloads",
        }
    }

    /// As people call it for short.
    pub fn short(self) -> &'static str {
        match self {
            Self::Fabric => "fab",
            Self::Node => "no",
            Self::Pool => "pool",
            Self::Router => "rt",
            Self::Network => "net",
            Self::Port => "po",
            Self::Service => "svc",
            Self::Endpoints => "ep",
            Self::Namespace => "ns",
            Self::NetworkPolicy => "netpol",
            Self::Workload => "wl",
        }
    }

    /// What the keys of its resources begin with: `ports/`.
    pub fn prefix(self) -> String {
        format!("{}/", self.plural())
    }

    /// The key of one: `ports/shop:web`.
    pub fn key(self, name: &str) -> String {
        format!("{}/{name}", self.plural())
    }

    /// What a key is of: its kind and its name.
    pub fn of_key(key: &str) -> Option<(Self, &str)> {
        let (plural, name) = key.split_once('/')?;
        Some((Self::ALL.into_iter().find(|k| k.plural() == plural)?, name))
    }

    /// Checks a name.
    pub fn check_name(self, name: &str) -> Result<(), BadName> {
        match self {
            Self::Fabric if name == Self::THE_FABRIC => Ok(()),
            Self::Fabric => Err(BadName::Fabric { found: name.to_owned() }),
            Self::Node => Ok(NodeName::new(name).map(drop)?),
            Self::Pool => Ok(PoolName::new(name).map(drop)?),
            Self::Router => Ok(RouterName::new(name).map(drop)?),
            Self::Network => Ok(NetworkName::new(name).map(drop)?),
            Self::Port => port_key(name).map(drop),
            Self::Service => Ok(ServiceName::new(name).map(drop)?),
            Self::Endpoints => Ok(SliceName::new(name).map(drop)?),
            Self::Namespace => Ok(NamespaceName::new(name).map(drop)?),
            Self::NetworkPolicy => in_namespace(name, PolicyName::new(name)?.namespace()),
            Self::Workload => in_namespace(name, DeviceName::new(name)?.namespace()),
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// Takes the name, the plural and the short form, in any case.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let lower = text.to_ascii_lowercase();
        let is_it = |kind: &Self| {
            [kind.name().to_ascii_lowercase().as_str(), kind.plural(), kind.short()]
                .contains(&lower.as_str())
        };
        let unknown = || UnknownKind { found: text.to_owned() };
        Self::ALL.into_iter().find(is_it).ok_or_else(unknown)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn in_namespace(name: &str, namespace: Option<NamespaceName>) -> Result<(), BadName> {
    match (namespace, name.split_once(':')) {
        (Some(_), Some((_, own))) if !own.is_empty() => Ok(()),
        _ => Err(BadName::Namespace(name.to_owned())),
    }
}

/// The port that a name is of: `namespace:pod`, and `namespace:pod:interface` for the second and
/// later interfaces. [`PortKey`]'s own text is the same.
pub fn port_key(name: &str) -> Result<PortKey, BadName> {
    let bad = || BadName::Port(name.to_owned());
    let parts: Vec<&str> = name.split(':').collect();
    let (namespace, pod, interface) = match parts[..] {
        [namespace, pod] => (namespace, pod, "eth0"),
        [namespace, pod, interface] => (namespace, pod, interface),
        _ => return Err(bad()),
    };
    if namespace.is_empty() || pod.is_empty() || interface.is_empty() {
        return Err(bad());
    }
    let device = DeviceName::new(&format!("{namespace}:{pod}"))?;
    let key = PortKey { device, interface: InterfaceName::new(interface)? };
    match key.to_string() {
        meant if meant != name => Err(BadName::First { meant }),
        _ => Ok(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_all_their_names_and_keys() {
        for kind in Kind::ALL {
            for word in [kind.name(), kind.plural(), kind.short(), &kind.name().to_uppercase()] {
                assert_eq!(word.parse(), Ok(kind));
            }
            assert_eq!(Kind::of_key(&kind.key("a/b")), Some((kind, "a/b")));
        }
        assert_eq!(Kind::of_key("tokens/x"), None);
        assert_eq!(
            "pod".parse::<Kind>().unwrap_err().to_string(),
            "\"pod\" is no kind: there are Fabric, Node, Pool, Router, Network, Port, Service, \
             Endpoints, Namespace, NetworkPolicy, Workload"
        );
    }

    #[test]
    fn a_port_has_one_name() {
        for name in ["shop:web", "shop:web:net1"] {
            assert_eq!(port_key(name).unwrap().to_string(), name);
        }
        for (name, said) in [
            ("web", "\"web\" is no port's name: namespace:pod, or namespace:pod:interface"),
            ("a:b:c:d", "\"a:b:c:d\" is no port's name: namespace:pod, or namespace:pod:interface"),
            (":b", "\":b\" is no port's name: namespace:pod, or namespace:pod:interface"),
            ("a:b:eth0", "the first interface is not named: did you mean \"a:b\"?"),
            ("a:b/c", "\"a:b/c\" has '/': names have letters, digits and . - _ : @"),
        ] {
            assert_eq!(port_key(name).unwrap_err().to_string(), said);
        }
    }
}
