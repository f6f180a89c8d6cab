//! Everybody reaches Services of every kind, wherever the endpoints are, and is seen as who it is
//! where that is promised.

use crate::ask::{self, count};
use crate::stage::{Guest, Stage, TARGET, at, eventually, node_port, service, slice};
use osier_testbed::Netns;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

const WEB: [&str; 2] = ["10.96.0.10", "fd96::10"];
/// Enough that both of two endpoints answer, but once in a million times.
const TIMES: usize = 20;

/// Both endpoints, of both families.
fn both(stage: &Stage) -> Vec<(IpAddr, &'static str)> {
    let of = |name: &str, rest: &'static str| {
        stage.endpoint(name).addresses.iter().map(move |a| (*a, rest)).collect::<Vec<_>>()
    };
    [of("e1", ", node: n1"), of("e2", ", node: n2")].concat()
}

#[test]
fn pods_nodes_and_the_outside_reach_a_service() {
    let stage = Stage::new();
    let published = ", external: [203.0.113.1, '2001:db8:ffff::1']";
    stage.tell(&[service("web", &WEB, published), slice("web", &both(&stage))]);
    let number = node_port("web");
    for (ipv6, web) in [(false, WEB[0]), (true, WEB[1])] {
        let web = at(web, 80);
        let ready = |said: &io::Result<ask::Answer>| said.is_ok();
        eventually("the Service", &stage.client.netns, || ask::tcp(web), ready);
        eventually("the Service on n2", &stage.endpoint("e2").netns, || ask::tcp(web), ready);
        let seen = |who: &str, as_whom: IpAddr| format!("{who} {as_whom}");
        let client = stage.client.address(ipv6);
        // From a pod: itself, wherever the endpoint is.
        let expected = BTreeSet::from([seen("e1", client), seen("e2", client)]);
        assert_eq!(answers(&stage.client, || ask::tcp(web)), expected);
        assert_eq!(answers(&stage.client, || ask::udp(web)), expected);
        // From an endpoint: itself, but to itself it is the node's.
        let (e1, e2) = (stage.endpoint("e1"), stage.endpoint("e2"));
        let reserved: IpAddr =
            if ipv6 { "fd01::1:ffff:ffff:ffff:ffff" } else { "10.1.1.254" }.parse().unwrap();
        let expected = BTreeSet::from([seen("e1", reserved), seen("e2", e1.address(ipv6))]);
        assert_eq!(answers(e1, || ask::tcp(web)), expected);
        assert_eq!(answers(e1, || ask::udp(web)), expected);
        // From nodes: their gateways.
        for (n, node) in [(1_u8, stage.node(0)), (2, stage.node(1))] {
            let gateway = stage.cluster.addressing.gateways(n);
            let gateway = *gateway.iter().find(|a| a.is_ipv6() == ipv6).unwrap();
            let expected = BTreeSet::from([seen("e1", gateway), seen("e2", gateway)]);
            let found: BTreeSet<String> =
                count(node, TIMES, || ask::tcp(web)).into_keys().collect();
            assert_eq!(found, expected, "n{n}");
            let found: BTreeSet<String> =
                count(node, TIMES, || ask::udp(web)).into_keys().collect();
            assert_eq!(found, expected, "n{n}");
        }
        // From outside: itself to the endpoint that is with the node, the node's to others.
        let external = at(if ipv6 { "2001:db8:ffff::1" } else { "203.0.113.1" }, 80);
        let node = SocketAddr::new(outer(&stage, 1, ipv6), number);
        let outside = stage.outside.address(ipv6);
        let expected = BTreeSet::from([seen("e1", outside), seen("e2", reserved)]);
        for to in [external, node] {
            assert_eq!(answers(&stage.outside, || ask::tcp(to)), expected, "{to}");
            assert_eq!(answers(&stage.outside, || ask::udp(to)), expected, "{to}");
        }
        // By ports of nodes, from inside.
        for to in [node, SocketAddr::new(outer(&stage, 2, ipv6), number)] {
            for (who, from) in
                [("client", &stage.client.netns), ("n1", stage.node(0)), ("e2", &e2.netns)]
            {
                let counts = count(from, TIMES, || ask::tcp(to));
                let names: BTreeSet<&str> =
                    counts.keys().filter_map(|said| said.split(' ').next()).collect();
                assert_eq!(names, BTreeSet::from(["e1", "e2"]), "{who} to {to}: {counts:?}");
            }
        }
        // And by the address that the outside knows.
        for from in [&stage.client.netns, stage.node(1)] {
            let counts = count(from, TIMES, || ask::tcp(external));
            assert_eq!(counts.len(), 2, "{counts:?}");
        }
    }
}

