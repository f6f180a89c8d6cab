//! What may come from a port: its own Ethernet address with its own addresses, in IP, ARP and
//! neighbour discovery. Everything else is dropped by the table's miss.

use super::{mac, priority};
use crate::local::Attachment;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::Register;
use osier_model::Port;
use osier_openflow::field::Field;
use std::net::IpAddr;

const ARP: u16 = 0x0806;
const ICMPV6: u8 = 58;

pub(crate) fn flows(out: &mut Emitter, port: &Port, at: Attachment) {
    let from_port = |priority| {
        Rule::new(Table::SpoofGuard, priority)
            .when(Register::IN_TAG, at.tag)
            .eq(Field::ETH_SRC, mac(port.mac))
    };
    for address in &port.addresses {
        out.add(from_port(priority::NORMAL).sourced(*address).to(Table::Dispatch));
        match address {
            IpAddr::V4(_) => out.add(
                from_port(priority::NORMAL)
                    .eq(Field::ETH_TYPE, ARP)
                    .eq(Field::ARP_SHA, mac(port.mac))
                    .eq(Field::ARP_SPA, *address)
                    .to(Table::Dispatch),
            ),
            IpAddr::V6(_) => {
                let neighbour = |kind: u8| {
                    from_port(priority::HIGH)
                        .sourced(*address)
                        .eq(Field::IP_PROTO, ICMPV6)
                        .eq(Field::ICMPV6_TYPE, kind)
                        .eq(Field::ICMPV6_CODE, 0_u8)
                };
                let solicits = neighbour(135).eq(Field::ND_SLL, mac(port.mac));
                let advertises =
                    neighbour(136).eq(Field::ND_TARGET, *address).eq(Field::ND_TLL, mac(port.mac));
                out.add(solicits.to(Table::Dispatch));
                out.add(advertises.to(Table::Dispatch));
            }
        }
    }
}
