//! Connections of a cluster, out of what its nodes track.
//!
//! A connection between two nodes may be tracked by both: one knows why it may be sent, the other why it
//! may be received. Here they become one, with names on both sides. Knows no API; see `api::flows`.

use osier_fleet::ask::{Counted, Denied, Grounds, Parties, Side, TrackedConnection, Who};
use osier_model::{NamespaceName, NodeName, Port, PortKey, ServiceName};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// What policies say of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// No policy is about it.
    Open,
    /// Rules let it through.
    Allowed,
    /// A node talks to its own pod, which no policy forbids.
    Node,
    /// A pod talks to itself.
    Itself,
    /// The rule that let it through is no more.
    Outlived,
    /// No rule lets it through.
    Denied,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Flow {
    pub(crate) protocol: String,
    /// Who asked.
    pub(crate) source: Party,
    /// Who was asked.
    pub(crate) target: Party,
    /// Who answers, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answering: Option<Party>,
    pub(crate) state: Option<String>,
    pub(crate) verdict: Verdict,
    /// The rules that let it through; of what is denied, the policies that do not.
    pub(crate) by: Vec<String>,
    pub(crate) egress: Grounds,
    pub(crate) ingress: Grounds,
    /// Which nodes track it.
    pub(crate) nodes: BTreeSet<NodeName>,
    /// Both ways; nothing where the switch does not count.
    pub(crate) packets: Option<u64>,
    pub(crate) bytes: Option<u64>,
    /// How often it was tried in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) denied: Option<Denied>,
}

/// A side of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Party {
    pub(crate) name: Option<String>,
    /// `pod`, `service` or `node`.
    pub(crate) kind: Option<&'static str>,
    pub(crate) address: IpAddr,
    pub(crate) port: Option<u16>,
    #[serde(skip)]
    who: Option<Who>,
}

/// Which ones are wanted, beyond what nodes were asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) pod: Option<Pod>,
    pub(crate) namespace: Option<NamespaceName>,
    pub(crate) service: Option<ServiceName>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) port: Option<u16>,
}

/// A pod by name, with its addresses, or whoever has an address.
#[derive(Debug, Clone)]
pub(crate) enum Pod {
    Named(PortKey, Vec<IpAddr>),
    At(IpAddr),
}

/// The ports of the cluster by their addresses: several of one address if routers have the same.
pub(crate) struct Names(HashMap<IpAddr, Vec<PortKey>>);

/// What makes two that nodes tell of the same connection.
type Same = (u16, u8, (IpAddr, Option<u16>), (IpAddr, Option<u16>), bool);

// === impl Wanted ===

impl Wanted {
    /// Whom nodes are asked about: nobody in particular if anybody may be wanted. Nodes know those of other
    /// nodes by their addresses only.
    pub(crate) fn parties<'a>(&self, ports: impl Iterator<Item = &'a Port>) -> Option<Parties> {
        let Self { pod, namespace, service, .. } = self;
        if pod.is_none() && namespace.is_none() && service.is_none() {
            return None;
        }
        let mut addresses: BTreeSet<IpAddr> = match pod {
            Some(Pod::Named(_, addresses)) => addresses.iter().copied().collect(),
            Some(Pod::At(address)) => BTreeSet::from([*address]),
            None => BTreeSet::new(),
        };
        let of = |port: &&Port| namespace.is_some() && port.key.device.namespace() == *namespace;
        addresses.extend(ports.filter(of).flat_map(|port| port.addresses.iter().copied()));
        Some(Parties { addresses, namespace: namespace.clone(), service: service.clone() })
    }
}

// === impl Names ===

impl Names {
    pub(crate) fn of(ports: impl IntoIterator<Item = Port>) -> Self {
        let mut names: HashMap<IpAddr, Vec<PortKey>> = HashMap::new();
        for port in ports {
            for address in port.addresses {
                names.entry(address).or_default().push(port.key.clone());
            }
        }
        Self(names)
    }

    fn fill(&self, side: &mut Side) {
        if side.who.is_none()
            && let Some([only]) = self.0.get(&side.address).map(Vec::as_slice)
        {
            side.who = Some(Who::Port(only.clone()));
        }
    }
}

