//! What operators of Netvirt look at: the model's objects under the names that they know.
//!
//! All of the model is shown, whoever wrote it.

use crate::body::keys_of;
use crate::path::Step;
use osier_resource::{Document, NetworkSpec, NetworkStatus, PortSpec, PortStatus, Resource};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A view, by its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Networks.
    ElanInstances,
    /// Ports, of their networks.
    ElanInterfaces,
    /// Routers.
    VpnInstances,
    /// Ports, of their routers.
    VpnInterfaces,
    /// Ports.
    Interfaces,
    /// How ports are.
    InterfacesState,
    /// Services' addresses, and the ports behind them.
    FloatingIpInfo,
}

/// The model's objects, for views.
#[derive(Debug, Default)]
pub struct Views {
    resources: Vec<Resource>,
}

type Port = Document<PortSpec, PortStatus>;

// === impl View ===

impl View {
    /// The view that a path is of, if it is of one.
    pub fn of(steps: &[Step]) -> Option<Self> {
        let root = steps.first()?.node;
        Some(match (root.module.as_str(), root.name.as_str()) {
            ("elan", "elan-instances") => Self::ElanInstances,
            ("elan", "elan-interfaces") => Self::ElanInterfaces,
            ("l3vpn", "vpn-instances") => Self::VpnInstances,
            ("l3vpn", "vpn-interfaces") => Self::VpnInterfaces,
            ("ietf-interfaces", "interfaces") => Self::Interfaces,
            ("ietf-interfaces", "interfaces-state") => Self::InterfacesState,
            ("odl-nat", "floating-ip-info") => Self::FloatingIpInfo,
            _ => return None,
        })
    }
}

// === impl Views ===

impl Views {
    /// Of all networks, routers, ports, Services and endpoints.
    pub fn new(resources: Vec<Resource>) -> Self {
        Self { resources }
    }

    /// The container of a view.
    pub fn container(&self, view: View) -> Value {
        match view {
            View::ElanInstances => json!({"elan-instance": self.elan_instances()}),
            View::VpnInstances => json!({"vpn-instance": self.vpn_instances()}),
            View::ElanInterfaces => json!({"elan-interface": self.ports(elan_interface)}),
            View::VpnInterfaces => {
                json!({"vpn-interface": self.ports(|port| self.vpn_interface(port))})
            }
            View::Interfaces => json!({"interface": self.ports(interface)}),
            View::InterfacesState => json!({"interface": self.ports(interface_state)}),
            View::FloatingIpInfo => json!({"router-ports": self.router_ports()}),
        }
    }

    /// What a view has at some steps, the first of which is its container.
    pub fn get(&self, steps: &[Step]) -> Option<Value> {
        let whole = self.container(View::of(steps)?);
        steps[1..].iter().try_fold(whole, |value, step| {
            let found = value.get(&step.node.name)?;
            if step.keys.is_empty() {
                return Some(found.clone());
            }
            let mut entries = found.as_array()?.iter();
            entries.find(|entry| keys_of(step.node, entry) == step.keys).cloned()
        })
    }

    fn ports(&self, show: impl Fn(&Port) -> Value) -> Vec<Value> {
        self.all_ports().map(show).collect()
    }

    fn all_ports(&self) -> impl Iterator<Item = &Port> {
        self.resources.iter().filter_map(|resource| match resource {
            Resource::Port(port) => Some(port),
            _ => None,
        })
    }

    fn networks(&self) -> impl Iterator<Item = &Document<NetworkSpec, NetworkStatus>> {
        self.resources.iter().filter_map(|resource| match resource {
            Resource::Network(network) => Some(network),
            _ => None,
        })
    }

    fn elan_instances(&self) -> Vec<Value> {
        let show = |network: &Document<NetworkSpec, NetworkStatus>| {
            let mut shown = json!({"elan-instance-name": network.metadata.name});
            if let Some(vni) = network.spec.vni.or(network.status.vni) {
                shown["segmentation-id"] = vni.get().into();
            }
            shown
        };
        self.networks().map(show).collect()
    }

    fn vpn_instances(&self) -> Vec<Value> {
        let show = |resource: &Resource| {
            let Resource::Router(router) = resource else { return None };
            let mut shown = json!({"vpn-instance-name": router.metadata.name});
            if let Some(vrf) = router.spec.vrf.or(router.status.vrf) {
                shown["vpn-id"] = vrf.0.into();
            }
            Some(shown)
        };
        self.resources.iter().filter_map(show).collect()
    }

