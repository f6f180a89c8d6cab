//! Our nftables table: what leaves the cluster gets the machine's address, or does not.
//!
//! The table is made anew as a whole, in one transaction, whenever something in it changes; what
//! connections have was decided at their first packet, and stays.

use crate::gateway::{self, GatewayError};
use crate::services::NodePort;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The table; a cheap handle.
#[derive(Debug, Clone)]
pub struct Firewall(Arc<Mutex<Table>>);

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

#[derive(Debug, Default)]
struct Table {
    masquerade: bool,
    pods: Vec<IpNet>,
    exceptions: Exceptions,
    node_ports: BTreeSet<NodePort>,
}

// === impl Firewall ===

impl Firewall {
    /// A table that is not there yet; `masquerade` is the rule.
    pub fn new(masquerade: bool) -> Self {
        Self(Arc::new(Mutex::new(Table { masquerade, ..Table::default() })))
    }

    /// Pods have addresses of these, and these ports of the machine lead to Services.
    pub(crate) async fn set_cluster(
        &self,
        pods: Vec<IpNet>,
        node_ports: BTreeSet<NodePort>,
    ) -> Result<(), GatewayError> {
        let mut table = self.0.lock().await;
        (table.pods, table.node_ports) = (pods, node_ports);
        table.apply().await
    }

    /// These pods are unlike others.
    pub(crate) async fn set_exceptions(&self, exceptions: Exceptions) -> Result<(), GatewayError> {
        let mut table = self.0.lock().await;
        if table.exceptions == exceptions {
            return Ok(());
        }
        if !exceptions.host_ports.is_empty() {
            gateway::route_loopback()?;
        }
        table.exceptions = exceptions;
        table.apply().await
    }
}

impl Table {
    async fn apply(&self) -> Result<(), GatewayError> {
        let Self { pods, masquerade, exceptions, node_ports } = self;
        let script = gateway::nft_script(pods, *masquerade, exceptions, node_ports);
        gateway::apply_nft(&script).await
    }
}
