//! Connections are spread evenly, over few endpoints and over thousands.

use crate::ask::{self, count};
use crate::lab::PATIENCE;
use crate::stage::{Stage, at, eventually, node_port, service, slice};
use osier_testbed::{Netns, wait_until};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

const WEB: &str = "10.96.0.10";
/// Of which ports a client asks, one datagram each.
const PORTS: std::ops::Range<u16> = 20_000..36_000;

#[test]
fn endpoints_get_equal_shares() {
    let stage = Stage::new();
    for n in [3, 10, 51, 100, 2000] {
        let endpoints: Vec<IpAddr> = (0..n).map(address).collect();
        let told: Vec<(IpAddr, &str)> = endpoints.iter().map(|a| (*a, "")).collect();
        // A slice has a thousand at most.
        let slices = told
            .chunks(1000)
            .zip(0..)
            .map(|(some, i)| slice("web", some).replace("slice: 's", &format!("slice: 'part{i}-")));
        let all: Vec<String> = [service("web", &[WEB], "")].into_iter().chain(slices).collect();
        stage.tell(&all);
        let last = endpoints[n as usize - 1].to_string();
        wait_until("all endpoints", PATIENCE, || {
            let groups = ofctl(&stage, "dump-groups");
            if groups.matches(&format!("dst={last}:")).count() > 0 {
                Ok(())
            } else {
                Err("not yet")
            }
        })
        .unwrap();
        let counts = ask_all(&stage);
        let asked = f64::from(PORTS.end - PORTS.start);
        assert_eq!(counts.values().sum::<u32>(), u32::from(PORTS.end - PORTS.start), "{n}");
        assert!(counts.keys().all(|address| endpoints.contains(address)), "{n}: {counts:?}");
        if n > 100 {
            // Eight each: few are left out, by all that is likely.
            assert!(100 * counts.len() > 97 * n as usize, "{n}: {}", counts.len());
            continue;
        }
        // What chance does to so many questions, beside the shares themselves.
        let mean = asked / f64::from(n);
        let chance = 4.5 / mean.sqrt();
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        let ratio = f64::from(*most) / f64::from(*least);
        eprintln!("{n} endpoints: {least} to {most} of {asked}, {ratio:.3}");
        assert!(ratio <= 1.1 * (1.0 + chance) / (1.0 - chance), "{n}: {least} to {most}");
        assert_eq!(counts.len(), n as usize);
    }
}

/// As often as the datapath begins anew, it looks a packet up once more. That was counted by traces
/// (`crates/compiler/tests/walks`) only as far as to the hash; here real connections go all the way.
#[test]
fn the_way_to_an_endpoint_begins_anew_three_times_at_most() {
    let stage = Stage::new();
    let said: Vec<(IpAddr, &str)> =
        stage.endpoints.iter().flat_map(|guest| guest.addresses.clone()).map(|a| (a, "")).collect();
    stage.tell(&[
        service("web", &[WEB, "fd96::10"], ""),
        slice("web", &said),
        service("cart", &["10.96.0.11", "fd96::11"], ", affinity: 10800"),
        slice("cart", &said),
    ]);
    let outer = |ipv6: bool| {
        let mut addresses = stage.cluster.addressing.outer(1).into_iter().map(|(a, _)| a);
        addresses.find(|a| a.is_ipv6() == ipv6).unwrap()
    };
    let (client, machine, outside) = (&stage.client.netns, stage.node(0), &stage.outside.netns);
    let mut ways: Vec<(&Netns, SocketAddr)> = Vec::new();
    for address in [WEB, "fd96::10", "10.96.0.11", "fd96::11"] {
        ways.extend([(client, at(address, 80)), (machine, at(address, 80))]);
    }
    for name in ["web", "cart"] {
        let by_port = |ipv6| (outside, SocketAddr::new(outer(ipv6), node_port(name)));
        ways.extend([false, true].map(by_port));
    }
    for (from, to) in ways {
        let answered = |said: &io::Result<ask::Answer>| said.is_ok();
        eventually("the Service", from, || ask::tcp(to), answered);
        // Flows that nobody uses go after some seconds: they are looked at while they are used.
        let mut deepest = 0;
        wait_until("flows of the datapath", PATIENCE, || {
            for ask in [ask::tcp, ask::udp] {
                from.within(|| ask(to)).unwrap().map_err(|e| e.to_string())?;
            }
            let flows = appctl(&stage, "dpctl/dump-flows");
            deepest = longest_chain(&flows);
            // At least it looks the connection up.
            if flows.contains("ct(") && deepest > 0 { Ok(()) } else { Err(flows) }
        })
        .unwrap();
        eprintln!("{to}: {deepest}");
        assert!(deepest <= 3, "{to}: {deepest}\n{}", appctl(&stage, "dpctl/dump-flows"));
    }
    // Both endpoints are asked by a hash, which is one of the three.
    let counts = count(client, 20, || ask::tcp(at(WEB, 80)));
    assert_eq!(counts.len(), 2, "{counts:?}");
    let flows = appctl(&stage, "dpctl/dump-flows");
    assert!(flows.contains("hash("), "{flows}");
    assert_eq!(longest_chain(&flows), 3, "{flows}");
}

