//! A packet, as the switch wants to be asked of it. Pure.

use crate::desired::PodPort;
use osier_compiler::pipeline::Table;
use osier_fleet::ask::{Outcome, Packet, Protocol, Traced, Transit};
use osier_model::{Mac, Reach, View};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// The packet as the port's own stack would send it; or how far that gets it.
pub(super) fn on_link(view: &View, port: &PodPort, packet: Packet) -> Result<Packet, Box<Traced>> {
    let mac_source = Some(packet.mac_source.unwrap_or(port.mac));
    if packet.mac_target.is_some() {
        return Ok(Packet { mac_source, ..packet });
    }
    let to = |mac: Mac| Ok(Packet { mac_source, mac_target: Some(mac), ..packet });
    let Some(network) = view.networks().get(&port.network) else { return to(Mac::GATEWAY) };
    let subnet = network.subnet_of(packet.target).filter(|_| network.reach == Reach::Bridged);
    if let Some(subnet) = subnet {
        if subnet.gateway == Some(packet.target) {
            return to(Mac::GATEWAY);
        }
        let ports = view.ports_of(&network.name).filter_map(|key| view.ports().get(key));
        let mut holders = ports.filter(|other| other.addresses.contains(&packet.target));
        return match holders.next() {
            Some(holder) => to(holder.mac),
            None => Err(stopped(
                packet,
                format!(
                    "unknown destination: nobody in network {} has {}, so nobody answers who asks \
                     for it",
                    network.name, packet.target
                ),
            )),
        };
    }
    let routed = port.routes.iter().any(|route| route.to.contains(&packet.target));
    if routed {
        return to(Mac::GATEWAY);
    }
    let reason = format!("no route: port {} has none to {}", port.key, packet.target);
    Err(stopped(packet, reason))
}

/// It never gets to the switch.
fn stopped(packet: Packet, reason: String) -> Box<Traced> {
    let table = Table::Ingress;
    let (table, name) = (table.number(), table.name().to_owned());
    let outcome = Outcome::Dropped { table, name, owner: None, reason };
    Box::new(Traced { steps: Vec::new(), outcome, packet, raw: String::new() })
}

/// The packet as the machine sends it.
pub(super) fn from_machine(packet: Packet) -> Packet {
    let mac_source = packet.mac_source.or(Some(Mac::GATEWAY));
    Packet { mac_source, mac_target: packet.mac_target.or(Some(Mac::FABRIC)), ..packet }
}

/// The packet in the words of `ovs-fields(7)`.
pub(super) fn flow(in_port: u32, packet: &Packet, transit: Option<&Transit>) -> String {
    let mut flow = format!("in_port={in_port},dp_hash={:#x}", hash(packet));
    if let Some(Transit { source, target, vni, identity, .. }) = transit {
        let family = if source.is_ipv4() { "tun" } else { "tun_ipv6" };
        // Writing to a string cannot fail.
        let _ = write!(flow, ",{family}_src={source},{family}_dst={target},tun_id={vni:#x}");
        if let Some(identity) = identity {
            let _ = write!(flow, ",tun_metadata0={identity:#x}");
        }
    }
    for (name, mac) in [("dl_src", packet.mac_source), ("dl_dst", packet.mac_target)] {
        if let Some(mac) = mac {
            let _ = write!(flow, ",{name}={mac}");
        }
    }
    let v4 = packet.source.is_ipv4();
    let (protocol, request) = match packet.protocol {
        Protocol::Icmp if v4 => ("icmp", Some(("icmp_type", 8))),
        Protocol::Icmp => ("icmp6", Some(("icmpv6_type", 128))),
        Protocol::Tcp => (if v4 { "tcp" } else { "tcp6" }, None),
        Protocol::Udp => (if v4 { "udp" } else { "udp6" }, None),
    };
    let of = |address: &IpAddr| if address.is_ipv4() { "nw" } else { "ipv6" };
    let (from, to) = (packet.source, packet.target);
    let _ = write!(
        flow,
        ",{protocol},{}_src={from},{}_dst={to},nw_ttl={}",
        of(&from),
        of(&to),
        packet.ttl
    );
    if let Some((name, kind)) = request {
        let _ = write!(flow, ",{name}={}", packet.source_port.unwrap_or(kind));
    } else {
        let (from, to) = (packet.source_port.unwrap_or(32768), packet.target_port.unwrap_or(0));
        let name = protocol.trim_end_matches('6');
        let _ = write!(flow, ",{name}_src={from},{name}_dst={to}");
    }
    if packet.protocol == Protocol::Tcp {
        // It begins a connection: what goes on with one that nobody knows is refused.
        flow += ",tcp_flags=syn";
    }
    flow
}

/// What stands for the datapath's own hash of the connection, which nobody else can know: with one, a
/// trace goes on through groups of endpoints. Never zero, which would be none.
fn hash(packet: &Packet) -> u32 {
    let mut hasher = DefaultHasher::new();
    let Packet { source, target, source_port, target_port, .. } = packet;
    (source, target, source_port, target_port).hash(&mut hasher);
    u32::try_from(hasher.finish() >> 32).unwrap_or_default().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_said_as_the_switch_hears_them() {
        let packet = Packet {
            mac_source: Some(Mac::FABRIC),
            mac_target: Some(Mac::GATEWAY),
            source: "10.1.1.2".parse().unwrap(),
            target: "10.1.2.2".parse().unwrap(),
            protocol: Protocol::Icmp,
            source_port: None,
            target_port: None,
            ttl: 63,
        };
        let transit = Transit {
            node: None,
            source: "192.0.2.1".parse().unwrap(),
            target: "192.0.2.2".parse().unwrap(),
            vni: 7,
            identity: Some(5),
        };
        // The hash follows from the packet, and is no part of what is compared.
        let said = |flow: String| {
            let (port, rest) = flow.split_once(",dp_hash=0x").unwrap();
            format!("{port},{}", rest.split_once(',').unwrap().1)
        };
        assert_eq!(
            said(flow(1, &packet, Some(&transit))),
            "in_port=1,tun_src=192.0.2.1,tun_dst=192.0.2.2,tun_id=0x7,tun_metadata0=0x5,\
             dl_src=0e:6f:73:69:65:73,dl_dst=0e:6f:73:69:65:72,icmp,nw_src=10.1.1.2,\
             nw_dst=10.1.2.2,nw_ttl=63,icmp_type=8"
        );
        let tcp = Packet {
            source: "fd01::2".parse().unwrap(),
            target: "fd02::2".parse().unwrap(),
            protocol: Protocol::Tcp,
            target_port: Some(80),
            mac_source: None,
            mac_target: None,
            ..packet
        };
        assert_eq!(
            said(flow(16, &tcp, None)),
            "in_port=16,tcp6,ipv6_src=fd01::2,ipv6_dst=fd02::2,nw_ttl=63,tcp_src=32768,tcp_dst=80,\
             tcp_flags=syn"
        );
        assert_ne!(flow(16, &tcp, None), flow(16, &Packet { source_port: Some(9), ..tcp }, None));
    }
}
