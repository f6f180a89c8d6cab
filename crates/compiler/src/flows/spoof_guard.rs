//! What may come from a port: its own Ethernet address with its own addresses, in IP, ARP and
//! neighbour discovery. Everything else is dropped by the table's miss.

use super::neighbour::{self, ADVERTISEMENT, SOLICITATION};
use super::{mac, priority};
use crate::local::Attachment;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::Register;
use osier_model::Port;
use osier_openflow::field::Field;
use std::net::IpAddr;

const ARP: u16 = 0x0806;

pub(crate) fn flows(
    out: &mut Emitter,
    port: &Port,
    addresses: impl Iterator<Item = IpAddr>,
    at: Attachment,
) {
    let from_port = |priority| {
        Rule::new(Table::SpoofGuard, priority)
            .when(Register::IN_TAG, at.tag)
            .eq(Field::ETH_SRC, mac(port.mac))
    };
    for address in addresses {
        out.add(from_port(priority::NORMAL).sourced(address).to(Table::Dispatch));
        match address {
            IpAddr::V4(_) => out.add(
                from_port(priority::NORMAL)
                    .eq(Field::ETH_TYPE, ARP)
                    .eq(Field::ARP_SHA, mac(port.mac))
                    .eq(Field::ARP_SPA, address)
                    .to(Table::Dispatch),
            ),
            IpAddr::V6(_) => {
                let says = |kind| {
                    neighbour::is(from_port(priority::HIGH), kind)
                        .eq(Field::IPV6_SRC, address)
                        .eq(Field::ICMPV6_CODE, 0_u8)
                };
                let solicits = says(SOLICITATION).eq(Field::ND_SLL, mac(port.mac));
                let advertises = says(ADVERTISEMENT)
                    .eq(Field::ND_TARGET, address)
                    .eq(Field::ND_TLL, mac(port.mac));
                out.add(solicits.to(Table::Dispatch));
                out.add(advertises.to(Table::Dispatch));
            }
        }
    }
}
