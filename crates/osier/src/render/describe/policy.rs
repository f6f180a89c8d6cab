//! Policies in words.

use super::Facts;
use osier_resource::{
    NetworkPolicySpec, NetworkPolicyStatus, NumberOrName, PolicyPeer, PolicyPort, PolicyType,
    Protocol,
};

pub(super) fn facts(spec: &NetworkPolicySpec, status: &NetworkPolicyStatus, facts: &mut Facts) {
    let about = match spec.pod_selector.is_everything() {
        true => "every workload of its namespace".to_owned(),
        false => format!("workloads of its namespace with {}", spec.pod_selector),
    };
    facts.say("About", about);
    if let Some(hits) = status.hits {
        facts.say("Hits", format!("{hits} connections were let through"));
    }
    let is_said = |of| spec.policy_types.contains(&of);
    let none = spec.policy_types.is_empty();
    if none || is_said(PolicyType::Ingress) {
        let rules = spec.ingress.iter().map(|rule| rule_in_words("from", &rule.from, &rule.ports));
        say(("May come in", "ingress"), rules, status, facts);
    }
    if (none && !spec.egress.is_empty()) || is_said(PolicyType::Egress) {
        let rules = spec.egress.iter().map(|rule| rule_in_words("to", &rule.to, &rule.ports));
        say(("May go out", "egress"), rules, status, facts);
    }
}

fn say(
    (heading, direction): (&'static str, &str),
    rules: impl Iterator<Item = String>,
    status: &NetworkPolicyStatus,
    facts: &mut Facts,
) {
    let mut is_empty = true;
    for (i, rule) in rules.enumerate() {
        let name = format!("{direction}[{i}]");
        let hits = status.rules.iter().find(|rule| rule.rule == name).map(|rule| match rule.hits {
            1 => ": 1 hit".to_owned(),
            hits => format!(": {hits} hits"),
        });
        facts.say(heading, format!("[{i}] {rule}{}", hits.unwrap_or_default()));
        is_empty = false;
    }
    if is_empty {
        facts.say(heading, "nothing");
    }
}

fn rule_in_words(way: &str, peers: &[PolicyPeer], ports: &[PolicyPort]) -> String {
    let peers: Vec<String> = peers.iter().map(peer).collect();
    let peers = if peers.is_empty() { "everyone".to_owned() } else { peers.join("; or ") };
    let ports: Vec<String> = ports.iter().map(port).collect();
    let ports = if ports.is_empty() { "whatever it is".to_owned() } else { ports.join(", ") };
    format!("{ports}, {way} {peers}")
}

fn peer(peer: &PolicyPeer) -> String {
    if let Some(block) = &peer.ip_block {
        let except: Vec<String> = block.except.iter().map(ToString::to_string).collect();
        let except =
            if except.is_empty() { String::new() } else { format!(" but {}", except.join(", ")) };
        return format!("{}{except}", block.cidr);
    }
    let who = match &peer.pod_selector {
        Some(selector) if !selector.is_everything() => format!("workloads with {selector}"),
        _ => "every workload".to_owned(),
    };
    let place = match &peer.namespace_selector {
        Some(selector) if selector.is_everything() => "every namespace".to_owned(),
        Some(selector) => format!("namespaces with {selector}"),
        None => "its own namespace".to_owned(),
    };
    format!("{who} of {place}")
}

fn port(port: &PolicyPort) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    };
    match (&port.port, port.end_port) {
        (None, _) => format!("all of {protocol}"),
        (Some(NumberOrName::Number(first)), Some(last)) => format!("{first}-{last}/{protocol}"),
        (Some(NumberOrName::Number(number)), None) => format!("{number}/{protocol}"),
        (Some(NumberOrName::Name(name)), _) => format!("{name}/{protocol}"),
    }
}