/// How many flows of the datapath follow one another, each by the number that the one before gave,
/// after the first.
fn longest_chain(flows: &str) -> usize {
    let numbers = |text: &str, before: &str| -> Vec<u32> {
        let found = text.split(before).skip(1).filter_map(|rest| rest.split(')').next());
        found.map(|n| u32::from_str_radix(n.trim_start_matches("0x"), 16).unwrap()).collect()
    };
    let mut next: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for line in flows.lines() {
        let Some((matched, actions)) = line.split_once("actions:") else { continue };
        for number in numbers(matched, "recirc_id(") {
            next.entry(number).or_default().extend(numbers(actions, "recirc("));
        }
    }
    below(&next, 0)
}

/// How many flows follow that of a number.
fn below(next: &BTreeMap<u32, Vec<u32>>, number: u32) -> usize {
    let after = next.get(&number).into_iter().flatten();
    after.map(|number| 1 + below(next, *number)).max().unwrap_or(0)
}

#[test]
fn chains_are_counted_as_they_are_written() {
    let flows = "recirc_id(0),in_port(1), packets:0, actions:ct(zone=2,nat),recirc(0x5)\n\
                 recirc_id(0x5),in_port(1), actions:hash(l4(0)),recirc(0xa)\n\
                 recirc_id(0xa),in_port(1), actions:3\nrecirc_id(0),in_port(3), actions:1\n";
    assert_eq!(longest_chain(flows), 2);
}

/// Nobody has them: it is enough that they are chosen.
fn address(i: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 77, 0, 0)) + i + 1).into()
}

/// Asks from each port: who would have answered how often.
fn ask_all(stage: &Stage) -> BTreeMap<IpAddr, u32> {
    appctl(stage, "dpctl/flush-conntrack");
    let ask = || {
        for port in PORTS {
            let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
            socket.send_to(b"?", at(WEB, 80)).unwrap();
        }
    };
    stage.client.netns.within(ask).unwrap();
    let mut counts = BTreeMap::new();
    let all = u32::from(PORTS.end - PORTS.start);
    // What is lost on the way is sent again.
    wait_until("all to be led somewhere", PATIENCE, || {
        counts.clear();
        let shown = appctl(stage, "dpctl/dump-conntrack");
        let ours = shown.lines().filter(|line| line.contains(&format!("dst={WEB},")));
        for line in ours {
            let endpoint = line.split("reply=(src=").nth(1).and_then(|rest| rest.split(',').next());
            if let Some(Ok(address)) = endpoint.map(str::parse) {
                *counts.entry(address).or_default() += 1;
            }
        }
        let led: u32 = counts.values().sum();
        if led < all {
            stage.client.netns.within(ask).unwrap();
            return Err(format!("{led} of {all}"));
        }
        Ok(())
    })
    .unwrap();
    counts
}

fn appctl(stage: &Stage, command: &str) -> String {
    stage.cluster.fabric.nodes()[0].ovs().appctl(&[command]).unwrap()
}

fn ofctl(stage: &Stage, command: &str) -> String {
    let ovs = stage.cluster.fabric.nodes()[0].ovs();
    let socket = format!("unix:{}", ovs.mgmt_socket("br-int").display());
    ovs.ofctl(&["-O", "OpenFlow15", command, &socket]).unwrap()
}
