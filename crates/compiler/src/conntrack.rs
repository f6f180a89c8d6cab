//! Zones, marks and states of the connection tracker, declared once, and the actions that use it.
//!
//! | zone | connections |
//! |---|---|
//! | 0 | never ours: the machine's own, where it shares its tracker with the switch |
//! | 1 | those whose source is translated |
//! | 2 and on | those to Services, and those that policies judge, by router |
//! | `0x8000` and on | those that policies judge in networks without a router, by VNI |
//! | 65535 | those of pods to Services, as far as the machine leads them |
//!
//! | bits of `ct_mark` | meaning |
//! |---|---|
//! | 0 | to a Service |
//! | 1 | judged, and granted |
//! | 2 | of the sender's side, the receiver's node judges |
//! | 3 | to a Service, led by the machine: its answers go back there |
//! | 8 to 31 | what policies were when it was judged, if that counts; all ones if it was refused since |
//!
//! `ct_label` tells the rules that granted it: bits 0 to 31 at the sender, 32 to 63 at the receiver.

use crate::pipeline::Table;
use crate::plan::Rule;
use crate::policies::RuleId;
use crate::registers::Register;
use osier_model::{Backend, Network, Transport, View, Vni, VrfId};
use osier_openflow::action::{Action, Ct, Nat, NatKind, NatRange, SetField, Zone};
use osier_openflow::field::Field;
use osier_openflow::subfield::Subfield;
use std::net::IpAddr;

/// The zone of connections whose source is translated.
pub const SOURCE_ZONE: u16 = 1;
const FIRST_ZONE: u16 = 2;
/// The zone of connections to Services that the machine leads.
pub(crate) const GATEWAY_ZONE: u16 = u16::MAX;

/// The bit of `ct_mark` that connections to Services have.
const SERVICE_MARK: u16 = 0;
const JUDGED_MARK: u16 = 1;
const UNJUDGED_MARK: u16 = 2;
const GATEWAY_MARK: u16 = 3;
const EPOCH_MARK: u16 = 8;
/// What policies never are: of connections that were judged again, and refused.
pub(crate) const REFUSED: u32 = 0xff_ffff;

/// Bits of `ct_state`.
pub(crate) mod state {
    pub(crate) const ESTABLISHED: u32 = 0x02;
    pub(crate) const RELATED: u32 = 0x04;
    pub(crate) const ANSWER: u32 = 0x08;
    pub(crate) const INVALID: u32 = 0x10;
    pub(crate) const TRACKED: u32 = 0x20;
    pub(crate) const DESTINATION_TRANSLATED: u32 = 0x80;
}

/// The zone of connections in a network that no router joins to others: its addresses may be anyone's.
pub(crate) fn zone_of_network(vni: Vni) -> u16 {
    u16::try_from(vni.get() & 0x7fff).unwrap_or(0) | 0x8000
}

/// The zone of a router's connections.
pub fn zone_of(vrf: VrfId) -> u16 {
    // The last two routers share zones with the first: nobody has that many.
    FIRST_ZONE + vrf.0 % (u16::MAX - FIRST_ZONE)
}

/// The zone of connections in a network.
pub fn zone_in(view: &View, network: &Network) -> u16 {
    match view.router_of(network) {
        Some(router) => zone_of(router.vrf),
        None => zone_of_network(network.vni),
    }
}

/// The rules that granted a connection with such labels: at its sender, and at its receiver.
pub fn granted_by(labels: u128) -> [RuleId; 2] {
    [0, 32].map(|offset| {
        let bits = labels >> offset & u128::from(u32::MAX);
        RuleId(u32::try_from(bits).unwrap_or_default())
    })
}

/// The fields of a transport: its number, and where its ports are. Whatever there is has none.
pub(crate) fn fields(transport: Transport) -> Option<(u8, Field, Field)> {
    let (source, target) = match transport {
        Transport::Any => return None,
        Transport::Tcp => (Field::TCP_SRC, Field::TCP_DST),
        Transport::Udp => (Field::UDP_SRC, Field::UDP_DST),
        Transport::Sctp => (Field::SCTP_SRC, Field::SCTP_DST),
    };
    Some((transport.number(), source, target))
}

/// Says what is known of the packet's connection, and goes on in a table.
pub(crate) fn ask(zone: u16, next: Table) -> Action {
    let ct = Ct { zone: Zone::Value(zone), table: Some(next.number()), ..Ct::default() };
    Action::Ct(Box::new(ct))
}

/// Lets the tracker see the packet, if it knows the connection, right here.
pub(crate) fn note(zone: u16) -> Action {
    Action::Ct(Box::new(Ct { zone: Zone::Value(zone), ..Ct::default() }))
}

/// Has the tracker know the connection, right here.
pub(crate) fn track(zone: u16) -> Action {
    Action::Ct(Box::new(Ct { commit: true, zone: Zone::Value(zone), ..Ct::default() }))
}

/// Remembers, right here, that the machine led the connection to its endpoint.
pub(crate) fn remember_gateway(zone: u16) -> Action {
    let mark = Subfield::new(Field::CT_MARK, GATEWAY_MARK, 1)
        .ok()
        .and_then(|bit| SetField::load(bit, 1).ok())
        .expect("a mark has 32 bits");
    let exec = vec![Action::SetField(mark)];
    Action::Ct(Box::new(Ct { commit: true, zone: Zone::Value(zone), exec, ..Ct::default() }))
}

