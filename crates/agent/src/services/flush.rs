//! Connections that are to be forgotten, since whom they were led to answers no more.
//!
//! The switch keeps a connection on its endpoint, whatever becomes of the group. So an endpoint that
//! is gone takes its connections along; and what goes by datagrams, which know no end, also leaves
//! an endpoint that no longer takes new ones.

use super::{fronts, zone_of_service};
use crate::Chain;
use crate::metrics::Metrics;
use osier_model::{Candidates, Change, EndpointState, Key, Object, ServiceName, Transport, View};
use osier_openflow::message::{CtFlush, CtTuple, Message};
use osier_openflow::session::{Backoff, Dialer, Endpoint, Options};
use osier_ovsdb::unixctl::conntrack::Connection;
use osier_ovsdb::unixctl::conntrack::Transport::Ports;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::sleep_until;
use tracing::{debug, warn};

/// What waits to be forgotten. Who finds no room waits.
const QUEUE: usize = 1024;
/// When the datapath has looked at all that it caches: within half a second (`max-revalidator` of Open
/// vSwitch) if it has the time, later on a busy machine. How long after the time before a way is forgotten
/// again, and how many are at most.
const REVALIDATED: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(10)];
const MOST_AGAIN: usize = 1 << 16;

/// A way that connections may have taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stale {
    zone: u16,
    transport: Transport,
    /// The Service's address and port.
    service: (IpAddr, u16),
    /// The endpoint's; any, if the Service is gone.
    endpoint: Option<(IpAddr, u16)>,
}

// === impl Stale ===

impl Stale {
    /// The Service that a change is of.
    pub(crate) fn service_of(change: &Change) -> Option<ServiceName> {
        match change {
            Change::Put(Object::Service(service)) => Some(service.name.clone()),
            Change::Put(Object::Endpoints(endpoints)) => Some(endpoints.key.service.clone()),
            Change::Delete(Key::Service(name)) => Some(name.clone()),
            Change::Delete(Key::Endpoints(key)) => Some(key.service.clone()),
            _ => None,
        }
    }

    /// Ways that connections to a Service may take. Datagrams leave who takes no new ones;
    /// connections stay until their endpoint is gone.
    pub(crate) fn ways(view: &View, name: &ServiceName) -> BTreeSet<Self> {
        let mut ways = BTreeSet::new();
        let Some(service) = view.services().get(name) else { return ways };
        let Some(zone) = zone_of_service(service, view) else { return ways };
        for (port, at) in fronts(service, view) {
            let transport = port.transport;
            let slices = view.endpoints_of(name);
            for (address, number, endpoint) in Candidates::new(slices, port, at.0.is_ipv6()).all() {
                let counts = endpoint.state != EndpointState::Unready;
                if counts || transport != Transport::Udp {
                    let endpoint = Some((address, number));
                    ways.insert(Self { zone, transport, service: at, endpoint });
                }
            }
            if transport == Transport::Udp {
                ways.insert(Self { zone, transport, service: at, endpoint: None });
            }
        }
        ways
    }

    /// Where its connections are tracked.
    pub(crate) fn zone(&self) -> u16 {
        self.zone
    }

    /// Connections that take none of the ways that there are: they were led to whom an earlier agent
    /// knew, and nobody had them forgotten.
    pub(crate) fn left_over(connections: &[Connection], ways: &BTreeSet<Self>) -> BTreeSet<Self> {
        let of = |connection: &Connection| {
            let transport = match connection.protocol {
                6 => Transport::Tcp,
                17 => Transport::Udp,
                132 => Transport::Sctp,
                _ => return None,
            };
            let Connection { orig, reply, zone, .. } = connection;
            let (Ports { dst: port, .. }, Ports { src, .. }) = (orig.transport, reply.transport)
            else {
                return None;
            };
            let (service, endpoint) = ((orig.dst, port), Some((reply.src, src)));
            Some(Self { zone: *zone, transport, service, endpoint })
        };
        let is_way = |way: &Self| {
            let whole = |(address, _): (IpAddr, u16)| (address, 0);
            let (service, endpoint) = (whole(way.service), way.endpoint.map(whole));
            let any = Self { transport: Transport::Any, service, endpoint, ..*way };
            ways.contains(way) || ways.contains(&any)
        };
        // What nobody led anywhere is no way to a Service.
        let is_led = |way: &Self| way.endpoint != Some(way.service);
        connections.iter().filter_map(of).filter(|way| is_led(way) && !is_way(way)).collect()
    }

