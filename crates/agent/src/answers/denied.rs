//! The log of what policies denied: who, to whom, and which policies are about it. So many lines in a
//! second; the rest is counted. All of it is remembered for a while, for who asks.

use crate::denied::{Attempt, DeniedLately};
use crate::directory::addresses_of;
use crate::services::zone_of_service;
use osier_answers::IpPacket;
use osier_compiler::conntrack::{zone_in, zone_of};
use osier_compiler::registers::Register;
use osier_compiler::{Compiler, Question};
use osier_model::{Direction, Identity, NetworkName, Node, PolicyName, View, VrfId};
use osier_openflow::message::PacketIn2;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::info;

/// Lines in a second.
const RATE: u32 = 20;

/// How much was said lately.
#[derive(Debug)]
pub(super) struct Denials {
    since: Instant,
    said: u32,
    unsaid: u32,
    lately: DeniedLately,
}

/// What is said of a packet.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    direction: Direction,
    from: String,
    to: String,
    protocol: Option<u8>,
    port: Option<u16>,
    /// The sender's.
    identity: u32,
    policies: String,
}

// === impl Denials ===

impl Denials {
    pub(super) fn new(lately: DeniedLately) -> Self {
        Self { since: Instant::now(), said: 0, unsaid: 0, lately }
    }

    /// Logs a packet that was denied, if it is one.
    pub(super) fn log(&mut self, compiler: &Compiler, asked: &PacketIn2) {
        let Some(line) = self.note(compiler, asked) else { return };
        let Line { direction, from, to, protocol, port, identity, policies } = line;
        info!(%direction, from, to, protocol, port, identity, policies, "denied");
    }

    /// Remembers a packet that was denied; what is to be said of it, if more may be said.
    fn note(&mut self, compiler: &Compiler, asked: &PacketIn2) -> Option<Line> {
        let Some(Question::Denied { direction }) = Question::decode(&asked.userdata) else {
            return None;
        };
        let packet = IpPacket::parse(&asked.packet)?;
        let number = |register: Register| {
            let value = asked.metadata.get_u128(register.field()).map(|(value, _)| value);
            value.and_then(|value| u32::try_from(value).ok()).unwrap_or_default()
        };
        let side = match direction {
            Direction::Egress => Identity(number(Register::SOURCE)),
            Direction::Ingress => Identity(number(Register::TARGET)),
        };
        let view = compiler.view();
        let law = view.law();
        let (protocol, port) = match packet.payload {
            Some((protocol @ (6 | 17 | 132), [_, _, high, low, ..])) => {
                (Some(protocol), Some(u16::from_be_bytes([*high, *low])))
            }
            Some((protocol, _)) => (Some(protocol), None),
            None => (None, None),
        };
        let about = || law.about(side, direction).map(|policy| policy.name.clone()).collect();
        let zone = zone(view, number(Register::NETWORK), number(Register::VRF));
        self.lately.add(
            Attempt {
                zone,
                protocol: protocol.unwrap_or_default(),
                source: packet.source,
                target: packet.destination,
                port,
                direction,
            },
            about,
        );
        if !self.may_say() {
            return None;
        }
        let policies: Vec<PolicyName> = about();
        let policies: Vec<&str> = policies.iter().map(PolicyName::as_str).collect();
        Some(Line {
            direction,
            from: called(view, zone, packet.source),
            to: called(view, zone, packet.destination),
            protocol,
            port,
            identity: number(Register::SOURCE),
            policies: policies.join(", "),
        })
    }

    fn may_say(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            if self.unsaid > 0 {
                info!(more = self.unsaid, "denied, and not logged");
            }
            *self = Self::new(self.lately.clone());
        }
        match self.said < RATE {
            true => self.said += 1,
            false => self.unsaid += 1,
        }
        self.unsaid == 0
    }
}

/// Where a packet's connection would be tracked.
fn zone(view: &View, vni: u32, vrf: u32) -> u16 {
    let network = view.networks().values().find(|network| network.vni.get() == vni);
    let vrf = VrfId(u16::try_from(vrf).unwrap_or_default());
    network.map_or(zone_of(vrf), |network| zone_in(view, network))
}

