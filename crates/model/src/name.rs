//! Names, validated where they are made. Cloning one is cheap.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// The longest name of Kubernetes, twice, and a colon: `namespace:pod` fits.
const MAX: usize = 507;

/// Text that is no name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// Nothing at all.
    #[error("a name may not be empty")]
    Empty,
    /// More than fits.
    #[error("a name of {found} bytes is too long: at most {max}")]
    TooLong {
        /// Its size.
        found: usize,
        /// What fits.
        max: usize,
    },
    /// A character that names do not have.
    #[error("{name:?} has {character:?}: names have letters, digits and . - _ : @")]
    Character {
        /// The name.
        name: String,
        /// The character.
        character: char,
    },
    /// A name of a network interface that Linux refuses.
    #[error("{0:?} is no interface name: 1 to 15 characters without blank, / and :, not . or ..")]
    Interface(String),
}

fn check(name: &str) -> Result<(), NameError> {
    let max = MAX;
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:@".contains(c);
    match name.chars().find(|c| !allowed(*c)) {
        _ if name.is_empty() => Err(NameError::Empty),
        _ if name.len() > max => Err(NameError::TooLong { found: name.len(), max }),
        Some(character) => Err(NameError::Character { name: name.to_owned(), character }),
        None => Ok(()),
    }
}

fn check_interface(name: &str) -> Result<(), NameError> {
    let plain = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
    let right = (1..=15).contains(&name.len()) && name.chars().all(plain);
    match right && name != "." && name != ".." {
        true => Ok(()),
        false => Err(NameError::Interface(name.to_owned())),
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $check:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name, if it is one.
            pub fn new(name: &str) -> Result<Self, NameError> {
                $check(name)?;
                Ok(Self(name.into()))
            }

            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(&name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.as_str().to_owned()
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// A node: a machine with a switch.
    NodeName: check;
    /// An L2 network. Seen outside, a pod network of Netvirt COE is `node-ip:namespace`.
    NetworkName: check;
    /// An L3 domain. Seen outside, the one of Netvirt COE is the namespace.
    RouterName: check;
    /// A pool of addresses.
    PoolName: check;
    /// A Service: `namespace:service`.
    ServiceName: check;
    /// One of the slices in which a Service's endpoints are told.
    SliceName: check;
    /// A policy: `namespace:policy`.
    PolicyName: check;
    /// A namespace.
    NamespaceName: check;
    /// What has ports: a pod (`namespace:pod`), a virtual machine, a container.
    DeviceName: check;
    /// A network interface inside of a device, such as `eth0`.
    InterfaceName: check_interface;
}

// === impl DeviceName ===

impl DeviceName {
    /// The namespace of a pod.
    pub fn namespace(&self) -> Option<NamespaceName> {
        namespace(&self.0)
    }
}

// === impl ServiceName ===

impl ServiceName {
    /// The namespace that it is of.
    pub fn namespace(&self) -> Option<NamespaceName> {
        namespace(&self.0)
    }
}

// === impl PolicyName ===

impl PolicyName {
    /// The namespace that it is of.
    pub fn namespace(&self) -> Option<NamespaceName> {
        namespace(&self.0)
    }
}

fn namespace(name: &str) -> Option<NamespaceName> {
    let (namespace, _) = name.split_once(':')?;
    NamespaceName::new(namespace).ok()
}

/// Which endpoints: one slice of those of one Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndpointsKey {
    /// The Service.
    pub service: ServiceName,
    /// Its slice.
    pub slice: SliceName,
}

/// The interface of a device that counts as its first, and is not named in `iface-id`.
const FIRST: &str = "eth0";

/// Which port: one interface of one device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortKey {
    /// The device.
    pub device: DeviceName,
    /// Its interface.
    pub interface: InterfaceName,
}

// === impl PortKey ===

impl PortKey {
    /// The name that OVSDB carries as `iface-id`: `namespace:pod`, and `namespace:pod:interface`
    /// for the second and later ones.
    pub fn iface_id(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interface.as_str() {
            FIRST => write!(f, "{}", self.device),
            interface => write!(f, "{}:{interface}", self.device),
        }
    }
}

// === impl EndpointsKey ===

impl fmt::Display for EndpointsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.slice)
    }
}
