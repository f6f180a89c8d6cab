//! Resources to the model's objects, and what the model says about them.

use crate::kind::port_key;
use crate::parse::Fault;
use crate::policy;
use crate::resource::{Document, Resource};
use crate::spec::{FabricSpec, NetworkSpec, NodeSpec, PortSpec};
use crate::status::{NetworkStatus, NodeStatus, PortStatus};
use osier_model::{
    DeviceName, Fabric, Mac, NamespaceName, Network, NetworkName, Node, NodeName, Object,
    PolicyName, Pool, PoolName, Port, Router, RouterName, ServiceName, SliceName, Statement, Vni,
    VrfId,
};
use std::net::{IpAddr, Ipv4Addr};
use thiserror::Error;

/// What a resource is to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modelled {
    /// An object of views.
    Object(Object),
    /// Addresses to give out.
    Pool(Pool),
    /// What holds for the whole cluster.
    Fabric(Fabric),
    /// What policies are made of.
    Stated(Statement),
}

/// Why a resource is nothing to the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConvertError {
    /// Neither its spec says it nor its status: the controller has not allocated it yet.
    #[error("{resource}: {field} is not allocated yet")]
    Unallocated {
        /// Which resource, such as `Network blue`.
        resource: String,
        /// Which field, such as `vni`.
        field: &'static str,
    },
    /// It cannot be.
    #[error("{resource}: {fault}")]
    Invalid {
        /// Which resource, such as `Network blue`.
        resource: String,
        /// What is wrong with it.
        #[source]
        fault: Fault,
    },
}

