//! Services, and both ways in which clients tell of their endpoints: entries of their own, joined by
//! name and namespace, or UUIDs of pods in the Service itself.

use super::{Coe, Fact, Isolation, Kind, Target, Unit, address, document, invalid, text};
use crate::error::Problem;
use crate::schema::NONE;
use osier_model::{Endpoint, EndpointPort, EndpointState, ServiceName, Transport};
use osier_resource::{EndpointsSpec, Resource, ServicePortSpec, ServiceSpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CoeService {
    uid: String,
    pub(super) name: String,
    namespace: Option<String>,
    addresses: Vec<IpAddr>,
    /// It says that it has no address.
    is_headless: bool,
    external: Vec<IpAddr>,
    balanced: Vec<IpAddr>,
    ports: Vec<ServicePort>,
    /// UUIDs of pods, or of endpoints.
    attached: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ServicePort {
    name: String,
    port: u16,
    target: u16,
    node_port: Option<u16>,
}

/// Endpoints of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CoeEndpoints {
    pub(super) uid: String,
    service: String,
    addresses: Vec<IpAddr>,
    ports: Vec<(String, u16)>,
}

/// What users call it; one without a name is called by its UUID.
fn service_name(path: &str, value: &Value) -> Result<String, Problem> {
    let name = match (text(value, "network-NS"), text(value, "name")) {
        (Some(namespace), Some(name)) => format!("{namespace}:{name}"),
        _ => text(value, "uid").unwrap_or_default(),
    };
    ServiceName::new(&name).map_err(|e| invalid(path, "name", e.to_string()))?;
    Ok(name)
}

fn port_number(path: &str, value: &Value, member: &str) -> Result<u16, Problem> {
    let found = value.get(member).and_then(Value::as_i64).unwrap_or_default();
    let number = u16::try_from(found).ok().filter(|number| *number > 0);
    number.ok_or_else(|| invalid(path, member, format!("{found} is no port: 1 to 65535")))
}

fn entries<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(member).and_then(Value::as_array).into_iter().flatten()
}

/// The names of a unit's endpoints, of either family.
fn slice_names(uid: &str) -> [String; 2] {
    [uid.to_owned(), format!("{uid}-v6")]
}

/// A Service's protocol is not told: its ports carry both, and the second has a name of its own.
fn second_name(name: &str) -> String {
    format!("{name}-udp")
}

// === impl CoeService ===

impl CoeService {
    pub(super) fn read(path: &str, value: &Value) -> Result<Self, Problem> {
        let listed = |member: &str| -> Vec<IpAddr> {
            let parse = |v: &Value| v.as_str().and_then(|text| text.parse().ok());
            entries(value, member).filter_map(parse).collect()
        };
        let mut ports = Vec::new();
        for port in entries(value, "service-ports") {
            let number = port_number(path, port, "port")?;
            let target = text(port, "target-port").and_then(|target| target.parse().ok());
            let node_port = match port.get("node-port").and_then(Value::as_i64) {
                None | Some(0) => None,
                Some(_) => Some(port_number(path, port, "node-port")?),
            };
            let name = text(port, "name").unwrap_or_default();
            ports.push(ServicePort {
                name,
                port: number,
                target: target.unwrap_or(number),
                node_port,
            });
        }
        let mut balanced = listed("ingress-ip-address");
        let chosen = address(path, value, "load-balancer-IP")?;
        balanced.extend(chosen.filter(|chosen| !balanced.contains(chosen)));
        let attached = entries(value, "endpoints").filter_map(Value::as_str).map(str::to_owned);
        let is_headless = text(value, "cluster-ip-address").is_some_and(|said| said == NONE);
        let addresses = match is_headless {
            true => Vec::new(),
            false => address(path, value, "cluster-ip-address")?.into_iter().collect(),
        };
        Ok(Self {
            uid: text(value, "uid").unwrap_or_default(),
            name: service_name(path, value)?,
            namespace: text(value, "network-NS"),
            addresses,
            is_headless,
            external: listed("external-ip-address"),
            balanced,
            ports,
            attached: attached.collect(),
        })
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![Fact::Uid(self.uid.clone()), Fact::Service(self.name.clone())];
        facts.extend(self.namespace.clone().map(Fact::ServiceIn));
        facts.extend(self.attached.iter().cloned().map(Fact::Attached));
        facts.extend(self.slices().map(Fact::Slice));
        facts
    }

    pub(super) fn slices(&self) -> impl Iterator<Item = String> {
        slice_names(&self.uid).into_iter()
    }

    fn model_ports(&self) -> Vec<ServicePortSpec> {
        let mut ports = Vec::new();
        if self.ports.is_empty() {
            // A floating IP: all that goes there.
            let (name, transport) = (String::new(), Transport::Any);
            ports.push(ServicePortSpec { name, transport, port: 0, node_port: None });
        }
        for port in &self.ports {
            let carries = |transport| self.only_of(port).is_none_or(|only| only == transport);
            let spec = |name: String, transport| ServicePortSpec {
                name,
                transport,
                port: port.port,
                node_port: port.node_port,
            };
            if carries(Transport::Tcp) {
                ports.push(spec(port.name.clone(), Transport::Tcp));
            }
            if carries(Transport::Udp) {
                ports.push(spec(second_name(&port.name), Transport::Udp));
            }
        }
        ports
    }

