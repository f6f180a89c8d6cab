//! How addresses and routes of a port lie in its network. Pure.
//!
//! In a bridged network an address has the length of its subnet: neighbours are on the link, and
//! the switch answers for them. In a routed one it is whole, and all goes by the router.

use crate::addresses::AddressError;
use crate::desired::{Giver, PodAddress, PodRoute};
use ipnet::IpNet;
use osier_cni::config::NetworkConfig;
use osier_cni::spec::{AddResult, Cidr, Dns};
use osier_compiler::DEFAULT_VNI;
use osier_model::{AllocateError, Mac, Network, Reach};
use std::net::IpAddr;

/// The network that a port is to be in.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) network: Network,
    /// What its router reaches beyond the link.
    pub(super) reaches: Vec<IpNet>,
}

/// What a port was given.
#[derive(Debug, Default)]
pub(super) struct Grant {
    pub(super) giver: Giver,
    pub(super) mac: Option<Mac>,
    pub(super) addresses: Addresses,
    /// Routes that a plugin said.
    pub(super) routes: Vec<PodRoute>,
    pub(super) dns: Dns,
}

#[derive(Debug)]
pub(super) enum Addresses {
    /// Of the node's blocks, these among them.
    OfBlocks(Vec<IpAddr>),
    /// These.
    These(Vec<PodAddress>),
    /// Those that a plugin gives when the port is there.
    Later,
}

/// Which routes a port is to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Routing {
    pub(super) default: bool,
    pub(super) reaches: Vec<IpNet>,
    pub(super) said: Vec<PodRoute>,
}

impl Default for Addresses {
    fn default() -> Self {
        Self::OfBlocks(Vec::new())
    }
}

// === impl Target ===

impl Target {
    /// Whether addresses are of the node's blocks.
    pub(super) fn is_default(&self) -> bool {
        self.network.vni.get() == DEFAULT_VNI
    }

    /// How an address lies in the network; `said` is what a plugin said of it.
    pub(super) fn link(
        &self,
        address: IpAddr,
        said: Option<(u8, Option<IpAddr>)>,
    ) -> Result<PodAddress, AddressError> {
        if self.is_default() {
            // The node's gateway is not known here.
            return Ok(PodAddress::whole(address, None));
        }
        let network = &self.network;
        let Some(subnet) = network.told_subnet_of(address) else {
            let subnets: Vec<String> =
                network.subnets.iter().map(|subnet| subnet.cidr.to_string()).collect();
            // A network without subnets leaves addresses to others.
            return match said.filter(|_| subnets.is_empty()) {
                Some((length, gateway)) => Ok(PodAddress { net: net(address, length), gateway }),
                None => Err(AddressError::Outside {
                    address,
                    network: network.name.to_string(),
                    subnets: subnets.join(", "),
                }),
            };
        };
        let reserved = [Some(subnet.cidr.network()), subnet.gateway];
        if reserved.contains(&Some(address)) || address == subnet.cidr.broadcast() {
            let prefix = subnet.cidr;
            return Err(AddressError::Refused(AllocateError::NotHere { address, prefix }));
        }
        let gateway = subnet.gateway.or(said.and_then(|(_, gateway)| gateway));
        Ok(match network.reach {
            Reach::Bridged => PodAddress { net: net(address, subnet.cidr.prefix_len()), gateway },
            Reach::Routed => PodAddress::whole(address, gateway),
        })
    }

