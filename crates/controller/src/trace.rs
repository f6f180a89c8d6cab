//! The way of a packet through the cluster, stitched together from what each switch says.
//!
//! Pure: whom to ask next, and what it all comes to. Asking is the API's.

use osier_fleet::ask::{Outcome, Packet, TraceFrom, TraceStep, Traced, Transit, chosen};
use osier_model::{NodeName, PortKey};
use serde::Serialize;

/// Switches that a packet may cross; more is a loop.
const MOST: usize = 8;

/// What became of a packet, and where it came by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Journey {
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    pub(crate) hops: Vec<Hop>,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// It reaches a port.
    Delivered,
    /// A switch drops it.
    Dropped,
    /// It leaves what switches know: a machine routes it on, or answers.
    Routed,
    /// A node's agent answers in the target's place.
    Answered,
    /// It goes to many.
    Flooded,
    /// It goes round and round.
    Loop,
    /// A node could not be asked.
    Unknown,
}

/// One switch on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Hop {
    pub(crate) node: NodeName,
    pub(crate) summary: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) output: String,
    pub(crate) raw: String,
}

/// One table of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Table {
    #[serde(rename = "table")]
    number: u8,
    name: String,
    flow: Option<String>,
    owner: Option<String>,
    note: String,
}

/// Where to ask next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) node: NodeName,
    pub(crate) from: TraceFrom,
    pub(crate) packet: Packet,
}

/// A packet on its way.
#[derive(Debug)]
pub(crate) struct Stitching {
    /// Where it should arrive, if that is a port.
    target: Option<(NodeName, PortKey)>,
    hops: Vec<Hop>,
}

// === impl Journey ===

impl Journey {
    /// To whom the packet was translated, as the first switch that did says.
    pub(crate) fn translated(&self) -> Option<&str> {
        let notes = self.hops.iter().flat_map(|hop| &hop.tables).map(|table| table.note.as_str());
        notes
            .filter_map(|note| note.split_once("nat(dst="))
            .find_map(|(_, rest)| rest.split_once(')').map(|(endpoint, _)| endpoint))
    }

    /// Why it was that one, if there was a choice.
    pub(crate) fn why_translated(&self) -> Option<&'static str> {
        let says = |note: &str| {
            let tables = self.hops.iter().flat_map(|hop| &hop.tables);
            tables.into_iter().any(|table| table.note.contains(note))
        };
        [chosen::BY_AFFINITY, chosen::BY_HASH].into_iter().find(|note| says(note))
    }
}

// === impl Stitching ===

impl Stitching {
    pub(crate) fn new(target: Option<(NodeName, PortKey)>) -> Self {
        Self { target, hops: Vec::new() }
    }

    /// What a node's switch says: either that is the end, or there is somebody else to ask.
    pub(crate) fn heard(
        &mut self,
        node: &NodeName,
        traced: Traced,
        node_at: impl Fn(&Transit) -> Option<NodeName>,
    ) -> Result<Next, (Verdict, String)> {
        let Traced { steps, outcome, packet, raw } = traced;
        let output = output(&outcome);
        let summary = format!("{} tables, then {output}", steps.len());
        let tables = steps.into_iter().map(Table::from).collect();
        self.hops.push(Hop { node: node.clone(), summary, tables, output, raw });
        let transit = match outcome {
            Outcome::Tunnel(transit) => transit,
            Outcome::Many { ports, nodes } => self.among(node, &ports, nodes)?,
            other => return Err(self.end(node, other)),
        };
        let Some(next) = transit.node.clone().or_else(|| node_at(&transit)) else {
            let said = format!("node {node} sends it to {}, which is no node's", transit.target);
            return Err((Verdict::Dropped, said));
        };
        if self.hops.len() >= MOST {
            let said = format!("after {MOST} switches it is still on its way");
            return Err((Verdict::Loop, said));
        }
        Ok(Next { node: next, from: TraceFrom::Tunnel(transit), packet })
    }

    /// A node could not be asked.
    pub(crate) fn unheard(self, why: String) -> Journey {
        self.ended(Verdict::Unknown, why)
    }

    pub(crate) fn ended(self, verdict: Verdict, reason: String) -> Journey {
        Journey { verdict, reason, hops: self.hops }
    }

