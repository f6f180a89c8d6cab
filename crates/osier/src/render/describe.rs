//! One resource in plain words: what is wanted, what is, and what belongs to it.

mod policy;

use super::moment;
use super::paint::{Paint, Tone};
use super::table::{self, Table};
use crate::client::answers::NodeStatus;
use osier_resource::{
    Condition, Document, EndpointState, EndpointsSpec, FabricSpec, Kind, Resource, ServiceSpec,
    ServiceStatus, Truth,
};
use serde_json::Value;
use std::fmt::{Display, Write as _};
use time::OffsetDateTime;

/// The most related resources that are listed.
const MAX_RELATED: usize = 25;

/// What belongs to a resource.
#[derive(Debug, Default)]
pub(crate) struct Related {
    /// Under a heading: which kind, and those that belong to it.
    pub(crate) resources: Vec<(String, Kind, Vec<Value>)>,
    /// How a node is, if it is one.
    pub(crate) node: Option<NodeStatus>,
}

/// The whole description.
pub(crate) fn draw(
    resource: &Resource,
    related: &Related,
    now: OffsetDateTime,
    paint: Paint,
) -> String {
    let title = format!("{} {}", resource.kind(), resource.name());
    let mut text = format!("{}\n", paint.tone(Tone::Strong, &title));
    let mut facts = Facts::default();
    of_kind(resource, &mut facts);
    if let Some(node) = &related.node {
        of_node(node, now, &mut facts);
    }
    of_metadata(resource, now, &mut facts);
    text.push_str(&facts.0.draw("  ", paint));
    text.push_str(&conditions(resource.conditions(), now, paint));
    if let Some(node) = &related.node {
        text.push_str(&tunnels(node, paint));
    }
    for (heading, kind, members) in &related.resources {
        text.push_str(&list(heading, *kind, members, now, paint));
    }
    text
}

/// Lines of a name and what it is.
struct Facts(Table);

impl Default for Facts {
    fn default() -> Self {
        Self(Table::bare())
    }
}

impl Facts {
    fn say(&mut self, name: &str, what: impl Into<String>) {
        self.0.push([name.to_owned(), what.into()]);
    }

    /// A number or address that was given, or else allocated.
    fn say_chosen(&mut self, name: &str, given: Option<String>, allocated: Option<String>) {
        self.say(
            name,
            match (given, allocated) {
                (Some(given), _) => given,
                (None, Some(allocated)) => format!("{allocated} (allocated)"),
                (None, None) => "not allocated yet".to_owned(),
            },
        );
    }
}

fn of_kind(resource: &Resource, facts: &mut Facts) {
    match resource {
        Resource::Fabric(Document { spec, .. }) => of_fabric(spec, facts),
        Resource::Node(Document { spec, status, .. }) => {
            facts.say("Tunnels end at", spec.tunnel.to_string());
            if let Some(addresses) = join(&spec.addresses) {
                facts.say("Addresses", addresses);
            }
            facts.say_chosen("Pods' blocks", join(&spec.blocks), join(&status.blocks));
        }
        Resource::Pool(Document { spec, status, .. }) => {
            facts.say("Addresses", spec.cidr.to_string());
            if let Some(exclude) = join(&spec.exclude) {
                facts.say("Not given out", exclude);
            }
            let capacity = status.capacity.as_deref().unwrap_or("an unknown number");
            facts.say("Used", format!("{} of {capacity}", status.used.unwrap_or_default()));
        }
        Resource::Router(Document { spec, status, .. }) => {
            let (given, allocated) = (spec.vrf.map(|v| v.0), status.vrf.map(|v| v.0));
            facts.say_chosen("VRF", given.map(|v| v.to_string()), allocated.map(|v| v.to_string()));
        }
        Resource::Network(Document { spec, status, .. }) => {
            let text = |vni: u32| vni.to_string();
            let (given, allocated) = (&spec.vni, &status.vni);
            facts.say_chosen("VNI", given.map(|v| text(v.get())), allocated.map(|v| text(v.get())));
            let router = spec.router.as_ref().map(ToString::to_string);
            facts.say("Router", router.unwrap_or_else(|| "none: it is alone".to_owned()));
            facts.say("Ports reach others", format!("{:?}", spec.reach).to_lowercase());
            for subnet in &spec.subnets {
                let gateway = subnet.gateway.map(|g| format!(", gateway {g}")).unwrap_or_default();
                facts.say("Subnet", format!("{}{gateway}", subnet.cidr));
            }
            if let Some(pools) = join(&spec.pools) {
                facts.say("Addresses from", pools);
            }
        }
        Resource::Port(Document { spec, status, .. }) => {
            facts.say("Network", spec.network.to_string());
            facts.say("Node", spec.node.to_string());
            facts.say_chosen("Addresses", join(&spec.addresses), join(&status.addresses));
            let (given, allocated) = (spec.mac, status.mac);
            facts.say_chosen("MAC", given.map(|m| m.to_string()), allocated.map(|m| m.to_string()));
            for (name, limit) in [("To it", &spec.limits.ingress), ("From it", &spec.limits.egress)]
            {
                if let Some(limit) = limit {
                    facts.say(name, format!("at most {} bit/s", limit.rate));
                }
            }
        }
        Resource::Service(Document { spec, status, .. }) => of_service(spec, status, facts),
        Resource::Endpoints(Document { spec, .. }) => of_endpoints(spec, facts),
        Resource::Namespace(_) => {}
        Resource::NetworkPolicy(Document { spec, status, .. }) => {
            policy::facts(spec, status, facts);
        }
        Resource::Workload(Document { spec, status, .. }) => {
            let node = spec.node.as_ref().map(ToString::to_string);
            facts.say("Node", node.unwrap_or_else(|| "none yet".to_owned()));
            if let Some(identity) = status.identity {
                facts.say("Identity", identity.0.to_string());
            }
            for port in &spec.ports {
                facts.say("Port", format!("{} is {}/{}", port.name, port.port, port.transport));
            }
        }
    }
}

