//! All packets of an interface, both ways, as `tcpdump` sees them: a packet(7) socket.
//!
//! The second file with unsafe code: no safe interface makes the address that it is bound to.
#![allow(unsafe_code, reason = "sockaddr_ll has no safe constructor")]

use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, bind, recv, setsockopt,
    socket, sockopt,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What the kernel keeps for a slow reader, in bytes.
const BUFFER: usize = 4 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct PacketSocket(AsyncFd<OwnedFd>);

impl PacketSocket {
    /// For an interface in the namespace of the calling thread.
    pub(crate) fn open(interface: &str) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Without a protocol nothing comes before it is bound: no packet of another interface.
        let packets = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        let _ = setsockopt(&packets, sockopt::RcvBuf, &BUFFER);
        let address = address(if_nametoindex(interface)?)?;
        bind(packets.as_raw_fd(), &address)?;
        // SAFETY: an `OwnedFd` gives the same descriptor always, and keeps it open until dropped.
        let packets = unsafe { AsyncFd::register_with_interest(packets, Interest::READABLE) };
        Ok(Self(packets?))
    }

    /// The next packet: its length, of which the buffer has as much as it can hold.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let receive =
            |packets: &OwnedFd| Ok(recv(packets.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC)?);
        self.0.async_io(Interest::READABLE, receive).await
    }
}

fn address(index: u32) -> io::Result<LinkAddr> {
    // SAFETY: `sockaddr_ll` is plain data of C, for which all zeros is a value.
    let mut raw: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    raw.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    // In the network's byte order, as is the constant that nix has.
    raw.sll_protocol = u16::try_from(libc::ETH_P_ALL).unwrap_or_default().to_be();
    raw.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or_default();
    // SAFETY: `raw` is a `sockaddr_ll` of this length, with the family that says so, and lives
    // until the call returns, which copies it.
    let address = unsafe { LinkAddr::from_raw((&raw const raw).cast(), Some(length)) };
    address.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
