//! Resources as rows of a table, for people.

use crate::kind::Kind;
use crate::policy::{NetworkPolicySpec, NetworkPolicyStatus, PolicyType};
use crate::resource::{Document, Resource};
use crate::service::{EndpointsSpec, ServicePortSpec, ServiceSpec, ServiceStatus};
use crate::status::{Condition, Truth};
use osier_model::{EndpointState, Locality};
use std::fmt::Display;

/// What stands where nothing is known.
const NONE: &str = "-";

// === impl Kind ===

impl Kind {
    /// The headings of a table of this kind. The first is always the name.
    pub fn columns(self, wide: bool) -> Vec<&'static str> {
        let (narrow, more): (&[&str], &[&str]) = match self {
            Self::Fabric => (&["NAME", "TUNNEL", "CLUSTER"], &["SERVICES", "BY"]),
            Self::Node => {
                (&["NAME", "READY", "TUNNEL", "PORTS"], &["BLOCKS", "ZONE", "AGENT", "SEEN"])
            }
            Self::Pool => (&["NAME", "CIDR", "USED", "CAPACITY"], &["EXCLUDE"]),
            Self::Router => (&["NAME", "VRF"], &[]),
            Self::Network => (&["NAME", "VNI", "ROUTER", "SUBNETS"], &["REACH", "PORTS"]),
            Self::Port => (&["NAME", "NETWORK", "NODE", "ADDRESSES"], &["MAC", "READY"]),
            Self::Service => (
                &["NAME", "ADDRESSES", "PORTS", "ENDPOINTS"],
                &["EXTERNAL", "ROUTER", "AFFINITY", "INTERNAL-TRAFFIC", "EXTERNAL-TRAFFIC"],
            ),
            Self::Endpoints => (&["NAME", "SERVICE", "PORTS", "READY"], &["ENDPOINTS"]),
            Self::Namespace => (&["NAME"], &[]),
            Self::NetworkPolicy => {
                (&["NAME", "SUBJECTS", "SELECTOR", "INGRESS", "EGRESS", "HITS"], &[])
            }
            Self::Workload => (&["NAME", "NODE", "IDENTITY"], &["PORTS"]),
        };
        let labels: &[&str] = &["LABELS"];
        let more = if wide { [more, labels].concat() } else { Vec::new() };
        [narrow, &more].concat()
    }
}

// === impl Resource ===

impl Resource {
    /// Its row, with as many cells as [`Kind::columns`] has headings.
    pub fn row(&self, wide: bool) -> Vec<String> {
        let mut cells = vec![self.name().to_owned()];
        cells.extend(self.cells());
        if wide {
            let labels = self.metadata().labels.iter().map(|(k, v)| format!("{k}={v}"));
            cells.push(list(labels));
        } else {
            cells.truncate(self.kind().columns(false).len());
        }
        cells
    }

    /// All but name and labels.
    fn cells(&self) -> Vec<String> {
        match self {
            Self::Fabric(Document { spec, .. }) => {
                let tunnel = format!("{:?}", spec.tunnel).to_lowercase();
                let by = if spec.service_gateway { "gateway" } else { "switch" };
                vec![tunnel, list(&spec.cluster), list(&spec.services), by.to_owned()]
            }
            Self::Node(Document { spec, status, .. }) => vec![
                truth(&status.conditions),
                spec.tunnel.to_string(),
                or_none(status.ports),
                list(if spec.blocks.is_empty() { &status.blocks } else { &spec.blocks }),
                or_none(spec.zone.as_ref()),
                or_none(status.agent_version.as_ref()),
                or_none(status.last_seen.as_ref()),
            ],
            Self::Pool(Document { spec, status, .. }) => vec![
                spec.cidr.to_string(),
                or_none(status.used),
                or_none(status.capacity.as_ref()),
                list(&spec.exclude),
            ],
            Self::Router(Document { spec, status, .. }) => {
                vec![or_none(spec.vrf.or(status.vrf).map(|vrf| vrf.0))]
            }
            Self::Network(Document { spec, status, .. }) => vec![
                or_none(spec.vni.or(status.vni).map(osier_model::Vni::get)),
                or_none(spec.router.as_ref()),
                list(spec.subnets.iter().map(|s| s.cidr)),
                format!("{:?}", spec.reach).to_lowercase(),
                or_none(status.ports),
            ],
            Self::Port(Document { spec, status, .. }) => vec![
                spec.network.to_string(),
                spec.node.to_string(),
                list(if spec.addresses.is_empty() { &status.addresses } else { &spec.addresses }),
                or_none(spec.mac.or(status.mac)),
                truth(&status.conditions),
            ],
            Self::Service(Document { spec, status, .. }) => service(spec, status),
            Self::Endpoints(Document { spec, .. }) => endpoints(spec),
            Self::Namespace(_) => Vec::new(),
            Self::NetworkPolicy(Document { spec, status, .. }) => policy(spec, status),
            Self::Workload(Document { spec, status, .. }) => vec![
                or_none(spec.node.as_ref()),
                or_none(status.identity.map(|identity| identity.0)),
                list(spec.ports.iter().map(|p| format!("{}={}/{}", p.name, p.port, p.transport))),
            ],
        }
    }
}

