//! Which endpoints a node sends a Service's connections to. Pure: the Service's policies, the
//! endpoints' states and hints, and where the node stands.
//!
//! The rules are those of kube-proxy: ready endpoints; if there are none, those that end and still
//! answer; and hints count only if every ready endpoint has one, and one of them is for this node
//! or its zone.

use crate::name::NodeName;
use crate::service::{Endpoint, EndpointState, Endpoints, Locality, ServicePort};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where connections to one port of a Service end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend {
    /// The endpoint's address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its share of connections, beside the others'.
    pub weight: u16,
}

/// Where a node stands.
#[derive(Debug, Clone, Copy)]
pub struct Standpoint<'a> {
    /// Which node.
    pub node: &'a NodeName,
    /// In which zone.
    pub zone: Option<&'a str>,
}

/// Endpoints of one port of a Service, of one family.
#[derive(Debug, Clone)]
pub struct Candidates<'a> {
    endpoints: BTreeMap<(IpAddr, u16), &'a Endpoint>,
}

// === impl Candidates ===

impl<'a> Candidates<'a> {
    /// All that listen for a port of a Service. Slices may say an endpoint twice, as while it moves
    /// from one to the other: its best state counts.
    pub fn new(
        slices: impl Iterator<Item = &'a Endpoints>,
        port: &ServicePort,
        ipv6: bool,
    ) -> Self {
        let mut endpoints: BTreeMap<(IpAddr, u16), &Endpoint> = BTreeMap::new();
        for slice in slices {
            let is_same =
                |p: &&crate::EndpointPort| p.name == port.name && p.transport == port.transport;
            let Some(number) = slice.ports.iter().find(is_same).map(|p| p.port) else { continue };
            for endpoint in slice.endpoints.iter().filter(|e| e.address.is_ipv6() == ipv6) {
                let known = endpoints.entry((endpoint.address, number)).or_insert(endpoint);
                if rank(endpoint.state) < rank(known.state) {
                    *known = endpoint;
                }
            }
        }
        Self { endpoints }
    }

    /// Those that a node uses.
    pub fn choose(&self, locality: Locality, from: Standpoint<'_>) -> Vec<Backend> {
        let is_here = |e: &Endpoint| e.node.as_ref() == Some(from.node);
        let is_near: &dyn Fn(&Endpoint) -> bool = match (locality, self.nearness(from)) {
            (Locality::Local, _) => &is_here,
            (Locality::Cluster, Nearness::Any) => &|_| true,
            (Locality::Cluster, Nearness::Node) => &|e| e.nodes.contains(from.node),
            (Locality::Cluster, Nearness::Zone(zone)) => {
                &move |e| e.zones.iter().any(|z| z == zone)
            }
        };
        let chosen = self.filter(|e| e.state == EndpointState::Ready && is_near(e));
        if !chosen.is_empty() {
            return chosen;
        }
        let may = |e: &Endpoint| locality == Locality::Cluster || is_here(e);
        self.filter(|e| e.state == EndpointState::Terminating && may(e))
    }

    /// How many ready ones are on a node.
    pub fn ready_at(&self, node: &NodeName) -> usize {
        let ready =
            |e: &&&Endpoint| e.state == EndpointState::Ready && e.node.as_ref() == Some(node);
        self.endpoints.values().filter(ready).count()
    }

    /// All of them, whatever they are: those that answer, and those that may still.
    pub fn all(&self) -> impl Iterator<Item = (IpAddr, u16, &'a Endpoint)> {
        self.endpoints.iter().map(|((address, port), endpoint)| (*address, *port, *endpoint))
    }

    fn filter(&self, keep: impl Fn(&Endpoint) -> bool) -> Vec<Backend> {
        let kept = || self.endpoints.iter().filter(|(_, e)| keep(e));
        // One that weighs nothing gets nothing, unless nobody weighs anything.
        let weightless = kept().all(|(_, e)| e.weight == 0);
        kept()
            .filter(|(_, e)| weightless || e.weight > 0)
            .map(|((address, port), e)| Backend {
                address: *address,
                port: *port,
                weight: e.weight.max(1),
            })
            .collect()
    }