fn of_fabric(spec: &FabricSpec, facts: &mut Facts) {
    facts.say("Between nodes", format!("{:?}", spec.tunnel).to_lowercase());
    let said = join(&spec.cluster).map_or_else(
        || "no addresses are named".to_owned(),
        |cluster| format!("{cluster}: between these nothing is translated"),
    );
    facts.say("Cluster", said);
    if let Some(services) = join(&spec.services) {
        facts.say("Services", services);
    }
    let by = if spec.service_gateway { "each node's service gateway" } else { "the switches" };
    facts.say("Led there by", by);
    if let Some(isolation) = &spec.isolation {
        let but = join(&isolation.shared).map(|shared| format!(", but {shared}"));
        facts.say("Namespaces", format!("apart{}", but.unwrap_or_default()));
    }
    if spec.policy.log {
        facts.say("Policies", "what they deny is logged");
    }
    if spec.policy.rejudge {
        facts.say("Policies", "connections are judged again when they change");
    }
    if spec.accounting {
        facts.say("Accounting", "packets and bytes of Services are counted");
    }
}

fn of_service(spec: &ServiceSpec, status: &ServiceStatus, facts: &mut Facts) {
    facts.say_chosen("Addresses", join(&spec.addresses), join(&status.addresses));
    if let Some(external) = join(spec.external.iter().chain(&spec.balanced)) {
        facts.say("From outside", external);
    }
    if let Some(router) = &spec.router {
        facts.say("Router", router.to_string());
    }
    for port in &spec.ports {
        let name = if port.name.is_empty() { String::new() } else { format!(" ({})", port.name) };
        let node = port.node_port.map(|n| format!(", {n} on every node")).unwrap_or_default();
        facts.say("Port", format!("{}/{}{name}{node}", port.port, port.transport));
    }
    if let Some((ready, all)) = status.ready.zip(status.endpoints) {
        facts.say("Endpoints", format!("{ready} of {all} ready"));
    }
    if let Some(seconds) = spec.affinity {
        facts.say("A client stays", format!("{seconds} s with its endpoint"));
    }
    for (who, locality) in [("Inside", spec.internal_traffic), ("Outside", spec.external_traffic)] {
        if !locality.is_cluster() {
            facts.say(who, "only endpoints of the same node");
        }
    }
    if let Some(ranges) = join(&spec.source_ranges) {
        facts.say("Only for", ranges);
    }
    if let Some(port) = spec.health_port {
        facts.say("Health", format!("port {port} of every node"));
    }
}

