//! Endpoints come and go while many connect: who is led to one that stays notices nothing.

use crate::lab::{PATIENCE, rewrite_view};
use crate::stage::{Guest, Stage, at, eventually, service};
use nix::sys::socket::sockopt::SendTimeout;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike as _};
use osier_testbed::{Netns, wait_until};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const WEB: &str = "10.96.0.10";
/// Where endpoints listen that stay; those that come and go do so above it.
const STAYS: u16 = 7171;
const COMING_AND_GOING: u16 = 4;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(250);
/// A connection whose first packet met an endpoint that went begins again within this.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Clients of one pod: it is not to come to use a port again while the tracker remembers the connection
/// before, which the datapath in `ovs-vswitchd` would give another then. Linux goes round its ports in some
/// 3,000 connections, and the tracker remembers one for a minute, and longer when it is busy: so, twenty a
/// second at the most. With forty, two of 700,000 failed.
const TOGETHER: usize = 5;

/// Which endpoint had a connection from where last.
type Seen = Arc<Mutex<HashMap<SocketAddr, u16>>>;

#[test]
fn who_is_led_to_an_endpoint_that_stays_notices_no_change() {
    churn(25, 20);
}

#[test]
#[ignore = "takes minutes: make soak"]
fn soak_of_1000_changes_while_200_clients_connect() {
    churn(1000, 200);
}

fn churn(changes: usize, clients: usize) {
    let stage = Stage::new();
    let seen = Seen::default();
    let addresses = ["e1", "e2"].map(|name| stage.endpoint(name).address(false));
    for (name, address) in ["e1", "e2"].into_iter().zip(addresses) {
        for port in STAYS..=STAYS + COMING_AND_GOING {
            serve(&stage.endpoint(name).netns, SocketAddr::new(address, port), &seen);
        }
    }
    tell(&stage, addresses, &BTreeSet::new());
    let ovs = stage.cluster.fabric.nodes()[0].ovs();
    let tracked = |from: SocketAddr| {
        let all =
            ovs.appctl(&["dpctl/dump-conntrack", "-m"]).unwrap_or_else(|error| error.to_string());
        let its = format!("orig=(src={},dst={WEB},sport={},", from.ip(), from.port());
        all.lines().filter(|line| line.contains(&its)).collect::<Vec<_>>().join("; ")
    };
    let request = || request(&seen, &tracked);
    eventually("the Service", &stage.client.netns, request, Result::is_ok);
    let (done, answered, failed) =
        (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let asking = || {
        while !done.load(Relaxed) {
            match request() {
                Ok(()) => drop(answered.fetch_add(1, Relaxed)),
                Err(error) => failed.lock().unwrap().push(error.to_string()),
            }
            thread::sleep(PAUSE);
        }
    };
    let pods: Vec<_> = (0..clients.div_ceil(TOGETHER))
        .map(|n| Guest::pod(stage.cluster.pod(0, &format!("client-{n}"))).netns)
        .collect();
    thread::scope(|scope| {
        for netns in (0..clients).map(|n| &pods[n / TOGETHER]) {
            scope.spawn(|| netns.within(asking).unwrap());
        }
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            change(&stage, addresses, changes);
        }));
        done.store(true, Relaxed);
        if let Err(panic) = changed {
            std::panic::resume_unwind(panic);
        }
    });
    let (answered, failed) = (answered.into_inner(), failed.into_inner().unwrap());
    eprintln!("{changes} changes, {answered} requests answered, {} not", failed.len());
    assert!(failed.is_empty(), "{:?}", &failed[..failed.len().min(9)]);
    assert!(answered > clients, "{answered}");
}

/// One endpoint comes or goes, and each change is waited for.
fn change(stage: &Stage, addresses: [IpAddr; 2], changes: usize) {
    let mut there = BTreeSet::new();
    for n in 0..changes {
        let port = STAYS + 1 + u16::try_from(n * 7 % usize::from(COMING_AND_GOING)).unwrap();
        let comes = there.insert(port) || !there.remove(&port);
        tell(stage, addresses, &there);
        let ovs = stage.cluster.fabric.nodes()[0].ovs();
        let socket = format!("unix:{}", ovs.mgmt_socket("br-int").display());
        wait_until("the change", PATIENCE, || {
            let groups = ovs.ofctl(&["-O", "OpenFlow15", "dump-groups", &socket]).unwrap();
            let is_there = groups.contains(&format!(":{port})"));
            if is_there == comes { Ok(()) } else { Err("not yet") }
        })
        .unwrap();
    }
}

/// Only the client's node leads its connections.
fn tell(stage: &Stage, [stays, other]: [IpAddr; 2], there: &BTreeSet<u16>) {
    let slice = |name: &str, port: u16, endpoints: &str| {
        format!(
            "- {{ kind: endpoints, service: web, slice: {name}, ports: [{{ name: t, port: {port} }}], \
             endpoints: [{endpoints}] }}\n"
        )
    };
    let both = format!("{{ address: {stays} }}, {{ address: {other} }}");
    let mut view = stage.view() + &service("web", &[WEB], "") + &slice("stays", STAYS, &both);
    for port in there {
        view += &slice(&format!("s{port}"), *port, &format!("{{ address: {stays} }}"));
    }
    rewrite_view(&stage.cluster.fabric.nodes()[0], &view);
}

/// Says at once that it is there, and then repeats a word.
fn serve(netns: &Netns, at: SocketAddr, seen: &Seen) {
    let (listener, seen) = (netns.tcp_listen(at).unwrap(), Arc::clone(seen));
    let answer = |mut stream: TcpStream| -> io::Result<()> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(b"hello")?;
        let mut word = [0; 5];
        stream.read_exact(&mut word)?;
        stream.write_all(&word)
    };
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Ok(peer) = stream.peer_addr() {
                seen.lock().unwrap().insert(peer, at.port());
            }
            thread::spawn(move || answer(stream));
        }
    });
}

/// A connection, and a word there and back. That it ends early is right if its endpoint was one that
/// comes and goes.
fn request(seen: &Seen, tracked: &dyn Fn(SocketAddr) -> String) -> io::Result<()> {
    let mut stream = connect(at(WEB, 80), tracked)?;
    let from = stream.local_addr()?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    let mut exchange = || -> io::Result<()> {
        let mut word = [0; 5];
        stream.read_exact(&mut word)?;
        stream.write_all(b"again")?;
        stream.read_exact(&mut word)
    };
    let said = exchange();
    let by = |seen: &Seen| seen.lock().unwrap().remove(&from);
    if said.is_ok() {
        by(seen);
        return Ok(());
    }
    // Who has it will have taken it by then; if nobody has, it began with one that went.
    let begun = Instant::now();
    let mut taken = by(seen);
    while taken.is_none() && begun.elapsed() < Duration::from_secs(2) {
        thread::sleep(Duration::from_millis(20));
        taken = by(seen);
    }
    if taken == Some(STAYS) { said } else { Ok(()) }
}

/// Connects; who cannot tells what the tracker knows of it.
fn connect(to: SocketAddr, tracked: &dyn Fn(SocketAddr) -> String) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let limit = TimeVal::seconds(i64::try_from(TIMEOUT.as_secs()).unwrap());
    setsockopt(&socket, SendTimeout, &limit)?;
    let connected = nix::sys::socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to));
    let stream = TcpStream::from(socket);
    let Err(error) = connected else { return Ok(stream) };
    let from = stream.local_addr()?;
    Err(io::Error::other(format!("{error} from {from}; tracked: {}", tracked(from))))
}