    /// How near endpoints should be, by their hints.
    fn nearness<'z>(&self, from: Standpoint<'z>) -> Nearness<'z> {
        let ready = || self.endpoints.values().filter(|e| e.state == EndpointState::Ready);
        if ready().all(|e| !e.nodes.is_empty()) && ready().any(|e| e.nodes.contains(from.node)) {
            return Nearness::Node;
        }
        match from.zone {
            Some(zone)
                if ready().all(|e| !e.zones.is_empty())
                    && ready().any(|e| e.zones.iter().any(|z| z == zone)) =>
            {
                Nearness::Zone(zone)
            }
            _ => Nearness::Any,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Nearness<'a> {
    Any,
    Zone(&'a str),
    Node,
}

fn rank(state: EndpointState) -> u8 {
    match state {
        EndpointState::Ready => 0,
        EndpointState::Terminating => 1,
        EndpointState::Unready => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Transport;
    use proptest::prelude::*;

    fn slice(text: &str) -> Endpoints {
        serde_json::from_str(text).unwrap()
    }

    /// Endpoints in short: `address state node zones nodes`, `-` for nothing.
    fn endpoints(lines: &[&str]) -> Endpoints {
        let of = |line: &&str| {
            let words: Vec<&str> = line.split(' ').collect();
            let list = |word: Option<&&str>| -> Vec<String> {
                let word = word.filter(|w| **w != "-").copied().unwrap_or_default();
                word.split(',').filter(|w| !w.is_empty()).map(str::to_owned).collect()
            };
            Endpoint {
                address: words[0].parse().unwrap(),
                state: match words[1] {
                    "ready" => EndpointState::Ready,
                    "ends" => EndpointState::Terminating,
                    _ => EndpointState::Unready,
                },
                node: list(words.get(2)).first().map(|n| n.parse().unwrap()),
                weight: 1,
                zones: list(words.get(3)),
                nodes: list(words.get(4)).iter().map(|n| n.parse().unwrap()).collect(),
            }
        };
        Endpoints {
            endpoints: lines.iter().map(of).collect(),
            ..slice(r#"{"service":"a:b","slice":"s","ports":[{"port":8080}]}"#)
        }
    }

    fn port() -> ServicePort {
        ServicePort { name: String::new(), transport: Transport::Tcp, port: 80, node_port: None }
    }

    fn chosen(lines: &[&str], locality: Locality, zone: Option<&str>) -> Vec<String> {
        let slice = endpoints(lines);
        let node = "n1".parse().unwrap();
        let from = Standpoint { node: &node, zone };
        let backends = Candidates::new([&slice].into_iter(), &port(), false).choose(locality, from);
        backends.iter().map(|b| b.address.to_string()).collect()
    }

    #[test]
    fn as_kube_proxy_chooses() {
        use Locality::{Cluster, Local};
        type Case<'a> = (&'a [&'a str], Locality, Option<&'a str>, &'a [&'a str]);
        let table: &[Case<'_>] = &[
            (&["10.0.0.1 ready n1", "10.0.0.2 ready n2"], Cluster, None, &["10.0.0.1", "10.0.0.2"]),
            (&["10.0.0.1 ready n1", "10.0.0.2 ready n2"], Local, None, &["10.0.0.1"]),
            (&["10.0.0.2 ready n2"], Local, None, &[]),
            // Those that end are used when nobody else is there, here or anywhere.
            (&["10.0.0.1 ends n1", "10.0.0.2 ready n2"], Cluster, None, &["10.0.0.2"]),
            (&["10.0.0.1 ends n1", "10.0.0.2 ready n2"], Local, None, &["10.0.0.1"]),
            (&["10.0.0.1 ends n1", "10.0.0.2 not n2"], Cluster, None, &["10.0.0.1"]),
            (&["10.0.0.2 not n2"], Cluster, None, &[]),
            // Zones.
            (&["10.0.0.1 ready n1 a", "10.0.0.2 ready n2 b"], Cluster, Some("b"), &["10.0.0.2"]),
            (
                &["10.0.0.1 ready n1 a", "10.0.0.2 ready n2 b"],
                Cluster,
                Some("c"),
                &["10.0.0.1", "10.0.0.2"],
            ),
            (
                &["10.0.0.1 ready n1 a", "10.0.0.2 ready n2 b"],
                Cluster,
                None,
                &["10.0.0.1", "10.0.0.2"],
            ),
            (
                &["10.0.0.1 ready n1 a", "10.0.0.2 ready n2"],
                Cluster,
                Some("a"),
                &["10.0.0.1", "10.0.0.2"],
            ),
            // One that is not ready need not have a hint.
            (&["10.0.0.1 ready n1 a", "10.0.0.2 not n2"], Cluster, Some("a"), &["10.0.0.1"]),
            // Nodes before zones; without one for this node, zones.
            (
                &["10.0.0.1 ready n1 a n1", "10.0.0.2 ready n2 a n2"],
                Cluster,
                Some("a"),
                &["10.0.0.1"],
            ),
            (
                &["10.0.0.3 ready n3 b n3", "10.0.0.2 ready n2 a n2"],
                Cluster,
                Some("a"),
                &["10.0.0.2"],
            ),
            // Hints say nothing of local traffic.
            (&["10.0.0.1 ready n1 b"], Local, Some("a"), &["10.0.0.1"]),
        ];
        for (lines, locality, zone, expected) in table {
            assert_eq!(
                chosen(lines, *locality, *zone),
                **expected,
                "{lines:?} {locality:?} {zone:?}"
            );
        }
    }

    #[test]
    fn ports_are_found_by_name_and_families_are_apart() {
        let json = r#"{"service":"a:b","slice":"s","ports":[{"name":"web","port":8080},{"name":"dns","transport":"udp","port":53}],
            "endpoints":[{"address":"10.0.0.1"},{"address":"10.0.0.2","weight":0},{"address":"10.0.0.3","weight":7}]}"#;
        let slice = slice(json);
        let named = |name: &str, transport| ServicePort { name: name.into(), transport, ..port() };
        let node = "n1".parse().unwrap();
        let from = Standpoint { node: &node, zone: None };
        let all = |port: &ServicePort, ipv6| {
            Candidates::new([&slice, &slice].into_iter(), port, ipv6)
                .choose(Locality::Cluster, from)
        };
        let web = all(&named("web", Transport::Tcp), false);
        assert_eq!(
            web.iter().map(|b| (b.port, b.weight)).collect::<Vec<_>>(),
            [(8080, 1), (8080, 7)]
        );
        assert_eq!(all(&named("dns", Transport::Udp), false)[0].port, 53);
        assert!(all(&named("dns", Transport::Tcp), false).is_empty());
        assert!(all(&named("web", Transport::Tcp), true).is_empty());
    }

    proptest! {
        /// Whoever is chosen is there and answers; who is ready is never passed over for who ends;
        /// and unless all are far, who is local is among all.
        #[test]
        fn nobody_is_chosen_who_does_not_answer(
            said in prop::collection::vec((1..9_u8, 0..3_u8, 0..3_u8, 0..3_u8), 0..12),
            zone in 0..3_u8,
        ) {
            let lines: Vec<String> = said.iter().map(|(a, state, node, zone)| {
                let state = ["ready", "ends", "not"][usize::from(*state)];
                let zone = ["-", "a", "b"][usize::from(*zone)];
                format!("10.0.0.{a} {state} n{node} {zone}")
            }).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let zone = [None, Some("a"), Some("b")][usize::from(zone)];
            let answers = |state: &str, address: &str| {
                lines.iter().any(|l| l.starts_with(&format!("{address} {state}")))
            };
            for locality in [Locality::Cluster, Locality::Local] {
                let chosen = chosen(&lines, locality, zone);
                let some_ready = chosen.iter().any(|a| answers("ready", a));
                for address in &chosen {
                    prop_assert!(answers("ready", address) || answers("ends", address));
                    prop_assert!(!some_ready || answers("ready", address));
                }
            }
            let any = lines.iter().any(|l| !l.contains("not"));
            prop_assert_eq!(!chosen(&lines, Locality::Cluster, zone).is_empty(), any);
        }
    }
}
