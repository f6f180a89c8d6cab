//! Checksum offload off, by the ethtool ioctl. The one file with unsafe code: the request carries
//! a pointer, and no safe interface sets it.
//!
//! The userspace datapath takes packets as they are. A kernel that leaves checksums to the device
//! would send them without.
#![allow(unsafe_code, reason = "SIOCETHTOOL takes a pointer inside of its argument")]

use nix::libc::{SIOCETHTOOL, c_char, ifreq};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::os::fd::AsRawFd;

/// linux/ethtool.h: set whether the device computes checksums of what is sent.
const ETHTOOL_STXCSUM: u32 = 0x17;

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

nix::ioctl_readwrite_bad!(ethtool, SIOCETHTOOL, ifreq);

/// For an interface in the namespace of the calling thread.
pub(super) fn disable_transmit_checksums(interface: &str) -> io::Result<()> {
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut value = EthtoolValue { command: ETHTOOL_STXCSUM, data: 0 };
    // SAFETY: `ifreq` is plain data of C, for which all zeros is a value.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    // One byte stays zero: the name ends there.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast::<c_char>();
    // SAFETY: `request` and the `value` that it points to live until the call returns, and the
    // kernel reads and writes of `value` no more than this command's eight bytes.
    unsafe { ethtool(any.as_raw_fd(), &raw mut request) }?;
    Ok(())
}
