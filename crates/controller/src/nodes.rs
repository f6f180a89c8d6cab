//! How the nodes are: what their agents say, kept in memory. It is known again as soon as they are
//! connected again.

use crate::engine::{Engine, Teller, now};
use crate::metrics::Metrics;
use crate::northbound::NodeState;
use osier_fleet::ask::{Ask, PauseState};
use osier_fleet::server::{Agents, AskLimits};
use osier_fleet::{AgentVersion, Applied, Hub, Report, Reports};
use osier_model::{Key, NodeName, Port};
use osier_resource::{Condition, NodeStatus, Truth};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::watch;

/// A certificate that ends sooner was not renewed as it should have been.
const ALARM: Duration = Duration::from_hours(4);
/// Faults and problems that are told of one node.
const MOST: usize = 20;

/// How often, and for how long, an agent is told whether it is paused.
const REMINDERS: usize = 20;
const PATIENCE: AskLimits = AskLimits { patience: Duration::from_secs(10), bytes: 1 << 16 };

/// What agents say.
#[derive(Clone)]
pub(crate) struct Nodes {
    hub: Hub,
    engine: Teller,
    metrics: Metrics,
    agents: Arc<OnceLock<Agents>>,
    /// A term that a node has seen, and that is after ours.
    outdated: Arc<watch::Sender<Option<u64>>>,
    state: Arc<Mutex<State>>,
    /// How often something was heard.
    news: watch::Sender<u64>,
}

/// How the nodes are, for who tells others of them.
#[derive(Clone)]
pub struct NodeStates {
    nodes: Nodes,
    news: watch::Receiver<u64>,
}

#[derive(Default)]
struct State {
    heard: HashMap<NodeName, Heard>,
    paused: BTreeSet<NodeName>,
    /// Those that were paused, and may not have heard that they no longer are.
    resumed: BTreeSet<NodeName>,
}

/// What is known of one.
#[derive(Debug, Default)]
struct Heard {
    connected: bool,
    /// Since when it is connected, or not.
    since: String,
    last_seen: String,
    agent: Option<AgentVersion>,
    applied: Option<Applied>,
    converged_since: Option<String>,
    report: Option<Report>,
    /// Why it is not connected.
    problem: Option<String>,
}

/// How a node is, for people and programs.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeReport {
    pub(crate) name: NodeName,
    pub(crate) connected: bool,
    pub(crate) since: Option<String>,
    pub(crate) last_seen: Option<String>,
    pub(crate) converged: bool,
    pub(crate) converged_since: Option<String>,
    pub(crate) wanted_revision: u64,
    pub(crate) applied_revision: Option<u64>,
    pub(crate) faults: Vec<String>,
    pub(crate) version: Option<String>,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) paused: bool,
    pub(crate) certificate_expiry: Option<String>,
    pub(crate) ports: usize,
    pub(crate) tunnels: Vec<TunnelReport>,
    /// What is not as it should be, in words.
    pub(crate) differs: Vec<String>,
}

/// How a tunnel is, seen from one end.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TunnelReport {
    pub(crate) peer: NodeName,
    pub(crate) state: &'static str,
    pub(crate) last_seen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rtt_ms: Option<f64>,
}

// === impl Nodes ===

impl Nodes {
    pub(crate) fn new(engine: &Engine, metrics: Metrics, paused: BTreeSet<NodeName>) -> Self {
        let state = State { paused, ..State::default() };
        let (agents, outdated) = (Arc::default(), Arc::default());
        let (state, news) = (Arc::new(Mutex::new(state)), watch::Sender::new(0));
        let (hub, engine) = (engine.hub().clone(), engine.teller());
        Self { hub, engine, metrics, agents, outdated, state, news }
    }

    /// For who tells others of the nodes.
    pub(crate) fn states(&self) -> NodeStates {
        NodeStates { nodes: self.clone(), news: self.news.subscribe() }
    }

    /// All ports that nodes have told of, by name, and who is connected.
    pub(crate) fn told(&self) -> (HashMap<String, Port>, BTreeSet<NodeName>) {
        let state = self.lock();
        let mut ports = HashMap::new();
        let mut connected = BTreeSet::new();
        for (node, heard) in &state.heard {
            if heard.connected {
                connected.insert(node.clone());
            }
            let told = heard.report.iter().flat_map(|report| &report.ports);
            ports.extend(told.map(|port| (port.key.to_string(), port.clone())));
        }
        (ports, connected)
    }

