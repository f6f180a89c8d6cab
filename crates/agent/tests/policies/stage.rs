//! The stage of these tests: two nodes with two pods each, and a machine outside. All pods answer.

use crate::cluster::{Addressing, Cluster};
use crate::lab::{PATIENCE, rewrite_view};
use crate::talk::Echo;
use osier_testbed::{Netns, wait_until};
use std::cell::Cell;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Where everybody listens.
pub(crate) const PORT: u16 = 7007;
const NODES: u8 = 2;

pub(crate) struct Stage {
    /// `web` and `near` on the first node, `far` and `other` on the second.
    guests: Vec<Guest>,
    pub(crate) outside: Guest,
    echoes: Vec<Echo>,
    /// How often all nodes were told something.
    told: Cell<u16>,
    tunnel: &'static str,
    /// Whether machines lead to Services.
    pub(crate) by_gateway: Cell<bool>,
    /// Whether connections are judged again when policies change.
    pub(crate) rejudges: Cell<bool>,
    pub(crate) cluster: Cluster,
}

pub(crate) struct Guest {
    pub(crate) name: String,
    pub(crate) netns: Netns,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) node: usize,
}

// === impl Guest ===

impl Guest {
    pub(crate) fn new(name: &str, netns: Netns, addresses: Vec<IpAddr>, node: usize) -> Self {
        Self { name: name.to_owned(), netns, addresses, node }
    }

    pub(crate) fn at(&self, ipv6: bool) -> SocketAddr {
        let address = self.addresses.iter().find(|address| address.is_ipv6() == ipv6).unwrap();
        SocketAddr::new(*address, PORT)
    }

    /// What it is to policies, as the view says it.
    fn workload(&self, identity: u32) -> String {
        let (name, node) = (&self.name, self.node + 1);
        format!(
            "- {{ kind: workload, device: 'shop:{name}', node: n{node}, identity: {identity} }}\n"
        )
    }
}

// === impl Stage ===

impl Stage {
    pub(crate) fn new() -> Self {
        Self::over("geneve")
    }

    /// Nodes between which packets go that way.
    pub(crate) fn over(tunnel: &'static str) -> Self {
        let begin = |view: String| with_services(&view, tunnel);
        let cluster = Cluster::start_with(Addressing::Dual, NODES, begin);
        let (netns, addresses) = cluster.outsider();
        for (n, (first, _)) in cluster.addressing.outer(1).into_iter().enumerate() {
            let pods = ["10.1.0.0/16", "fd01::/48"][n];
            netns.ip(&format!("route add {pods} via {first}")).unwrap();
        }
        let outside = Guest { name: "outside".to_owned(), netns, addresses, node: 0 };
        let echoes = vec![Echo::start("outside", &outside.netns, &outside.addresses)];
        let (guests, told) = (Vec::new(), Cell::new(0));
        let (by_gateway, rejudges) = (Cell::new(false), Cell::new(false));
        let mut stage =
            Self { guests, outside, echoes, told, tunnel, by_gateway, rejudges, cluster };
        for (node, name) in [(0, "web"), (0, "near"), (1, "far"), (1, "other")] {
            stage.add(node, name);
        }
        stage
    }

    /// One more pod.
    pub(crate) fn add(&mut self, node: usize, name: &str) {
        let pod = self.cluster.pod(node, name);
        let addresses = pod.addresses();
        let guest = Guest { name: pod.name, netns: pod.netns, addresses, node };
        self.echoes.push(Echo::start(&guest.name, &guest.netns, &guest.addresses));
        self.guests.push(guest);
    }

    pub(crate) fn guest(&self, name: &str) -> &Guest {
        self.guests.iter().find(|guest| guest.name == name).unwrap()
    }

    pub(crate) fn node(&self, n: usize) -> &Netns {
        self.cluster.fabric.nodes()[n].netns()
    }

    /// All nodes are told who is what, and these policies with what they select, and have it when this
    /// returns. Of those whose identity is not said, nothing is.
    pub(crate) fn tell(&self, identities: &[(&str, u32)], law: &str) {
        self.say(identities, law);
        self.until_heard();
    }

    /// The same, without waiting for it.
    pub(crate) fn say(&self, identities: &[(&str, u32)], law: &str) {
        let mut view = with_services(&self.cluster.addressing.view(NODES), self.tunnel);
        if self.by_gateway.get() {
            view = view.replace("'fd96::/112']", "'fd96::/112'], service_gateway: true");
        }
        if self.rejudges.get() {
            view = view.replace("'fd96::/112']", "'fd96::/112'], policy: { rejudge: true }");
        }
        view += law;
        // A node that is nowhere: its flow comes with all that was told.
        self.told.set(self.told.get() + 1);
        let marker = self.marker();
        writeln!(view, "- {{ kind: node, name: marker, tunnel: {marker} }}").unwrap();
        for node in 0..usize::from(NODES) {
            let mut view = view.clone();
            for (name, identity) in identities {
                let guest = self.guest(name);
                // A node hears of its own only.
                if guest.node == node {
                    view += &guest.workload(*identity);
                }
            }
            rewrite_view(&self.cluster.fabric.nodes()[node], &view);
        }
    }

    fn marker(&self) -> String {
        let [high, low] = self.told.get().to_be_bytes();
        format!("192.0.{}.{low}", 2 + high)
    }

    /// Waits until all nodes have what they were told last.
    pub(crate) fn until_heard(&self) {
        let marker = self.marker();
        for node in 0..usize::from(NODES) {
            wait_until("the switch to have what was told", PATIENCE, || {
                let flows = self.dump(node, 0);
                if flows.contains(&format!("tun_src={marker},")) { Ok(()) } else { Err(flows) }
            })
            .unwrap();
        }
    }

    /// Flows of a table of a node.
    pub(crate) fn dump(&self, node: usize, table: u8) -> String {
        let ovs = self.cluster.fabric.nodes()[node].ovs();
        let table = format!("table={table}");
        ovs.ofctl(&["-O", "OpenFlow15", "dump-flows", "br-int", &table]).unwrap()
    }
}

fn with_services(view: &str, tunnel: &str) -> String {
    let view = view.replace("tunnel: geneve", &format!("tunnel: {tunnel}"));
    view.replace("'fd01::/48']", "'fd01::/48'], services: [10.96.0.0/16, 'fd96::/112']")
}

/// A selection.
pub(crate) fn selection(id: u64, members: &[u32]) -> String {
    format!("- {{ kind: selection, id: {id}, members: {members:?} }}\n")
}

/// A policy; `rules` is its directions.
pub(crate) fn policy(name: &str, subjects: u64, rules: &str) -> String {
    format!("- {{ kind: policy, name: 'shop:{name}', subjects: {subjects}, {rules} }}\n")
}

/// A Service whose endpoint is a pod.
pub(crate) fn service(to: &Guest) -> String {
    let mut text = "- { kind: service, name: 'shop:web', addresses: [10.96.0.10, 'fd96::10'], \
                    ports: [{ name: t, port: 80 }, { name: u, transport: udp, port: 80 }] }\n"
        .to_owned();
    for (i, address) in to.addresses.iter().enumerate() {
        writeln!(
            text,
            "- {{ kind: endpoints, service: 'shop:web', slice: 's{i}', ports: [{{ name: t, port: \
             {PORT} }}, {{ name: u, transport: udp, port: {PORT} }}], endpoints: \
             [{{ address: '{address}' }}] }}"
        )
        .unwrap();
    }
    text
}