fn of_endpoints(spec: &EndpointsSpec, facts: &mut Facts) {
    facts.say("Service", spec.service.to_string());
    for port in &spec.ports {
        facts.say("Port", format!("{}/{} {}", port.port, port.transport, port.name));
    }
    for endpoint in &spec.endpoints {
        let mut said = endpoint.address.to_string();
        if let Some(node) = &endpoint.node {
            let _ = write!(said, " on {node}");
        }
        match endpoint.state {
            EndpointState::Ready => {}
            EndpointState::Terminating => said.push_str(", ends"),
            EndpointState::Unready => said.push_str(", not ready"),
        }
        if endpoint.weight != 1 {
            let _ = write!(said, ", weight {}", endpoint.weight);
        }
        if let Some(zones) = join(&endpoint.zones) {
            let _ = write!(said, ", for zones {zones}");
        }
        facts.say("Endpoint", said);
    }
}

fn of_metadata(resource: &Resource, now: OffsetDateTime, facts: &mut Facts) {
    let metadata = resource.metadata();
    let labels = metadata.labels.iter().map(|(key, value)| format!("{key}={value}"));
    if let Some(labels) = join(labels) {
        facts.say("Labels", labels);
    }
    if let Some(made) = &metadata.creation_timestamp {
        facts.say("Made", format!("{} ago ({made})", moment::ago(made, now)));
    }
    let versions = [
        metadata.resource_version.as_ref().map(|version| format!("version {version}")),
        metadata.generation.map(|count| format!("generation {count}")),
    ];
    if let Some(versions) = join(versions.into_iter().flatten()) {
        facts.say("Revision", versions);
    }
}

fn of_node(node: &NodeStatus, now: OffsetDateTime, facts: &mut Facts) {
    let since = |at: &Option<String>| {
        at.as_deref().map(|at| format!(", for {}", moment::ago(at, now))).unwrap_or_default()
    };
    let word = if node.connected { "connected" } else { "not connected" };
    facts.say("Agent", format!("{word}{}", since(&node.since)));
    let state = match (node.paused, node.converged) {
        (true, _) => "paused: nothing is changed there".to_owned(),
        (false, true) => format!("as wanted{}", since(&node.converged_since)),
        (false, false) => "not yet as wanted".to_owned(),
    };
    facts.say("Switch", state);
    for line in &node.differs {
        facts.say("Differs", line);
    }
    for fault in &node.faults {
        facts.say("Fault", fault);
    }
    if let Some(expiry) = &node.certificate_expiry {
        facts.say("Certificate", format!("ends {}", moment::relative(expiry, now)));
    }
}

fn conditions(conditions: &[Condition], now: OffsetDateTime, paint: Paint) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["CONDITION", "IS SO", "SINCE", "WHY"]);
    for condition in conditions {
        let is_so = match condition.status {
            Truth::True => "yes",
            Truth::False => "no",
            Truth::Unknown => "unknown",
        };
        let since = condition.last_transition_time.as_deref();
        let why = match (condition.reason.as_str(), condition.message.as_str()) {
            ("", "") => "-".to_owned(),
            (reason, "") => reason.to_owned(),
            ("", message) => message.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        };
        let since = since.map_or_else(|| "-".to_owned(), |at| moment::ago(at, now));
        table.push([condition.kind.clone(), is_so.to_owned(), since, why]);
    }
    format!("\n{}", table.draw("", paint))
}

fn tunnels(node: &NodeStatus, paint: Paint) -> String {
    if node.tunnels.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["TUNNEL TO", "STATE", "ROUND TRIP"]);
    for tunnel in &node.tunnels {
        let rtt = tunnel.rtt_ms.map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.1} ms"));
        table.push([tunnel.peer.clone(), tunnel.state.clone(), rtt]);
    }
    format!("\n{}", table.draw("", paint))
}

fn list(heading: &str, kind: Kind, members: &[Value], now: OffsetDateTime, paint: Paint) -> String {
    let mut text = match members.len() {
        0 => format!("\n{heading}: none\n"),
        // What there is exactly one of is not counted.
        1 if heading == kind.name() => format!("\n{heading}\n"),
        count => format!("\n{heading}: {count}\n"),
    };
    if members.is_empty() {
        return text;
    }
    let mut drawn = Table::new(table::headings(kind, false));
    for member in members.iter().take(MAX_RELATED) {
        drawn.push(table::row(kind, member, false, now));
    }
    text.push_str(&drawn.draw("  ", paint));
    if members.len() > MAX_RELATED {
        let left = members.len() - MAX_RELATED;
        let _ = writeln!(text, "  and {left} more: osier get {}", kind.plural());
    }
    text
}

fn join(values: impl IntoIterator<Item = impl Display>) -> Option<String> {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

#[cfg(test)]
mod tests;
