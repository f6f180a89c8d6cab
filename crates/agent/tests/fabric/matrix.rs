//! Everybody talks to everybody: pods, nodes and somebody outside, with ICMP, UDP and TCP, in
//! packets that just fit and in messages that do not. No address is translated inside of the
//! cluster, and each is outside.

use crate::cluster::{Addressing, Cluster};
use crate::lab::{NETWORKS, PATIENCE, Pod, addresses, port};
use crate::talk::{self, Answer, Echo};
use osier_testbed::traffic::Capture;
use osier_testbed::{Netns, wait_until};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;

const NODES: u8 = 3;
const PODS_EACH: usize = 2;
const MEGABYTE: usize = 1 << 20;
/// Larger than two packets.
const LARGE: usize = 3000;

/// Who takes part.
struct Party {
    name: String,
    netns: Netns,
    /// Where it is talked to.
    addresses: Vec<IpAddr>,
    /// The node that it is on, or is.
    node: Option<usize>,
    role: Role,
    /// The router that it is behind: those of different routers do not meet.
    realm: &'static str,
}

/// The router of pods that nobody said anything about.
const DEFAULT: &str = "default";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Pod,
    Node,
    Outside,
}

/// What is tried between two of them: a letter for the table, and a name.
const CHECKS: [(char, &str); 5] = [
    ('p', "ping at full size, not to be fragmented"),
    ('P', "ping in fragments"),
    ('u', "UDP at full size"),
    ('U', "UDP in fragments"),
    ('T', "1 MB over TCP"),
];