/// Remembers, right here, that the connection was granted and by which rules.
pub(crate) fn remember(zone: u16) -> Action {
    let bits = |field, offset, bits| {
        Subfield::new(field, offset, bits).expect("marks have 32 bits, labels 128")
    };
    let judged = SetField::load(bits(Field::CT_MARK, JUDGED_MARK, 1), 1).expect("it is one bit");
    let copy = |register: Register, dst| Action::Move { src: register.subfield(), dst };
    let exec = vec![
        Action::SetField(judged),
        copy(Register::UNJUDGED, bits(Field::CT_MARK, UNJUDGED_MARK, 1)),
        copy(Register::EPOCH, bits(Field::CT_MARK, EPOCH_MARK, 24)),
        copy(Register::EGRESS_RULE, bits(Field::CT_LABEL, 0, 32)),
        copy(Register::INGRESS_RULE, bits(Field::CT_LABEL, 32, 32)),
    ];
    Action::Ct(Box::new(Ct { commit: true, zone: Zone::Value(zone), exec, ..Ct::default() }))
}

/// Remembers, right here, that the connection may no longer be; its zone is the one it was found in.
pub(crate) fn refuse() -> Action {
    let zone = Subfield::new(Field::CT_ZONE, 0, 16).expect("a zone has 16 bits");
    let epoch = Subfield::new(Field::CT_MARK, EPOCH_MARK, 24)
        .ok()
        .and_then(|bits| SetField::load(bits, REFUSED.into()).ok())
        .expect("a mark has 32 bits");
    let exec = vec![Action::SetField(epoch)];
    Action::Ct(Box::new(Ct { commit: true, zone: Zone::Field(zone), exec, ..Ct::default() }))
}

/// Translates as the connection has it, if it is known, and goes on in a table.
pub(crate) fn look_up(zone: u16, next: Table) -> Action {
    let nat = Some(Nat::default());
    let ct = Ct { zone: Zone::Value(zone), table: Some(next.number()), nat, ..Ct::default() };
    Action::Ct(Box::new(ct))
}

/// A new connection to a Service is one to this endpoint; it goes on by its new address.
pub(crate) fn to_endpoint(zone: u16, transport: Transport, port: u16, backend: &Backend) -> Action {
    // Open vSwitch's own tracker knows no ports of SCTP: they are named only where they differ.
    let same = match transport {
        Transport::Any => true,
        Transport::Sctp => backend.port == port,
        Transport::Tcp | Transport::Udp => false,
    };
    let range = NatRange {
        addresses: Some((backend.address, None)),
        ports: (!same).then_some((backend.port, None)),
    };
    let mark = Subfield::new(Field::CT_MARK, SERVICE_MARK, 1)
        .ok()
        .and_then(|bit| SetField::load(bit, 1).ok())
        .expect("a mark has 32 bits");
    Action::Ct(Box::new(Ct {
        commit: true,
        zone: Zone::Value(zone),
        table: Some(Table::Route.number()),
        nat: Some(Nat { kind: Some(NatKind::Dst), range, ..Nat::default() }),
        exec: vec![Action::SetField(mark)],
        ..Ct::default()
    }))
}

/// Gives the packet another source, right here: nothing is looked up again for it.
pub(crate) fn from_address(address: IpAddr) -> Action {
    let range = NatRange { addresses: Some((address, None)), ports: None };
    Action::Ct(Box::new(Ct {
        commit: true,
        zone: Zone::Value(SOURCE_ZONE),
        nat: Some(Nat { kind: Some(NatKind::Src), range, ..Nat::default() }),
        ..Ct::default()
    }))
}

impl Rule {
    /// The connection tracker says this of the packet.
    pub(crate) fn tracked(self, bits: u32) -> Self {
        let bits = bits | state::TRACKED;
        self.masked(Field::CT_STATE, bits, bits)
    }

    /// Its connection was judged, while policies were as they are now if that counts.
    pub(crate) fn judged(self, unjudged: Option<bool>, epoch: Option<u32>) -> Self {
        let (mut value, mut mask) = (1 << JUDGED_MARK, 1 << JUDGED_MARK);
        if let Some(unjudged) = unjudged {
            (value, mask) =
                (value | u32::from(unjudged) << UNJUDGED_MARK, mask | 1 << UNJUDGED_MARK);
        }
        if let Some(epoch) = epoch {
            (value, mask) = (value | epoch << EPOCH_MARK, mask | u32::MAX << EPOCH_MARK);
        }
        self.masked(Field::CT_MARK, value, mask)
    }

    /// Its connection was begun to this address and port, whatever it is to now.
    pub(crate) fn begun_to(self, address: IpAddr, transport: Transport, port: u16) -> Self {
        let field = if address.is_ipv4() { Field::CT_NW_DST } else { Field::CT_IPV6_DST };
        let rule = self.ip(address).eq(field, address);
        match transport {
            Transport::Any => rule,
            _ => rule.eq(Field::CT_NW_PROTO, transport.number()).eq(Field::CT_TP_DST, port),
        }
    }

    /// Its connection was led by the machine.
    pub(crate) fn led_by_gateway(self) -> Self {
        self.masked(Field::CT_MARK, 1_u32 << GATEWAY_MARK, 1_u32 << GATEWAY_MARK)
    }

    /// The connection tracker has not seen it.
    pub(crate) fn untracked(self) -> Self {
        self.masked(Field::CT_STATE, 0_u32, state::TRACKED)
    }
}
