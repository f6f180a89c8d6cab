//! The underlay: one Ethernet segment that all machines hang on, in a namespace of its own.

use crate::error::{ClusterError, MachineError};
use crate::node::{UPLINK, with_prefix};
use crate::settings::{CONTROL_PLANE, Settings};
use osier_testbed::{Lab, Netns};
use std::net::IpAddr;

const BRIDGE: &str = "segment";

/// The segment.
#[derive(Debug)]
pub(crate) struct Segment {
    netns: Netns,
}

impl Segment {
    pub(crate) fn create(lab: &Lab, mtu: u16) -> Result<Self, ClusterError> {
        let netns = lab.netns("underlay")?;
        netns.ip(&format!("link add {BRIDGE} mtu {mtu} type bridge"))?;
        netns.ip(&format!("link set {BRIDGE} up"))?;
        Ok(Self { netns })
    }

    /// Gives a machine an uplink; its other end is here, and called as the machine.
    pub(crate) fn plug(&self, netns: &Netns, name: &str, mtu: u16) -> Result<(), ClusterError> {
        // Of a boot before. It goes with its namespace, which takes the kernel a while.
        let _ = self.netns.ip(&format!("link delete {name}"));
        self.netns.ip(&format!(
            "link add {name} mtu {mtu} type veth peer name {UPLINK} mtu {mtu} netns {}",
            netns.name()
        ))?;
        self.netns.ip(&format!("link set {name} master {BRIDGE} mtu {mtu} up"))?;
        // Switches in user space read frames as they are: checksums must be in them.
        netns.run(&["ethtool", "-K", UPLINK, "tx", "off"])?;
        netns.ip(&format!("link set {UPLINK} up"))?;
        Ok(())
    }

    /// Cuts a machine off, or joins it again.
    pub(crate) fn set_link(&self, name: &str, up: bool) -> Result<(), MachineError> {
        let state = if up { "up" } else { "down" };
        self.netns.ip(&format!("link set {name} {state}"))?;
        Ok(())
    }
}

/// Gives a machine its addresses, and the control plane as its way out, where nothing is.
pub(crate) fn number(
    netns: &Netns,
    interface: &str,
    addresses: &[IpAddr],
    settings: &Settings,
) -> Result<(), ClusterError> {
    for &address in addresses {
        let nodad = if address.is_ipv6() { "nodad" } else { "" };
        netns.ip(&format!("address replace {} dev {interface} {nodad}", with_prefix(address)))?;
    }
    netns.ip(&format!("link set {interface} up"))?;
    for gateway in settings.underlay(CONTROL_PLANE) {
        if !addresses.contains(&gateway) {
            netns.ip(&format!("route replace default via {gateway}"))?;
        }
    }
    Ok(())
}
