//! More of everything than is good for others: connections, and packets to all.

use crate::frame::{BROADCAST, Ends, Mac, framed, multicast};
use crate::lab::PATIENCE;
use crate::stage::Stage;
use osier_testbed::traffic::PacketSocket;
use osier_testbed::{Signal, wait_until};
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const GATEWAY: Mac = osier_model::Mac::GATEWAY.0;
/// The datapath, for `ovs-appctl dpctl`.
const DATAPATH: &str = "netdev@ovs-netdev";
/// How many connections the trackers of this test remember; and how many one pod may begin in a second,
/// where one that asks and is not answered is remembered for a minute.
const ROOM: usize = 2000;
const RATE: usize = 10;

/// `bob` is answered only as the tracker knows what he asked. `mallory` may send anything, and is tracked.
const LAW: &str = "\
- { kind: workload, device: 'shop:mallory', node: n1, identity: 301 }
- { kind: workload, device: 'shop:bob', node: n1, identity: 300 }
- { kind: workload, device: 'shop:carol', node: n2, identity: 302 }
- { kind: selection, id: 1, members: [300] }
- { kind: selection, id: 2, members: [301] }
- { kind: selection, id: 3, members: [302] }
- { kind: policy, name: 'shop:alone', subjects: 1, ingress: [] }
- { kind: policy, name: 'shop:free', subjects: 2, egress: [{}] }
- { kind: policy, name: 'shop:open', subjects: 3, ingress: [{}] }
";

#[test]
fn nobody_fills_the_connection_tracker() {
    let mut stage = Stage::with(|view| view + LAW);
    for node in stage.cluster.fabric.nodes() {
        let room = ROOM.to_string();
        node.ovs().appctl(&["dpctl/ct-set-maxconns", DATAPATH, &room]).unwrap();
    }
    let tracked = |stage: &Stage| -> Vec<usize> {
        let nodes = stage.cluster.fabric.nodes().iter();
        let said = nodes.map(|node| node.ovs().appctl(&["dpctl/ct-get-nconns", DATAPATH]).unwrap());
        said.map(|number| number.trim().parse().unwrap()).collect()
    };
    let carol = SocketAddr::new(stage.guests[2].routed.at(false), 7007);
    let _listener = stage.guests[2].pod.netns.tcp_listen(carol).unwrap();
    let asks = |stage: &Stage, patience| {
        let asks = || TcpStream::connect_timeout(&carol, patience).is_ok();
        stage.guests[1].pod.netns.within(asks).unwrap()
    };
    assert!(asks(&stage, PATIENCE), "before anything");
    // As fast as agents let pods by themselves, these small trackers are full at once: then nobody
    // else is answered.
    under_flood(&stage, |stage| {
        wait_until("the trackers to be full", PATIENCE, || match tracked(stage) {
            full if full[0] >= ROOM => Ok(()),
            filling => Err(format!("{filling:?}")),
        })
        .unwrap();
        assert!(!asks(stage, Duration::from_secs(2)), "the flood does nothing");
    });
    for node in 0..2 {
        let config = crate::cluster::config_of(&stage.cluster.fabric.nodes()[node]);
        let mut config = std::fs::OpenOptions::new().append(true).open(config).unwrap();
        writeln!(config, "connection_rate = {RATE}").unwrap();
        stage.cluster.agents[node].end(Signal::SIGTERM);
        stage.cluster.start_agent(node);
        let ovs = stage.cluster.fabric.nodes()[node].ovs();
        wait_until("the switch to bound that", PATIENCE, || {
            let meters = ovs.ofctl(&["-O", "OpenFlow15", "dump-meters", "br-int"]).unwrap();
            if meters.contains(&format!("rate={RATE} ")) { Ok(()) } else { Err(meters) }
        })
        .unwrap();
        ovs.appctl(&["dpctl/flush-conntrack"]).unwrap();
    }
    under_flood(&stage, |stage| {
        let end = Instant::now() + Duration::from_secs(3);
        let mut asked = 0;
        while Instant::now() < end {
            assert!(asks(stage, PATIENCE), "after {asked}: {:?}", tracked(stage));
            asked += 1;
        }
        assert!(asked > 0);
        assert!(tracked(stage).iter().all(|number| *number < ROOM / 2), "{:?}", tracked(stage));
    });
}

/// While `mallory` begins connections as fast as frames can be written.
fn under_flood(stage: &Stage, work: impl FnOnce(&Stage)) {
    let (mallory, carol) = (&stage.guests[0].routed, &stage.guests[2].routed);
    let socket = PacketSocket::open(&stage.guests[0].pod.netns, "eth0").unwrap();
    let ends = Ends::new(mallory.v4, carol.v4);
    let frame = |n: u16| framed(GATEWAY, mallory.mac, &ends.udp((n | 1024, 1 + n % 7), b"flood"));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..=u16::MAX).cycle().step_by(7).take_while(|_| !over.load(Ordering::Relaxed))
            {
                // A full queue is no reason to end.
                let _ = socket.send(&frame(n));
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(stage)));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// What goes to all of a network, or to many of it, is bounded, and what goes to one passes beside it.
#[test]
fn a_storm_is_a_breeze() {
    let stage = Stage::new();
    let mallory = &stage.guests[0].bridged;
    let many: Ipv6Addr = "ff02::fb".parse().unwrap();
    for (what, to, packet) in [
        ("broadcast", BROADCAST, Ends::new(mallory.v4, Ipv4Addr::BROADCAST)),
        (
            "multicast",
            [1, 0, 0x5e, 0, 0, 0xfb],
            Ends::new(mallory.v4, Ipv4Addr::new(224, 0, 0, 251)),
        ),
        ("multicast of IPv6", multicast(many), Ends::new(mallory.v6, many)),
    ] {
        storm(&stage, what, &framed(to, mallory.mac, &packet.udp((9, 9), what.as_bytes())));
    }
}

fn storm(stage: &Stage, what: &str, storm: &[u8]) {
    const SENT: usize = 20_000;
    /// Packets in a second, and at once, as the meters have it.
    const BOUND: u64 = 1000;
    let [mallory, bob, carol] = stage.guests.each_ref().map(|guest| &guest.bridged);
    let ends = Ends::new(mallory.v4, bob.v4);
    let one = framed(bob.mac, mallory.mac, &ends.udp((9, 9), format!("to one: {what}").as_bytes()));
    let begun = Instant::now();
    let (mut stormed, mut heard) = (0, false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..SENT {
                let _ = mallory.socket.send(storm);
                std::thread::sleep(Duration::from_micros(20));
            }
            for _ in 0..100 {
                let _ = mallory.socket.send(&one);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let last = bob.socket.receive(PATIENCE, |frame| {
            stormed += u64::from(frame == storm);
            frame == one
        });
        heard = last.unwrap().is_some();
    });
    let most = BOUND * (begun.elapsed().as_secs() + 2);
    assert!(heard, "{what}: what goes to one is lost");
    assert!(stormed > 0 && stormed <= most, "{what}: {stormed} of {SENT}, at most {most}");
    let mut over = 0;
    let _ = carol.socket.receive(Duration::from_millis(300), |frame| {
        over += u64::from(frame == storm);
        false
    });
    assert!(over <= most, "{what}: {over} over the tunnel");
}