/// One list of what nodes tell.
pub(crate) fn join(
    told: impl IntoIterator<Item = (NodeName, Vec<TrackedConnection>)>,
    names: &Names,
) -> Vec<Flow> {
    let mut joined: BTreeMap<Same, (TrackedConnection, BTreeSet<NodeName>)> = BTreeMap::new();
    for (node, connections) in told {
        for connection in connections {
            let TrackedConnection { zone, protocol, source, answering, .. } = &connection;
            let at = |side: &Side| (side.address, side.port);
            let is_denied = connection.denied.is_some();
            let same = (*zone, *protocol, at(source), at(answering), is_denied);
            let (known, nodes) = joined
                .entry(same)
                .and_modify(|(known, _)| merge(known, &connection))
                .or_insert_with(|| (connection, BTreeSet::new()));
            nodes.insert(node.clone());
            for side in [&mut known.source, &mut known.target, &mut known.answering] {
                names.fill(side);
            }
        }
    }
    let mut flows: Vec<Flow> =
        joined.into_values().map(|(connection, nodes)| Flow::of(connection, nodes)).collect();
    flows.sort_by(|a, b| {
        (&a.source, &a.target, &a.protocol).cmp(&(&b.source, &b.target, &b.protocol))
    });
    flows
}

/// What another node knows of the same connection.
fn merge(known: &mut TrackedConnection, other: &TrackedConnection) {
    for (known, other) in [(&mut known.egress, &other.egress), (&mut known.ingress, &other.ingress)]
    {
        if weight(other) > weight(known) {
            *known = other.clone();
        }
    }
    // Behind the node where it begins nobody knows which Service was asked.
    if known.target.address == known.answering.address {
        known.target = other.target.clone();
    }
    for (known, other) in
        [(&mut known.source, &other.source), (&mut known.answering, &other.answering)]
    {
        if known.who.is_none() {
            known.who.clone_from(&other.who);
        }
    }
    // Both count the same packets, one of them later.
    known.counted =
        std::cmp::max_by_key(known.counted, other.counted, |counted: &Option<Counted>| {
            counted.map(|counted| counted.bytes)
        });
    if known.state.is_none() {
        known.state.clone_from(&other.state);
    }
}

/// How much somebody knows who says so.
fn weight(grounds: &Grounds) -> u8 {
    match grounds {
        Grounds::Open => 0,
        Grounds::Elsewhere => 1,
        _ => 2,
    }
}

// === impl Flow ===

impl Flow {
    fn of(connection: TrackedConnection, nodes: BTreeSet<NodeName>) -> Self {
        let TrackedConnection { source, target, answering, egress, ingress, counted, .. } =
            connection;
        let verdict = Verdict::of(&egress, &ingress);
        let by = [&egress, &ingress].into_iter().flat_map(named).collect();
        let is_another = (target.address, target.port) != (answering.address, answering.port);
        Self {
            protocol: protocol(connection.protocol),
            source: source.into(),
            target: target.into(),
            answering: is_another.then(|| answering.into()),
            state: connection.state,
            verdict,
            by,
            egress,
            ingress,
            nodes,
            packets: counted.map(|counted| counted.packets),
            bytes: counted.map(|counted| counted.bytes),
            denied: connection.denied,
        }
    }

    /// Whether all fits that is wanted.
    pub(crate) fn is_wanted(&self, wanted: &Wanted) -> bool {
        let Wanted { pod, namespace, service, verdict, port } = wanted;
        let any = |fits: &dyn Fn(&Party) -> bool| {
            fits(&self.source) || fits(&self.target) || self.answering.as_ref().is_some_and(fits)
        };
        let is_pod = |party: &Party| match pod {
            Some(Pod::Named(key, _)) => party.who == Some(Who::Port(key.clone())),
            Some(Pod::At(address)) => party.address == *address,
            None => true,
        };
        verdict.is_none_or(|verdict| verdict == self.verdict)
            && any(&is_pod)
            && port.is_none_or(|port| any(&|party| party.port == Some(port)))
            && (namespace.is_none()
                || any(&|party| party.who.as_ref().and_then(Who::namespace) == *namespace))
            && service
                .as_ref()
                .is_none_or(|name| self.target.who == Some(Who::Service(name.clone())))
    }
}

// === impl Verdict ===

impl Verdict {
    fn of(egress: &Grounds, ingress: &Grounds) -> Self {
        let of = |grounds: &Grounds| match grounds {
            // Who judged has not told of it, or no longer tracks it.
            Grounds::Open | Grounds::Elsewhere => Self::Open,
            Grounds::Rules(_) => Self::Allowed,
            Grounds::Node => Self::Node,
            Grounds::Itself => Self::Itself,
            Grounds::Gone => Self::Outlived,
            Grounds::Denied(_) => Self::Denied,
        };
        match (of(egress), of(ingress)) {
            (Self::Denied, _) | (_, Self::Denied) => Self::Denied,
            (Self::Open, other) | (other, Self::Open) => other,
            (Self::Outlived, _) | (_, Self::Outlived) => Self::Outlived,
            (other, _) => other,
        }
    }
}

