//! Who gives a port its network, addresses and limits: the view, a plugin, the runtime, the node's
//! own blocks, or the controller, in this order.

use super::grant::{self, Addresses, Grant, Target};
use super::state::Wish;
use super::{PortError, Ports, ipam, is_first, late};
use crate::addresses::AddressError;
use crate::controller::PortRequest;
use crate::desired::{Giver, HostPort, PodPort};
use crate::gateway;
use crate::netlink::{Namespace, NamespaceId};
use ipnet::IpNet;
use osier_cni::config::{AttachRequest, Bandwidth, Ipam, NetworkConfig, Rate};
use osier_cni::rpc::Request;
use osier_compiler::DEFAULT_VNI;
use osier_model::{Limit, Limits, Mac, Network, Port, PortKey, Reach, View};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::time::timeout_at;

/// What a machine says of all of its ports.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub(super) boot_id: &'a str,
    pub(super) mtu: u16,
    pub(super) masquerade: bool,
}

impl Ports {
    /// The network that a configuration means, or the view for this port.
    pub(super) async fn target(
        &self,
        config: &NetworkConfig,
        key: &PortKey,
    ) -> Result<Target, PortError> {
        let bridge = self.0.config.bridge.as_str();
        if let Some(other) = config.bridge.as_deref().filter(|other| *other != bridge) {
            let (found, ours) = (other.to_owned(), bridge.to_owned());
            return Err(PortError::Bridge { found, ours });
        }
        self.own_blocks().await?;
        let wish = self.0.switch.wish(key).await;
        let routes = wants_routes(config, key);
        let target = |view: &View| {
            let network = network(view, config, wish.as_ref())?;
            let reaches = if routes { reaches(view, network) } else { Vec::new() };
            Ok(Target { network: network.clone(), reaches })
        };
        self.0.switch.with_view(target).await
    }

    /// What the port gets, and from whom.
    pub(super) async fn give(
        &self,
        call: &AttachRequest,
        request: &Request,
        key: &PortKey,
        target: &Target,
        deadline: Instant,
    ) -> Result<Grant, PortError> {
        let runtime = &call.config.runtime;
        let requested: Vec<IpAddr> = runtime.ips.iter().map(|cidr| cidr.address).collect();
        let wish = self.0.switch.wish(key).await;
        let granted = self.0.controller.gave(key);
        if let Some(wish) = wish.as_ref().filter(|wish| !wish.addresses.is_empty() && !granted) {
            return Ok(of_port(Giver::View, wish, target, &requested)?);
        }
        if let Ipam::Delegate(name) = &call.config.ipam
            && late::asks_node(&call.config.ipam, target).is_none()
        {
            if late::needs_interface(name) {
                late::check(name, target)?;
                // Other nodes find it by the one that the view says.
                let mac = wish.map(|wish| wish.mac).or(runtime.mac.map(|mac| Mac(mac.0)));
                let mac = Some(mac.unwrap_or_else(|| late::mac_of(&call.attachment)));
                let (giver, addresses) = (Giver::Plugin(name.clone()), Addresses::Later);
                return Ok(Grant { giver, mac, addresses, ..Grant::default() });
            }
            let result = ipam::add(name, request, deadline).await?;
            let grant = grant::of_plugin(name, result, target);
            if grant.is_err() {
                ipam::undo(name, request).await;
            }
            return Ok(grant?);
        }
        if target.is_default() {
            let addresses = Addresses::OfBlocks(requested);
            return Ok(Grant { addresses, ..Grant::default() });
        }
        if !requested.is_empty() && !self.0.controller.knows_all() {
            self.check_elsewhere(&target.network, key, &requested).await?;
            let addresses = Addresses::These(target.links(requested)?);
            return Ok(Grant { giver: Giver::Runtime, addresses, ..Grant::default() });
        }
        let ask = PortRequest {
            key: key.clone(),
            node: self.0.config.node.clone(),
            network: target.network.name.clone(),
            mac: runtime.mac.map(|mac| Mac(mac.0)),
            addresses: requested,
        };
        let started = Instant::now();
        let granted = timeout_at(deadline.into(), self.0.controller.grant(ask)).await;
        let port = granted.map_err(|_| PortError::Deadline(started.elapsed()))??;
        let grant = of_port(Giver::Controller, &port, target, &[]);
        if grant.is_err() {
            self.released(&Giver::Controller, key).await;
        }
        Ok(grant?)
    }

