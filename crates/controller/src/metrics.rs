//! What the controller counts, in Prometheus' text.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

type Requests = Family<[(&'static str, String); 3], Counter>;
type Seconds = Gauge<f64, AtomicU64>;

/// All counters; a cheap handle.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Requests,
    request_time: Histogram,
    commit_time: Histogram,
    writes: Counter,
    commits: Counter,
    revision: Gauge,
    nodes_connected: Gauge,
    nodes_converged: Gauge,
    watches: Gauge,
    limited: Counter,
    audit_failures: Counter,
    certificates: Family<[(&'static str, String); 1], Seconds>,
    kubernetes: Family<[(&'static str, String); 1], Gauge>,
    kubernetes_refusals: Family<[(&'static str, String); 1], Counter>,
    kubernetes_watch_errors: Family<[(&'static str, String); 1], Counter>,
    restconf_normalised: Family<[(&'static str, String); 1], Counter>,
    restconf_healed: Counter,
    restconf_aged: Counter,
    switches_refused: Counter,
    switches_leases: Family<[(&'static str, &'static str); 2], Counter>,
}

/// From a tenth of a millisecond to some three seconds.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 16))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut r = Registry::with_prefix("osier_controller");
        let metrics = Self {
            registry: Arc::default(),
            requests: Requests::default(),
            request_time: histogram(),
            commit_time: histogram(),
            writes: Counter::default(),
            commits: Counter::default(),
            revision: Gauge::default(),
            nodes_connected: Gauge::default(),
            nodes_converged: Gauge::default(),
            watches: Gauge::default(),
            limited: Counter::default(),
            audit_failures: Counter::default(),
            certificates: Family::default(),
            kubernetes: Family::default(),
            kubernetes_refusals: Family::default(),
            kubernetes_watch_errors: Family::default(),
            restconf_normalised: Family::default(),
            restconf_healed: Counter::default(),
            restconf_aged: Counter::default(),
            switches_refused: Counter::default(),
            switches_leases: Family::default(),
        };
        let m = metrics.clone();
        r.register("requests", "Requests, by method, route and status", m.requests);
        let (seconds, help) = (Unit::Seconds, "Time of requests, but for watches");
        r.register_with_unit("request", help, seconds.clone(), m.request_time);
        r.register_with_unit("commit", "Time of commits", seconds.clone(), m.commit_time);
        r.register("writes", "Writes that were stored", m.writes);
        r.register("commits", "Commits: several writes may share one", m.commits);
        r.register("revision", "Where the store is", m.revision);
        r.register("nodes_connected", "Nodes whose agents are connected", m.nodes_connected);
        r.register("nodes_converged", "Nodes whose switches are as wanted", m.nodes_converged);
        r.register("watches", "Watches that are open", m.watches);
        r.register("rate_limited", "Requests that came too fast", m.limited);
        r.register("audit_failures", "Lines of the audit log that were lost", m.audit_failures);
        let help = "When a certificate ends, in seconds since 1970";
        r.register_with_unit("certificate_expiry", help, seconds, m.certificates);
        let help = "What is wrong with objects of Kubernetes, by kind";
        r.register("kubernetes_problems", help, m.kubernetes);
        let help =
            "Requests that the API server was too busy for, or others were faster, by its answer";
        r.register("kubernetes_refusals", help, m.kubernetes_refusals);
        let help = "Errors of watches, by what is watched";
        r.register("kubernetes_watch_errors", help, m.kubernetes_watch_errors);
        let help = "What RESTCONF clients sent that YANG refuses, and was taken, by rule";
        r.register("restconf_normalised", help, m.restconf_normalised);
        let help = "Entries that a RESTCONF client no longer named after its restart";
        r.register("restconf_healed", help, m.restconf_healed);
        let help = "Pods that were gone from their switch, and went from RESTCONF's data";
        r.register("restconf_aged", help, m.restconf_aged);
        let help = "Switches without an agent, or wires of them, that were refused";
        r.register("switches_refused", help, m.switches_refused);
        let help = "What became of leases on switches without an agent, by family and event";
        r.register("switches_leases", help, m.switches_leases);
        Self { registry: Arc::new(r), ..metrics }
    }
}

impl Metrics {
    /// All of it, as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// How many objects of Kubernetes have a problem of a kind.
    pub fn kubernetes_problems(&self, kind: &str, count: usize) {
        let gauge = self.kubernetes.get_or_create(&[("kind", kind.to_owned())]);
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The API server has refused some more requests.
    pub fn kubernetes_refusals(&self, code: u16, more: u64) {
        let counter = self.kubernetes_refusals.get_or_create(&[("code", code.to_string())]);
        counter.inc_by(more);
    }

    /// A watch of the API server broke some times more.
    pub fn kubernetes_watch_errors(&self, resource: &str, more: u64) {
        let labels = [("resource", resource.to_owned())];
        self.kubernetes_watch_errors.get_or_create(&labels).inc_by(more);
    }

    pub(crate) fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        let labels = [
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("status", status.to_string()),
        ];
        self.requests.get_or_create(&labels).inc();
        self.request_time.observe(took.as_secs_f64());
    }

    pub(crate) fn committed(&self, took: Duration) {
        self.commits.inc();
        self.commit_time.observe(took.as_secs_f64());
    }

    pub(crate) fn round(&self, writes: usize, revision: u64) {
        self.writes.inc_by(u64::try_from(writes).unwrap_or(u64::MAX));
        self.revision.set(i64::try_from(revision).unwrap_or(i64::MAX));
    }

    pub(crate) fn nodes(&self, connected: usize, converged: usize) {
        self.nodes_connected.set(i64::try_from(connected).unwrap_or(i64::MAX));
        self.nodes_converged.set(i64::try_from(converged).unwrap_or(i64::MAX));
    }

    /// A client sent what YANG refuses.
    pub(crate) fn restconf_normalised(&self, rule: &str, count: u32) {
        let counter = self.restconf_normalised.get_or_create(&[("rule", rule.to_owned())]);
        counter.inc_by(count.into());
    }

    /// Entries of a client that has forgotten them are gone.
    pub(crate) fn restconf_healed(&self, count: usize) {
        self.restconf_healed.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Pods that no switch has any more are gone.
    pub(crate) fn restconf_aged(&self, count: usize) {
        self.restconf_aged.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// A switch without an agent claimed what is not its own.
    pub(crate) fn switch_refused(&self) {
        self.switches_refused.inc();
    }

    /// A client on a switch without an agent asked for its addresses.
    pub(crate) fn switch_leased(&self, family: &'static str, event: &'static str) {
        self.switches_leases.get_or_create(&[("family", family), ("event", event)]).inc();
    }

    pub(crate) fn watch_began(&self) {
        self.watches.inc();
    }

    pub(crate) fn watch_ended(&self) {
        self.watches.dec();
    }

    pub(crate) fn limited(&self) {
        self.limited.inc();
    }

    pub(crate) fn audit_failed(&self) {
        self.audit_failures.inc();
    }

    /// When the certificate of somebody ends.
    pub(crate) fn certificate(&self, of: &str, ends: SystemTime) {
        let seconds = ends.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.certificates.get_or_create(&[("of", of.to_owned())]).set(seconds.as_secs_f64());
    }

    /// Somebody is gone.
    pub(crate) fn certificate_gone(&self, of: &str) {
        self.certificates.remove(&[("of", of.to_owned())]);
    }
}
