//! Zones, marks and states of the connection tracker, declared once, and the actions that use it.
//!
//! | zone | connections |
//! |---|---|
//! | 0 | never ours: the machine's own, where it shares its tracker with the switch |
//! | 1 | those whose source is translated |
//! | 2 and on | those to Services, by router |

use crate::pipeline::Table;
use crate::plan::Rule;
use osier_model::{Backend, Transport, VrfId};
use osier_openflow::action::{Action, Ct, Nat, NatKind, NatRange, SetField, Zone};
use osier_openflow::field::Field;
use osier_openflow::subfield::Subfield;
use std::net::IpAddr;

/// The zone of connections whose source is translated.
pub const SOURCE_ZONE: u16 = 1;
const FIRST_ZONE: u16 = 2;

/// The bit of `ct_mark` that connections to Services have.
const SERVICE_MARK: u16 = 0;

/// Bits of `ct_state`.
pub(crate) mod state {
    pub(crate) const ESTABLISHED: u32 = 0x02;
    pub(crate) const RELATED: u32 = 0x04;
    pub(crate) const INVALID: u32 = 0x10;
    pub(crate) const TRACKED: u32 = 0x20;
    pub(crate) const DESTINATION_TRANSLATED: u32 = 0x80;
}

/// The zone of a router's connections to Services.
pub fn zone_of(vrf: VrfId) -> u16 {
    // The last two routers share zones with the first: nobody has that many.
    FIRST_ZONE + vrf.0 % (u16::MAX - FIRST_ZONE)
}

/// The fields of a transport: its number, and where its ports are.
pub(crate) fn fields(transport: Transport) -> (u8, Field, Field) {
    match transport {
        Transport::Tcp => (6, Field::TCP_SRC, Field::TCP_DST),
        Transport::Udp => (17, Field::UDP_SRC, Field::UDP_DST),
        Transport::Sctp => (132, Field::SCTP_SRC, Field::SCTP_DST),
    }
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
    let same = transport == Transport::Sctp && backend.port == port;
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

    /// The connection tracker has not seen it.
    pub(crate) fn untracked(self) -> Self {
        self.masked(Field::CT_STATE, 0_u32, state::TRACKED)
    }
}