    /// Whether an agent serves a node.
    pub(crate) fn has_agent(&self, name: &NodeName) -> bool {
        let state = self.lock();
        let heard = state.heard.get(name).filter(|heard| heard.connected);
        let agent = heard.and_then(|heard| heard.agent.as_ref());
        agent.is_some_and(|agent| agent.software != osier_switches::SOFTWARE)
    }

    /// Waits until a node has followed a later start of this store than this one: then the store is
    /// an older copy, and nobody noticed.
    pub(crate) async fn outdated(&self) -> u64 {
        let mut outdated = self.outdated.subscribe();
        let seen = outdated.wait_for(Option::is_some).await.ok().and_then(|seen| *seen);
        seen.unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a node is.
    pub(crate) fn report(&self, name: &NodeName) -> NodeReport {
        self.lock().report(&self.hub, name)
    }

    /// How all nodes are, by name.
    pub(crate) fn reports(&self) -> Vec<NodeReport> {
        let mut names = self.hub.node_names();
        names.sort();
        let state = self.lock();
        let reports: Vec<NodeReport> =
            names.iter().map(|name| state.report(&self.hub, name)).collect();
        let connected = reports.iter().filter(|report| report.connected).count();
        self.metrics.nodes(connected, reports.iter().filter(|report| report.converged).count());
        reports
    }

    pub(crate) fn set_paused(&self, name: &NodeName, is_paused: bool) {
        let mut state = self.lock();
        if is_paused {
            state.paused.insert(name.clone());
            state.resumed.remove(name);
        } else if state.paused.remove(name) {
            state.resumed.insert(name.clone());
        }
    }

    /// A port that a node has told of.
    pub(crate) fn port(&self, is_it: impl Fn(&Port) -> bool) -> Option<Port> {
        let state = self.lock();
        let reports = state.heard.values().filter_map(|heard| heard.report.as_ref());
        reports.flat_map(|report| &report.ports).find(|port| is_it(port)).cloned()
    }

    /// Whom to ask, known when the agents' port is served.
    pub(crate) fn with_agents(&self, agents: Agents) {
        // It is said once.
        let _ = self.agents.set(agents);
    }

    /// Tells an agent that has come what it may not know: that it is paused, or no longer.
    fn remind(&self, node: &NodeName) {
        let (is_paused, is_owed) = {
            let state = self.lock();
            (state.paused.contains(node), state.resumed.contains(node))
        };
        let ask = match (is_paused, is_owed) {
            (true, _) => Ask::Pause,
            (false, true) => Ask::Resume,
            (false, false) => return,
        };
        let (nodes, node) = (self.clone(), node.clone());
        tokio::spawn(async move {
            // Its ear comes a moment after its voice.
            for _ in 0..REMINDERS {
                let asked = nodes.agents.get().map(|agents| agents.ask(&node, &ask, PATIENCE));
                if let Some(Ok(answer)) = asked
                    && answer.json::<PauseState>().await.is_ok()
                {
                    nodes.lock().resumed.remove(&node);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            tracing::warn!(%node, "the agent could not be told whether it is paused");
        });
    }

    /// A node is no longer of the cluster.
    pub(crate) fn forget(&self, name: &NodeName) {
        let mut state = self.lock();
        state.heard.remove(name);
        state.paused.remove(name);
        state.resumed.remove(name);
        self.metrics.certificate_gone(name.as_str());
    }

    /// Adds what is known of a node to its resource's status.
    pub(crate) fn fill(&self, name: &NodeName, status: &mut NodeStatus) {
        let report = self.report(name);
        status.agent_version.clone_from(&report.version);
        status.last_seen.clone_from(&report.last_seen);
        status.ports = report.connected.then_some(report.ports as u64);
        let condition = |kind: &str, is: bool, reason: &str, message: String, since| Condition {
            kind: kind.to_owned(),
            status: if is { Truth::True } else { Truth::False },
            reason: reason.to_owned(),
            message,
            last_transition_time: since,
        };
        let connected = if report.connected { "Following" } else { "NotConnected" };
        let converged = match (report.converged, report.connected) {
            (true, _) => "AsWanted",
            (false, true) => "Behind",
            (false, false) => "NotConnected",
        };
        status.conditions = vec![
            condition(
                "Ready",
                report.converged,
                converged,
                report.differs.join("; "),
                report.converged_since,
            ),
            condition("Connected", report.connected, connected, String::new(), report.since),
        ];
        if report.paused {
            let said = "reconciling is paused".to_owned();
            status.conditions.push(condition("Paused", true, "Asked", said, None));
        }
    }

    fn heard(&self, node: &NodeName, change: impl FnOnce(&mut Heard)) {
        // One that was removed a moment ago is not remembered.
        if self.hub.wanted(node).is_none() {
            return;
        }
        let mut state = self.lock();
        let heard = state.heard.entry(node.clone()).or_default();
        heard.last_seen = now();
        change(heard);
        drop(state);
        self.news.send_modify(|news| *news += 1);
    }
}

// === impl NodeStates ===

impl NodeStates {
    /// Waits until something was heard since it was last asked.
    pub async fn changed(&mut self) {
        if self.news.changed().await.is_err() {
            // Nobody will say anything any more.
            std::future::pending::<()>().await;
        }
    }

    /// How all nodes of the model are.
    pub fn all(&self) -> Vec<NodeState> {
        let (hub, state) = (&self.nodes.hub, self.nodes.lock());
        hub.node_names().into_iter().map(|name| state.state_of(hub, name)).collect()
    }

    /// How a node is.
    pub fn of(&self, name: &NodeName) -> NodeState {
        self.nodes.lock().state_of(&self.nodes.hub, name.clone())
    }

    /// Addresses that a node's pods have, once its agent has told of them.
    pub fn addresses(&self, name: &NodeName) -> Option<Vec<std::net::IpAddr>> {
        let state = self.nodes.lock();
        let report = state.heard.get(name)?.report.as_ref()?;
        Some(report.ports.iter().flat_map(|port| port.addresses.iter().copied()).collect())
    }

    /// A node is no longer of the cluster.
    pub fn forget(&self, name: &NodeName) {
        self.nodes.forget(name);
    }
}

impl Reports for Nodes {
    fn connected(&self, node: &NodeName, agent: &AgentVersion) {
        self.heard(node, |heard| {
            heard.connected = true;
            heard.since = now();
            heard.agent = Some(agent.clone());
            heard.problem = None;
        });
        self.remind(node);
    }

    fn applied(&self, node: &NodeName, applied: Applied) {
        let wanted = self.hub.wanted(node);
        self.heard(node, |heard| {
            let is = wanted.is_some_and(|wanted| {
                applied.epoch == wanted.epoch && applied.revision >= wanted.revision
            });
            let is = is && applied.faults.is_empty();
            match is {
                true if heard.converged_since.is_none() => heard.converged_since = Some(now()),
                true => {}
                false => heard.converged_since = None,
            }
            heard.applied = Some(applied);
        });
    }

    fn report(&self, node: &NodeName, report: Report) {
        if let Some(expires) = report.certificate_expires {
            let ends = SystemTime::UNIX_EPOCH + Duration::from_secs(expires);
            self.metrics.certificate(node.as_str(), ends);
        }
        // What was said before a restore says nothing of what came after it.
        let epoch = self.hub.wanted(node).map(|wanted| wanted.epoch);
        if report.affirmed.is_some() && report.affirmed == epoch {
            self.engine.told(node, &report.ports);
        }
        self.heard(node, |heard| heard.report = Some(report));
    }

    fn later_term(&self, node: &NodeName, term: u64) {
        tracing::warn!(%node, term, "the node has followed a later controller than this one");
        self.outdated.send_if_modified(|seen| seen.replace(term).is_none());
    }

    fn disconnected(&self, node: &NodeName, why: &str) {
        self.heard(node, |heard| {
            heard.connected = false;
            heard.since = now();
            heard.converged_since = None;
            heard.problem = Some(why.to_owned());
        });
    }
}

// === impl State ===

impl State {
    /// How a node is, without what only people want to know: there may be thousands.
    fn state_of(&self, hub: &Hub, name: NodeName) -> NodeState {
        let nothing = Heard::default();
        let heard = self.heard.get(&name).unwrap_or(&nothing);
        let applied = heard.applied.as_ref();
        let is_current = applied.zip(hub.wanted(&name)).is_some_and(|(applied, wanted)| {
            applied.epoch == wanted.epoch && applied.revision >= wanted.revision
        });
        let port = |key: &Option<Key>| match key {
            Some(Key::Port(key)) => Some(key.to_string()),
            _ => None,
        };
        let faults = applied.iter().flat_map(|applied| &applied.faults).take(MOST);
        let faults: Vec<_> = faults.map(|f| (port(&f.key), f.text.clone())).collect();
        let said: Vec<String> = faults.iter().map(|(_, text)| text.clone()).collect();
        NodeState {
            name,
            connected: heard.connected,
            converged: heard.connected && is_current && faults.is_empty(),
            applied: applied.map(|applied| applied.revision).filter(|_| heard.connected),
            differs: heard.differs(is_current, &said),
            faults,
        }
    }

    fn report(&self, hub: &Hub, name: &NodeName) -> NodeReport {
        let nothing = Heard::default();
        let heard = self.heard.get(name).unwrap_or(&nothing);
        let wanted = hub.wanted(name);
        let applied = heard.applied.as_ref();
        let is_current = applied.zip(wanted).is_some_and(|(applied, wanted)| {
            applied.epoch == wanted.epoch && applied.revision >= wanted.revision
        });
        let faults: Vec<String> = applied
            .iter()
            .flat_map(|applied| &applied.faults)
            .take(MOST)
            .map(|fault| match &fault.key {
                Some(key) => format!("{key}: {}", fault.text),
                None => fault.text.clone(),
            })
            .collect();
        let converged = heard.connected && is_current && faults.is_empty();
        let report = heard.report.as_ref();
        let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let expires = report.and_then(|report| report.certificate_expires);
        NodeReport {
            name: name.clone(),
            connected: heard.connected,
            since: said(&heard.since),
            last_seen: said(&heard.last_seen),
            converged,
            converged_since: heard.converged_since.clone().filter(|_| converged),
            wanted_revision: wanted.map_or_else(|| hub.revision(), |wanted| wanted.revision),
            applied_revision: applied.map(|applied| applied.revision),
            differs: heard.differs(is_current, &faults),
            faults,
            version: heard.agent.as_ref().and_then(|agent| said(&agent.software)),
            versions: report.map(|report| report.versions.clone()).unwrap_or_default(),
            paused: self.paused.contains(name),
            certificate_expiry: expires.and_then(rfc3339),
            ports: report.map_or(0, |report| report.ports.len()),
            tunnels: heard.tunnels(),
        }
    }
}

// === impl Heard ===

impl Heard {
    fn differs(&self, is_current: bool, faults: &[String]) -> Vec<String> {
        let mut differs = Vec::new();
        if !self.connected {
            let why = self.problem.as_deref().unwrap_or("it has not come since the start");
            differs.push(format!("the agent is not connected: {why}"));
        } else if !is_current {
            differs.push("the last changes are not on the switch yet".to_owned());
        }
        differs.extend_from_slice(faults);
        if let Some(report) = &self.report {
            let problems = report.problems.iter().take(MOST);
            differs.extend(problems.map(|(what, text)| format!("{what}: {text}")));
            let ends = report.certificate_expires.unwrap_or(u64::MAX);
            let soon = SystemTime::now() + ALARM;
            let soon = soon.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            if ends < soon {
                let at = rfc3339(ends).unwrap_or_default();
                differs.push(format!("certificate: it ends {at}, and was not renewed"));
            }
        }
        differs
    }

    fn tunnels(&self) -> Vec<TunnelReport> {
        let tunnels = self.report.iter().flat_map(|report| &report.tunnels);
        let tunnel = |tunnel: &osier_fleet::TunnelHealth| TunnelReport {
            peer: tunnel.node.clone(),
            state: match tunnel.up {
                Some(true) => "up",
                Some(false) => "down",
                None => "unknown",
            },
            last_seen: Some(self.last_seen.clone()).filter(|_| tunnel.up == Some(true)),
            rtt_ms: tunnel.round_trip_us.map(|us| {
                // Far below what a float counts exactly.
                f64::from(u32::try_from(us).unwrap_or(u32::MAX)) / 1000.0
            }),
        };
        tunnels.map(tunnel).collect()
    }
}

/// Seconds since 1970, as resources tell time.
pub(crate) fn rfc3339(seconds: u64) -> Option<String> {
    let time = OffsetDateTime::from_unix_timestamp(i64::try_from(seconds).ok()?).ok()?;
    time.format(&Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_was_not_renewed_is_told() {
        let in_hours = |hours: u64| {
            let ends = SystemTime::now() + Duration::from_hours(hours);
            let ends = ends.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            let report = Report { certificate_expires: Some(ends), ..Report::default() };
            Heard { connected: true, report: Some(report), ..Heard::default() }
        };
        assert!(in_hours(5).differs(true, &[]).is_empty());
        let said = in_hours(3).differs(true, &[]);
        assert!(said[0].starts_with("certificate: it ends 2"), "{said:?}");
        assert!(said[0].ends_with("and was not renewed"), "{said:?}");
    }
}
