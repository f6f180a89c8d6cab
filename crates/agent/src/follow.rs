//! Following the view, and keeping the machine's own side as it should be.
//!
//! A change of what holds for the whole cluster, or of this node's tunnel, needs other rows before
//! other flows: it is repeated until it is done. All else are steps. Nothing here restarts
//! anything, and pods that talk go on talking.

use crate::asks;
use crate::config::Config;
use crate::firewall::{Reached, SeenAs};
use crate::fixed::Fixed;
use crate::gateway::{self, GatewayError};
use crate::metrics::Metrics;
use crate::ports::Ports;
use crate::services::{HealthPorts, NodePort, Outward, Published, Stale, taken};
use crate::switch::SwitchError;
use crate::uplink::{pod_mtu, tunnel_mtu};
use crate::view::{Progress, Said, Taken, ViewContent, ViewUpdates};
use crate::{Chain, forward};
use ipnet::IpNet;
use osier_model::{Change, Fabric, Key, Node, Object, View};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tracing::{error, info, warn};

/// How often the machine is looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often the gateway's addresses and routes are put right without a reason.
const GATEWAY_AUDIT: Duration = Duration::from_secs(10);
/// Ports of Services that are told of if others have them.
const MOST_SAID: usize = 5;

/// What holds now, and who hears of it.
pub(crate) struct Follower {
    pub(crate) config: Config,
    pub(crate) ports: Ports,
    pub(crate) metrics: Metrics,
    pub(crate) fixed: Fixed,
    pub(crate) node: Node,
    pub(crate) fabric: Fabric,
    pub(crate) mtu: u16,
    /// Whether the tunnel's row and the flows are yet to be made for what was heard.
    pub(crate) behind: bool,
    /// Whether the machine's own side is yet to be made for it.
    pub(crate) unsettled: bool,
    /// Who wants to know how far the view is real.
    pub(crate) progress: watch::Sender<Progress>,
    /// Updates that were heard.
    pub(crate) updates: u64,
    /// What of them is not real.
    pub(crate) faults: Vec<String>,
    /// Where Services' health is told.
    pub(crate) health: HealthPorts,
    /// What Services ask of the machine.
    pub(crate) outward: Outward,
}

// === impl Follower ===

impl Follower {
    /// Follows for ever.
    pub(crate) async fn run(mut self, mut updates: ViewUpdates) {
        let mut ticks = tokio::time::interval(TICK);
        let mut replayed = self.ports.switch().flows().replayed();
        let mut set_up = Instant::now();
        let mut told = true;
        loop {
            tokio::select! {
                update = updates.recv(), if told => match update {
                    Some(update) => {
                        self.updates += 1;
                        self.hear(update).await;
                        self.tell();
                    }
                    // The last view stays.
                    None => told = false,
                },
                _ = ticks.tick() => {
                    if self.behind {
                        self.catch_up().await;
                        self.tell();
                    }
                    self.settle().await;
                    if self.health.try_again().await {
                        self.look_at_ports().await;
                    }
                    // A switch that started anew may have made its interfaces anew.
                    let anew = replayed.has_changed().unwrap_or_default();
                    if anew || set_up.elapsed() >= GATEWAY_AUDIT {
                        replayed.mark_unchanged();
                        set_up = Instant::now();
                        if let Err(error) = self.set_up_interface().await {
                            warn!(error = %Chain(&error), "the gateway is not as it should be");
                        }
                        self.look_at_ports().await;
                    }
                }
            }
        }
    }

    /// Tells how far the view is real.
    pub(crate) fn tell(&self) {
        if !self.behind {
            let (updates, faults) = (self.updates, self.faults.clone());
            self.progress.send_replace(Progress { updates, faults });
        }
    }

