//! Frames of one's own making: a raw packet socket on one interface.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send,
    setsockopt, socket,
};
use nix::sys::time::TimeVal;

use super::TrafficError;
use crate::netns::Netns;

/// Larger than any frame, also of offloading interfaces.
const LARGEST_FRAME: usize = 1 << 16;

/// Sends and receives whole Ethernet frames on an interface, as they are on the wire.
///
/// It sees what the interface receives and also what others on this side send.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    interface: String,
}

impl PacketSocket {
    /// Opens a socket on an interface of a namespace. It receives from now on.
    pub fn open(netns: &Netns, interface: &str) -> Result<Self, TrafficError> {
        let opened = netns.within(|| open(interface))?;
        let fd = opened.map_err(|e| failed("open a packet socket", interface, e))?;
        let fd = fd.ok_or_else(|| TrafficError::NoInterface {
            interface: interface.to_owned(),
            netns: netns.name().to_owned(),
        })?;
        Ok(Self { fd, interface: interface.to_owned() })
    }

    /// Sends a frame, from its destination MAC to the end of its payload.
    pub fn send(&self, frame: &[u8]) -> Result<(), TrafficError> {
        send(self.fd.as_raw_fd(), frame, MsgFlags::empty())
            .map(drop)
            .map_err(|e| failed("send a frame", &self.interface, e))
    }

    /// The first frame that `wanted` takes, or `None` if none comes in time.
    pub fn receive(
        &self,
        deadline: Duration,
        mut wanted: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, TrafficError> {
        let end = Instant::now() + deadline;
        let mut buffer = vec![0; LARGEST_FRAME];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match self.receive_one(&mut buffer, left) {
                Ok(length) if wanted(&buffer[..length]) => {
                    buffer.truncate(length);
                    return Ok(Some(buffer));
                }
                Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(e) => return Err(failed("receive a frame", &self.interface, e)),
            }
        }
    }

    fn receive_one(&self, buffer: &mut [u8], timeout: Duration) -> Result<usize, Errno> {
        // A timeout of zero would mean none.
        let microseconds = timeout.subsec_micros().max(1);
        let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        setsockopt(&self.fd, ReceiveTimeout, &TimeVal::new(seconds, microseconds.into()))?;
        recv(self.fd.as_raw_fd(), buffer, MsgFlags::empty())
    }
}

/// `None` if there is no such interface.
fn open(interface: &str) -> Result<Option<OwnedFd>, Errno> {
    let Some(address) = link_address(interface)? else { return Ok(None) };
    let fd =
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    bind(fd.as_raw_fd(), &address)?;
    // Between the two calls it listened on all interfaces.
    while recv(fd.as_raw_fd(), &mut [0; 1], MsgFlags::MSG_DONTWAIT).is_ok() {}
    Ok(Some(fd))
}

fn link_address(interface: &str) -> Result<Option<LinkAddr>, Errno> {
    Ok(getifaddrs()?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address?.as_link_addr().copied()))
}

fn failed(action: &'static str, interface: &str, source: Errno) -> TrafficError {
    TrafficError::Socket {
        action,
        interface: interface.to_owned(),
        source: io::Error::from(source),
    }
}
