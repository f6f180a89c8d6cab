//! Rates: what one pod may send and get, and what all ports of a network may flood.

use crate::lab::port;
use crate::{PATIENCE, Rig, reaches};
use osier_testbed::traffic::{self, PacketSocket};
use osier_testbed::{Netns, wait_until};
use std::net::Ipv6Addr;
use std::time::Instant;

const MBIT: u32 = 20;

#[test]
fn limits_hold_in_both_directions() {
    let limit = format!("{{ rate: {} }}", MBIT * 1_000_000);
    let with = |direction: &str, n: u8| {
        format!(
            "mac: '02:00:00:00:00:{n}', addresses: [10.5.0.{n}], limits: {{ {direction}: {limit} }}"
        )
    };
    let ports = port("from", "eth0", "red-1", "n1", &with("egress", 11))
        + &port("to", "eth0", "red-1", "n1", &with("ingress", 12))
        + &port("free", "eth0", "red-1", "n1", "mac: '02:00:00:00:00:13', addresses: [10.5.0.13]");
    let rig = Rig::start(1, &ports);
    let [from, to, free] = ["from", "to", "free"].map(|name| rig.pod(0, name));
    for (client, server, what) in [(&from, &free, "from"), (&free, &to, "to")] {
        let (client, address) = (&client.0.netns, server.1[0]);
        reaches(client, address);
        // Five times as much as may pass.
        let rate = traffic::iperf_udp(client, &server.0.netns, address, 3, MBIT * 5).unwrap();
        // The burst comes on top: a tenth of a second's worth.
        let most = f64::from(MBIT) * 1.25;
        assert!(rate.mbit_per_second <= most, "{what} a limited pod: {rate:?}");
        assert!(rate.lost < rate.sent, "{what} a limited pod: {rate:?}");
    }
}

#[test]
fn one_port_cannot_storm_a_network() {
    let rest = |n: u8| format!("mac: '02:00:00:00:00:{n}', addresses: [10.5.0.{n}, 'fd05::{n}']");
    let ports = port("loud", "eth0", "red-1", "n1", &rest(11))
        + &port("quiet", "eth0", "red-1", "n1", &rest(12));
    let rig = Rig::start(1, &ports);
    let [(loud, _), (quiet, to)] = ["loud", "quiet"].map(|name| rig.pod(0, name));
    for to in to {
        reaches(&loud.netns, to);
    }
    let socket = PacketSocket::open(&loud.netns, "eth0").unwrap();
    for (what, frame) in [
        ("broadcast", ipv4_to_all([0xff; 6], [255; 4])),
        ("multicast", ipv4_to_all([1, 0, 0x5e, 0, 0, 1], [224, 0, 0, 1])),
        ("multicast of IPv6", ipv6_to_all()),
    ] {
        let (before, started) = (received(&quiet.netns), Instant::now());
        let sent = 20_000;
        for _ in 0..sent {
            // A full queue is as good: it is the switch's to keep up or not.
            let _ = socket.send(&frame);
        }
        // Not that nothing comes at all.
        let some = || (received(&quiet.netns) > before).then_some(()).ok_or("nothing comes");
        wait_until("a part of the flood", PATIENCE, some).unwrap();
        let passed = received(&quiet.netns) - before;
        // A thousand at once, and a thousand in each second.
        let most = 1000 + 1000 * (started.elapsed().as_secs() + 2);
        assert!(passed <= most, "{what}: {passed} of {sent} passed, not {most}");
    }
}

/// A datagram to everybody: Ethernet, IP without a checksum that anybody looks at, no content.
fn ipv4_to_all(mac: [u8; 6], to: [u8; 4]) -> Vec<u8> {
    let mut frame = mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 0x11, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, 5, 0, 11]);
    frame.extend(to);
    frame.extend([0, 9, 0, 9, 0, 8, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// The same to all nodes of the link.
fn ipv6_to_all() -> Vec<u8> {
    let mut frame = vec![0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x11, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
    for address in ["fd05::11", "ff02::1"] {
        frame.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    }
    frame.extend([0, 9, 0, 9, 0, 8, 0, 0]);
    frame
}

/// Packets that came to a pod.
fn received(netns: &Netns) -> u64 {
    let text = netns.ip("-s link show eth0").unwrap();
    // A line of titles, then `bytes packets errors …`.
    let counts = text.lines().skip_while(|line| !line.contains("RX:")).nth(1);
    let packets = counts.and_then(|counts| counts.split_whitespace().nth(1)?.parse().ok());
    packets.unwrap_or_else(|| panic!("{text}"))
}
