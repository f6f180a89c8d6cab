//! UDP (RFC 768): what is inside, and frames around it.

use crate::icmp::{Link, frame_over};
use crate::ip::{IpPacket, UDP};
use std::net::IpAddr;

const HEADER: usize = 8;

/// The content of a whole packet; nothing of one that is cut. Its checksum is not looked at: it
/// comes over a wire of this machine, where senders leave it to hardware that is not there.
pub(crate) fn content<'a>(packet: &IpPacket<'a>) -> Option<&'a [u8]> {
    let (UDP, datagram) = packet.payload? else { return None };
    let len = usize::from(u16::from_be_bytes([*datagram.get(4)?, *datagram.get(5)?]));
    datagram.get(HEADER..len)
}

/// A frame with a datagram; both addresses are of one family.
pub(crate) fn frame(
    link: Link,
    (from, source): (IpAddr, u16),
    (to, destination): (IpAddr, u16),
    content: &[u8],
) -> Option<Vec<u8>> {
    let len = u16::try_from(HEADER + content.len()).ok()?;
    let mut datagram = Vec::with_capacity(len.into());
    for word in [source, destination, len, 0] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(content);
    frame_over(link, from, to, UDP, &datagram, 6)
}
