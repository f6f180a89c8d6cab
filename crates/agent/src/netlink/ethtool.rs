//! The ethtool ioctl. The one file with unsafe code: the request carries a pointer, and no safe
//! interface sets it.
#![allow(unsafe_code, reason = "SIOCETHTOOL takes a pointer inside of its argument")]

use nix::libc::{SIOCETHTOOL, c_char, ifreq};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// linux/ethtool.h: tell whether there is a carrier.
const ETHTOOL_GLINK: u32 = 0x0a;
/// linux/ethtool.h: set whether the device computes checksums of what is sent.
const ETHTOOL_STXCSUM: u32 = 0x17;

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

nix::ioctl_readwrite_bad!(ethtool, SIOCETHTOOL, ifreq);

/// A way to interfaces in the namespace of the thread that opened it.
pub(super) struct Ethtool(OwnedFd);

// === impl Ethtool ===

impl Ethtool {
    pub(super) fn open() -> io::Result<Self> {
        let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        Ok(Self(any))
    }

    /// Has the kernel compute checksums itself. The userspace datapath takes packets as they are: a
    /// kernel that leaves checksums to the device would send them without.
    pub(super) fn disable_transmit_checksums(&self, interface: &str) -> io::Result<()> {
        self.call(interface, EthtoolValue { command: ETHTOOL_STXCSUM, data: 0 }).map(drop)
    }

    /// Whether an interface has a carrier. Since Linux 6.6 the kernel then also does at once what
    /// comes with that and is due, which is to let the interface send.
    pub(super) fn carrier(&self, interface: &str) -> io::Result<bool> {
        self.call(interface, EthtoolValue { command: ETHTOOL_GLINK, data: 0 }).map(|data| data != 0)
    }

    fn call(&self, interface: &str, mut value: EthtoolValue) -> io::Result<u32> {
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
        // kernel reads and writes of `value` no more than these commands' eight bytes.
        unsafe { ethtool(self.0.as_raw_fd(), &raw mut request) }?;
        Ok(value.data)
    }
}
