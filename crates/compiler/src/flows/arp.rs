//! ARP: the switch turns a request into its answer and sends it back.

use super::{mac, priority};
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Destination, Origin, Register};
use osier_model::{Mac, Vni};
use osier_openflow::field::Field;
use osier_openflow::subfield::Subfield;
use std::net::Ipv4Addr;

const ARP: u16 = 0x0806;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// Requests go to the responder, and those of the machine are answered, whatever they are for: the way
/// to all of it is the router. Once for the pipeline.
pub(crate) fn dispatch(out: &mut Emitter) {
    let requests =
        Rule::new(Table::Arp, priority::NORMAL).eq(Field::ETH_TYPE, ARP).eq(Field::ARP_OP, REQUEST);
    out.add(requests.to(Table::ArpResponder));
    let machine = request(priority::LAST).when(Register::FROM, Origin::Gateway as u8);
    out.add(reply(machine, None, Mac::FABRIC));
}

/// Answers requests for an address of a network.
pub(crate) fn answer(out: &mut Emitter, network: Vni, address: Ipv4Addr, has: Mac) {
    let request = request(priority::NORMAL)
        .when(Register::NETWORK, network.get())
        .eq(Field::ARP_TPA, address);
    out.add(reply(request, Some(address), has));
}

/// Answers requests for any address, where ports reach one another through the router only, but
/// believe that they are on one link.
pub(crate) fn answer_all(out: &mut Emitter, network: Vni) {
    let request = request(priority::LAST).when(Register::NETWORK, network.get());
    out.add(reply(request, None, Mac::GATEWAY));
}

/// Nobody answers who asks for its own address: it wants to know whether another has it.
pub(crate) fn own(out: &mut Emitter, network: Vni, address: Ipv4Addr) {
    let asks = request(priority::NORMAL).when(Register::NETWORK, network.get());
    out.add(asks.eq(Field::ARP_SPA, address).eq(Field::ARP_TPA, address));
}

fn request(priority: u16) -> Rule {
    Rule::new(Table::ArpResponder, priority).eq(Field::ETH_TYPE, ARP).eq(Field::ARP_OP, REQUEST)
}

/// Turns a request round: for a known address, or for whichever it asks for, which then waits in a
/// register that nothing else needs any more.
fn reply(request: Rule, address: Option<Ipv4Addr>, has: Mac) -> Rule {
    let whole = Subfield::whole;
    let asked = Register::TARGET.subfield();
    let mut rule = match address {
        Some(_) => request,
        None => request.copy(whole(Field::ARP_TPA), asked),
    };
    rule = rule
        .copy(whole(Field::ETH_SRC), whole(Field::ETH_DST))
        .set(Field::ETH_SRC, mac(has))
        .set(Field::ARP_OP, REPLY)
        .copy(whole(Field::ARP_SHA), whole(Field::ARP_THA))
        .set(Field::ARP_SHA, mac(has))
        .copy(whole(Field::ARP_SPA), whole(Field::ARP_TPA));
    rule = match address {
        Some(address) => rule.set(Field::ARP_SPA, address),
        None => rule.copy(asked, whole(Field::ARP_SPA)),
    };
    rule.copy(
        whole(Field::IN_PORT_NXM),
        Subfield::new(Register::OUT_PORT.field(), 0, 16)
            .expect("a port's number is 16 bits of the register"),
    )
    .forget_in_port()
    .load(Register::TO, Destination::Port as u8)
    .to(Table::Egress)
}