    /// A port as it shall be, with what it was given.
    pub(super) fn wish(
        &self,
        call: &AttachRequest,
        key: &PortKey,
        target: &Target,
        namespace: &Namespace,
        grant: Grant,
    ) -> Wish {
        let machine = Machine {
            boot_id: &self.0.boot_id,
            mtu: self.0.mtu.load(Ordering::Relaxed),
            masquerade: self.0.config.masquerade,
        };
        wish(call, key, target, namespace.id(), &machine, grant)
    }

    /// Refuses addresses that the view has with other ports of the network.
    async fn check_elsewhere(
        &self,
        network: &Network,
        key: &PortKey,
        requested: &[IpAddr],
    ) -> Result<(), AddressError> {
        let other = |view: &View| {
            let ports = view.ports_of(&network.name).filter_map(|key| view.ports().get(key));
            let others = ports.filter(|port| port.key != *key);
            let mut taken = others.flat_map(|port| port.addresses.iter().map(|a| (*a, &port.key)));
            let found = taken.find(|(address, _)| requested.contains(address))?;
            Some(AddressError::Taken { address: found.0, port: found.1.to_string() })
        };
        let said = self.0.switch.with_said(|said| other(said.view())).await;
        said.map_or(Ok(()), Err)
    }

    /// How a port that is there differs from what is asked for now.
    pub(super) async fn asked_otherwise(
        &self,
        call: &AttachRequest,
        target: &Target,
        port: &PodPort,
    ) -> Option<String> {
        if port.network != target.network.name {
            return Some(format!("it is in network {}", port.network));
        }
        let wish = self.0.switch.wish(&port.key).await.filter(|wish| !wish.addresses.is_empty());
        let runtime = &call.config.runtime;
        let mac = wish.as_ref().map(|wish| wish.mac);
        let mac = mac.or(runtime.mac.map(|mac| Mac(mac.0)));
        let wished = wish.into_iter().flat_map(|wish| wish.addresses);
        let requested = runtime.ips.iter().map(|cidr| cidr.address);
        let mut addresses = wished.chain(requested);
        match addresses.find(|address| !port.ips().any(|has| has == *address)) {
            Some(address) => Some(format!("has no {address}")),
            None => mac
                .filter(|mac| *mac != port.mac)
                .map(|mac| format!("has the Ethernet address {}, not {mac}", port.mac)),
        }
    }

    /// Gives back what a port that is not made was given.
    pub(super) async fn give_back(&self, giver: &Giver, key: &PortKey, request: &Request) {
        if let Giver::Plugin(name) = giver {
            ipam::undo(name, request).await;
        }
        self.released(giver, key).await;
    }

    /// A port is gone: who gave its addresses from afar hears of it.
    pub(super) async fn released(&self, giver: &Giver, key: &PortKey) {
        if *giver == Giver::Controller {
            self.0.controller.release(&self.0.config.node, key).await;
        }
    }
}

/// A port as it shall be, with what it was given.
pub(super) fn wish(
    call: &AttachRequest,
    key: &PortKey,
    target: &Target,
    netns_id: NamespaceId,
    machine: &Machine<'_>,
    grant: Grant,
) -> Wish {
    let config = &call.config;
    Wish {
        attachment: call.attachment.clone(),
        key: key.clone(),
        cni_network: config.header.name.clone(),
        network: target.network.name.clone(),
        vni: target.network.vni.get(),
        giver: grant.giver,
        mac: grant.mac.or(config.runtime.mac.map(|mac| Mac(mac.0))),
        given: grant.addresses,
        routing: target.routing(config, is_first(key), grant.routes),
        netns: call.netns.clone(),
        netns_id,
        boot_id: machine.boot_id.to_owned(),
        mtu: config.mtu.unwrap_or(u16::MAX).min(machine.mtu),
        limits: limits(config.runtime.bandwidth),
        masquerade: config.masquerade.filter(|yes| *yes != machine.masquerade),
        hairpin: config.hairpin.unwrap_or(true),
        host_ports: config.runtime.port_mappings.iter().map(HostPort::from).collect(),
    }
}

