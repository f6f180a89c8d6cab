//! What the tunnel leaves of the uplink's MTU for pods.

use crate::config::Mtu;
use crate::netlink::{NetlinkError, mtu_of_address};
use osier_model::Tunnel;
use std::net::IpAddr;
use thiserror::Error;

/// Why the pods' MTU is unknown.
#[derive(Debug, Error)]
pub enum MtuError {
    /// No interface is the uplink.
    #[error("no interface has the tunnel's address {0}: correct the view, or set `mtu`")]
    NoUplink(IpAddr),
    /// The uplink is too small.
    #[error("an uplink with an MTU of {uplink} leaves {left} for pods, less than the 1280 of IPv6")]
    SmallUplink {
        /// Its MTU.
        uplink: u32,
        /// What would be left.
        left: u32,
    },
    /// The kernel.
    #[error("the kernel does not tell of its interfaces")]
    Kernel(#[from] NetlinkError),
}

/// The MTU of pods made from now on. Blocks for some microseconds.
pub(crate) fn pod_mtu(config: Mtu, kind: Tunnel, tunnel: IpAddr) -> Result<u16, MtuError> {
    match config {
        Mtu::Fixed(mtu) => Ok(mtu),
        Mtu::Auto => tunnel_mtu(kind, tunnel),
    }
}

/// The largest packet that fits the tunnel. Blocks for some microseconds.
pub(crate) fn tunnel_mtu(kind: Tunnel, tunnel: IpAddr) -> Result<u16, MtuError> {
    let uplink = mtu_of_address(tunnel)?.ok_or(MtuError::NoUplink(tunnel))?;
    let left = uplink.saturating_sub(overhead(kind, tunnel)).min(65535);
    match u16::try_from(left) {
        Ok(mtu @ 1280..) => Ok(mtu),
        _ => Err(MtuError::SmallUplink { uplink, left }),
    }
}

/// What a tunnel adds to a pod's packet: IP, UDP, the tunnel's header and option, Ethernet.
fn overhead(kind: Tunnel, tunnel: IpAddr) -> u32 {
    let ip = if tunnel.is_ipv4() { 20 } else { 40 };
    let header = match kind {
        // RFC 8926: eight bytes, and our option of four with its header of four.
        Tunnel::Geneve => 8 + 8,
        Tunnel::Vxlan => 8,
    };
    ip + 8 + header + 14
}
