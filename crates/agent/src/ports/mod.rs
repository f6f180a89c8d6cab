//! Pods' ports: made, checked and taken away, as a runtime asks.
//!
//! An ADD reserves, and then does at once what can be: the flows, the port and its record in the
//! database, and the wire with, behind it, the interface inside of the pod. It answers when all
//! are done, or undoes all. Calls for one port follow one another; those for different ports share
//! transactions and bundles.

mod error;
mod give;
#[cfg(test)]
mod golden;
mod grant;
mod index;
mod introduce;
mod ipam;
mod late;
mod locks;
mod look;
mod make;
mod patience;
mod state;
mod turns;

pub use error::PortError;

use crate::addresses::Addresses;
use crate::config::Config;
use crate::controller::Controller;
use crate::counters;
use crate::desired::{PodPort, host_interface};
use crate::firewall::Firewall;
use crate::freed::Freed;
use crate::metrics::Metrics;
use crate::netlink::{self, Namespace, NetlinkError};
use crate::switch::Switch;
use grant::{Addresses as Given, Target};
use ipnet::IpNet;
use locks::{Locked, Locks};
use osier_cni::config::{AttachRequest, Attachment, DetachRequest, GcRequest, Ipam};
use osier_cni::rpc::Request;
use osier_cni::spec::{AddResult, Command};
use osier_model::{DeviceName, InterfaceName, PortKey};
use state::State;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tracing::{info, warn};
use turns::Turns;

/// How long DEL waits for the switch. What is not wanted any more goes also later.
const DETACH_PATIENCE: Duration = Duration::from_secs(10);
/// The same for one that is away: long enough to be asked, not to come back.
const AWAY_PATIENCE: Duration = Duration::from_secs(1);

/// All ports of this node's pods; a cheap handle.
#[derive(Debug, Clone)]
pub struct Ports(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    boot_id: String,
    mtu: AtomicU16,
    switch: Switch,
    metrics: Metrics,
    firewall: Firewall,
    controller: Arc<dyn Controller>,
    state: Mutex<State>,
    freed: Mutex<Freed>,
    locks: Arc<Locks>,
    turns: Turns,
    started: Instant,
    /// What else is wrong with the node, by what it is wrong with.
    problems: Mutex<BTreeMap<String, String>>,
}

// === impl Ports ===

impl Ports {
    /// The ports that were taken over, and those to come.
    pub fn new(
        config: Config,
        boot_id: String,
        mtu: u16,
        switch: Switch,
        metrics: Metrics,
        controller: Arc<dyn Controller>,
        living: Vec<PodPort>,
    ) -> Self {
        let firewall = Firewall::new(config.masquerade);
        let now = SystemTime::now();
        let freed = Freed::beside(&config.cni_socket, config.cool_down, now);
        let mut addresses = Addresses::new(config.cool_down);
        freed.resting(now).for_each(|(address, left)| addresses.rest(address, left));
        let state = State::new(addresses, living);
        Self(Arc::new(Shared {
            config,
            boot_id,
            mtu: mtu.into(),
            switch,
            metrics,
            firewall,
            controller,
            state: Mutex::new(state),
            freed: Mutex::new(freed),
            locks: Arc::default(),
            turns: Turns::default(),
            started: Instant::now(),
            problems: Mutex::default(),
        }))
    }

    /// Something is wrong with the node, or is no longer.
    pub(crate) fn set_problem(&self, what: &str, text: Option<String>) {
        let mut problems = self.0.problems.lock().unwrap_or_else(PoisonError::into_inner);
        let was = match &text {
            Some(text) => problems.insert(what.to_owned(), text.clone()),
            None => problems.remove(what),
        };
        if let Some(text) = text.filter(|text| was.as_ref() != Some(text)) {
            warn!(what, text, "something is wrong with the node");
        }
    }