/// Whether it matters what the router reaches. To know that costs a look at all nodes, and a pod
/// with a default route does without.
fn wants_routes(config: &NetworkConfig, key: &PortKey) -> bool {
    let other_ways = !is_first(key) || config.ipam != Ipam::Agent;
    config.gateway_routes.unwrap_or(config.default_route.is_none() && other_ways)
}

pub(super) fn network<'a>(
    view: &'a View,
    config: &NetworkConfig,
    wish: Option<&Port>,
) -> Result<&'a Network, PortError> {
    let networks = view.networks();
    let by_vni = |vni: u32| networks.values().find(|network| network.vni.get() == vni);
    let by_name = |name: &str| networks.values().find(|network| network.name.as_str() == name);
    let wished = wish.map(|wish| wish.network.as_str());
    let network = match (config.network.as_deref().or(wished), config.vni) {
        (Some(name), _) => {
            by_name(name).ok_or_else(|| PortError::UnknownNetwork(name.to_owned()))?
        }
        (None, Some(vni)) => {
            by_vni(vni).ok_or_else(|| PortError::UnknownNetwork(format!("with VNI {vni}")))?
        }
        (None, None) => by_vni(DEFAULT_VNI).ok_or(PortError::NoNetwork)?,
    };
    let has = network.vni.get();
    if let Some(said) = config.vni.filter(|said| *said != has) {
        return Err(PortError::Vni { network: network.name.to_string(), has, said });
    }
    if let Some(wish) = wish.filter(|wish| wish.network != network.name) {
        return Err(PortError::WishedElsewhere {
            key: wish.key.to_string(),
            wished: wish.network.to_string(),
            said: network.name.to_string(),
        });
    }
    Ok(network)
}

/// What a network's router reaches beyond the link.
pub(super) fn reaches(view: &View, network: &Network) -> Vec<IpNet> {
    if network.vni.get() == DEFAULT_VNI {
        return gateway::pod_prefixes(view.fabric(), view.nodes().values());
    }
    let Some(router) = &network.router else { return Vec::new() };
    let others = view.networks_of(router).filter_map(|name| view.networks().get(name));
    let others = others.filter(|other| other.name != network.name || other.reach == Reach::Routed);
    others.flat_map(|other| other.subnets.iter().map(|subnet| subnet.cidr)).collect()
}

/// A port as somebody who knows all ports wants it.
pub(super) fn of_port(
    giver: Giver,
    port: &Port,
    target: &Target,
    requested: &[IpAddr],
) -> Result<Grant, AddressError> {
    if let Some(address) = requested.iter().find(|address| !port.addresses.contains(address)) {
        let has: Vec<String> = port.addresses.iter().map(ToString::to_string).collect();
        return Err(AddressError::NotWished { address: *address, has: has.join(", ") });
    }
    let addresses = Addresses::These(target.links(port.addresses.iter().copied())?);
    Ok(Grant { giver, mac: Some(port.mac), addresses, ..Grant::default() })
}

/// Limits as the model has them. A burst is what comes at once, so no more than a second's worth:
/// runtimes that have none to say send the largest number there is.
pub(super) fn limits(bandwidth: Bandwidth) -> Limits {
    let limit = |Rate { rate, burst }: Rate| {
        let burst = burst.map(|burst| burst.min(rate).max(1));
        // No switch is that fast.
        (rate <= Limit::MAX).then_some(Limit { rate, burst })
    };
    Limits { ingress: bandwidth.ingress.and_then(limit), egress: bandwidth.egress.and_then(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_within_what_meters_can() {
        let rate = |rate, burst| Some(Rate { rate, burst });
        let bandwidth = Bandwidth {
            ingress: rate(20_000_000, Some(2_147_483_647)),
            egress: rate(u64::MAX, None),
        };
        let limit = Limit { rate: 20_000_000, burst: Some(20_000_000) };
        assert_eq!(limits(bandwidth), Limits { ingress: Some(limit), egress: None });
        assert!(limits(Bandwidth::default()).is_none());
    }
}
