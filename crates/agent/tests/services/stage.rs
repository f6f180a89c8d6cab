//! The stage of these tests: two nodes, a client, endpoints on both, and a machine outside.

use crate::cluster::{Addressing, Cluster};
use crate::lab::{PATIENCE, Pod, rewrite_view};
use crate::talk::Echo;
use osier_testbed::{Netns, wait_until};
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Where endpoints listen.
pub(crate) const TARGET: u16 = 7007;
pub(crate) const NODES: u8 = 2;

pub(crate) struct Stage {
    pub(crate) client: Guest,
    /// Endpoints: `e1` is with the client, `e2` is not.
    pub(crate) endpoints: Vec<Guest>,
    pub(crate) outside: Guest,
    _echoes: Vec<Echo>,
    pub(crate) cluster: Cluster,
}

pub(crate) struct Guest {
    pub(crate) name: String,
    pub(crate) netns: Netns,
    pub(crate) addresses: Vec<IpAddr>,
}

// === impl Guest ===

impl Guest {
    pub(crate) fn pod(pod: Pod) -> Self {
        let addresses = pod.addresses();
        Self { name: pod.name, netns: pod.netns, addresses }
    }

    pub(crate) fn address(&self, ipv6: bool) -> IpAddr {
        *self.addresses.iter().find(|address| address.is_ipv6() == ipv6).unwrap()
    }
}

// === impl Stage ===

impl Stage {
    /// All of it, without Services; `extra` more endpoints on the first node.
    pub(crate) fn new() -> Self {
        let cluster = Cluster::start_with(Addressing::Dual, NODES, |view| with_range(&view));
        let client = Guest::pod(cluster.pod(0, "client"));
        let endpoints: Vec<Guest> = [(0, "e1"), (1, "e2")]
            .into_iter()
            .map(|(node, name)| Guest::pod(cluster.pod(node, name)))
            .collect();
        let outside = outside(&cluster);
        let mut echoes: Vec<Echo> = endpoints
            .iter()
            .chain([&outside])
            .map(|guest| Echo::start(&guest.name, &guest.netns, &guest.addresses))
            .collect();
        for (n, node) in (1..).zip(cluster.fabric.nodes()) {
            let own: Vec<IpAddr> =
                cluster.addressing.outer(n).into_iter().map(|(a, _)| a).collect();
            echoes.push(Echo::start(node.name(), node.netns(), &own));
        }
        Self { client, endpoints, outside, _echoes: echoes, cluster }
    }

    /// All nodes are told of these Services.
    pub(crate) fn tell(&self, services: &[String]) {
        let view = services.iter().fold(self.view(), |view, service| view + service);
        self.cluster.fabric.nodes().iter().for_each(|node| rewrite_view(node, &view));
    }

    /// The same, and that machines lead there, by their service gateways.
    pub(crate) fn tell_by_gateway(&self, services: &[String]) {
        let view = services.iter().fold(self.view(), |view, service| view + service);
        let view = view.replace("'fd96::/112']", "'fd96::/112'], service_gateway: true");
        self.cluster.fabric.nodes().iter().for_each(|node| rewrite_view(node, &view));
    }

    /// What nodes know without Services.
    pub(crate) fn view(&self) -> String {
        with_range(&self.cluster.addressing.view(NODES))
    }

    pub(crate) fn node(&self, n: usize) -> &Netns {
        self.cluster.fabric.nodes()[n].netns()
    }

    pub(crate) fn endpoint(&self, name: &str) -> &Guest {
        self.endpoints.iter().find(|guest| guest.name == name).unwrap()
    }
}

/// A view whose fabric has addresses for Services.
fn with_range(view: &str) -> String {
    view.replace("'fd01::/48']", "'fd01::/48'], services: [10.96.0.0/16, 'fd96::/112']")
}

/// A Service of a name and addresses; `rest` is what else it has.
pub(crate) fn service(name: &str, addresses: &[&str], rest: &str) -> String {
    let addresses: Vec<String> = addresses.iter().map(|a| format!("'{a}'")).collect();
    format!(
        "- {{ kind: service, name: '{name}', addresses: [{}], ports: [{{ name: t, port: 80, \
         node_port: {} }}, {{ name: u, transport: udp, port: 80, node_port: {} }}]{rest} }}\n",
        addresses.join(", "),
        node_port(name),
        node_port(name),
    )
}

/// The node port of a Service, by its name.
pub(crate) fn node_port(name: &str) -> u16 {
    30000 + name.bytes().fold(0_u16, |sum, byte| (sum * 7 + u16::from(byte)) % 2000)
}

/// Its endpoints: addresses with what else they have.
pub(crate) fn slice(name: &str, endpoints: &[(IpAddr, &str)]) -> String {
    let mut text = String::new();
    for ipv6 in [false, true] {
        let of_family = endpoints.iter().filter(|(address, _)| address.is_ipv6() == ipv6);
        let endpoints: Vec<String> =
            of_family.map(|(address, rest)| format!("{{ address: '{address}'{rest} }}")).collect();
        writeln!(
            text,
            "- {{ kind: endpoints, service: '{name}', slice: 's{}', ports: [{{ name: t, port: \
             {TARGET} }}, {{ name: u, transport: udp, port: {TARGET} }}], endpoints: [{}] }}",
            u8::from(ipv6),
            endpoints.join(", "),
        )
        .unwrap();
    }
    text
}

/// Waits until an answer is what it should be.
pub(crate) fn eventually<T: std::fmt::Debug + Send>(
    what: &str,
    from: &Netns,
    ask: impl Fn() -> io::Result<T> + Send + Sync,
    right: impl Fn(&io::Result<T>) -> bool,
) {
    wait_until(what, PATIENCE, || {
        let said = from.within(&ask).unwrap();
        if right(&said) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .unwrap();
}

pub(crate) fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

/// A machine on the same segment as the nodes, which sends what is for Services to the first.
fn outside(cluster: &Cluster) -> Guest {
    let (netns, addresses) = cluster.outsider();
    for (first, _) in cluster.addressing.outer(1) {
        let all = if first.is_ipv4() { "203.0.113.0/24" } else { "2001:db8:ffff::/64" };
        netns.ip(&format!("route add {all} via {first}")).unwrap();
    }
    Guest { name: "outside".to_owned(), netns, addresses }
}
