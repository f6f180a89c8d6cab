//! What a client lost while it or we were away.
//!
//! A watcher that starts names its cluster first, and then everything that is alive, one by one. So
//! a PUT of the clusters begins a roll call: when that client has then been silent for a while,
//! entries of it that it did not name again are gone where they came from, and go here as well. Of
//! each list only if it named any of it, so that a client that died half-way costs nothing; and
//! only entries that this client wrote, not those of scripts beside it.

use super::{Restconf, removed, stopped};
use osier_restconf::{Edited, Method, Path};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// By whose write a roll call begins.
const CLUSTERS: &str = "k8s-clusters-info";
/// Entries that go in one write.
const CHUNK: usize = 200;

/// Roll calls that are on, by client.
#[derive(Debug, Default)]
pub(super) struct RollCalls(HashMap<String, RollCall>);

#[derive(Debug)]
struct RollCall {
    /// When the client was heard last.
    heard: Instant,
    named: HashSet<String>,
}

// === impl RollCalls ===

impl RollCalls {
    /// A client named units.
    pub(super) fn note(&mut self, client: &str, method: Method, path: &Path, named: &[String]) {
        let heard = Instant::now();
        let is_start = method == Method::Put
            && matches!(&path.steps[..], [root] if root.node.name == CLUSTERS);
        if is_start {
            self.0.insert(client.to_owned(), RollCall { heard, named: HashSet::new() });
        }
        if let Some(call) = self.0.get_mut(client) {
            call.heard = heard;
            call.named.extend(named.iter().cloned());
        }
    }

    /// Clients that have been silent for so long, and what they named.
    fn over(&mut self, silence: Duration, now: Instant) -> Vec<(String, HashSet<String>)> {
        let is_over = |call: &RollCall| now.saturating_duration_since(call.heard) >= silence;
        self.0.extract_if(|_, call| is_over(call)).map(|(c, call)| (c, call.named)).collect()
    }
}

/// The list that a unit is of.
fn list_of(unit: &str) -> &str {
    unit.split_once('=').map_or(unit, |(list, _)| list)
}

/// Units of a client that it did not name, of lists of which it named some.
fn forgotten(
    clients: &HashMap<String, String>,
    client: &str,
    named: &HashSet<String>,
) -> Vec<String> {
    let lists: HashSet<&str> = named.iter().map(|unit| list_of(unit)).collect();
    let is_gone = |unit: &String| lists.contains(list_of(unit)) && !named.contains(unit);
    let its = clients.iter().filter(|(_, whose)| *whose == client);
    let mut gone: Vec<String> = its.map(|(unit, _)| unit.clone()).filter(is_gone).collect();
    gone.sort_unstable();
    gone
}

/// Ends roll calls until the controller stops.
pub(crate) async fn heal(
    restconf: Arc<Restconf>,
    silence: Duration,
    mut stopping: watch::Receiver<bool>,
) {
    let often = (silence / 4).clamp(Duration::from_millis(100), Duration::from_secs(10));
    loop {
        tokio::select! {
            () = tokio::time::sleep(often) => restconf.end_calls(silence).await,
            () = stopped(&mut stopping) => return,
        }
    }
}

impl Restconf {
    async fn end_calls(&self, silence: Duration) {
        let mut state = self.state.lock().await;
        for (client, named) in state.calls.over(silence, Instant::now()) {
            let gone = forgotten(&state.clients, &client, &named);
            for units in gone.chunks(CHUNK) {
                let changes = removed(units.iter().cloned());
                let edited = Edited { changes, ..Edited::default() };
                match self.make(&mut state, &edited, &client).await {
                    Ok(_) => {
                        tracing::info!(client, count = units.len(), "it no longer names them");
                        self.metrics.restconf_healed(units.len());
                    }
                    Err(error) => tracing::warn!(client, %error, "what it forgot stays for now"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_its_own_client_forgot_is_gone() {
        let clients: HashMap<String, String> = [
            ("pod:coe/pods=1", "watcher"),
            ("pod:coe/pods=2", "watcher"),
            ("pod:coe/pods=3", "curl"),
            ("service:service-information/services=4", "watcher"),
        ]
        .map(|(unit, client)| (unit.to_owned(), client.to_owned()))
        .into();
        let named = HashSet::from(["pod:coe/pods=1".to_owned()]);
        assert_eq!(forgotten(&clients, "watcher", &named), ["pod:coe/pods=2"]);
        assert_eq!(forgotten(&clients, "watcher", &HashSet::new()), [""; 0]);
    }

    #[test]
    fn a_roll_call_begins_with_the_clusters_and_ends_in_silence() {
        let mut calls = RollCalls::default();
        let parse = |path: &str| Path::parse(path).unwrap();
        let pods = parse("/restconf/config/pod:coe");
        calls.note("w", Method::Put, &pods, &["a".to_owned()]);
        let (later, silence) = (Instant::now() + Duration::from_mins(1), Duration::from_secs(30));
        assert!(calls.over(silence, later).is_empty(), "nobody began");
        let clusters = parse("/restconf/config/k8s-cluster:k8s-clusters-info/");
        calls.note("w", Method::Put, &clusters, &["c".to_owned()]);
        calls.note("w", Method::Put, &pods, &["a".to_owned()]);
        assert!(calls.over(silence, Instant::now()).is_empty(), "it is still heard");
        let over = calls.over(silence, later);
        assert_eq!(over[0].1.len(), 2);
        assert!(calls.over(silence, later).is_empty(), "once");
    }
}