/// Who an address is, as far as this node knows: one of its ports, a node or a Service. Others are their
/// address. Nothing is made for it: there may be thousands of them, and many lines.
fn called(view: &View, zone: u16, address: IpAddr) -> String {
    let in_zone = |network: &NetworkName| {
        view.networks().get(network).is_some_and(|network| zone_in(view, network) == zone)
    };
    let mut own = view.ports_at(view.node()).filter_map(|key| view.ports().get(key));
    let own = own.find(|port| port.addresses.contains(&address) && in_zone(&port.network));
    let is_of = |node: &&Node| addresses_of(node).any(|own| own == address);
    // Routers of others may have the same addresses.
    let is_default = zone == zone_of(VrfId::default());
    let node = || view.nodes().values().filter(|_| is_default).find(is_of);
    let mut services = view.services().values();
    let mut service = || {
        services.find(|service| {
            let all = [&service.addresses, &service.external, &service.balanced];
            zone_of_service(service, view) == Some(zone)
                && all.into_iter().flatten().any(|own| *own == address)
        })
    };
    match (own, node()) {
        (Some(port), _) => format!("{} ({address})", port.key),
        (None, Some(node)) => format!("node {} ({address})", node.name),
        (None, None) => match service() {
            Some(service) => format!("service {} ({address})", service.name),
            None => address.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_compiler::LocalPorts;
    use osier_model::{Change, Fabric};
    use osier_openflow::field::IntoValue;
    use osier_openflow::matching::Match;
    use osier_openflow::port_no::PortNo;

    fn compiler() -> Compiler {
        let local = LocalPorts {
            gateway: PortNo(2),
            service_gateway: None,
            tunnel: PortNo(1),
            tunnel_mtu: None,
            connection_rate: None,
        };
        let mut compiler = Compiler::new("n1".parse().unwrap(), Fabric::default(), local);
        for text in [
            "{ kind: node, name: n1, tunnel: 192.0.2.1, blocks: [10.1.1.0/24] }",
            "{ kind: node, name: n2, tunnel: 192.0.2.2, blocks: [10.1.2.0/24, 'fd01:2::/64'] }",
            "{ kind: router, name: default, vrf: 0 }",
            "{ kind: network, name: pods, vni: 1, router: default, reach: routed }",
            "{ kind: port, device: 'shop:db', interface: eth0, network: pods, node: n1, \
               mac: '02:00:00:00:00:01', addresses: [10.1.1.5], identity: 300 }",
            "{ kind: service, name: 'shop:front', addresses: [10.96.0.1], ports: [{ port: 80 }] }",
            "{ kind: selection, id: 1, members: [300] }",
            "{ kind: policy, name: 'shop:db', subjects: 1, ingress: [] }",
        ] {
            compiler.apply(Change::Put(serde_saphyr::from_str(text).unwrap())).unwrap();
        }
        compiler
    }

    #[test]
    fn a_line_has_the_names_that_a_node_knows() {
        let compiler = compiler();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
        frame.extend([0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 1, 2, 1, 10, 1, 1, 5]);
        frame.extend([0x9c, 0x40, 0x15, 0x38, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 1, 0, 0, 0, 0]);
        let mut metadata = Match::default();
        for (register, value) in
            [(Register::SOURCE, 2_u32), (Register::TARGET, 300), (Register::NETWORK, 1)]
        {
            let value = value.into_value(register.field()).unwrap();
            metadata.insert(register.field(), &value, None).unwrap();
        }
        let direction = Direction::Ingress;
        let userdata = Question::Denied { direction }.encode();
        let asked = PacketIn2 { packet: frame, metadata, userdata, ..PacketIn2::default() };
        let mut denials = Denials::new(DeniedLately::default());
        let line = Line {
            direction,
            from: "node n2 (10.1.2.1)".to_owned(),
            to: "shop:db (10.1.1.5)".to_owned(),
            protocol: Some(6),
            port: Some(5432),
            identity: 2,
            policies: "shop:db".to_owned(),
        };
        assert_eq!(denials.note(&compiler, &asked), Some(line));
        assert_eq!(denials.note(&compiler, &PacketIn2::default()), None);
    }

    #[test]
    fn who_is_not_known_is_an_address() {
        let compiler = compiler();
        let who = |zone, address: &str| called(compiler.view(), zone, address.parse().unwrap());
        let own = zone_of(VrfId::default());
        assert_eq!(who(own, "10.1.1.5"), "shop:db (10.1.1.5)");
        assert_eq!(who(own, "fd01:2::1"), "node n2 (fd01:2::1)");
        assert_eq!(who(own, "192.0.2.2"), "node n2 (192.0.2.2)");
        assert_eq!(who(own, "10.96.0.1"), "service shop:front (10.96.0.1)");
        assert_eq!(who(own, "10.1.2.9"), "10.1.2.9");
        // Elsewhere it is another's.
        for address in ["10.1.1.5", "192.0.2.2", "10.96.0.1"] {
            assert_eq!(who(own + 3, address), address);
        }
    }

    #[test]
    fn no_more_is_said_than_a_log_can_bear() {
        let mut denials = Denials::new(DeniedLately::default());
        let said = (0..1000).filter(|_| denials.may_say()).count();
        assert_eq!(said, 20);
        assert_eq!(denials.unsaid, 980);
    }
}
