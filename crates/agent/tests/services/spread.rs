//! Connections are spread evenly, over few endpoints and over thousands.

use crate::lab::PATIENCE;
use crate::stage::{Stage, at, service, slice};
use osier_testbed::wait_until;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

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
