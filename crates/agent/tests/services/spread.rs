//! Connections are spread evenly, over few endpoints and over thousands.

use crate::ask::{self, count};
use crate::lab::PATIENCE;
use crate::stage::{Stage, at, eventually, node_port, service, slice};
use osier_testbed::{Netns, wait_until};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

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
        even_slots(&stage, &endpoints);
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

/// The switch itself has dealt out its slots evenly: what chance does to questions is not in them.
fn even_slots(stage: &Stage, endpoints: &[IpAddr]) {
    let slots = slots(&ofctl(stage, "dump-groups"));
    assert!(slots.keys().eq(endpoints.iter()), "{} of {}", slots.len(), endpoints.len());
    let (least, most) = (slots.values().min().unwrap(), slots.values().max().unwrap());
    let ratio = f64::from(*most) / f64::from(*least);
    eprintln!("{} endpoints: {least} to {most} slots, {ratio:.3}", endpoints.len());
    assert!(ratio <= 1.2, "{}: {least} to {most}", endpoints.len());
}

/// How many slots each endpoint has, in all groups.
fn slots(groups: &str) -> BTreeMap<IpAddr, u32> {
    let mut slots = BTreeMap::new();
    for bucket in groups.split("bucket=").skip(1) {
        let after = |start: &str, end: char| bucket.split(start).nth(1)?.split(end).next();
        // One is not said.
        let weight: u32 = after("weight:", ',').map_or(1, |weight| weight.parse().unwrap());
        let address: IpAddr = after("nat(dst=", ':').unwrap().parse().unwrap();
        *slots.entry(address).or_default() += weight;
    }
    slots
}

/// Shares follow weights.
#[test]
fn an_endpoint_of_weight_three_gets_three_times_as_much() {
    let stage = Stage::new();
    let endpoints: Vec<(IpAddr, &str)> =
        (0..4).map(|i| (address(i), if i == 0 { ", weight: 3" } else { "" })).collect();
    stage.tell(&[service("web", &[WEB], ""), slice("web", &endpoints)]);
    let groups = || slots(&ofctl(&stage, "dump-groups"));
    wait_until("all endpoints", PATIENCE, || match groups() {
        slots if slots.len() == endpoints.len() => Ok(()),
        slots => Err(format!("{slots:?}")),
    })
    .unwrap();
    let slots = groups();
    let three = f64::from(slots[&endpoints[0].0]);
    let counts = ask_all(&stage);
    let most = f64::from(counts[&endpoints[0].0]);
    for (one, _) in &endpoints[1..] {
        let ratio = three / f64::from(slots[one]);
        assert!((2.8..=3.2).contains(&ratio), "{slots:?}");
        let ratio = most / f64::from(counts[one]);
        // Some 2,700 for a single share: chance makes a tenth of it.
        assert!((2.6..=3.4).contains(&ratio), "{counts:?}");
    }
}

/// Clients that stay with their endpoint are spread as well, each by its address: equally, and by weight.
#[test]
fn clients_that_stay_are_spread_by_weight() {
    let stage = Stage::new();
    let known = ["203.0.113.9", "2001:db8:ffff::9"];
    for (outer, clients) in stage.outside.addresses.iter().zip(["10.200.0.0/16", "fd20::/64"]) {
        stage.outside.netns.ip(&format!("route add local {clients} dev lo")).unwrap();
        let any = "echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind";
        stage.outside.netns.run(&["sh", "-c", any]).unwrap();
        stage.node(0).ip(&format!("route add {clients} via {outer}")).unwrap();
    }
    // One bucket for each endpoint, or as many as make its share.
    for (weight, buckets) in [(1_u16, 16), (3, 4 * 256)] {
        let endpoints: [Vec<IpAddr>; 2] =
            [(0..4).map(address).collect(), (0..4).map(far).collect()];
        let rest = format!(", weight: {weight}");
        let told = |some: &Vec<IpAddr>| {
            let first = some[0];
            let of = |a: &IpAddr| (*a, if *a == first { rest.as_str() } else { "" });
            some.iter().map(of).collect::<Vec<_>>()
        };
        let told: Vec<(IpAddr, &str)> = endpoints.iter().flat_map(told).collect();
        let outside = format!(", affinity: 600, external: ['{}', '{}']", known[0], known[1]);
        stage.tell(&[service("web", &[WEB, "fd96::10"], &outside), slice("web", &told)]);
        wait_until("the groups", PATIENCE, || {
            match ofctl(&stage, "dump-groups").matches("bucket=").count() {
                found if found == buckets => Ok(()),
                found => Err(format!("{found} buckets")),
            }
        })
        .unwrap();
        for (to, endpoints) in known.into_iter().zip(&endpoints) {
            let counts = ask_of_many(&stage, to, weight);
            let all: u32 = counts.values().sum();
            let parts = f64::from(weight + 3);
            for (endpoint, weight) in endpoints.iter().zip([weight, 1, 1, 1]) {
                let due = f64::from(all) * f64::from(weight) / parts;
                let got = f64::from(counts.get(endpoint).copied().unwrap_or_default());
                // Five times what chance does on average.
                assert!(
                    (got - due).abs() <= 5.0 * due.sqrt(),
                    "{to}: {got}, not {due}: {counts:?}"
                );
            }
        }
    }
}

/// Nobody has them: it is enough that they are chosen.
fn address(i: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 77, 0, 0)) + i + 1).into()
}

/// The same of the other family.
fn far(i: u32) -> IpAddr {
    Ipv6Addr::from(u128::from(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)) + u128::from(i)).into()
}

/// Asks from the addresses of many clients outside, once each: who would have answered how often. No two
/// turns have a client in common, since what was learned of one stays.
fn ask_of_many(stage: &Stage, to: &str, turn: u16) -> BTreeMap<IpAddr, u32> {
    const CLIENTS: u16 = 1600;
    let client = |i: u16| -> IpAddr {
        let i = turn * CLIENTS + i;
        match to.contains(':') {
            true => Ipv6Addr::new(0xfd20, 0, 0, 0, 0, 0, 0, i).into(),
            false => Ipv4Addr::from(0x0ac8_0000 + u32::from(i)).into(),
        }
    };
    appctl(stage, "dpctl/flush-conntrack");
    let ask = || {
        for i in 0..CLIENTS {
            let socket = UdpSocket::bind((client(i), 20_000)).unwrap();
            socket.send_to(b"?", at(to, 80)).unwrap();
        }
    };
    stage.outside.netns.within(ask).unwrap();
    led(stage, to, CLIENTS.into(), || stage.outside.netns.within(ask).unwrap())
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
    let all = u32::from(PORTS.end - PORTS.start);
    led(stage, WEB, all, || stage.client.netns.within(ask).unwrap())
}

/// Where the switch has led all questions to an address. What is lost on the way is sent again.
fn led(stage: &Stage, to: &str, all: u32, again: impl Fn()) -> BTreeMap<IpAddr, u32> {
    let mut counts = BTreeMap::new();
    wait_until("all to be led somewhere", PATIENCE, || {
        counts.clear();
        let shown = appctl(stage, "dpctl/dump-conntrack");
        let ours = shown.lines().filter(|line| line.contains(&format!("dst={to},")));
        for line in ours {
            let endpoint = line.split("reply=(src=").nth(1).and_then(|rest| rest.split(',').next());
            if let Some(Ok(address)) = endpoint.map(str::parse) {
                *counts.entry(address).or_default() += 1;
            }
        }
        let led: u32 = counts.values().sum();
        if led < all {
            again();
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