/// What stands for a number or an address that is not there.
type Missing<'a> = &'a dyn Fn(&'static str) -> Result<(), ConvertError>;

// === impl Resource ===

impl Resource {
    /// As the model has it. What the spec leaves out is taken from the status.
    pub fn to_model(&self) -> Result<Modelled, ConvertError> {
        let resource = self.called();
        let missing = |field| Err(ConvertError::Unallocated { resource: resource.clone(), field });
        let modelled = self.convert(&missing)?;
        self.check(&modelled)?;
        Ok(modelled)
    }

    /// Checks all that can be checked without other resources, as the model does. What is not
    /// allocated yet is no fault.
    pub fn validate(&self) -> Result<(), Fault> {
        let checked = self.convert(&|_| Ok(())).and_then(|modelled| self.check(&modelled));
        match checked {
            Err(ConvertError::Invalid { fault, .. }) => Err(fault),
            Err(ConvertError::Unallocated { .. }) | Ok(()) => Ok(()),
        }
    }

    /// How users call it: `Network blue`.
    pub fn called(&self) -> String {
        format!("{} {}", self.kind(), self.name())
    }

    fn check(&self, modelled: &Modelled) -> Result<(), ConvertError> {
        let checked = match modelled {
            Modelled::Fabric(fabric) => fabric.validate(),
            Modelled::Pool(pool) => pool.validate(),
            Modelled::Object(object) => object.validate(),
            Modelled::Stated(statement) => statement.validate(),
        };
        checked.map_err(|invalid| {
            let fault = Fault::new(format!("spec.{}", invalid.field), invalid.problem.to_string());
            ConvertError::Invalid { resource: self.called(), fault }
        })
    }

    fn convert(&self, missing: Missing<'_>) -> Result<Modelled, ConvertError> {
        let bad_name = |said: String| {
            let fault = Fault::new("metadata.name", said);
            ConvertError::Invalid { resource: self.called(), fault }
        };
        macro_rules! name {
            ($name:ident) => {
                $name::new(self.name()).map_err(|e| bad_name(e.to_string()))?
            };
        }
        Ok(match self {
            Self::Fabric(Document { spec, .. }) => {
                let (cluster, services) = (spec.cluster.clone(), spec.services.clone());
                let FabricSpec { tunnel, policy, accounting, service_gateway, .. } = *spec;
                let isolation = spec.isolation.clone();
                Modelled::Fabric(Fabric {
                    tunnel,
                    cluster,
                    services,
                    policy,
                    isolation,
                    accounting,
                    service_gateway,
                })
            }
            Self::Pool(Document { spec, .. }) => Modelled::Pool(Pool {
                name: name!(PoolName),
                cidr: spec.cidr,
                exclude: spec.exclude.clone(),
            }),
            Self::Router(Document { spec, status, .. }) => {
                let vrf = either(spec.vrf, status.vrf, VrfId::default(), "vrf", missing)?;
                Modelled::Object(Object::Router(Router { name: name!(RouterName), vrf }))
            }
            Self::Node(Document { spec, status, .. }) => {
                Modelled::Object(Object::Node(node(name!(NodeName), spec, status)))
            }
            Self::Network(Document { spec, status, .. }) => {
                let network = network(name!(NetworkName), spec, status, missing)?;
                Modelled::Object(Object::Network(network))
            }
            Self::Port(Document { spec, status, .. }) => {
                let key = port_key(self.name()).map_err(|e| bad_name(e.to_string()))?;
                Modelled::Object(Object::Port(port(key, spec, status, missing)?))
            }
            Self::Service(Document { spec, status, .. }) => {
                let addresses = chosen(&spec.addresses, &status.addresses);
                Modelled::Object(Object::Service(spec.to_model(name!(ServiceName), addresses)))
            }
            Self::Endpoints(Document { spec, .. }) => {
                Modelled::Object(Object::Endpoints(spec.to_model(name!(SliceName))))
            }
            Self::Namespace(Document { metadata, .. }) => {
                let stated = policy::namespace(name!(NamespaceName), &metadata.labels);
                Modelled::Stated(Statement::Namespace(stated))
            }
            Self::Workload(Document { metadata, spec, .. }) => {
                let stated = spec.to_model(name!(DeviceName), &metadata.labels);
                Modelled::Stated(Statement::Workload(stated))
            }
            Self::NetworkPolicy(Document { spec, .. }) => {
                let stated = spec.to_model(name!(PolicyName)).map_err(|(field, said)| {
                    let fault = Fault::new(format!("spec.{field}"), said);
                    ConvertError::Invalid { resource: self.called(), fault }
                })?;
                Modelled::Stated(Statement::Policy(stated))
            }
        })
    }
}

/// What users chose, or what was allocated, or, where that is allowed, something that is valid.
fn either<T: Copy>(
    spec: Option<T>,
    status: Option<T>,
    any: T,
    field: &'static str,
    missing: Missing<'_>,
) -> Result<T, ConvertError> {
    match spec.or(status) {
        Some(value) => Ok(value),
        None => missing(field).map(|()| any),
    }
}

fn chosen<T: Clone>(spec: &[T], status: &[T]) -> Vec<T> {
    if spec.is_empty() { status.to_vec() } else { spec.to_vec() }
}

fn node(name: NodeName, spec: &NodeSpec, status: &NodeStatus) -> Node {
    let blocks = chosen(&spec.blocks, &status.blocks);
    Node {
        name,
        tunnel: spec.tunnel,
        addresses: spec.addresses.clone(),
        blocks,
        zone: spec.zone.clone(),
    }
}

fn network(
    name: NetworkName,
    spec: &NetworkSpec,
    status: &NetworkStatus,
    missing: Missing<'_>,
) -> Result<Network, ConvertError> {
    let any = Vni::new(1).map_err(|problem| ConvertError::Invalid {
        resource: format!("Network {name}"),
        fault: Fault::new("spec.vni", problem.to_string()),
    })?;
    let vni = either(spec.vni, status.vni, any, "vni", missing)?;
    let (router, subnets) = (spec.router.clone(), spec.subnets.clone());
    let (dhcp_servers, dhcp) = (spec.dhcp_servers.clone(), spec.dhcp.clone());
    Ok(Network { name, vni, router, reach: spec.reach, subnets, dhcp_servers, dhcp })
}

fn port(
    key: osier_model::PortKey,
    spec: &PortSpec,
    status: &PortStatus,
    missing: Missing<'_>,
) -> Result<Port, ConvertError> {
    let addresses = chosen(&spec.addresses, &status.addresses);
    // A port without addresses is one on a network that has none, once the controller says so by
    // giving it a MAC address; otherwise the MAC address follows from the first address.
    let derived = addresses.first().map(|address| Mac::of(*address));
    let any = Mac::of(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let mac = either(spec.mac.or(status.mac), derived, any, "mac", missing)?;
    Ok(Port {
        key,
        network: spec.network.clone(),
        node: spec.node.clone(),
        mac,
        addresses,
        identity: status.identity.unwrap_or_default(),
        limits: spec.limits,
    })
}