    /// The same for many.
    pub(super) fn links(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Vec<PodAddress>, AddressError> {
        addresses.into_iter().map(|address| self.link(address, None)).collect()
    }

    /// Which routes a port is to have: `first` is a pod's first interface, `said` what a plugin
    /// said.
    pub(super) fn routing(
        &self,
        config: &NetworkConfig,
        first: bool,
        said: Vec<PodRoute>,
    ) -> Routing {
        let default = config.default_route.unwrap_or(first && said.is_empty());
        let alone = self.network.reach == Reach::Routed && config.default_route.is_none();
        let reaches = match config.gateway_routes.unwrap_or(alone) {
            true => self.reaches.clone(),
            false => Vec::new(),
        };
        let mut said = said;
        if config.default_route.is_some() {
            said.retain(|route| route.to.prefix_len() > 0);
        }
        if self.is_default() {
            // There is one router, whatever a plugin thinks.
            for route in &mut said {
                route.via = None;
            }
        }
        Routing { default, reaches, said }
    }
}

fn net(address: IpAddr, length: u8) -> IpNet {
    IpNet::new(address, length).unwrap_or(address.into())
}

/// What a plugin gave.
pub(super) fn of_plugin(
    name: &str,
    result: AddResult,
    target: &Target,
) -> Result<Grant, AddressError> {
    let link = |ip: &osier_cni::spec::Ip| {
        target.link(ip.address.address, Some((ip.address.prefix, ip.gateway)))
    };
    let addresses = result.ips.iter().map(link).collect::<Result<_, _>>()?;
    let route = |route: &osier_cni::spec::Route| {
        let Cidr { address, prefix } = route.dst;
        Some(PodRoute { to: IpNet::new(address, prefix).ok()?.trunc(), via: route.gw })
    };
    Ok(Grant {
        giver: Giver::Plugin(name.to_owned()),
        mac: None,
        addresses: Addresses::These(addresses),
        routes: result.routes.iter().filter_map(route).collect(),
        dns: result.dns,
    })
}

// === impl Routing ===

impl Routing {
    /// The routes of a port with these addresses: one way for each family.
    pub(super) fn routes(&self, addresses: &[PodAddress]) -> Vec<PodRoute> {
        let mut routes: Vec<PodRoute> = Vec::new();
        let mut add = |route: PodRoute| {
            let there = routes.iter().any(|other| other.to == route.to);
            let linked = addresses.iter().any(|address| address.net.trunc() == route.to);
            if !there && !linked {
                routes.push(route);
            }
        };
        for v4 in [true, false] {
            let of_family = |net: &IpNet| net.addr().is_ipv4() == v4;
            let router = addresses.iter().filter(|a| of_family(&a.net)).find_map(|a| a.gateway);
            for route in self.said.iter().filter(|route| of_family(&route.to)) {
                add(PodRoute { via: route.via.or(router), ..*route });
            }
            let Some(router) = router else { continue };
            if self.default {
                let any: IpAddr = if v4 { [0; 4].into() } else { [0_u16; 8].into() };
                add(PodRoute { to: net(any, 0), via: Some(router) });
                continue;
            }
            for to in self.reaches.iter().filter(|to| of_family(to)) {
                add(PodRoute { to: *to, via: Some(router) });
            }
        }
        routes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(reach: &str, subnets: &str) -> Target {
        let network =
            format!("{{ name: blue, vni: 7, router: r, reach: {reach}, subnets: {subnets} }}");
        let network = serde_saphyr::from_str(&network).unwrap();
        Target { network, reaches: vec!["10.6.0.0/24".parse().unwrap()] }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn config(members: &str) -> NetworkConfig {
        let text = format!(r#"{{"cniVersion":"1.1.0","name":"n","type":"osier"{members}}}"#);
        NetworkConfig::decode(text.as_bytes()).unwrap()
    }

    const SUBNETS: &str = "[{ cidr: 10.5.0.0/24, gateway: 10.5.0.1 }, { cidr: 'fd05::/64' }]";

    #[test]
    fn addresses_lie_as_their_network_does() {
        let bridged = target("bridged", SUBNETS);
        let link = bridged.link(ip("10.5.0.7"), None).unwrap();
        assert_eq!(
            (link.net.to_string().as_str(), link.gateway),
            ("10.5.0.7/24", Some(ip("10.5.0.1")))
        );
        assert_eq!(bridged.link(ip("fd05::7"), None).unwrap().gateway, None);
        let routed = target("routed", SUBNETS).link(ip("10.5.0.7"), None).unwrap();
        assert_eq!(routed.net.to_string(), "10.5.0.7/32");
        for wrong in ["10.5.0.0", "10.5.0.1", "10.5.0.255", "10.9.0.1"] {
            assert!(bridged.link(ip(wrong), None).is_err(), "{wrong}");
        }
        let outside = bridged.link(ip("10.9.0.1"), None).unwrap_err().to_string();
        assert_eq!(outside, "10.9.0.1 is in no subnet of network blue: 10.5.0.0/24, fd05::/64");
        let said = Some((20, Some(ip("10.9.0.254"))));
        let free = target("bridged", "[]").link(ip("10.9.0.1"), said).unwrap();
        assert_eq!(free.net.to_string(), "10.9.0.1/20");
    }

    #[test]
    fn routes_are_as_the_configuration_says() {
        let bridged = target("bridged", SUBNETS);
        let links = bridged.links([ip("10.5.0.7"), ip("fd05::7")]).unwrap();
        let routes = |members: &str, first: bool, said: Vec<PodRoute>| {
            let routing = bridged.routing(&config(members), first, said);
            let shown = routing.routes(&links).into_iter().map(|route| route.to.to_string());
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(routes("", true, Vec::new()), "0.0.0.0/0");
        assert_eq!(routes("", false, Vec::new()), "");
        assert_eq!(routes(r#","isGateway":true"#, false, Vec::new()), "10.6.0.0/24");
        assert_eq!(routes(r#","isDefaultGateway":true"#, false, Vec::new()), "0.0.0.0/0");
        let said = vec![
            PodRoute { to: "0.0.0.0/0".parse().unwrap(), via: None },
            PodRoute { to: "10.7.0.0/16".parse().unwrap(), via: None },
        ];
        assert_eq!(routes("", true, said.clone()), "0.0.0.0/0 10.7.0.0/16");
        assert_eq!(routes(r#","isDefaultGateway":false"#, true, said), "10.7.0.0/16");
    }

    #[test]
    fn a_second_interface_of_a_routed_network_reaches_what_the_router_does() {
        let routed = target("routed", SUBNETS);
        let links = routed.links([ip("10.5.0.7")]).unwrap();
        let routing = routed.routing(&config(""), false, Vec::new());
        let routes = routing.routes(&links);
        assert_eq!(
            routes,
            [PodRoute { to: "10.6.0.0/24".parse().unwrap(), via: Some(ip("10.5.0.1")) }]
        );
    }
}
