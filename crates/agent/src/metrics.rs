//! What the agent counts, in Prometheus' text.

mod switch;

pub(crate) use switch::SwitchCounts;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Duration;
use switch::Told;

type Stages = Family<[(&'static str, &'static str); 1], Histogram, fn() -> Histogram>;
type Questions = Family<[(&'static str, &'static str); 1], Counter>;
type Leases = Family<[(&'static str, &'static str); 2], Counter>;
type Calls = Family<[(&'static str, String); 2], Counter>;

/// All counters; a cheap handle.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    stages: Stages,
    calls: Calls,
    ports: Gauge,
    view_refused: Counter,
    questions: Questions,
    leases: Leases,
    forgotten: Counter,
    groups: Gauge,
    switch: Told,
}

/// From a tenth of a millisecond to some three seconds.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 16))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("osier_agent");
        let stages = Stages::new_with_constructor(histogram);
        registry.register_with_unit(
            "pod_creation",
            "Time of each stage of a pod's creation",
            Unit::Seconds,
            stages.clone(),
        );
        let calls = Calls::default();
        registry.register(
            "cni_calls",
            "Calls of the CNI plugin, by command and code",
            calls.clone(),
        );
        let ports = Gauge::default();
        registry.register("ports", "Ports of pods", ports.clone());
        let view_refused = Counter::default();
        registry.register("view_refused", "Views that were wrong", view_refused.clone());
        let questions = Questions::default();
        registry.register(
            "questions",
            "Packets that the switch asked about, by kind",
            questions.clone(),
        );
        let leases = Leases::default();
        registry.register("leases", "What became of leases, by family and event", leases.clone());
        let forgotten = Counter::default();
        registry.register(
            "ways_forgotten",
            "Ways to former endpoints whose connections the switch was told to forget",
            forgotten.clone(),
        );
        let groups = Gauge::default();
        registry.register("groups", "Groups that are wanted of the switch", groups.clone());
        let switch = Told::default();
        registry.register_collector(Box::new(switch.clone()));
        let registry = Arc::new(registry);
        Self {
            registry,
            stages,
            calls,
            ports,
            view_refused,
            questions,
            leases,
            forgotten,
            groups,
            switch,
        }
    }
}

impl Metrics {
    /// A stage of a pod's creation took so long.
    pub fn stage(&self, name: &'static str, took: Duration) {
        self.stages.get_or_create(&[("stage", name)]).observe(took.as_secs_f64());
    }

    /// A call was answered; 0 is success.
    pub fn call(&self, command: &str, code: u32) {
        let labels = [("command", command.to_owned()), ("code", code.to_string())];
        self.calls.get_or_create(&labels).inc();
    }

    /// There are so many ports.
    pub fn set_ports(&self, count: usize) {
        self.ports.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A view was wrong.
    pub fn refused_view(&self) {
        self.view_refused.inc();
    }

    /// The switch asked about a packet.
    pub(crate) fn asked(&self, kind: &'static str) {
        self.questions.get_or_create(&[("kind", kind)]).inc();
    }

    /// Something became of a lease.
    pub(crate) fn leased(&self, family: &'static str, event: &'static str) {
        self.leases.get_or_create(&[("family", family), ("event", event)]).inc();
    }

    /// So many ways were forgotten.
    pub(crate) fn forgot(&self, ways: usize) {
        self.forgotten.inc_by(ways as u64);
    }

    /// So many groups are wanted more, or fewer.
    pub(crate) fn groups_changed(&self, before: usize, now: usize) {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        self.groups.inc_by(number(now) - number(before));
    }

    /// The switch was asked what it counted; nothing if it did not tell.
    pub(crate) fn set_switch(&self, counts: Option<SwitchCounts>) {
        self.switch.set(counts);
    }

    /// All of it as text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::default();
        metrics.stage("veth", Duration::from_millis(2));
        metrics.call("ADD", 11);
        metrics.set_ports(3);
        let text = metrics.render();
        for line in [
            "osier_agent_pod_creation_seconds_count{stage=\"veth\"} 1",
            "osier_agent_cni_calls_total{command=\"ADD\",code=\"11\"} 1",
            "osier_agent_ports 3",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