    async fn hear(&mut self, update: ViewContent) {
        self.faults.clear();
        let taken = match self.ports.switch().hear(update).await {
            Ok(taken) => taken,
            Err(error) => {
                self.metrics.refused_view();
                warn!(error = %Chain(&error), "the view was refused; the last good one stays");
                self.faults.push(Chain(&error).to_string());
                return;
            }
        };
        for error in &taken.refused {
            self.metrics.refused_view();
            warn!(error = %Chain(error), "a step of the view was refused");
            self.faults.push(Chain(error).to_string());
        }
        if taken.is_nothing() {
            return;
        }
        info!(changes = taken.changes.len(), fabric = taken.fabric, "the view changed");
        if taken.fabric || taken.changes.iter().any(is_of_nodes) {
            self.learn(taken.fabric).await;
        }
        self.follow_services(&taken).await;
        if self.behind {
            self.catch_up().await;
        } else if let Err(error) = self.ports.switch().follow(taken.changes).await {
            warn!(error = %Chain(&error), "the view is not on the switch");
            self.faults.push(Chain(&error).to_string());
        }
        self.settle().await;
    }

    /// The machine's own side, when the agent begins.
    pub(crate) async fn begin(&mut self) -> Result<(), GatewayError> {
        self.outward = self.ports.switch().with_said(|said| Outward::of(said.view())).await;
        self.set_up_gateway().await?;
        self.tell_health().await;
        self.look_at_ports().await;
        self.forget_left_over().await;
        Ok(())
    }

    /// What changed Services ask of the machine.
    async fn follow_services(&mut self, taken: &Taken) {
        let outward = &mut self.outward;
        let names: BTreeSet<_> = taken.changes.iter().filter_map(Stale::service_of).collect();
        let all = taken.fabric || taken.changes.iter().any(is_of_routers);
        if names.is_empty() && !all {
            return;
        }
        let look = |said: &Said| match all {
            true => {
                *outward = Outward::of(said.view());
                true
            }
            // Each of them: one that differs does not speak for the others.
            false => names.iter().filter(|name| outward.follow(said.view(), name)).count() > 0,
        };
        self.unsettled |= self.ports.switch().with_said(look).await;
        self.tell_health().await;
    }

    /// Says how many endpoints are here, unless kube-proxy does.
    async fn tell_health(&mut self) {
        let told = match self.fabric.service_gateway {
            true => BTreeMap::new(),
            false => self.outward.health(),
        };
        self.health.say(told).await;
    }

    /// Tells which ports of Services somebody else has on this machine, as long as that is so.
    async fn look_at_ports(&self) {
        let mut said = self.health.silent();
        if !self.fabric.service_gateway {
            let node_ports = self.outward.node_ports();
            let taken = taken(&node_ports.keys().copied().collect()).await;
            let hides = |port: NodePort| {
                let NodePort { transport, port: number } = port;
                let service = node_ports.get(&port).map(|name| name.as_str()).unwrap_or_default();
                format!(
                    "{transport} port {number} leads to {service}, and a program of the machine \
                     that listens there is not reached"
                )
            };
            said.extend(taken.into_iter().map(hides));
        }
        let more = said.len().saturating_sub(MOST_SAID);
        said.truncate(MOST_SAID);
        if more > 0 {
            said.push(format!("and {more} more"));
        }
        self.ports.set_problem("services", Some(said.join("; ")).filter(|text| !text.is_empty()));
    }

    /// Has connections forgotten whose endpoints went while nobody looked.
    async fn forget_left_over(&self) {
        match asks::control(&self.config) {
            Ok(control) => self.ports.switch().forget_left_over(&control).await,
            Err(error) => warn!(error, "connections to former endpoints may live on"),
        }
    }

    /// Nodes or the fabric are others: only they make a difference outside of the switch.
    async fn learn(&mut self, fabric: bool) {
        let said = |said: &Said| (said.own_node().cloned(), said.view().fabric().clone());
        let (node, said) = self.ports.switch().with_said(said).await;
        let node = node.unwrap_or_else(|| self.node.clone());
        self.behind |= fabric || node.tunnel != self.node.tunnel;
        (self.node, self.fabric) = (node, said);
        self.ports.set_blocks(&self.node.blocks);
        self.unsettled = true;
    }

    /// Makes the machine's own side as it should be, if something that it needs has changed.
    async fn settle(&mut self) {
        if self.unsettled
            && let Err(error) = self.set_up_gateway().await
        {
            warn!(error = %Chain(&error), "the gateway is not as it should be");
        }
    }

