//! After a restore: the store does not know what was given after the backup was made, but the nodes
//! that use it do. So no address is given before all of them have told, or every address has rested.
//!
//! Who says which address it wants is not held up: so do the nodes themselves, with what they have.

use super::State;
use super::write::WriteError;
use osier_model::{NetworkName, NodeName, Port};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nodes that an error names; of the others it tells how many they are.
const NAMED: usize = 3;

/// See the module. Its default is a store that was not restored.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Who is yet to tell, and until when that is waited for.
    silent: BTreeSet<NodeName>,
    until: Option<Instant>,
    /// Addresses that nodes use and nobody else knows of.
    used: HashMap<NodeName, HashSet<(NetworkName, IpAddr)>>,
    /// For who would tell.
    matters: Arc<AtomicBool>,
}

// === impl Settling ===

impl Settling {
    /// The store was restored, and knows of these nodes.
    pub(super) fn begin(nodes: Vec<NodeName>, rest: Duration) -> Self {
        let silent: BTreeSet<NodeName> = nodes.into_iter().collect();
        let matters = Arc::new(AtomicBool::new(!silent.is_empty()));
        Self { silent, until: Some(Instant::now() + rest), used: HashMap::new(), matters }
    }

    /// Whether it matters what nodes tell.
    pub(super) fn matters(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.matters)
    }

    /// Whether an address is in use, though nobody has it.
    pub(super) fn uses(&self, network: &NetworkName, address: IpAddr) -> bool {
        // Empty, but for a moment after a restore.
        !self.used.is_empty()
            && self.used.values().any(|used| used.contains(&(network.clone(), address)))
    }

    /// Whether addresses may be given.
    pub(super) fn check(&self) -> Result<(), WriteError> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.filter(|left| !left.is_zero() && !self.silent.is_empty());
        let Some(left) = left else { return Ok(()) };
        let named: Vec<&str> = self.silent.iter().take(NAMED).map(NodeName::as_str).collect();
        let more = self.silent.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let nodes = format!("{}{more}", named.join(", "));
        Err(WriteError::Settling { nodes, seconds: left.as_secs() + 1 })
    }

    /// A node uses these addresses, and nobody else knows of them.
    fn tell(&mut self, node: &NodeName, used: HashSet<(NetworkName, IpAddr)>) {
        self.silent.remove(node);
        match used.is_empty() {
            true => self.used.remove(node),
            false => self.used.insert(node.clone(), used),
        };
        let matters = !self.silent.is_empty() || !self.used.is_empty();
        self.matters.store(matters, Ordering::Relaxed);
    }
}

impl State {
    /// A node has told of its ports.
    pub(super) fn learn_of(&mut self, node: &NodeName, ports: &[Port]) {
        let given = ports.iter().filter(|port| self.allocator.gives_for(&port.network));
        let addresses = given
            .flat_map(|port| port.addresses.iter().map(|address| (port.network.clone(), *address)));
        let unknown =
            addresses.filter(|(network, address)| self.hub.holder(network, *address).is_none());
        let unknown = unknown.collect();
        self.settling.tell(node, unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_given_until_all_have_told_or_time_is_over() {
        let node = |name: &str| NodeName::new(name).unwrap();
        let nodes = || ["a", "b", "c", "d"].map(node).to_vec();
        let mut settling = Settling::begin(nodes(), Duration::from_mins(1));
        let said = settling.check().unwrap_err().to_string();
        assert!(said.contains("a, b, c and 1 more"), "{said}");
        let used = (NetworkName::new("blue").unwrap(), IpAddr::from([10, 0, 0, 7]));
        settling.tell(&node("a"), HashSet::from([used.clone()]));
        for name in ["b", "c", "d"] {
            assert!(settling.check().is_err());
            settling.tell(&node(name), HashSet::new());
        }
        assert!(settling.check().is_ok() && settling.uses(&used.0, used.1));
        assert!(settling.matters().load(Ordering::Relaxed));
        settling.tell(&node("a"), HashSet::new());
        assert!(!settling.uses(&used.0, used.1) && !settling.matters().load(Ordering::Relaxed));
        assert!(Settling::begin(nodes(), Duration::ZERO).check().is_ok());
        assert!(Settling::begin(Vec::new(), Duration::from_mins(1)).check().is_ok());
        assert!(Settling::default().check().is_ok());
    }
}
