//! What is there without any object: misses, the gateway, what kind of packet it is, hops, and the
//! way out.

use super::policy::{self, Application};
use super::{mac, neighbour, priority, spoof_guard};
use crate::compile::{DEFAULT_VNI, IDENTITY_OPTION, default_vni};
use crate::local::LocalPorts;
use crate::meters;
use crate::pipeline::{Miss, Table};
use crate::plan::{Emitter, Rule};
use crate::question::Question;
use crate::registers::{Destination, Origin, Register};
use ipnet::IpNet;
use osier_model::{Direction, Identity, Mac, Tunnel, Vni};
use osier_openflow::action::{Action, SetField};
use osier_openflow::field::Field;
use osier_openflow::message::TlvMap;
use osier_openflow::subfield::Subfield;

/// Ethernet types.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const ETHERNET_HEADER: u16 = 14;

/// What no router takes further: for a machine itself, for a link, for many (RFC 6890; RFC 1812, 5.3.7;
/// RFC 4291, 2.5.6). A machine would take it for its own.
const NOT_ROUTED: [&str; 8] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "fe80::/10",
    "ff00::/8",
];

/// One of each kind.
const QUESTIONS: [Question; 8] = [
    Question::TooBig { mtu: 0 },
    Question::Expired,
    Question::Neighbour,
    Question::Reject,
    Question::Dhcp,
    Question::Dhcp6,
    Question::Router,
    Question::Denied { direction: Direction::Ingress },
];

pub(crate) fn flows(out: &mut Emitter, local: LocalPorts, tunnel: Tunnel, law: Application) {
    misses(out);
    gateway_in(out, local);
    spoof_guard::forbidden(out);
    dispatch(out);
    default_route(out, local);
    hops(out);
    policy::pipeline(out, tunnel, law);
    egress(out, local, tunnel);
    for question in QUESTIONS {
        out.add_meter(meters::question(question));
    }
}

fn misses(out: &mut Emitter) {
    for table in Table::ALL {
        let rule = Rule::new(*table, priority::MISS);
        out.add(match table.miss() {
            Miss::Drop => rule,
            Miss::Continue(next) => rule.to(next),
        });
    }
}

/// What the machine sends is trusted: it may use any source.
fn gateway_in(out: &mut Emitter, local: LocalPorts) {
    out.add(
        Rule::new(Table::Ingress, priority::NORMAL)
            .eq(Field::IN_PORT, local.gateway.0)
            .load(Register::FROM, Origin::Gateway as u8)
            .load(Register::NETWORK, DEFAULT_VNI)
            .load(Register::SOURCE, Identity::HOST.0)
            .to(Table::Dispatch),
    );
}

fn dispatch(out: &mut Emitter) {
    out.add(Rule::new(Table::Dispatch, priority::NORMAL).eq(Field::ETH_TYPE, ARP).to(Table::Arp));
    neighbour::dispatch(out);
    // To a gateway, by whichever of its addresses: a pod's next hop, or the machine's.
    for address in [Mac::GATEWAY, Mac::FABRIC] {
        for family in [IPV4, IPV6] {
            out.add(
                Rule::new(Table::GatewayMac, priority::NORMAL)
                    .eq(Field::ETH_DST, mac(address))
                    .eq(Field::ETH_TYPE, family)
                    .to(Table::Route),
            );
        }
    }
}

/// What no pod and no node has goes to the machine, which routes or answers it.
fn default_route(out: &mut Emitter, local: LocalPorts) {
    for family in [IPV4, IPV6] {
        let rule = Rule::new(Table::Route, priority::route(0))
            .when(Register::VRF, 0_u8)
            .eq(Field::ETH_TYPE, family)
            .set(Field::ETH_DST, mac(Mac::GATEWAY))
            .set(Field::ETH_SRC, mac(Mac::FABRIC));
        out.add(super::out_of(rule, local.gateway, Destination::Gateway).to(Table::Hop));
    }
    for prefix in NOT_ROUTED {
        let prefix: IpNet = prefix.parse().expect("each is a prefix");
        out.add(
            Rule::new(Table::Route, priority::route(prefix.prefix_len()))
                .when(Register::VRF, 0_u8)
                .destined(prefix),
        );
    }
}

/// One hop from pod to pod, wherever they are; the machine counts for what goes through it.
fn hops(out: &mut Emitter) {
    for to in [Destination::Port, Destination::Tunnel] {
        for family in [IPV4, IPV6] {
            out.add(
                Rule::new(Table::Hop, priority::NORMAL)
                    .when(Register::FROM, Origin::Port as u8)
                    .when(Register::TO, to as u8)
                    .eq(Field::ETH_TYPE, family)
                    .then(Action::DecTtl)
                    .to(Table::SenderGuard),
            );
        }
    }
    // Nothing is counted down below one (RFC 1812, 5.3.1); who sent it is told, for traceroute.
    let last = [0_u8, 1];
    for (family, ttl) in [IPV4, IPV6].into_iter().flat_map(|f| last.map(|ttl| (f, ttl))) {
        out.add(
            Rule::new(Table::Hop, priority::GUARD)
                .when(Register::FROM, Origin::Port as u8)
                .eq(Field::ETH_TYPE, family)
                .eq(Field::IP_TTL, ttl)
                .then(Question::Expired.ask()),
        );
    }
    out.add(
        Rule::new(Table::Hop, priority::HIGH)
            .when(Register::TO, Destination::Gateway as u8)
            .to(Table::SenderGuard),
    );
}

