//! What an interface is.

use super::exchange::{Netlink, NetlinkError, Request};
use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader, NlasIterator};
use osier_model::Mac;
use std::io;

/// An interface, as far as we ask. The kernel says ten times as much, and to decode all of it takes
/// longer than what else is done inside of a pod.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) mac: Option<Mac>,
    pub(super) mtu: Option<u32>,
    pub(super) group: u32,
    /// It and what it is connected to are up.
    pub(super) up: bool,
    /// It carries packets.
    pub(super) works: bool,
}

/// `struct ifinfomsg` of linux/rtnetlink.h: a family, a type, then these.
const INDEX: std::ops::Range<usize> = 4..8;
const FLAGS: std::ops::Range<usize> = 8..12;
const HEADER: usize = 16;

/// linux/if.h
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;
const IF_OPER_UP: u8 = 6;

/// linux/if_link.h
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_GROUP: u16 = 27;

// === impl Link ===

impl Link {
    /// The interface that a request asks for, if there is one.
    pub(super) fn find(netlink: &Netlink, request: Request) -> Result<Option<Self>, NetlinkError> {
        match netlink.ask(vec![request]) {
            Err(error) if error.is_missing() => Ok(None),
            told => Ok(told?.pop()),
        }
    }
}

impl NetlinkDeserializable for Link {
    type Error = io::Error;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, io::Error> {
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let index = payload.get(INDEX).and_then(number).ok_or_else(short)?;
        let flags = payload.get(FLAGS).and_then(number).ok_or_else(short)?;
        let both = IFF_UP | IFF_LOWER_UP;
        let mut link = Self { index, up: flags & both == both, ..Self::default() };
        for attribute in NlasIterator::new(payload.get(HEADER..).ok_or_else(short)?) {
            let attribute = attribute.map_err(|error: DecodeError| io::Error::other(error))?;
            let value = attribute.value();
            match attribute.kind() {
                IFLA_ADDRESS => link.mac = value.try_into().ok().map(Mac),
                IFLA_IFNAME => {
                    let text = value.strip_suffix(&[0]).unwrap_or(value);
                    link.name = String::from_utf8_lossy(text).into_owned();
                }
                IFLA_MTU => link.mtu = number(value),
                IFLA_OPERSTATE => link.works = value == [IF_OPER_UP],
                IFLA_GROUP => link.group = number(value).ok_or_else(short)?,
                _ => {}
            }
        }
        Ok(link)
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}
