//! Our nftables table: what leaves the cluster gets the machine's address, or does not.
//!
//! The table is made anew as a whole, in one transaction, when something in it changes; what
//! connections have was decided at their first packet, and stays. Ports that lead to Services are
//! many and come and go: they are elements of a set, and a step adds and deletes those that differ.

mod script;

use crate::gateway::{self, GatewayError};
use crate::services::{NodePort, OwnAddress};
use ipnet::IpNet;
use osier_model::Tunnel;
use script::Table;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The table; a cheap handle.
#[derive(Debug, Clone)]
pub struct Firewall(Arc<Mutex<Kept>>);

/// Pods unlike others, by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions {
    /// For whom the rule of translation does not hold.
    pub masquerade: BTreeSet<IpAddr>,
    /// Who may not reach themselves by an address that the machine translates.
    pub hairpin: BTreeSet<IpAddr>,
    /// Rules that lead from ports of the machine to pods.
    pub host_ports: BTreeSet<String>,
}

/// What of the whole cluster the table has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Addresses that pods have.
    pub(crate) pods: Vec<IpNet>,
    /// Those of this node's own.
    pub(crate) own: Vec<IpNet>,
    /// Ports of the machine that lead to Services.
    pub(crate) node_ports: BTreeSet<NodePort>,
    /// Addresses of the machine by which the outside knows Services.
    pub(crate) own_addresses: BTreeSet<OwnAddress>,
    /// How nodes talk to each other.
    pub(crate) tunnel: Tunnel,
    /// What pods are seen as that reach a pod by an address that the machine translates.
    pub(crate) seen_as: SeenAs,
    /// Addresses of Services, where the machine leads there: nobody else may use them.
    pub(crate) services: Vec<IpNet>,
}

/// What pods are seen as that reach a pod by an address that the machine translates: a port of the node,
/// a Service. The answer has to come back here, and would go from pod to pod by the switch.
///
/// The machine's own address may do what others may not (a node always reaches its pods), so it would be
/// a way around policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum SeenAs {
    /// The machine: where nobody said who leads to Services.
    #[default]
    Machine,
    /// Nobody: where the switch leads to Services, which goes on from there.
    Nobody,
    /// The node's service addresses: where the machine leads, and pods elsewhere have to answer.
    Services(Vec<IpAddr>),
}

#[derive(Debug, Default)]
struct Kept {
    wanted: Table,
    /// What the kernel has, if that is known.
    there: Option<Table>,
}

// === impl Firewall ===

impl Firewall {
    /// A table that is not there yet; `masquerade` is the rule.
    pub fn new(masquerade: bool) -> Self {
        let wanted = Table { masquerade, ..Table::default() };
        Self(Arc::new(Mutex::new(Kept { wanted, there: None })))
    }

    /// The cluster is like this.
    pub(crate) async fn set_cluster(&self, reached: Reached) -> Result<(), GatewayError> {
        let mut kept = self.0.lock().await;
        kept.wanted.reached = reached;
        kept.apply().await
    }

    /// These pods are unlike others.
    pub(crate) async fn set_exceptions(&self, exceptions: Exceptions) -> Result<(), GatewayError> {
        let mut kept = self.0.lock().await;
        if kept.wanted.exceptions == exceptions {
            return Ok(());
        }
        if !exceptions.host_ports.is_empty() {
            gateway::route_loopback()?;
        }
        kept.wanted.exceptions = exceptions;
        kept.apply().await
    }
}

// === impl Kept ===

impl Kept {
    async fn apply(&mut self) -> Result<(), GatewayError> {
        let step = self.there.take().and_then(|there| self.wanted.step_from(&there));
        // Somebody may have changed the table meanwhile: then the step fails, and all is made anew.
        let done = match step {
            Some(step) if step.is_empty() => true,
            Some(step) => gateway::apply_nft(&step).await.is_ok(),
            None => false,
        };
        if !done {
            gateway::apply_nft(&self.wanted.script()).await?;
        }
        self.there = Some(self.wanted.clone());
        Ok(())
    }
}
