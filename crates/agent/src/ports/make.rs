//! Making a port, and taking it away.

use super::locks::Locked;
use super::turns::Promise;
use super::{AWAY_PATIENCE, DETACH_PATIENCE, PortError, Ports, late};
use crate::config::Datapath;
use crate::desired::PodPort;
use crate::netlink::{self, Namespace, PodInterface, Veth};
use osier_cni::config::Attachment;
use osier_cni::rpc::Request;
use osier_compiler::Compiler;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};
use tracing::warn;

/// A wire that is being deleted, also if this is dropped.
#[derive(Debug)]
#[must_use = "say whether to wait for it"]
pub(super) struct Removal(JoinHandle<()>);

impl Removal {
    /// Waits until it is deleted.
    pub(super) async fn finished(self) {
        // A panic in there was told by the runtime.
        let _ = self.0.await;
    }
}

impl Ports {
    /// Makes all of a port. On an error some of it may be there.
    pub(super) async fn make(
        &self,
        port: &Arc<PodPort>,
        namespace: &Namespace,
        deadline: Instant,
    ) -> Result<(), PortError> {
        let mut turn = None;
        let work = async {
            let interface = self.interface(port).await;
            let wired = async {
                let Promise { wired, attached, over } = self.wire(port, namespace);
                turn = Some(over);
                wired.await.map_err(|_| PortError::Panicked)??;
                tokio::try_join!(
                    async { attached.await.map_err(|_| PortError::Panicked)? },
                    self.stage("namespace", async {
                        let host = port.host.clone();
                        Ok(netlink::set_up_pod(namespace, host, interface).await??)
                    }),
                )
            };
            // Flows need only the port's number, which we choose, so they need not wait for it. They
            // are compiled while others ask for the row.
            let flows = self
                .stage("flows", async { Ok(self.0.switch.add_flows(port, port.ofport).await?) });
            let firewall = async {
                match port.is_exception() {
                    true => self.set_exceptions().await,
                    false => Ok(()),
                }
            };
            let ((ofport, ()), (), ()) = tokio::try_join!(wired, flows, firewall)?;
            if ofport != port.ofport {
                // Somebody else had the number that we asked for.
                self.0.switch.add_flows(port, ofport).await?;
            }
            Ok(())
        };
        let started = Instant::now();
        let made = match timeout_at(deadline.into(), work).await {
            Ok(result) => result,
            Err(_) => Err(PortError::Deadline(started.elapsed())),
        };
        if let (Err(_), Some(over)) = (&made, turn) {
            // What is undone now must not be made afterwards.
            let _ = over.await;
        }
        made
    }

    /// What the port's interface in the pod shall be. A router that a plugin said may be anybody on
    /// the link: only the switch's own have an Ethernet address that is known.
    pub(super) async fn interface(&self, port: &PodPort) -> PodInterface {
        let mut interface = port.interface(self.0.config.datapath == Datapath::Netdev);
        if port.giver.plugin().is_some() {
            let own = |compiler: &Compiler| {
                let network = compiler.view().networks().get(&port.network);
                network.map(|network| compiler.router_addresses(network)).unwrap_or_default()
            };
            let own = self.0.switch.with_compiler(own).await;
            interface.routers.retain(|router| port.in_default_network() || own.contains(router));
        }
        interface
    }

    /// Takes away a port of the attachment that a call is about, and gives back what it was given.
    pub(super) async fn undo(&self, attachment: &Attachment, request: &Request, locked: Locked) {
        let Some(port) = self.state().get(attachment) else { return };
        let give_back = self.give_back(&port.giver, &port.key, request);
        if port.giver.plugin().is_some_and(late::needs_interface) {
            give_back.await;
            self.take_away(&port, locked).await.finished().await;
        } else {
            self.take_away(&port, locked).await.finished().await;
            give_back.await;
        }
    }

    /// Takes all of a port away, to the end, whatever fails. The wire is deleted in the background;
    /// until then the port stays locked.
    pub(super) async fn take_away(&self, port: &Arc<PodPort>, locked: Locked) -> Removal {
        // Before its record goes: from now on somebody knows of the address in any case.
        self.note_freed(port);
        let switch = &self.0.switch;
        let patience = |there: bool| if there { DETACH_PATIENCE } else { AWAY_PATIENCE };
        let flows = patience(switch.flows().status().connected);
        let flows = timeout(flows, switch.remove_flows(&port.key));
        let rows = patience(switch.rows().status().connected);
        let rows = timeout(rows, switch.remove_rows(port));
        let (flows, rows) = tokio::join!(flows, rows);
        for (what, result) in [("flows", flows), ("port", rows)] {
            match result {
                Ok(Ok(())) => {}
                // It is not wanted any more, and goes when the switch is back.
                Ok(Err(error)) => warn!(port = %port.key, what, %error, "not removed yet"),
                Err(_) => warn!(port = %port.key, what, "not removed yet"),
            }
        }
        self.state().remove(&port.attachment, self.now());
        self.0.metrics.set_ports(self.count());
        if port.is_exception()
            && let Err(error) = self.set_exceptions().await
        {
            warn!(port = %port.key, %error, "the firewall still knows it");
        }
        let port = Arc::clone(port);
        Removal(tokio::task::spawn_blocking(move || {
            // One of its name that is not ours may be why it was never made.
            if let Err(error) = netlink::delete_own_link(&port.host) {
                warn!(port = %port.key, interface = port.host, %error, "not deleted");
            }
            drop(locked);
        }))
    }

    pub(super) async fn stage<T>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        let started = Instant::now();
        let result = work.await;
        self.0.metrics.stage(name, started.elapsed());
        self.0.metrics.set_ports(self.count());
        result
    }
}

pub(super) async fn make_veth(port: &PodPort, namespace: &Namespace) -> Result<(), PortError> {
    let veth = Veth {
        host: port.host.clone(),
        peer: port.attachment.ifname.clone(),
        mac: port.mac,
        mtu: port.mtu,
    };
    let namespace = namespace.clone();
    let made = tokio::task::spawn_blocking(move || netlink::create_veth(&veth, &namespace)).await;
    Ok(made.map_err(|_| PortError::Panicked)??)
}