    /// The one of many ways that leads to the target.
    fn among(
        &self,
        node: &NodeName,
        ports: &[PortKey],
        nodes: Vec<Transit>,
    ) -> Result<Transit, (Verdict, String)> {
        let Some((target_node, target)) = &self.target else {
            let said = format!("node {node} sends it to {} ports", ports.len() + nodes.len());
            return Err((Verdict::Flooded, said));
        };
        if ports.contains(target) {
            let said = format!("it reaches port {target} on node {node}, among others");
            return Err((Verdict::Delivered, said));
        }
        let way = nodes.into_iter().find(|transit| transit.node.as_ref() == Some(target_node));
        way.ok_or_else(|| {
            let said = format!("node {node} sends it to many, but not to port {target}");
            (Verdict::Dropped, said)
        })
    }

    fn end(&self, node: &NodeName, outcome: Outcome) -> (Verdict, String) {
        match outcome {
            Outcome::Port { key } => match &self.target {
                Some((_, target)) if *target != key => {
                    let said = format!("it reaches port {key} on node {node}, not port {target}");
                    (Verdict::Delivered, said)
                }
                _ => (Verdict::Delivered, format!("it reaches port {key} on node {node}")),
            },
            Outcome::Gateway => {
                (Verdict::Routed, format!("it leaves to the machine of node {node}"))
            }
            Outcome::ServiceGateway => {
                let said = format!(
                    "it goes to the service gateway of node {node}, where kube-proxy leads it to an \
                     endpoint"
                );
                (Verdict::Routed, said)
            }
            Outcome::Agent { why } => {
                (Verdict::Answered, format!("the agent of node {node} answers: {why}"))
            }
            Outcome::Stranger { ofport } => {
                let said = format!("it leaves node {node} by port {ofport}, which is not Osier's");
                (Verdict::Routed, said)
            }
            Outcome::Dropped { table, name, owner, reason } => {
                let by = owner.map(|owner| format!(" by {owner}")).unwrap_or_default();
                let said =
                    format!("dropped{by} on node {node} in table {table} ({name}): {reason}");
                (Verdict::Dropped, said)
            }
            Outcome::Tunnel(_) | Outcome::Many { .. } => {
                (Verdict::Unknown, "it is still on its way".to_owned())
            }
        }
    }
}

impl From<TraceStep> for Table {
    fn from(step: TraceStep) -> Self {
        let TraceStep { table, name, flow, owner, notes } = step;
        Self { number: table, name, flow, owner, note: notes.join("; ") }
    }
}