/// The outside may know a Service by an address of a node, which has other things to do, too.
#[test]
fn addresses_of_nodes_lead_to_services_at_their_ports() {
    let stage = Stage::new();
    let own = [outer(&stage, 1, false), outer(&stage, 1, true)];
    let published = format!(", external: ['{}', '{}']", own[0], own[1]);
    // The same port at another node's address is another Service's.
    let other = [outer(&stage, 2, false), outer(&stage, 2, true)];
    let balanced = format!(", balanced: ['{}', '{}']", other[0], other[1]);
    stage.tell(&[
        service("web", &WEB, &published),
        slice("web", &both(&stage)),
        service("far", &["10.96.0.11", "fd96::11"], &balanced),
        slice("far", &both(&stage)[2..]),
    ]);
    let names = |from: &Netns, ask: &(dyn Fn() -> io::Result<ask::Answer> + Send + Sync)| {
        let counts = count(from, TIMES, ask);
        counts.into_keys().filter_map(|said| Some(said.split(' ').next()?.to_owned())).collect()
    };
    for ipv6 in [false, true] {
        let n = usize::from(ipv6);
        let (near, far) = (SocketAddr::new(own[n], 80), SocketAddr::new(other[n], 80));
        let from = &stage.outside.netns;
        eventually("the Service", from, || ask::tcp(near), Result::is_ok);
        eventually("the other", from, || ask::tcp(far), Result::is_ok);
        // From outside: itself to the endpoint that is with the node, as by the node's port.
        let reserved: IpAddr =
            if ipv6 { "fd01::1:ffff:ffff:ffff:ffff" } else { "10.1.1.254" }.parse().unwrap();
        let outside = stage.outside.address(ipv6);
        let expected = BTreeSet::from([format!("e1 {outside}"), format!("e2 {reserved}")]);
        assert_eq!(answers(&stage.outside, || ask::tcp(near)), expected, "{near}");
        assert_eq!(answers(&stage.outside, || ask::udp(near)), expected, "{near}");
        let expected = BTreeSet::from([format!("e2 {outside}")]);
        assert_eq!(answers(&stage.outside, || ask::tcp(far)), expected, "{far}");
        for (who, from) in [
            ("n1", stage.node(0)),
            ("n2", stage.node(1)),
            ("client", &stage.client.netns),
            ("e2", &stage.endpoint("e2").netns),
        ] {
            let found: BTreeSet<String> = names(from, &|| ask::tcp(near));
            assert_eq!(found, ["e1", "e2"].map(str::to_owned).into(), "{who} to {near}");
            let found: BTreeSet<String> = names(from, &|| ask::udp(far));
            assert_eq!(found, ["e2".to_owned()].into(), "{who} to {far}");
        }
        // What the node itself has at other ports is still there.
        let itself = SocketAddr::new(own[n], TARGET);
        let expected = BTreeSet::from(["n1".to_owned()]);
        assert_eq!(names(from, &|| ask::tcp(itself)), expected, "{itself}");
    }
}

/// A port that a program of the machine has is told where the Service says its health, once it is free.
#[test]
fn a_health_port_that_was_taken_is_used_when_it_is_free() {
    const PORT: u16 = 32107;
    let stage = Stage::new();
    let taken = stage.node(0).tcp_listen(at("0.0.0.0", PORT)).unwrap();
    let rest = format!(", external_traffic: local, health_port: {PORT}");
    stage.tell(&[service("web", &WEB, &rest), slice("web", &both(&stage)[..2])]);
    let from = &stage.outside.netns;
    let status = |n, ipv6| {
        let to = SocketAddr::new(outer(&stage, n, ipv6), PORT);
        eventually(&format!("an answer of {to}"), from, || ask::http_status(to), Result::is_ok);
    };
    // The other node has the port for itself. When it answers, the first has tried in vain.
    status(2, false);
    drop(taken);
    status(1, false);
    status(1, true);
}