    fn vpn_interface(&self, port: &Port) -> Value {
        let is_its = |n: &&Document<NetworkSpec, NetworkStatus>| {
            n.metadata.name == port.spec.network.as_str()
        };
        let router = self.networks().find(is_its).and_then(|network| network.spec.router.clone());
        let mac = mac_of(port);
        let adjacency = |address: &std::net::IpAddr| {
            let length = if address.is_ipv4() { 32 } else { 128 };
            let mut shown = json!({"ip_address": format!("{address}/{length}")});
            if let Some(mac) = &mac {
                shown["mac_address"] = mac.clone().into();
            }
            shown
        };
        let adjacencies: Vec<Value> = addresses_of(port).iter().map(adjacency).collect();
        let mut shown = json!({"name": port.metadata.name});
        if let Some(router) = router {
            shown["vpn-instance-name"] = router.to_string().into();
        }
        if !adjacencies.is_empty() {
            shown["adjacency"] = adjacencies.into();
        }
        shown
    }

    /// Services' addresses and the ports behind them, by namespace.
    fn router_ports(&self) -> Vec<Value> {
        let mut addresses = BTreeMap::new();
        for port in self.all_ports() {
            for address in addresses_of(port) {
                addresses.insert(*address, port.metadata.name.as_str());
            }
        }
        let services: BTreeMap<&str, _> = self
            .resources
            .iter()
            .filter_map(|resource| match resource {
                Resource::Service(service) => Some((service.metadata.name.as_str(), service)),
                _ => None,
            })
            .collect();
        let mut routers: BTreeMap<&str, BTreeMap<&str, Vec<Value>>> = BTreeMap::new();
        for resource in &self.resources {
            let Resource::Endpoints(slice) = resource else { continue };
            let Some(service) = services.get(slice.spec.service.as_str()) else { continue };
            for endpoint in &slice.spec.endpoints {
                let Some(port) = addresses.get(&endpoint.address) else { continue };
                let namespace = port.split(':').next().unwrap_or_default();
                let maps = routers.entry(namespace).or_default().entry(port).or_default();
                let external = match service.spec.addresses.is_empty() {
                    true => &service.status.addresses,
                    false => &service.spec.addresses,
                };
                for external in external.iter().chain(&service.spec.external) {
                    let (internal, external) = (endpoint.address.to_string(), external.to_string());
                    maps.push(json!({"internal-ip": internal, "external-ip": external}));
                }
            }
        }
        let port = |(name, maps): (&str, Vec<Value>)| json!({"port-name": name, "internal-to-external-port-map": maps});
        let router = |(id, ports): (&str, BTreeMap<&str, Vec<Value>>)| {
            let ports: Vec<Value> = ports.into_iter().map(port).collect();
            json!({"router-id": id, "ports": ports})
        };
        routers.into_iter().map(router).collect()
    }
}

fn addresses_of(port: &Port) -> &[std::net::IpAddr] {
    match port.spec.addresses.is_empty() {
        true => &port.status.addresses,
        false => &port.spec.addresses,
    }
}

fn mac_of(port: &Port) -> Option<String> {
    port.spec.mac.or(port.status.mac).map(|mac| mac.to_string())
}

fn elan_interface(port: &Port) -> Value {
    let mut shown =
        json!({"name": port.metadata.name, "elan-instance-name": port.spec.network.to_string()});
    if let (Some(mac), Some(address)) = (mac_of(port), addresses_of(port).first()) {
        let entry = json!({"mac-address": mac, "ip-prefix": address.to_string()});
        shown["static-mac-entries"] = json!([entry]);
    }
    shown
}

fn interface(port: &Port) -> Value {
    json!({"name": port.metadata.name, "type": "iana-if-type:l2vlan", "enabled": true})
}

fn interface_state(port: &Port) -> Value {
    let mut shown = json!({
        "name": port.metadata.name, "type": "iana-if-type:l2vlan", "oper-status": "unknown",
    });
    if let Some(mac) = mac_of(port) {
        shown["phys-address"] = mac.into();
    }
    shown
}