/// A conversation that failed, or was seen as somebody else's.
struct Failure {
    to: IpAddr,
    check: (char, &'static str),
    why: String,
}

#[test]
fn everybody_talks_over_ipv4() {
    everybody_talks(Addressing::Ipv4);
}

#[test]
fn everybody_talks_over_ipv6() {
    everybody_talks(Addressing::Ipv6);
}

#[test]
fn everybody_talks_over_both() {
    everybody_talks(Addressing::Dual);
}

fn everybody_talks(addressing: Addressing) {
    let cluster = Cluster::start(addressing, NODES);
    let pods = pods(&cluster);
    let mtu = mtu(&pods[0].0.netns);
    let parties = parties(&cluster, pods);
    let outside = &parties[parties.len() - 1];
    let heard = Capture::start(&outside.netns, "eth0", "icmp or icmp6 or udp or tcp").unwrap();
    all_talk(addressing, &parties, mtu);
    nothing_of_the_inside_is_heard(&heard);
}

/// Lets all of them talk, and reports who could not.
fn all_talk(addressing: Addressing, parties: &[Party], mtu: usize) {
    let echo = |party: &Party| Echo::start(&party.name, &party.netns, &party.addresses);
    let _echoes: Vec<Echo> = parties.iter().map(echo).collect();
    let results: Vec<(&Party, Vec<Failure>)> = std::thread::scope(|scope| {
        let talk = |from| (from, scope.spawn(move || talks(addressing, from, parties, mtu)));
        let talks: Vec<_> = parties.iter().map(talk).collect();
        talks.into_iter().map(|(from, failures)| (from, failures.join().unwrap())).collect()
    });
    let failed = results.iter().any(|(_, failures)| !failures.is_empty());
    assert!(!failed, "{addressing:?}, pods' MTU {mtu}\n{}", report(parties, &results));
}

/// Two routers that know nothing of each other, with the same networks and addresses.
#[test]
fn the_same_addresses_behind_two_routers_at_once() {
    let places = || {
        let places = ["red", "blue"].map(|realm| (0..NODES).map(move |node| (realm, node)));
        places.into_iter().flatten().flat_map(|place| [(place, 1), (place, 2)])
    };
    let cluster = Cluster::start_with(Addressing::Dual, NODES, |view| {
        places().fold(view + NETWORKS, |view, ((realm, node), n)| {
            let (name, network, on) =
                (format!("{realm}{node}{n}"), format!("{realm}-1"), format!("n{}", node + 1));
            let host = 10 * (node + 1) + n;
            let mac = format!("02:00:00:00:00:{host}");
            let rest = format!("mac: '{mac}', addresses: [10.5.0.{host}, 'fd05::{host}']");
            view + &port(&name, "eth0", &network, &on, &rest)
        })
    });
    let party = |((realm, node), n): ((&'static str, u8), u8)| {
        let pod = cluster.pod(node.into(), &format!("{realm}{node}{n}"));
        let addresses = addresses(&pod.add());
        let (name, netns) = (pod.name, pod.netns);
        Party { name, netns, addresses, node: Some(node.into()), role: Role::Pod, realm }
    };
    let parties: Vec<Party> = places().map(party).collect();
    let all: BTreeSet<&IpAddr> = parties.iter().flat_map(|party| &party.addresses).collect();
    assert_eq!(all.len(), parties.len(), "two addresses each, and each of two");
    all_talk(Addressing::Dual, &parties, mtu(&parties[0].netns));
}

/// Attaches pods to each node.
fn pods(cluster: &Cluster) -> Vec<(Pod, Vec<IpAddr>, usize)> {
    let mut pods = Vec::new();
    for node in 0..NODES.into() {
        for n in 1..=PODS_EACH {
            let pod = cluster.pod(node, &format!("pod{}{n}", node + 1));
            let given = addresses(&pod.add());
            pods.push((pod, given, node));
        }
    }
    pods
}

fn mtu(pod: &Netns) -> usize {
    let shown = pod.ip("link show eth0").unwrap();
    shown.split("mtu ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

fn parties(cluster: &Cluster, pods: Vec<(Pod, Vec<IpAddr>, usize)>) -> Vec<Party> {
    let addressing = cluster.addressing;
    let pods = pods.into_iter().map(|(pod, addresses, node)| Party {
        name: pod.name,
        netns: pod.netns,
        addresses,
        node: Some(node),
        role: Role::Pod,
        realm: DEFAULT,
    });
    let nodes = (1..).zip(cluster.fabric.nodes()).enumerate().map(|(index, (n, node))| Party {
        name: node.name().to_owned(),
        netns: node.netns().clone(),
        addresses: own(addressing, n),
        node: Some(index),
        role: Role::Node,
        realm: DEFAULT,
    });
    pods.chain(nodes).chain([outside(cluster)]).collect()
}

/// All addresses of a node: its own, and those of its gateway.
fn own(addressing: Addressing, n: u8) -> Vec<IpAddr> {
    let outer = addressing.outer(n).into_iter().map(|(address, _)| address);
    outer.chain(addressing.gateways(n)).collect()
}

/// A machine on the same segment as the nodes.
fn outside(cluster: &Cluster) -> Party {
    let (netns, addresses) = cluster.outsider();
    let name = "outside".to_owned();
    Party { name, netns, addresses, node: None, role: Role::Outside, realm: DEFAULT }
}

/// All that one of them has to say.
fn talks(addressing: Addressing, from: &Party, parties: &[Party], mtu: usize) -> Vec<Failure> {
    let meant = |to: &&Party| match (from.role, to.role) {
        (Role::Pod, _) => to.name != from.name && to.realm == from.realm,
        (Role::Node, Role::Pod) => true,
        _ => false,
    };
    let mut failures = Vec::new();
    for to in parties.iter().filter(meant) {
        for address in &to.addresses {
            let expected = seen_as(addressing, from, to, *address);
            for check in CHECKS {
                if let Err(why) = try_once(from, (to, *address), check.0, mtu, &expected) {
                    failures.push(Failure { to: *address, check, why });
                }
            }
        }
    }
    failures
}

/// The addresses that `to` may see when `from` talks to it.
fn seen_as(addressing: Addressing, from: &Party, to: &Party, address: IpAddr) -> Vec<IpAddr> {
    let number = |node: usize| u8::try_from(node + 1).unwrap();
    let all = match (from.role, to.role, from.node) {
        (Role::Pod, Role::Outside, Some(node)) => {
            addressing.outer(number(node)).into_iter().map(|(address, _)| address).collect()
        }
        (Role::Node, _, Some(node)) => own(addressing, number(node)),
        _ => from.addresses.clone(),
    };
    all.into_iter().filter(|own| own.is_ipv4() == address.is_ipv4()).collect()
}

fn try_once(
    from: &Party,
    (party, to): (&Party, IpAddr),
    check: char,
    mtu: usize,
    expected: &[IpAddr],
) -> Result<(), String> {
    // IP's header, and that of UDP or ICMP.
    let headers = if to.is_ipv4() { 20 + 8 } else { 40 + 8 };
    let socket = |talk: &(dyn Fn() -> io::Result<Answer> + Sync)| {
        let (name, seen) = from.netns.within(talk).unwrap().map_err(|error| error.to_string())?;
        let message = || format!("{name} answered and saw {seen}, which is none of {expected:?}");
        (name == party.name && expected.contains(&seen)).then_some(()).ok_or_else(message)
    };
    match check {
        'p' => ping(&from.netns, to, &["-M", "do"], mtu - headers),
        'P' => ping(&from.netns, to, &[], LARGE),
        'u' => socket(&|| talk::udp(to, mtu - headers)),
        'U' => socket(&|| talk::udp(to, LARGE)),
        _ => socket(&|| talk::tcp(to, MEGABYTE)),
    }
}

fn ping(from: &Netns, to: IpAddr, options: &[&str], size: usize) -> Result<(), String> {
    let size = size.to_string();
    let once = || {
        let command = from.command("ping").args(["-n", "-c1", "-W1", "-s", &size]).args(options);
        command.arg(to.to_string()).run().map(drop)
    };
    wait_until("a reply", PATIENCE / 3, once).map_err(|error| error.to_string())
}

/// Only nodes are seen outside.
fn nothing_of_the_inside_is_heard(heard: &Capture) {
    let packets = heard.packets(&[]).unwrap();
    let inside = |line: &&String| line.contains("10.1.") || line.contains("fd01:");
    let leaked: BTreeSet<&String> = packets.iter().filter(inside).collect();
    assert!(leaked.is_empty(), "addresses of pods were seen outside:\n{leaked:#?}");
    assert!(!packets.is_empty());
}

/// A table of who does not reach whom by what, and why.
fn report(parties: &[Party], results: &[(&Party, Vec<Failure>)]) -> String {
    let mut text = format!("{:>8}", "");
    for to in parties {
        write!(text, " {:>10}", to.name).unwrap();
    }
    for (from, failures) in results {
        write!(text, "\n{:>8}", from.name).unwrap();
        for to in parties {
            let to_them = failures
                .iter()
                .filter(|failure| to.realm == from.realm && to.addresses.contains(&failure.to));
            let cell: String = to_them.map(|failure| failure.check.0).collect();
            write!(text, " {:>10}", if cell.is_empty() { "." } else { &cell }).unwrap();
        }
    }
    text.push('\n');
    for (from, failures) in results {
        for Failure { to, check: (letter, name), why } in failures {
            writeln!(text, "{letter}: {} to {to}: {name}: {why}", from.name).unwrap();
        }
    }
    text
}