    /// What was said to be wrong.
    pub(crate) fn problems(&self) -> BTreeMap<String, String> {
        self.0.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The switch that they are at.
    pub fn switch(&self) -> &Switch {
        &self.0.switch
    }

    /// Asks the switch what it has counted, for metrics.
    pub(crate) async fn count_switch(&self) {
        counters::refresh(&self.0.config, &self.0.switch, &self.0.metrics).await;
    }

    /// What leaves the cluster.
    pub fn firewall(&self) -> &Firewall {
        &self.0.firewall
    }

    /// Tells the firewall which pods are not like the others.
    pub async fn set_exceptions(&self) -> Result<(), PortError> {
        let exceptions = self.state().exceptions(self.0.config.masquerade);
        Ok(self.0.firewall.set_exceptions(exceptions).await?)
    }

    /// The node's blocks are these now.
    pub fn set_blocks(&self, blocks: &[IpNet]) {
        self.state().set_blocks(blocks);
    }

    /// Ports that are made from now on have this MTU at most.
    pub fn set_mtu(&self, mtu: u16) {
        self.0.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Ports that died while no agent ran: their addresses cool down, and who gave them from afar
    /// hears of it, when that may be.
    pub fn bury(&self, dead: Vec<PodPort>) {
        for port in dead.iter().filter(|port| port.in_default_network()) {
            self.note_freed(port);
            let until = self.now() + self.0.config.cool_down;
            port.ips().for_each(|address| self.state().addresses.rest(address, until));
        }
        let ports = self.clone();
        tokio::spawn(async move {
            for port in dead {
                ports.released(&port.giver, &port.key).await;
            }
        });
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.state().len()
    }

    /// How many addresses are in use, by block.
    pub fn addresses_used(&self) -> Vec<(IpNet, usize)> {
        self.state().addresses.used().collect()
    }

    /// Attaches a pod. Twice for one pod is once.
    pub async fn add(
        &self,
        call: &AttachRequest,
        request: &Request,
    ) -> Result<AddResult, PortError> {
        let deadline = Instant::now() + request.timeout().mul_f64(0.9);
        let introduced = self.introduce(call, deadline).await?;
        let added = self.attach(call, request, deadline).await;
        if added.is_err() && introduced {
            self.withdraw(call).await;
        }
        added
    }

    async fn attach(
        &self,
        call: &AttachRequest,
        request: &Request,
        deadline: Instant,
    ) -> Result<AddResult, PortError> {
        let started = Instant::now();
        self.check_paused()?;
        let key = port_key(call)?;
        check_first(call)?;
        let target = self.target(&call.config, &key).await?;
        let namespace = Namespace::open(&call.netns)?;
        let locked = self.0.locks.lock(&key).await;
        let existing = self.reuse(call, request, &key, &target, &namespace, &locked).await?;
        if let Some(port) = existing {
            let port = self.limit(call, port, deadline).await?;
            return Ok(port.result(&call.config.dns));
        }
        let mut grant = self.give(call, request, &key, &target, deadline).await?;
        let mut dns = std::mem::take(&mut grant.dns);
        let giver = grant.giver.clone();
        let later = matches!(grant.addresses, Given::Later);
        let wish = self.wish(call, &key, &target, &namespace, grant);
        let reserved = self.state().reserve(wish, self.now());
        let mut port = match reserved {
            Ok(port) => port,
            Err(error) => {
                self.give_back(&giver, &key, request).await;
                return Err(error.into());
            }
        };
        let mut made = self.unless_refused(self.make(&port, &namespace, deadline)).await;
        if later && made.is_ok() {
            let completed = self.complete(call, request, &target, &port, &namespace, deadline);
            made = completed.await.map(|completed| (port, dns) = completed);
        } else if let (Some(plugin), Ok(())) = (late::asks_node(&call.config.ipam, &target), &made)
        {
            let leased = self.lease(plugin, request, &port, deadline).await;
            made = leased.map(|told| dns = told);
        }
        if let Err(error) = made {
            // One of another kind has no interfaces to begin with.
            let error = namespace.enter().await.map_or_else(PortError::from, |()| error);
            warn!(port = %key, %error, "undone");
            // Nothing is left when the runtime hears of it.
            self.undo(&call.attachment, request, locked).await;
            return Err(error);
        }
        self.0.metrics.stage("total", started.elapsed());
        let addresses: Vec<IpAddr> = port.ips().collect();
        info!(port = %port.key, ?addresses, interface = port.host, "attached");
        Ok(port.result(if dns.is_empty() { &call.config.dns } else { &dns }))
    }

    /// Detaches a pod. What is unknown is detached already.
    pub async fn delete(&self, call: &DetachRequest, request: &Request) -> Result<(), PortError> {
        let known = self.state().is_known(&call.attachment);
        let asks = matches!(&call.ipam, Ipam::Delegate(plugin) if late::needs_interface(plugin));
        // One that asked through the interface says that way, too, that the lease is over.
        let released = if asks {
            let released = ipam::delete(&call.ipam, request).await;
            self.detach(&call.attachment).await;
            released
        } else {
            self.detach(&call.attachment).await;
            ipam::delete(&call.ipam, request).await
        };
        match released {
            // It may never have given anything; a runtime would ask for ever.
            Err(error) if !known => {
                let container = &call.attachment.container_id;
                warn!(container, %error, "unknown, and its addresses were not taken back");
                Ok(())
            }
            released => {
                self.state().set_owed(&call.attachment, released.is_err());
                released
            }
        }
    }

    async fn detach(&self, attachment: &Attachment) {
        let Some(port) = self.state().get(attachment) else {
            // An agent that died over an ADD may have left a wire without a record.
            let host = host_interface(attachment, |_| false);
            let (ports, attachment) = (self.clone(), attachment.clone());
            let tidy = move || match ports.state().get(&attachment) {
                None => netlink::delete_own_link(&host),
                Some(_) => Ok(()),
            };
            // To its end: the next ADD may make one of that name.
            if let Ok(Err(error)) = tokio::task::spawn_blocking(tidy).await {
                warn!(%error, "a wire without a port was not deleted");
            }
            return;
        };
        let locked = self.0.locks.lock(&port.key).await;
        // It may have gone while we waited.
        let Some(port) = self.state().get(attachment) else { return };
        info!(port = %port.key, network = %port.network, "detached");
        // The wire goes in the background: that takes longer than all the rest.
        drop(self.take_away(&port, locked).await);
        self.released(&port.giver, &port.key).await;
    }

    /// Whether a pod is as its ADD left it.
    pub async fn check(
        &self,
        call: &AttachRequest,
        told: &AddResult,
        request: &Request,
    ) -> Result<(), PortError> {
        let port = self.state().get(&call.attachment).ok_or(PortError::Unknown)?;
        let damaged = |what: String| Err(PortError::Damaged(what));
        for ip in &told.ips {
            // Plugins after ours may have added addresses to other interfaces.
            let ours = ip.interface.and_then(|at| told.interfaces.get(at));
            let ours = ours.is_none_or(|interface| interface.name == port.attachment.ifname);
            if ours && !port.ips().any(|address| address == ip.address.address) {
                return damaged(format!("{} was never given to it", ip.address.address));
            }
        }
        self.inspect(&port).await?;
        match self.0.switch.tried(&port.host).await {
            Some(state) if state.ofport.is_some_and(|number| number > 0) => {
                ipam::pass(&call.config.ipam, Command::Check, request).await
            }
            Some(state) => damaged(format!("{} does not work: {:?}", port.host, state.error)),
            None => damaged(format!("{} is not on the switch", port.host)),
        }
    }

    /// Detaches all pods of a network that are not listed.
    pub async fn collect(&self, call: &GcRequest, request: &Request) -> Result<(), PortError> {
        let stale = self.state().stale(&call.header.name, &call.valid);
        for attachment in stale {
            self.detach(&attachment).await;
        }
        ipam::pass(&call.ipam, Command::Gc, request).await
    }

    /// Whether an ADD could be served, by who gives addresses as well.
    pub async fn status_with(&self, ipam: &Ipam, request: &Request) -> Result<(), PortError> {
        self.status().await?;
        ipam::pass(ipam, Command::Status, request).await
    }

    /// Whether an ADD could be served.
    pub async fn status(&self) -> Result<(), PortError> {
        self.own_blocks().await?;
        self.check_paused()?;
        if !self.0.switch.rows().status().connected {
            return Err(PortError::Away("the switch's database"));
        }
        if !self.0.switch.flows().status().connected {
            return Err(PortError::CutOff);
        }
        Ok(())
    }

    async fn own_blocks(&self) -> Result<Vec<IpNet>, PortError> {
        let node = self.0.switch.own_node().await;
        let node = node.ok_or_else(|| PortError::NoNode(self.0.config.node.to_string()))?;
        Ok(node.blocks)
    }

    /// The port that an earlier ADD made, if it is still right. What is wrong of it is taken away;
    /// what is right and other than is asked for now is an error, unless that is to win.
    async fn reuse(
        &self,
        call: &AttachRequest,
        request: &Request,
        key: &PortKey,
        target: &Target,
        namespace: &Namespace,
        locked: &Locked,
    ) -> Result<Option<Arc<PodPort>>, PortError> {
        let rivals = self.state().rivals(&call.attachment, key);
        for port in rivals {
            let same = port.attachment == call.attachment
                && port.netns_id == namespace.id()
                && port.key == *key;
            if same && self.inspect(&port).await.is_ok() {
                match self.asked_otherwise(call, target, &port).await {
                    None => return Ok(Some(port)),
                    Some(how) if !call.config.force_address => {
                        return Err(PortError::AttachedOtherwise(how));
                    }
                    Some(how) => info!(port = %port.key, how, "made anew"),
                }
            }
            info!(port = %port.key, container = port.attachment.container_id, "replaced");
            // Its wire must be gone before the next one of its name is made.
            if same {
                self.undo(&port.attachment, request, locked.share()).await;
            } else {
                self.take_away(&port, locked.share()).await.finished().await;
            }
        }
        Ok(None)
    }

    async fn inspect(&self, port: &PodPort) -> Result<(), PortError> {
        let damaged = |what: String| Err(PortError::Damaged(what));
        let namespace = Namespace::open(&port.netns)?;
        if namespace.id() != port.netns_id {
            return damaged(format!("{} is another namespace now", port.netns));
        }
        let name = &port.attachment.ifname;
        if port.addresses.is_empty() {
            return damaged(format!("{name} has no address yet"));
        }
        let found = match netlink::inspect(&namespace, name.clone()).await? {
            Err(error @ NetlinkError::NoInterface(_)) => return damaged(error.to_string()),
            found => found?,
        };
        if !found.up || found.mac != Some(port.mac) {
            return damaged(format!("{name} is down or has another Ethernet address"));
        }
        match port.ips().find(|address| !found.addresses.contains(address)) {
            Some(address) => damaged(format!("{name} has no {address}")),
            None => Ok(()),
        }
    }

    /// Whatever becomes of us, the port's addresses cool down from now on.
    fn note_freed(&self, port: &PodPort) {
        if port.in_default_network() {
            let mut freed = self.0.freed.lock().unwrap_or_else(PoisonError::into_inner);
            freed.note(port.ips(), SystemTime::now());
        }
    }

    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held is a defect; what it holds is still the best that we know.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pod is `namespace:name`, any other container its own id.
fn port_key(call: &AttachRequest) -> Result<PortKey, PortError> {
    let device = match &call.pod {
        Some(pod) => format!("{}:{}", pod.namespace, pod.name),
        None => call.attachment.container_id.clone(),
    };
    let device = DeviceName::new(&device).map_err(PortError::Name)?;
    let interface = InterfaceName::new(&call.attachment.ifname).map_err(PortError::Name)?;
    Ok(PortKey { device, interface })
}

/// Refuses to be second in a list: the interface is ours to make.
fn check_first(call: &AttachRequest) -> Result<(), PortError> {
    let ifname = &call.attachment.ifname;
    let before = call.prev_result.iter().flat_map(|result| &result.interfaces);
    let inside = |sandbox: &String| !sandbox.is_empty();
    match before
        .filter(|made| made.name == *ifname)
        .any(|made| made.sandbox.as_ref().is_some_and(inside))
    {
        true => Err(PortError::Chained(ifname.clone())),
        false => Ok(()),
    }
}

/// Whether it is a pod's first interface, by which it reaches all that it has no other way to.
fn is_first(key: &PortKey) -> bool {
    key.iface_id() == key.device.as_str()
}