fn outer(stage: &Stage, n: u8, ipv6: bool) -> IpAddr {
    let all = stage.cluster.addressing.outer(n);
    all.into_iter().map(|(a, _)| a).find(|a| a.is_ipv6() == ipv6).unwrap()
}

/// Who answers whom.
fn answers(
    from: &Guest,
    ask: impl Fn() -> io::Result<ask::Answer> + Send + Sync,
) -> BTreeSet<String> {
    count(&from.netns, TIMES, ask).into_keys().collect()
}

/// Endpoints that are no pods: nodes, and who is outside of the cluster.
#[test]
fn endpoints_may_be_nodes_or_outside() {
    let stage = Stage::new();
    let mut services = Vec::new();
    let kinds = [("n1", 20), ("n2", 21), ("outside", 22)];
    for (name, last) in kinds {
        let (v4, v6) = (format!("10.96.0.{last}"), format!("fd96::{last}"));
        services.push(service(name, &[&v4, &v6], ""));
        let endpoints: Vec<(IpAddr, &str)> = [false, true]
            .map(|ipv6| match name {
                "n1" => (outer(&stage, 1, ipv6), ", node: n1"),
                "n2" => (outer(&stage, 2, ipv6), ", node: n2"),
                _ => (stage.outside.address(ipv6), ""),
            })
            .to_vec();
        services.push(slice(name, &endpoints));
    }
    stage.tell(&services);
    let froms = [
        ("client", &stage.client.netns),
        ("n1", stage.node(0)),
        ("n2", stage.node(1)),
        ("e2", &stage.endpoint("e2").netns),
    ];
    for (name, last) in kinds {
        for to in [at(&format!("10.96.0.{last}"), 80), at(&format!("fd96::{last}"), 80)] {
            for (who, from) in froms {
                let what = format!("{who} to {name} at {to}");
                let right = |said: &io::Result<ask::Answer>| {
                    said.as_ref().is_ok_and(|(answered, _)| answered == name)
                };
                eventually(&what, from, || ask::tcp(to), right);
                eventually(&what, from, || ask::udp(to), right);
            }
        }
    }
}

/// What comes from outside stays on its node, with its address; who has no endpoint is silent.
#[test]
fn local_traffic_keeps_its_source() {
    let stage = Stage::new();
    let rest = ", external_traffic: local, internal_traffic: local, \
                balanced: [203.0.113.2], source_ranges: [198.51.100.254/32]";
    let other = ", balanced: [203.0.113.3], source_ranges: [192.0.2.0/24]";
    stage.tell(&[
        service("web", &["10.96.0.10"], rest),
        slice("web", &both(&stage)),
        service("other", &["10.96.0.11"], other),
        slice("other", &both(&stage)),
        service("far", &["10.96.0.12"], rest.replace("203.0.113.2", "203.0.113.4").as_str()),
        slice("far", &both(&stage)[2..]),
    ]);
    let web = at("10.96.0.10", 80);
    eventually("the Service", &stage.client.netns, || ask::tcp(web), Result::is_ok);
    let balanced = at("203.0.113.2", 80);
    eventually("it outside", &stage.outside.netns, || ask::tcp(balanced), Result::is_ok);
    let outside = stage.outside.address(false);
    for to in [balanced, SocketAddr::new(outer(&stage, 1, false), node_port("web"))] {
        let expected = BTreeSet::from([format!("e1 {outside}")]);
        assert_eq!(answers(&stage.outside, || ask::tcp(to)), expected, "{to}");
    }
    let node = SocketAddr::new(outer(&stage, 2, false), node_port("web"));
    let expected = BTreeSet::from([format!("e2 {outside}")]);
    assert_eq!(answers(&stage.outside, || ask::tcp(node)), expected);
    let client = stage.client.address(false);
    assert_eq!(answers(&stage.client, || ask::tcp(web)), BTreeSet::from([format!("e1 {client}")]));
    // Inside, the address that the outside knows is as good as any other: but not for whom it is not.
    let counts = count(&stage.client.netns, 1, || ask::tcp(balanced));
    assert_eq!(counts.into_keys().collect::<Vec<_>>(), ["TimedOut"]);
    let barred = at("203.0.113.3", 80);
    let silent = |from: &Guest, to| {
        let counts = count(&from.netns, 1, || ask::tcp(to));
        assert_eq!(counts.into_keys().collect::<Vec<_>>(), ["TimedOut"], "{to}");
    };
    silent(&stage.outside, barred);
    let far = |n| SocketAddr::new(outer(&stage, n, false), node_port("far"));
    silent(&stage.outside, far(1));
    // Of pods, those of a node are with it, and all others come from outside.
    let answers_there = BTreeSet::from([format!("e2 {client}")]);
    assert_eq!(answers(&stage.client, || ask::tcp(far(2))), answers_there);
    assert_eq!(answers(&stage.client, || ask::tcp(far(1))).len(), 1);
    silent(stage.endpoint("e2"), far(1));
    // So is the node itself, by its own port.
    let own = outer(&stage, 1, false);
    let seen = count(stage.node(0), TIMES, || ask::tcp(far(1)));
    assert_eq!(seen.into_keys().collect::<Vec<_>>(), [format!("e2 {own}")]);
    // By the port of the node, which no range holds for.
    let open = SocketAddr::new(outer(&stage, 1, false), node_port("other"));
    assert_eq!(answers(&stage.outside, || ask::tcp(open)).len(), 2);
}