fn service(spec: &ServiceSpec, status: &ServiceStatus) -> Vec<String> {
    let port = |port: &ServicePortSpec| {
        let node = port.node_port.map_or_else(String::new, |number| format!(":{number}"));
        format!("{}{node}/{}", port.port, port.transport)
    };
    let addresses = if spec.addresses.is_empty() { &status.addresses } else { &spec.addresses };
    let count = status.ready.zip(status.endpoints).map(|(ready, all)| format!("{ready}/{all}"));
    let traffic = |locality: Locality| format!("{locality:?}").to_lowercase();
    vec![
        list(addresses),
        list(spec.ports.iter().map(port)),
        or_none(count),
        list(spec.external.iter().chain(&spec.balanced)),
        or_none(spec.router.as_ref()),
        or_none(spec.affinity.map(|seconds| format!("{seconds}s"))),
        traffic(spec.internal_traffic),
        traffic(spec.external_traffic),
    ]
}

fn endpoints(spec: &EndpointsSpec) -> Vec<String> {
    let ready = spec.endpoints.iter().filter(|e| e.state == EndpointState::Ready).count();
    vec![
        spec.service.to_string(),
        list(spec.ports.iter().map(|port| format!("{}/{}", port.port, port.transport))),
        format!("{ready}/{}", spec.endpoints.len()),
        list(spec.endpoints.iter().map(|endpoint| endpoint.address)),
    ]
}

fn policy(spec: &NetworkPolicySpec, status: &NetworkPolicyStatus) -> Vec<String> {
    let is_said = |of| spec.policy_types.contains(&of);
    let (none, open) = (spec.policy_types.is_empty(), "open".to_owned());
    let rules = |count: usize| match count {
        0 => "nothing".to_owned(),
        1 => "1 rule".to_owned(),
        count => format!("{count} rules"),
    };
    let ingress = none || is_said(PolicyType::Ingress);
    let egress = (none && !spec.egress.is_empty()) || is_said(PolicyType::Egress);
    let selector = match spec.pod_selector.is_everything() {
        true => "everything".to_owned(),
        false => spec.pod_selector.to_string(),
    };
    vec![
        or_none(status.subjects),
        selector,
        if ingress { rules(spec.ingress.len()) } else { open.clone() },
        if egress { rules(spec.egress.len()) } else { open },
        or_none(status.hits),
    ]
}

fn or_none(value: Option<impl Display>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

fn list(values: impl IntoIterator<Item = impl Display>) -> String {
    let values: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
    if values.is_empty() { NONE.to_owned() } else { values.join(",") }
}

/// What the condition `Ready` says; if it is not so, with the reason.
fn truth(conditions: &[Condition]) -> String {
    let ready = conditions.iter().find(|condition| condition.kind == "Ready");
    match ready {
        None => NONE.to_owned(),
        Some(Condition { status: Truth::True, .. }) => "yes".to_owned(),
        Some(Condition { status, reason, .. }) => {
            let word = if *status == Truth::False { "no" } else { "unknown" };
            if reason.is_empty() { word.to_owned() } else { format!("{word} ({reason})") }
        }
    }
}