    /// Makes the tunnel anew, and all flows for it.
    async fn catch_up(&mut self) {
        match self.try_catch_up().await {
            Ok(()) => {
                let tunnel = self.node.tunnel;
                info!(kind = ?self.fabric.tunnel, %tunnel, mtu = self.mtu, "the tunnel changed");
                self.behind = false;
                self.forget_left_over().await;
            }
            Err(error) => {
                warn!(error = %Chain(&error), "the changed tunnel is not on the switch yet");
            }
        }
        if let Err(error) = self.set_up_interface().await {
            warn!(error = %Chain(&error), "the gateway is not as it should be");
        }
    }

    async fn try_catch_up(&mut self) -> Result<(), SwitchError> {
        let (switch, kind) = (self.ports.switch(), self.fabric.tunnel);
        match pod_mtu(self.config.mtu, kind, self.node.tunnel) {
            Ok(mtu) => {
                self.mtu = mtu;
                self.ports.set_mtu(mtu);
            }
            Err(error) => warn!(error = %Chain(&error), mtu = self.mtu, "the MTU stays"),
        }
        let local = self.fixed.make(switch.rows(), &self.node, &self.fabric).await?;
        // Before the switch sends anything there.
        if let Err(error) = self.set_up_gateway().await {
            warn!(error = %Chain(&error), "the gateway is not as it should be");
        }
        self.ports.switch().recompile(local).await
    }

    /// The interface, and the firewall.
    async fn set_up_gateway(&mut self) -> Result<(), GatewayError> {
        self.set_up_interface().await?;
        let (pods, published) = self.reached().await;
        let Fabric { tunnel, services, service_gateway, .. } = &self.fabric;
        let by_machine = |services: &[IpNet]| match self.fixed.has_service_gateway() {
            true => services.to_vec(),
            false => Vec::new(),
        };
        // Where the machine leads to Services, kube-proxy has their ports.
        let (node_ports, own_addresses) = match service_gateway {
            true => (BTreeSet::new(), BTreeSet::new()),
            false => (published.node_ports, published.own),
        };
        let reached = Reached {
            pods,
            own: self.node.blocks.clone(),
            node_ports,
            own_addresses,
            tunnel: *tunnel,
            seen_as: match (service_gateway, services.is_empty()) {
                (true, _) => SeenAs::Services(self.node.service_addresses().collect()),
                (false, false) => SeenAs::Nobody,
                (false, true) => SeenAs::Machine,
            },
            services: by_machine(services),
        };
        let set = self.ports.firewall().set_cluster(reached).await;
        // Pods still reach one another and the node; what is missing is tried again.
        self.unsettled = set.is_err();
        if let Err(error) = set {
            error!(error = %Chain(&error), "pods do not reach the outside");
        }
        Ok(())
    }

    async fn set_up_interface(&self) -> Result<(), GatewayError> {
        let (mut prefixes, published) = self.reached().await;
        prefixes.extend(published.prefixes);
        // The machine itself must not send what does not fit: nobody would tell it.
        let fits = tunnel_mtu(self.fabric.tunnel, self.node.tunnel).unwrap_or(self.mtu);
        let mtu = self.mtu.min(fits);
        gateway::set_up(gateway::interface(&self.node, &prefixes, mtu)).await?;
        if self.fixed.has_service_gateway() {
            gateway::set_up_services(gateway::service_interface(&self.node, mtu)).await?;
        }
        forward::accept_forwarding().await;
        Ok(())
    }

    /// Addresses of pods, and what of Services the machine has to know.
    async fn reached(&self) -> (Vec<IpNet>, Published) {
        let look = |view: &View| {
            let pods = gateway::pod_prefixes(view.fabric(), view.nodes().values());
            (pods, self.outward.published(view))
        };
        self.ports.switch().with_said(|said| look(said.view())).await
    }
}

/// A Service's router decides whether the machine knows it.
fn is_of_routers(change: &Change) -> bool {
    matches!(change, Change::Put(Object::Router(_)) | Change::Delete(Key::Router(_)))
}

fn is_of_nodes(change: &Change) -> bool {
    matches!(change, Change::Put(Object::Node(_)) | Change::Delete(Key::Node(_)))
}