fn named(grounds: &Grounds) -> Vec<String> {
    match grounds {
        Grounds::Rules(rules) => rules.iter().map(ToString::to_string).collect(),
        Grounds::Denied(policies) => policies.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        132 => "sctp".to_owned(),
        other => other.to_string(),
    }
}

// === impl Party ===

impl From<Side> for Party {
    fn from(side: Side) -> Self {
        let Side { address, port, who } = side;
        let (kind, name) = match &who {
            Some(Who::Port(key)) => (Some("pod"), Some(key.to_string())),
            Some(Who::Service(name)) => (Some("service"), Some(name.to_string())),
            Some(Who::Node(name)) => (Some("node"), Some(name.to_string())),
            None => (None, None),
        };
        Self { name, kind, address, port, who }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_model::{Direction, RuleRef};

    fn side(address: &str, port: u16, pod: Option<&str>) -> Side {
        let key = |device: &str| PortKey {
            device: device.parse().unwrap(),
            interface: "eth0".parse().unwrap(),
        };
        let who = pod.map(|device| Who::Port(key(device)));
        Side { address: address.parse().unwrap(), port: Some(port), who }
    }

    fn tracked(source: Side, target: Side, answering: Side) -> TrackedConnection {
        TrackedConnection {
            zone: 2,
            protocol: 6,
            source,
            target,
            answering,
            state: Some("ESTABLISHED".to_owned()),
            egress: Grounds::Open,
            ingress: Grounds::Open,
            counted: None,
            denied: None,
        }
    }

    /// The sender's node knows the Service and the sender, the receiver's who answers and why it may.
    #[test]
    fn two_halves_are_one_connection() {
        let web = || side("10.1.1.5", 4000, Some("shop:web"));
        let unnamed = |mut side: Side| {
            side.who = None;
            side
        };
        let db = || side("10.1.2.5", 5432, Some("shop:db"));
        let mut service = side("10.96.0.1", 80, None);
        service.who = Some(Who::Service("shop:db".parse().unwrap()));
        let mut sent = tracked(web(), service, unnamed(db()));
        sent.egress = Grounds::Elsewhere;
        let mut received = tracked(unnamed(web()), db(), db());
        let rule =
            RuleRef { policy: "shop:db".parse().unwrap(), direction: Direction::Ingress, index: 1 };
        received.ingress = Grounds::Rules(vec![rule]);
        received.counted = Some(Counted { packets: 3, bytes: 180 });
        let (n1, n2): (NodeName, NodeName) = ("n1".parse().unwrap(), "n2".parse().unwrap());
        for told in [
            [(n1.clone(), vec![sent.clone()]), (n2.clone(), vec![received.clone()])],
            [(n2.clone(), vec![received.clone()]), (n1.clone(), vec![sent.clone()])],
        ] {
            let flows = join(told, &Names::of([]));
            assert_eq!(flows.len(), 1, "{flows:?}");
            let flow = &flows[0];
            assert_eq!(flow.source.name.as_deref(), Some("shop:web"));
            assert_eq!((flow.target.kind, flow.target.port), (Some("service"), Some(80)));
            let answering = flow.answering.as_ref().and_then(|party| party.name.as_deref());
            assert_eq!(answering, Some("shop:db"));
            assert_eq!(
                (flow.verdict, &flow.by[..]),
                (Verdict::Allowed, &["shop:db ingress[1]".to_owned()][..])
            );
            assert_eq!((flow.nodes.len(), flow.bytes), (2, Some(180)));
            let wants = |wanted: Wanted| flow.is_wanted(&wanted);
            let shop: NamespaceName = "shop".parse().unwrap();
            assert!(wants(Wanted { namespace: Some(shop), ..Wanted::default() }));
            assert!(!wants(Wanted { verdict: Some(Verdict::Open), ..Wanted::default() }));
            let at = |address: &str| Some(Pod::At(address.parse().unwrap()));
            assert!(wants(Wanted { pod: at("10.1.2.5"), ..Wanted::default() }));
            assert!(!wants(Wanted { pod: at("10.1.2.6"), ..Wanted::default() }));
            let service = Some("shop:other".parse().unwrap());
            assert!(!wants(Wanted { service, ..Wanted::default() }));
        }
    }
}
