//! ARP: the switch turns a request into its answer and sends it back.

use super::{mac, priority};
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Destination, Register};
use osier_model::{Mac, Vni};
use osier_openflow::field::Field;
use osier_openflow::subfield::Subfield;
use std::net::Ipv4Addr;

const ARP: u16 = 0x0806;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// Requests go to the responder; once for the pipeline.
pub(crate) fn dispatch(out: &mut Emitter) {
    out.add(
        Rule::new(Table::Arp, priority::NORMAL)
            .eq(Field::ETH_TYPE, ARP)
            .eq(Field::ARP_OP, REQUEST)
            .to(Table::ArpResponder),
    );
}

/// Answers requests for an address of a network.
pub(crate) fn answer(out: &mut Emitter, network: Vni, address: Ipv4Addr, has: Mac) {
    let whole = Subfield::whole;
    out.add(
        Rule::new(Table::ArpResponder, priority::NORMAL)
            .when(Register::NETWORK, network.get())
            .eq(Field::ETH_TYPE, ARP)
            .eq(Field::ARP_OP, REQUEST)
            .eq(Field::ARP_TPA, address)
            .copy(whole(Field::ETH_SRC), whole(Field::ETH_DST))
            .set(Field::ETH_SRC, mac(has))
            .set(Field::ARP_OP, REPLY)
            .copy(whole(Field::ARP_SHA), whole(Field::ARP_THA))
            .set(Field::ARP_SHA, mac(has))
            .copy(whole(Field::ARP_SPA), whole(Field::ARP_TPA))
            .set(Field::ARP_SPA, address)
            .copy(
                whole(Field::IN_PORT_NXM),
                Subfield::new(Register::OUT_PORT.field(), 0, 16)
                    .expect("a port's number is 16 bits of the register"),
            )
            .forget_in_port()
            .load(Register::TO, Destination::Port as u8)
            .to(Table::Egress),
    );
}
