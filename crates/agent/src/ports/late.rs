//! Ports whose addresses come when they are there: a plugin that asks through the pod's interface
//! needs it before it can say anything. Such a port is made without addresses, may then only ask
//! for one, and is completed: its record, its flows, and last what the pod sees. Other limits for a
//! port that is there come the same way.
//!
//! In networks whose node answers who asks, addresses are known before: there the plugin asks for what
//! the port has already.

use super::give::limits;
use super::grant::{self, Target};
use super::{PortError, Ports, ipam};
use crate::desired::PodPort;
use crate::netlink::{self, Namespace};
use osier_cni::config::{AttachRequest, Attachment, Ipam};
use osier_cni::rpc::Request;
use osier_cni::spec::Dns;
use osier_model::{Mac, Reach};
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;
use tracing::info;

/// Whether a plugin asks through the interface. Nothing in the specification lets it say so.
pub(super) fn needs_interface(plugin: &str) -> bool {
    plugin == "dhcp"
}

/// Refuses networks in which nobody would hear such a plugin.
pub(super) fn check(plugin: &str, target: &Target) -> Result<(), PortError> {
    match target.network.reach {
        Reach::Bridged => Ok(()),
        Reach::Routed => Err(PortError::NotBridged {
            plugin: plugin.to_owned(),
            network: target.network.name.to_string(),
        }),
    }
}

/// The plugin that asks through the interface, where its node answers.
pub(super) fn asks_node<'a>(ipam: &'a Ipam, target: &Target) -> Option<&'a str> {
    match ipam {
        Ipam::Delegate(name) if needs_interface(name) => Some(name.as_str()),
        _ => None,
    }
    .filter(|_| target.network.dhcp.is_some())
}

/// An Ethernet address for who has no other yet: the same for one attachment, so that servers know
/// it again, and unlike those that are made of addresses.
pub(super) fn mac_of(attachment: &Attachment) -> Mac {
    // FNV-1a, 64 bits: spread, and the same in every version of the agent.
    let ids = [&attachment.container_id, "/", &attachment.ifname];
    let bytes = ids.iter().flat_map(|id| id.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut mac = [0; 6];
    mac.copy_from_slice(&hash.to_be_bytes()[..6]);
    // Local, and one device's.
    mac[0] = 0x06;
    Mac(mac)
}

impl Ports {
    /// Has the plugin ask through a port that is made, and completes it. On an error some of it
    /// may be done.
    pub(super) async fn complete(
        &self,
        call: &AttachRequest,
        request: &Request,
        target: &Target,
        port: &PodPort,
        namespace: &Namespace,
        deadline: Instant,
    ) -> Result<(Arc<PodPort>, Dns), PortError> {
        let Some(plugin) = port.giver.plugin() else { return Err(PortError::Panicked) };
        let result = ipam::add(plugin, request, deadline).await?;
        let grant = grant::of_plugin(plugin, result, target)?;
        let routing = target.routing(&call.config, super::is_first(&port.key), grant.routes);
        let port = self.state().complete(port, &grant.addresses, &routing, self.now())?;
        self.renew(&port, deadline).await?;
        let interface = self.interface(&port).await;
        netlink::set_up_pod(namespace, port.host.clone(), interface).await??;
        Ok((port, grant.dns))
    }

    /// Has the plugin ask for what a port has already: its node answers.
    pub(super) async fn lease(
        &self,
        plugin: &str,
        request: &Request,
        port: &PodPort,
        deadline: Instant,
    ) -> Result<Dns, PortError> {
        let result = ipam::add(plugin, request, deadline).await?;
        let mut given = result.ips.iter().map(|ip| ip.address.address);
        let Some(address) = given.find(|address| !port.ips().any(|own| own == *address)) else {
            return Ok(result.dns);
        };
        ipam::undo(plugin, request).await;
        Err(PortError::LeasedOtherwise { plugin: plugin.to_owned(), address })
    }

    /// A port that is there, as fast as is asked for now.
    pub(super) async fn limit(
        &self,
        call: &AttachRequest,
        port: Arc<PodPort>,
        deadline: Instant,
    ) -> Result<Arc<PodPort>, PortError> {
        let limits = limits(call.config.runtime.bandwidth);
        if limits == port.limits {
            return Ok(port);
        }
        info!(port = %port.key, ?limits, "other limits");
        let port = self.state().replace(PodPort { limits, ..(*port).clone() });
        self.renew(&port, deadline).await?;
        Ok(port)
    }

    /// Brings a port that changed to the switch: first its record, then its flows.
    pub(super) async fn renew(
        &self,
        port: &Arc<PodPort>,
        deadline: Instant,
    ) -> Result<(), PortError> {
        let started = Instant::now();
        let work = async {
            let asked = self.0.switch.add_rows(port).await?;
            let ofport = self.0.switch.attached(port, asked).await?;
            self.0.switch.add_flows(port, ofport).await?;
            if port.is_exception() {
                self.set_exceptions().await?;
            }
            Ok(())
        };
        match timeout_at(deadline.into(), self.unless_refused(work)).await {
            Ok(result) => result,
            Err(_) => Err(PortError::Deadline(started.elapsed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses_are_steady_and_usable() {
        let of = |container: &str| {
            mac_of(&Attachment { container_id: container.into(), ifname: "eth0".into() })
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert!(of("a").is_unicast());
    }
}