/// Datagrams that come in pieces, which tell flows no ports.
#[test]
fn large_datagrams_arrive_whole() {
    let stage = Stage::new();
    let (e1, e2) = (both(&stage)[..2].to_vec(), both(&stage)[2..].to_vec());
    stage.tell(&[
        service("web", &["10.96.0.10", "fd96::10"], ""),
        slice("web", &both(&stage)),
        service("near", &["10.96.0.11", "fd96::11"], ""),
        slice("near", &e1),
        service("far", &["10.96.0.12", "fd96::12"], ""),
        slice("far", &e2),
        service("kept", &["10.96.0.13", "fd96::13"], ", affinity: 60"),
        slice("kept", &both(&stage)),
    ]);
    let froms = [
        ("client", &stage.client.netns),
        ("e1", &stage.endpoint("e1").netns),
        ("n1", stage.node(0)),
        ("n2", stage.node(1)),
    ];
    for (who, from) in froms {
        for (range, last) in
            ["10.96.0.", "fd96::"].into_iter().flat_map(|r| (10..14).map(move |l| (r, l)))
        {
            let to = at(&format!("{range}{last}"), 80);
            let what = format!("a large answer to {who} at {to}");
            eventually(&what, from, || ask::datagram(to, 4000), Result::is_ok);
        }
    }
}

/// Who balances load over nodes asks them, and sends from addresses of both families.
#[test]
fn load_balancers_ask_nodes_and_ranges_hold_for_both_families() {
    let stage = Stage::new();
    let outside = stage.outside.address(true);
    let rest = |last: u8, range: &str| {
        format!(
            ", external_traffic: local, health_port: 3210{last}, balanced: ['2001:db8:ffff::{last}'], \
             source_ranges: ['{range}', '192.0.2.0/24']"
        )
    };
    stage.tell(&[
        service("web", &WEB, &rest(2, &format!("{outside}/128"))),
        slice("web", &both(&stage)[..2]),
        service("other", &["10.96.0.11", "fd96::11"], &rest(3, "2001:db8:aaaa::/48")),
        slice("other", &[]),
    ]);
    let from = &stage.outside.netns;
    for (n, port, status) in [(1, 32102, 200), (2, 32102, 503), (1, 32103, 503)] {
        for ipv6 in [false, true] {
            let to = SocketAddr::new(outer(&stage, n, ipv6), port);
            let right = |said: &io::Result<u16>| said.as_ref().is_ok_and(|found| *found == status);
            eventually(&format!("{status} of {to}"), from, || ask::http_status(to), right);
        }
    }
    let named = at("2001:db8:ffff::2", 80);
    eventually("the Service", from, || ask::tcp(named), Result::is_ok);
    assert_eq!(
        answers(&stage.outside, || ask::tcp(named)),
        BTreeSet::from([format!("e1 {outside}")])
    );
    let counts = count(from, 1, || ask::tcp(at("2001:db8:ffff::3", 80)));
    assert_eq!(counts.into_keys().collect::<Vec<_>>(), ["TimedOut"], "no range names it");
}
