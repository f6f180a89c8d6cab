//! IPv6 neighbour discovery (RFC 4861). A solicitation for a port's address goes to that port,
//! wherever it is: it answers for itself. One for a router's address goes to the agent, since no
//! datapath but the userspace one could make the answer. What nobody has goes to all, and is
//! bounded as every flood.
//!
//! Who looks for a duplicate of its own address asks from `::`. The spoof guard drops that: the
//! model gives no address twice, and nobody can use one that is not its own.

use super::priority;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::question::Question;
use crate::registers::{Origin, Register};
use osier_model::Vni;
use osier_openflow::field::Field;
use std::net::Ipv6Addr;

const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
pub(crate) const SOLICITATION: u8 = 135;
pub(crate) const ADVERTISEMENT: u8 = 136;

/// Where they go; once for the pipeline.
pub(crate) fn dispatch(out: &mut Emitter) {
    for kind in [SOLICITATION, ADVERTISEMENT] {
        out.add(is(Rule::new(Table::Dispatch, priority::NORMAL), kind).to(Table::Neighbour));
    }
}

/// The agent answers for a router's address.
pub(crate) fn ask(out: &mut Emitter, network: Vni, router: Ipv6Addr) {
    out.add(
        solicitation(network, router)
            .when(Register::FROM, Origin::Port as u8)
            .then(Question::Neighbour.ask()),
    );
}

/// A solicitation for an address of a network.
pub(crate) fn solicitation(network: Vni, target: Ipv6Addr) -> Rule {
    is(Rule::new(Table::Neighbour, priority::NORMAL), SOLICITATION)
        .when(Register::NETWORK, network.get())
        .eq(Field::ICMPV6_CODE, 0_u8)
        .eq(Field::ND_TARGET, target)
}

/// A message of this kind.
pub(crate) fn is(rule: Rule, kind: u8) -> Rule {
    rule.eq(Field::ETH_TYPE, IPV6).eq(Field::IP_PROTO, ICMPV6).eq(Field::ICMPV6_TYPE, kind)
}
