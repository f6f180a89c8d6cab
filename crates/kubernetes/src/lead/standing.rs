//! How nodes are, told to Kubernetes: the condition that says whether a node has a network, the taint
//! that keeps pods from new nodes, and events.
//!
//! A node that was ready stays so while its agent is away for a moment: pods that run go on, and new
//! ones wait for the agent as they do for everything else.

use super::Leader;
use crate::plan::Problem;
use crate::problems::Whose;
use crate::scribe::Duty;
use osier_controller::NodeState;
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::Instant;

/// How long an agent may be away before its node counts as one without a network.
const AWAY: Duration = Duration::from_mins(2);
/// How long agents have to come to a new leader.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a node may differ before an event says so.
const DIFFERS: Duration = Duration::from_mins(1);

/// What is remembered of a node.
#[derive(Default)]
pub(super) struct Standing {
    /// Since when its agent is not connected.
    away: Option<Instant>,
    /// Since when something differs.
    differs: Option<Instant>,
    /// What was handed over, until it is seen.
    pub(super) sent: Option<(&'static str, &'static str)>,
}

// === impl Leader ===

impl Leader {
    /// Looks at all nodes, and tells what is new.
    pub(super) fn stand(&mut self) {
        let Some(states) = self.states.as_ref().map(osier_controller::NodeStates::all) else {
            return;
        };
        let now = Instant::now();
        let mut faulty = BTreeSet::new();
        for state in &states {
            self.stand_one(state, now);
            self.faults(state, &mut faulty);
        }
        self.problems.retain("PodPortNotReady", |whose| faulty.contains(whose));
    }

    fn stand_one(&mut self, state: &NodeState, now: Instant) {
        let name = state.name.as_str();
        let Some(node) = self.nodes.get(&name.to_owned()) else { return };
        let (network, is_tainted) = (node.network.clone(), node.is_tainted);
        let standing = self.standing.entry(name.to_owned()).or_default();
        let is_fine = state.connected && state.converged;
        standing.away = (!state.connected).then(|| standing.away.unwrap_or(now));
        // What is wrong beside the view leaves the node its network.
        let is_right = is_fine && state.differs.is_empty();
        standing.differs = (!is_right).then(|| standing.differs.unwrap_or(now));
        let is_away = standing.away.is_some_and(|since| now - since >= AWAY);
        let is_new = network.is_none();
        let wanted = match () {
            () if is_fine => Some(("False", "OsierReady", "Osier's agent serves this node")),
            () if is_away => {
                let why = "Osier's agent has not been heard of for two minutes";
                Some(("True", "OsierAgentAway", why))
            }
            () if is_new && !state.connected && now - self.began >= SETTLE => {
                Some(("True", "OsierAgentNotConnected", "Osier's agent has not come yet"))
            }
            () => None,
        };
        let differs = standing.differs.is_some_and(|since| now - since >= DIFFERS);
        if let Some((status, reason, message)) = wanted {
            let is_said = network
                .as_ref()
                .is_some_and(|network| network.status == status && network.reason == reason);
            if !is_said && standing.sent != Some((status, reason)) {
                let (node, message) = (name.to_owned(), message.to_owned());
                if self.scribe.owe(Duty::Network { node, status, reason, message }) {
                    standing.sent = Some((status, reason));
                    if is_fine && is_tainted {
                        self.scribe.owe(Duty::Untaint { node: name.to_owned() });
                    }
                }
            } else if is_said && is_fine && is_tainted && standing.sent.is_none() {
                // It was tainted anew, or has come back.
                if self.scribe.owe(Duty::Untaint { node: name.to_owned() }) {
                    standing.sent = Some((status, reason));
                }
            }
        }
        let problem = differs.then(|| Problem {
            reason: "NetworkNotReady",
            text: format!(
                "the node's network is not as it should be: {}",
                state.differs.join("; ")
            ),
        });
        self.problems.set(&Whose::node(name), &["NetworkNotReady"], problem);
    }

    /// Pods whose ports an agent could not make.
    fn faults(&mut self, state: &NodeState, faulty: &mut BTreeSet<Whose>) {
        for (port, text) in &state.faults {
            let Some((namespace, rest)) = port.as_deref().and_then(|port| port.split_once(':'))
            else {
                continue;
            };
            let name = rest.split(':').next().unwrap_or(rest);
            let uid = {
                let pods = self.shared.pods.read().unwrap_or_else(PoisonError::into_inner);
                pods.get(namespace, name).map(|pod| pod.uid.to_string())
            };
            let Some(uid) = uid else { continue };
            let whose = Whose::pod(namespace, name, &uid);
            let text = format!("the pod's port on node {} is not ready: {text}", state.name);
            let problem = Problem { reason: "PodPortNotReady", text };
            self.problems.set(&whose, &["PodPortNotReady"], Some(problem));
            faulty.insert(whose);
        }
    }
}