    /// What carries a port, if that is one only: two of one number are one of each, as `dns` and
    /// `dns-tcp` are.
    fn only_of(&self, port: &ServicePort) -> Option<Transport> {
        let twin = self.ports.iter().find(|p| p.port == port.port && p.name != port.name)?;
        let is_tcp = match (port.name.contains("tcp"), twin.name.contains("tcp")) {
            (one, other) if one != other => one,
            _ => twin.name.contains("udp") || (port.name < twin.name && !port.name.contains("udp")),
        };
        Some(if is_tcp { Transport::Tcp } else { Transport::Udp })
    }
}

// === impl CoeEndpoints ===

impl CoeEndpoints {
    pub(super) fn read(path: &str, value: &Value) -> Result<Self, Problem> {
        let mut addresses = Vec::new();
        for entry in entries(value, "endpoint-addresses") {
            addresses.extend(address(path, entry, "ip-address")?);
        }
        let mut ports = Vec::new();
        for port in entries(value, "endpoint-ports") {
            let name = text(port, "name").unwrap_or_default();
            ports.push((name, port_number(path, port, "port")?));
        }
        let uid = text(value, "uid").unwrap_or_default();
        Ok(Self { uid, service: service_name(path, value)?, addresses, ports })
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        let uid = Fact::Uid(self.uid.clone());
        self.slices().map(Fact::Slice).chain([uid]).collect()
    }

    pub(super) fn slices(&self) -> impl Iterator<Item = String> {
        slice_names(&self.uid).into_iter()
    }
}

impl Coe {
    pub(super) fn service(&self, name: &str) -> Option<Resource> {
        let service = self.services(&Fact::Service(name.to_owned())).next()?;
        let pools = match service.addresses.is_empty() && !service.is_headless {
            true => self.service_pools(),
            false => Vec::new(),
        };
        // There is nothing to lead anywhere.
        if service.addresses.is_empty() && pools.is_empty() {
            return None;
        }
        let router = match (self.isolation, &service.namespace) {
            (Isolation::Namespaces, Some(namespace)) => {
                let is_there = self.has(&Fact::Namespace(namespace.clone()));
                self.router_of(namespace).filter(|_| is_there)
            }
            _ => None,
        };
        let spec = ServiceSpec {
            router,
            addresses: service.addresses.clone(),
            pools,
            external: service.external.clone(),
            balanced: service.balanced.clone(),
            ports: service.model_ports(),
            ..ServiceSpec::default()
        };
        Some(Resource::Service(document(name, spec)))
    }

    fn services<'a>(&'a self, fact: &Fact) -> impl Iterator<Item = &'a CoeService> + use<'a> {
        self.with(fact).filter_map(|unit| match unit {
            Unit::Service(service) => Some(service),
            _ => None,
        })
    }

    /// The endpoints with a name: of one family, as a client told, or as a Service names them.
    pub(super) fn endpoints(&self, name: &str) -> Option<Resource> {
        let unit = self.with(&Fact::Slice(name.to_owned())).next()?;
        let (service, ports, endpoints) = match unit {
            Unit::Endpoints(told) => {
                let endpoints = told.addresses.iter().map(|address| self.endpoint(*address, None));
                (&told.service, told.ports.clone(), endpoints.collect())
            }
            Unit::Service(service) => {
                let of = |port: &ServicePort| (port.name.clone(), port.target);
                let ports = service.ports.iter().map(of).collect();
                (&service.name, ports, self.attached_to(service))
            }
            _ => return None,
        };
        let is_v6 = name.ends_with("-v6");
        let endpoints: Vec<Endpoint> =
            endpoints.into_iter().filter(|e: &Endpoint| e.address.is_ipv6() == is_v6).collect();
        if endpoints.is_empty() {
            return None;
        }
        let both = |(name, port): (String, u16)| {
            let second = second_name(&name);
            [
                EndpointPort { name, transport: Transport::Tcp, port },
                EndpointPort { name: second, transport: Transport::Udp, port },
            ]
        };
        let any = EndpointPort { name: String::new(), transport: Transport::Any, port: 0 };
        let any = ports.is_empty().then_some(any);
        let spec = EndpointsSpec {
            service: ServiceName::new(service).ok()?,
            ports: ports.into_iter().flat_map(both).chain(any).collect(),
            endpoints,
        };
        Some(Resource::Endpoints(document(name, spec)))
    }

    /// Who a Service names: pods, and what other units tell.
    fn attached_to(&self, service: &CoeService) -> Vec<Endpoint> {
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for uid in &service.attached {
            for unit in self.with(&Fact::Uid(uid.clone())) {
                let (addresses, host) = match unit {
                    Unit::Pod(pod) if pod.addresses.is_empty() => {
                        let given = pod.port_name().and_then(|name| self.given.get(&name));
                        let Some(given) = given else { continue };
                        (given, pod.host)
                    }
                    Unit::Pod(pod) => (&pod.addresses, pod.host),
                    Unit::Endpoints(told) => (&told.addresses, None),
                    _ => continue,
                };
                let found = addresses.iter().map(|address| self.endpoint(*address, host));
                endpoints.extend(found);
            }
        }
        endpoints.sort_unstable_by_key(|endpoint| endpoint.address);
        endpoints.dedup_by_key(|endpoint| endpoint.address);
        endpoints
    }

    fn endpoint(&self, address: IpAddr, host: Option<IpAddr>) -> Endpoint {
        Endpoint {
            address,
            node: host.and_then(|host| self.node_of(host)),
            state: EndpointState::Ready,
            weight: 1,
            zones: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// What depends on a pod, or on endpoints, that Services name.
    pub(super) fn attached_targets(&self, uid: &str, targets: &mut BTreeSet<Target>) {
        for service in self.services(&Fact::Attached(uid.to_owned())) {
            targets.extend(service.slices().map(|name| (Kind::Endpoints, name)));
        }
    }
}
