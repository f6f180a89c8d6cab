//! Forgetting connections (Open vSwitch's `NXT_CT_FLUSH`, since 3.1).

use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};
use std::net::{IpAddr, Ipv6Addr};

/// Which connections to forget: those that have all that is given.
///
/// ```text
///  16         17   24
/// +----------+----+----------------+
/// | protocol | 0  | properties …   |   struct nx_ct_flush
/// +----------+----+----------------+
/// property: type 16, length 16, body, padded to 8
///   0, 1 (original, reply): pad 32, then nested
///      0, 1 (source, destination): IPv6, or IPv4 mapped   2, 3: its port   4: icmp id 16
///      5, 6: icmp type 8, icmp code 8
///   2 (zone): 16
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CtFlush {
    /// The zone; all zones if `None`.
    pub zone: Option<u16>,
    /// The IP protocol; 0 for all.
    pub ip_proto: u8,
    /// The packets of the side that opened the connection.
    pub original: CtTuple,
    /// The packets of the other side.
    pub reply: CtTuple,
}

/// One direction of a connection. What is `None` is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the header fields of their names")]
pub struct CtTuple {
    pub src: Option<IpAddr>,
    pub dst: Option<IpAddr>,
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
    pub icmp_id: Option<u16>,
    pub icmp_type: Option<u8>,
    pub icmp_code: Option<u8>,
}

mod property {
    pub(super) const ORIGINAL: u16 = 0;
    pub(super) const REPLY: u16 = 1;
    pub(super) const ZONE: u16 = 2;

    pub(super) const SRC: u16 = 0;
    pub(super) const DST: u16 = 1;
    pub(super) const SRC_PORT: u16 = 2;
    pub(super) const DST_PORT: u16 = 3;
    pub(super) const ICMP_ID: u16 = 4;
    pub(super) const ICMP_TYPE: u16 = 5;
    pub(super) const ICMP_CODE: u16 = 6;
}

const WHAT: &str = "ct_flush property";

// === impl CtFlush ===

impl CtFlush {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u8(self.ip_proto);
        w.zeros(7);
        for (kind, tuple) in [(property::ORIGINAL, self.original), (property::REPLY, self.reply)] {
            if tuple != CtTuple::default() {
                w.tlv(WHAT, kind, |w| tuple.encode(w))?;
            }
        }
        if let Some(zone) = self.zone {
            put_u16(w, property::ZONE, zone)?;
        }
        Ok(())
    }

    /// An unknown property is an error: to forget more connections than were meant is worse
    /// than to forget none.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut flush = Self { ip_proto: r.u8("ct_flush")?, ..Self::default() };
        r.skip("ct_flush", 7)?;
        while !r.is_empty() {
            let start = r.clone();
            let (kind, mut body) = r.tlv(WHAT)?;
            match kind {
                property::ORIGINAL => flush.original = CtTuple::decode(body)?,
                property::REPLY => flush.reply = CtTuple::decode(body)?,
                property::ZONE => flush.zone = Some(body.u16(WHAT)?),
                _ => return Err(start.error(WHAT, Problem::Unknown(kind.into()))),
            }
        }
        Ok(flush)
    }
}

// === impl CtTuple ===

impl CtTuple {
    fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.zeros(4);
        for (kind, address) in [(property::SRC, self.src), (property::DST, self.dst)] {
            if let Some(address) = address {
                put(w, kind, &mapped(address).octets())?;
            }
        }
        for (kind, number) in [
            (property::SRC_PORT, self.src_port),
            (property::DST_PORT, self.dst_port),
            (property::ICMP_ID, self.icmp_id),
        ] {
            if let Some(number) = number {
                put_u16(w, kind, number)?;
            }
        }
        for (kind, number) in
            [(property::ICMP_TYPE, self.icmp_type), (property::ICMP_CODE, self.icmp_code)]
        {
            if let Some(number) = number {
                put(w, kind, &[number])?;
            }
        }
        Ok(())
    }

    fn decode(mut r: Reader<'_>) -> Result<Self, DecodeError> {
        let mut tuple = Self::default();
        r.skip(WHAT, 4)?;
        while !r.is_empty() {
            let start = r.clone();
            let (kind, mut body) = r.tlv(WHAT)?;
            match kind {
                property::SRC => tuple.src = Some(read_address(&mut body)?),
                property::DST => tuple.dst = Some(read_address(&mut body)?),
                property::SRC_PORT => tuple.src_port = Some(body.u16(WHAT)?),
                property::DST_PORT => tuple.dst_port = Some(body.u16(WHAT)?),
                property::ICMP_ID => tuple.icmp_id = Some(body.u16(WHAT)?),
                property::ICMP_TYPE => tuple.icmp_type = Some(body.u8(WHAT)?),
                property::ICMP_CODE => tuple.icmp_code = Some(body.u8(WHAT)?),
                _ => return Err(start.error(WHAT, Problem::Unknown(kind.into()))),
            }
        }
        Ok(tuple)
    }
}

fn put(w: &mut Writer, kind: u16, value: &[u8]) -> Result<(), EncodeError> {
    w.tlv(WHAT, kind, |w| {
        w.put(value);
        Ok(())
    })
}

/// Open vSwitch counts the padding of 16-bit properties into their length.
fn put_u16(w: &mut Writer, kind: u16, value: u16) -> Result<(), EncodeError> {
    let [high, low] = value.to_be_bytes();
    put(w, kind, &[high, low, 0, 0])
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

fn read_address(r: &mut Reader<'_>) -> Result<IpAddr, DecodeError> {
    Ok(IpAddr::V6(Ipv6Addr::from(r.array::<16>(WHAT)?)).to_canonical())
}
