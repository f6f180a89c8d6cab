//! What may come from a port: its own Ethernet address with its own addresses, in IP, ARP and
//! neighbour discovery; and from none, who asks a DHCP server for one. Everything else is dropped
//! by the table's miss.

use super::neighbour::{self, ADVERTISEMENT, SOLICITATION};
use super::{mac, priority};
use crate::local::Attachment;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::Register;
use osier_model::Port;
use osier_openflow::field::Field;
use std::net::{IpAddr, Ipv4Addr};

const ARP: u16 = 0x0806;
const UDP: u8 = 17;
/// RFC 2131, 4.1.
const DHCP_SERVER: u16 = 67;
const DHCP_CLIENT: u16 = 68;

pub(crate) fn flows(
    out: &mut Emitter,
    port: &Port,
    addresses: impl Iterator<Item = IpAddr>,
    at: Attachment,
) {
    let from_port = |priority| from(port, at, priority);
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

/// Whoever has no address, or has it renewed, asks all for it. Servers are ports as others are, and
/// answer from their own.
pub(crate) fn dhcp(out: &mut Emitter, port: &Port, at: Attachment) {
    out.add(
        from(port, at, priority::NORMAL)
            .sourced(Ipv4Addr::UNSPECIFIED.into())
            .eq(Field::IPV4_DST, Ipv4Addr::BROADCAST)
            .eq(Field::IP_PROTO, UDP)
            .eq(Field::UDP_SRC, DHCP_CLIENT)
            .eq(Field::UDP_DST, DHCP_SERVER)
            .to(Table::Dispatch),
    );
}

fn from(port: &Port, at: Attachment, priority: u16) -> Rule {
    Rule::new(Table::SpoofGuard, priority)
        .when(Register::IN_TAG, at.tag)
        .eq(Field::ETH_SRC, mac(port.mac))
}