    fn message(&self) -> Message {
        let Self { zone, transport, service, endpoint } = *self;
        let ip_proto = transport.number();
        let original =
            CtTuple { dst: Some(service.0), dst_port: Some(service.1), ..CtTuple::default() };
        let reply = CtTuple {
            src: endpoint.map(|(address, _)| address),
            src_port: endpoint.map(|(_, port)| port),
            ..CtTuple::default()
        };
        Message::CtFlush(CtFlush { zone: Some(zone), ip_proto, original, reply })
    }
}

/// Has connections forgotten, over a session of its own; a cheap handle.
#[derive(Debug, Clone)]
pub(crate) struct Flusher(mpsc::Sender<Order>);

#[derive(Debug, Clone, Copy)]
enum Order {
    Forget(Stale),
    /// It is a way again.
    Keep(Stale),
}

/// Ways that are to be forgotten, and when. What the datapath has cached leads some more connections
/// there until it has looked at it anew: so each is forgotten again, unless it came back meanwhile.
#[derive(Debug, Default)]
struct Pending {
    now: BTreeSet<Stale>,
    /// When, and which time that is.
    again: BTreeMap<Stale, (Instant, usize)>,
}

// === impl Flusher ===

impl Flusher {
    /// Starts the task.
    pub(crate) fn start(management: &Path, metrics: Metrics) -> Self {
        let (orders, received) = mpsc::channel(QUEUE);
        let endpoint = Endpoint::Unix(management.to_owned());
        let dialer = Dialer::new(endpoint, Options::default(), Backoff::default());
        tokio::spawn(forget(dialer, received, metrics));
        Self(orders)
    }

    /// Has these forgotten.
    pub(crate) async fn flush(&self, stale: impl IntoIterator<Item = Stale>) {
        self.order(stale.into_iter().map(Order::Forget)).await;
    }

    /// Connections may take these from now on.
    pub(crate) async fn keep(&self, ways: impl IntoIterator<Item = Stale>) {
        self.order(ways.into_iter().map(Order::Keep)).await;
    }

    async fn order(&self, orders: impl Iterator<Item = Order>) {
        for order in orders {
            // A task that has ended ended with the agent.
            let _ = self.0.send(order).await;
        }
    }
}

// === impl Pending ===