fn egress(out: &mut Emitter, local: LocalPorts, tunnel: Tunnel) {
    for to in [Destination::Port, Destination::Gateway] {
        let output = Action::OutputReg { src: Register::OUT_PORT.subfield(), max_len: u16::MAX };
        out.add(
            Rule::new(Table::Egress, priority::NORMAL).when(Register::TO, to as u8).then(output),
        );
    }
    if tunnel == Tunnel::Geneve {
        out.add_tlv(IDENTITY_TLV);
    }
    let to_tunnel =
        |table, priority| Rule::new(table, priority).when(Register::TO, Destination::Tunnel as u8);
    // What came through the tunnel never goes back into it.
    send(out, to_tunnel(Table::Egress, priority::NORMAL), local, tunnel);
    let Some(mtu) = local.tunnel_mtu else { return };
    let measure = Action::CheckPktLarger {
        len: mtu.saturating_add(ETHERNET_HEADER),
        dst: Register::LARGE.subfield(),
    };
    out.add(
        to_tunnel(Table::Egress, priority::HIGH)
            .when(Register::LARGE, 1_u8)
            .then(measure)
            .to(Table::TunnelOut),
    );
    let fits = to_tunnel(Table::TunnelOut, priority::NORMAL).when(Register::LARGE, 0_u8);
    send(out, fits, local, tunnel);
    for family in [IPV4, IPV6] {
        out.add(
            to_tunnel(Table::TunnelOut, priority::NORMAL)
                .when(Register::LARGE, 1_u8)
                .eq(Field::ETH_TYPE, family)
                .then(Question::TooBig { mtu }.ask()),
        );
    }
}

/// Sends through the tunnel, with the network's key, and tells of the sender as far as that is possible.
fn send(out: &mut Emitter, rule: Rule, local: LocalPorts, tunnel: Tunnel) {
    let (told, key) = (Told::by(tunnel), Told::key());
    let to = |rule: Rule| {
        rule.copy(Register::TUNNEL.subfield(), Subfield::whole(Field::TUN_DST))
            .copy(Subfield::whole(Register::TUNNEL_IPV6), Subfield::whole(Field::TUN_IPV6_DST))
    };
    let output = Action::output(local.tunnel);
    match tunnel {
        Tunnel::Geneve => {
            let rule = to(rule).copy(Register::NETWORK.subfield(), key);
            out.add(told.tell(rule).then(output));
        }
        Tunnel::Vxlan => {
            let own = rule.clone().with_priority(priority::GUARD);
            let own = to(own.when(Register::NETWORK, default_vni().get()));
            out.add(told.tell(own.then(Told::key_tells())).then(output.clone()));
            out.add(to(rule).copy(Register::NETWORK.subfield(), key).then(output));
        }
    }
}

/// The option that carries the sender's identity: experimental class, four bytes.
const IDENTITY_TLV: TlvMap =
    TlvMap { class: 0xffff, kind: 0x81, len: 4, index: IDENTITY_OPTION as u16 };

/// Where a packet between nodes tells who sent it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// The sender's identity.
    pub(crate) identity: Subfield,
    /// That the receiver's node is to judge for the sender's.
    pub(crate) unjudged: Subfield,
}

// === impl Told ===

impl Told {
    /// The bit of a VXLAN's key that says that the rest tells of the sender, and that the network is the
    /// default one. No other network has it.
    const KEY_TELLS: u32 = 1 << 23;

    fn key() -> Subfield {
        Subfield::new(Field::TUN_ID, 0, 24).expect("a key has 64 bits")
    }

    fn key_tells() -> Action {
        let set = SetField::load(Self::key(), Self::KEY_TELLS.into());
        Action::SetField(set.expect("a key has 24 bits"))
    }

    /// Geneve has an option of ours for it. VXLAN has nothing but its key.
    pub(crate) fn by(tunnel: Tunnel) -> Self {
        let part = |field, offset, bits| {
            Subfield::new(field, offset, bits).expect("32 bits of an option, 64 of a key")
        };
        match tunnel {
            Tunnel::Geneve => {
                let option = Field::tun_metadata(IDENTITY_OPTION);
                Self { identity: part(option, 0, 31), unjudged: part(option, 31, 1) }
            }
            Tunnel::Vxlan => {
                Self { identity: part(Field::TUN_ID, 0, 22), unjudged: part(Field::TUN_ID, 22, 1) }
            }
        }
    }

    /// Tells of the sender.
    fn tell(self, rule: Rule) -> Rule {
        rule.copy(self.sender(), self.identity).copy(Register::UNJUDGED.subfield(), self.unjudged)
    }

    /// Hears of the sender. What is unjudged is under policies, whoever receives it.
    pub(crate) fn hear(self, rule: Rule) -> Rule {
        rule.copy(self.identity, self.sender())
            .copy(self.unjudged, Register::UNJUDGED.subfield())
            .copy(self.unjudged, Register::GUARDED.subfield())
    }

    fn sender(self) -> Subfield {
        Subfield::new(Register::SOURCE.field(), 0, self.identity.bits())
            .expect("a register has 32 bits")
    }

    /// The sender's identity as it can be told: one that does not fit is nobody's, and is let in
    /// nowhere.
    pub(crate) fn tellable(self, identity: Identity) -> Identity {
        let fits = u64::from(identity.0) < 1 << self.identity.bits();
        if fits { identity } else { Identity::QUARANTINED }
    }
}

/// What comes with a network's key, and of the default network with what a VXLAN's key tells instead.
pub(crate) fn with_key(rule: Rule, vni: Vni, tunnel: Tunnel) -> Rule {
    if tunnel == Tunnel::Vxlan && vni == default_vni() {
        let rule = rule.masked(Field::TUN_ID, Told::KEY_TELLS, Told::KEY_TELLS);
        return Told::by(tunnel).hear(rule);
    }
    rule.eq(Field::TUN_ID, vni.get())
}