/// What becomes of a packet at one node, in a few words.
fn output(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Port { key } => format!("to port {key}"),
        Outcome::Tunnel(transit) => {
            let node = transit.node.as_ref().map(|node| format!("node {node}, "));
            let (node, target, vni) = (node.unwrap_or_default(), transit.target, transit.vni);
            format!("through the tunnel to {node}{target}, network {vni}")
        }
        Outcome::Gateway => "to the machine".to_owned(),
        Outcome::ServiceGateway => "to the service gateway, and so to kube-proxy".to_owned(),
        Outcome::Agent { .. } => "to the agent".to_owned(),
        Outcome::Many { ports, nodes } => {
            format!("to {} ports and {} nodes", ports.len(), nodes.len())
        }
        Outcome::Stranger { ofport } => format!("to port {ofport} of others"),
        Outcome::Dropped { .. } => "dropped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_fleet::ask::Protocol;
    use osier_resource::port_key;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn packet() -> Packet {
        Packet {
            mac_source: None,
            mac_target: None,
            source: "10.5.0.2".parse().unwrap(),
            target: "10.5.0.3".parse().unwrap(),
            protocol: Protocol::Icmp,
            source_port: None,
            target_port: None,
            ttl: 64,
        }
    }

    fn traced(outcome: Outcome) -> Traced {
        let step = TraceStep {
            table: 0,
            name: "ingress".to_owned(),
            flow: Some("in_port=3".to_owned()),
            owner: Some("port shop:web".to_owned()),
            notes: vec!["one".to_owned(), "two".to_owned()],
        };
        Traced { steps: vec![step], outcome, packet: packet(), raw: "raw".to_owned() }
    }

    fn transit(to: Option<&str>) -> Transit {
        Transit {
            node: to.map(node),
            source: "192.0.2.1".parse().unwrap(),
            target: "192.0.2.2".parse().unwrap(),
            vni: 7,
            identity: None,
        }
    }

    fn nobody(_: &Transit) -> Option<NodeName> {
        None
    }

    #[test]
    fn two_switches_are_stitched_together() {
        let target = port_key("shop:db").unwrap();
        let mut stitching = Stitching::new(Some((node("n2"), target.clone())));
        let first = traced(Outcome::Tunnel(transit(Some("n2"))));
        let next = stitching.heard(&node("n1"), first, nobody).unwrap();
        assert_eq!((next.node, next.from), (node("n2"), TraceFrom::Tunnel(transit(Some("n2")))));
        let second = traced(Outcome::Port { key: target });
        let (verdict, reason) = stitching.heard(&node("n2"), second, nobody).unwrap_err();
        let journey = stitching.ended(verdict, reason);
        assert_eq!(journey.verdict, Verdict::Delivered);
        assert_eq!(journey.reason, "it reaches port shop:db on node n2");
        let hops: Vec<&str> = journey.hops.iter().map(|hop| hop.output.as_str()).collect();
        assert_eq!(
            hops,
            ["through the tunnel to node n2, 192.0.2.2, network 7", "to port shop:db"]
        );
        assert_eq!(journey.hops[0].tables[0].note, "one; two");
    }

    #[test]
    fn the_endpoint_is_what_was_translated_to() {
        let mut service = traced(Outcome::Gateway);
        service.steps[0].notes = vec!["ct(commit,nat(dst=10.1.0.7:8080),table=21)".to_owned()];
        let mut stitching = Stitching::new(None);
        let (verdict, reason) = stitching.heard(&node("n1"), service, nobody).unwrap_err();
        let journey = stitching.ended(verdict, reason);
        assert_eq!(journey.translated(), Some("10.1.0.7:8080"));
        assert_eq!(Stitching::new(None).unheard(String::new()).translated(), None);
    }

    #[test]
    fn who_leads_is_named() {
        let mut stitching = Stitching::new(None);
        let led = traced(Outcome::ServiceGateway);
        let (verdict, reason) = stitching.heard(&node("n1"), led, nobody).unwrap_err();
        assert_eq!(verdict, Verdict::Routed);
        assert!(reason.contains("service gateway of node n1, where kube-proxy leads"), "{reason}");
    }

    #[test]
    fn a_drop_says_who_and_why() {
        let mut stitching = Stitching::new(None);
        let dropped = Outcome::Dropped {
            table: 40,
            name: "policy".to_owned(),
            owner: Some("NetworkPolicy shop/deny-all".to_owned()),
            reason: "no rule allows it".to_owned(),
        };
        let end = stitching.heard(&node("n1"), traced(dropped), nobody).unwrap_err();
        let said = "dropped by NetworkPolicy shop/deny-all on node n1 in table 40 (policy): \
                    no rule allows it";
        assert_eq!(end, (Verdict::Dropped, said.to_owned()));
    }

    #[test]
    fn a_tunnel_to_nobody_and_one_in_a_circle_end() {
        let mut stitching = Stitching::new(None);
        let lost = traced(Outcome::Tunnel(transit(None)));
        let (verdict, said) = stitching.heard(&node("n1"), lost.clone(), nobody).unwrap_err();
        assert_eq!(verdict, Verdict::Dropped);
        assert_eq!(said, "node n1 sends it to 192.0.2.2, which is no node's");
        let mut stitching = Stitching::new(None);
        let (mut at, mut asked) = (node("n1"), 0);
        let end = loop {
            match stitching.heard(&at, lost.clone(), |_| Some(node("n2"))) {
                Ok(next) => at = next.node,
                Err(end) => break end,
            }
            asked += 1;
            assert!(asked < 100);
        };
        assert_eq!(end.0, Verdict::Loop);
    }

    #[test]
    fn of_many_ways_the_one_to_the_target_is_followed() {
        let target = port_key("shop:db").unwrap();
        let many = |ports: &[PortKey]| {
            let nodes = vec![transit(Some("n3")), transit(Some("n2"))];
            traced(Outcome::Many { ports: ports.to_vec(), nodes })
        };
        let mut stitching = Stitching::new(Some((node("n2"), target.clone())));
        let next = stitching.heard(&node("n1"), many(&[]), nobody).unwrap();
        assert_eq!(next.node, node("n2"));
        let end = stitching.heard(&node("n2"), many(std::slice::from_ref(&target)), nobody);
        assert_eq!(end.unwrap_err().0, Verdict::Delivered);
        let mut stitching = Stitching::new(None);
        let end = stitching.heard(&node("n1"), many(&[target]), nobody).unwrap_err();
        assert_eq!(end.0, Verdict::Flooded);
    }
}