impl Pending {
    fn take(&mut self, order: Order, at: Instant) {
        match order {
            Order::Keep(way) => {
                self.now.remove(&way);
                self.again.remove(&way);
            }
            Order::Forget(way) => {
                self.now.insert(way);
                if self.again.len() < MOST_AGAIN {
                    self.again.insert(way, (at + REVALIDATED[0], 0));
                }
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        self.again.values().map(|(due, _)| *due).min()
    }

    /// What is to be forgotten at this moment.
    fn ripe(&mut self, at: Instant) -> BTreeSet<Stale> {
        let mut ripe = std::mem::take(&mut self.now);
        self.again.retain(|way, (due, time)| {
            if *due > at {
                return true;
            }
            ripe.insert(*way);
            *time += 1;
            let wait = REVALIDATED.get(*time);
            *due = at + wait.copied().unwrap_or_default();
            wait.is_some()
        });
        ripe
    }

    /// Waits until something is to be forgotten; nothing, when nobody can order any more.
    async fn next(&mut self, orders: &mut mpsc::Receiver<Order>) -> Option<BTreeSet<Stale>> {
        loop {
            let due = self.due();
            tokio::select! {
                order = orders.recv() => {
                    self.take(order?, Instant::now());
                    while let Ok(order) = orders.try_recv() {
                        self.take(order, Instant::now());
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
            }
            let ripe = self.ripe(Instant::now());
            if !ripe.is_empty() {
                return Some(ripe);
            }
        }
    }
}

async fn forget(mut dialer: Dialer, mut orders: mpsc::Receiver<Order>, metrics: Metrics) {
    let mut pending = Pending::default();
    let mut next = pending.next(&mut orders).await;
    while next.is_some() {
        let (session, _events) = dialer.next().await;
        while let Some(ways) = next {
            debug!(ways = ways.len(), "connections are forgotten");
            if let Err(error) = session.batch(ways.iter().map(Stale::message)).await {
                warn!(error = %Chain(&error), "connections are not forgotten");
                next = Some(ways);
                break;
            }
            metrics.forgot(ways.len());
            next = pending.next(&mut orders).await;
        }
        session.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_compiler::conntrack::zone_of;
    use osier_model::{Fabric, VrfId};
    use osier_ovsdb::unixctl::conntrack::Tuple;

    fn view(endpoints: &str) -> View {
        let mut view = View::new("n1".parse().unwrap(), Fabric::default());
        for text in [
            "{ kind: service, name: a, addresses: [10.96.0.1], ports: [{ name: t, port: 80 }, { name: u, transport: udp, port: 53 }] }",
            &format!(
                "{{ kind: endpoints, service: a, slice: s, ports: [{{ name: t, port: 8080 }}, \
                 {{ name: u, transport: udp, port: 5353 }}], endpoints: [{endpoints}] }}"
            ),
        ] {
            view.apply(Change::Put(serde_saphyr::from_str(text).unwrap())).unwrap();
        }
        view
    }

    fn gone(before: &str, now: &str) -> Vec<(Transport, Option<(IpAddr, u16)>)> {
        let name = "a".parse().unwrap();
        let (before, now) = (Stale::ways(&view(before), &name), Stale::ways(&view(now), &name));
        before.difference(&now).map(|way| (way.transport, way.endpoint)).collect()
    }

    #[test]
    fn connections_go_with_their_endpoint_and_datagrams_before() {
        let endpoint = |port| Some(("10.0.0.1".parse().unwrap(), port));
        let (one, two) = ("{ address: 10.0.0.1 }", "{ address: 10.0.0.1 }, { address: 10.0.0.2 }");
        assert_eq!(gone(one, two), []);
        let all = [(Transport::Tcp, endpoint(8080)), (Transport::Udp, endpoint(5353))];
        assert_eq!(gone(two, "{ address: 10.0.0.2 }"), all);
        let unready = "{ address: 10.0.0.1, state: unready }";
        assert_eq!(gone(one, unready), [(Transport::Udp, endpoint(5353))]);
        assert_eq!(gone(unready, ""), [(Transport::Tcp, endpoint(8080))]);
    }

    #[test]
    fn a_way_is_forgotten_some_times_unless_it_comes_back() {
        let ways = Stale::ways(&view("{ address: 10.0.0.1 }"), &"a".parse().unwrap());
        let ways: Vec<Stale> = ways.into_iter().collect();
        let (mut pending, start) = (Pending::default(), Instant::now());
        pending.take(Order::Forget(ways[0]), start);
        pending.take(Order::Forget(ways[1]), start);
        assert_eq!(pending.ripe(start), BTreeSet::from([ways[0], ways[1]]));
        pending.take(Order::Keep(ways[1]), start);
        assert!(pending.ripe(start).is_empty());
        let mut at = start;
        for wait in REVALIDATED {
            at += wait;
            assert_eq!(pending.due(), Some(at));
            assert_eq!(pending.ripe(at), BTreeSet::from([ways[0]]));
        }
        assert_eq!(pending.due(), None);
    }

    #[test]
    fn what_an_earlier_agent_left_is_found() {
        let ways = Stale::ways(&view("{ address: 10.0.0.1 }"), &"a".parse().unwrap());
        let tuple = |src: &str, dst: &str, from, to| Tuple {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            transport: Ports { src: from, dst: to },
            counted: None,
        };
        let to = |endpoint: &str| Connection {
            protocol: 6,
            orig: tuple("10.0.9.9", "10.96.0.1", 4000, 80),
            reply: tuple(endpoint, "10.0.9.9", 8080, 4000),
            zone: zone_of(VrfId::default()),
            mark: 1,
            labels: 0,
            state: None,
            timeout: None,
        };
        let left = Stale::left_over(&[to("10.0.0.1"), to("10.0.0.2")], &ways);
        let left: Vec<_> = left.into_iter().map(|way| way.endpoint).collect();
        assert_eq!(left, [Some(("10.0.0.2".parse().unwrap(), 8080))]);
    }
}
