//! Endpoints come and go: connections stay where they are, unless their endpoint is gone.

use crate::ask::{self, ask_again};
use crate::lab::PATIENCE;
use crate::stage::{Guest, Stage, TARGET, at, eventually, service, slice};
use osier_testbed::{Netns, Signal, wait_until};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const WEB: &str = "10.96.0.10";

fn v4(guest: &Guest) -> (IpAddr, &'static str) {
    (guest.address(false), "")
}

/// Echoes whatever comes, for as long as it comes.
pub(crate) struct Parrot(pub(crate) SocketAddr);

impl Parrot {
    pub(crate) const PORT: u16 = 7070;

    pub(crate) fn start(netns: &Netns, address: IpAddr) -> Self {
        let at = SocketAddr::new(address, Self::PORT);
        let listener: TcpListener = netns.tcp_listen(at).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || repeat(stream));
            }
        });
        Self(at)
    }
}

fn repeat(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length])?;
    }
}

pub(crate) fn says(mut stream: &TcpStream, word: &[u8]) -> io::Result<bool> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(word)?;
    let mut heard = vec![0; word.len()];
    stream.read_exact(&mut heard)?;
    Ok(heard == word)
}

#[test]
fn connections_stay_until_their_endpoint_is_gone() {
    let stage = Stage::new();
    let names = ["e1", "e2"];
    let parrots: Vec<Parrot> = names
        .map(|name| stage.endpoint(name))
        .map(|guest| Parrot::start(&guest.netns, guest.address(false)))
        .into();
    let addresses: Vec<IpAddr> = parrots.iter().map(|parrot| parrot.0.ip()).collect();
    let tell = |endpoints: &[IpAddr]| {
        let endpoints: Vec<(IpAddr, &str)> = endpoints.iter().map(|a| (*a, "")).collect();
        let slice =
            slice("web", &endpoints).replace(&TARGET.to_string(), &Parrot::PORT.to_string());
        stage.tell(&[service("web", &[WEB], ""), slice]);
    };
    let connect = || stage.client.netns.tcp_connect(at(WEB, 80));
    tell(&addresses[..1]);
    wait_until("the first endpoint", PATIENCE, || connect().map(drop)).unwrap();
    let first = connect().unwrap();
    assert!(says(&first, b"one").unwrap());
    // Another one comes: those that are stay.
    tell(&addresses);
    let mut second = None;
    wait_until("a connection to the second endpoint", PATIENCE, || {
        let stream = connect().unwrap();
        assert!(says(&stream, b"two").unwrap());
        let local = stream.local_addr().unwrap();
        let at_second = conntrack(&stage).lines().any(|line| {
            line.contains(&format!("sport={}", local.port()))
                && line.contains(&format!("reply=(src={}", addresses[1]))
        });
        if at_second {
            second = Some(stream);
        }
        if at_second { Ok(()) } else { Err("it is at the first") }
    })
    .unwrap();
    let second = second.unwrap();
    assert!(says(&first, b"three").unwrap());
    // The first one goes: its connections end, others do not notice.
    tell(&addresses[1..]);
    let port = first.local_addr().unwrap().port();
    wait_until("the end of the first connection", PATIENCE, || match says(&first, b"four") {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("it is alive".to_owned()),
    })
    .unwrap();
    // Nobody else was asked, so nothing is remembered that would be in the way of what has this port next.
    let remembered = conntrack(&stage);
    assert!(!remembered.contains(&format!("dst={WEB},sport={port},")), "{remembered}");
    for _ in 0..5 {
        assert!(says(&second, b"five").unwrap());
    }
    // And with the Service all of them.
    stage.tell(&[]);
    wait_until("the end of the last connection", PATIENCE, || match says(&second, b"six") {
        Err(_) => Ok(()),
        Ok(_) => Err("it is alive"),
    })
    .unwrap();
}

fn conntrack(stage: &Stage) -> String {
    stage.cluster.fabric.nodes()[0].ovs().appctl(&["dpctl/dump-conntrack"]).unwrap()
}

/// A client that always uses the same port moves with the endpoints.
#[test]
fn datagrams_go_to_who_is_there_now() {
    let stage = Stage::new();
    let (e1, e2) = (v4(stage.endpoint("e1")), v4(stage.endpoint("e2")));
    let tell = |endpoints: &[(IpAddr, &str)]| {
        stage.tell(&[service("web", &[WEB], ""), slice("web", endpoints)]);
    };
    let socket = stage.client.netns.udp_bind("0.0.0.0:5555".parse().unwrap()).unwrap();
    let moved = |to: &str| {
        wait_until(&format!("an answer of {to}"), PATIENCE, || {
            socket.connect(at(WEB, 80)).map_err(|e| e.to_string())?;
            match ask_again(&socket) {
                Ok((name, _)) if name == to => Ok(()),
                said => Err(format!("{said:?}")),
            }
        })
        .unwrap();
    };
    tell(&[e1]);
    moved("e1");
    tell(&[e2]);
    moved("e2");
    // Still there, but not ready: connections stay, datagrams do not.
    tell(&[e1, (e2.0, ", state: unready")]);
    moved("e1");
    tell(&[]);
    wait_until("a refusal", PATIENCE, || match ask_again(&socket) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        said => Err(format!("{said:?}")),
    })
    .unwrap();
    tell(&[e1]);
    moved("e1");
}

/// A client stays with its endpoint, also when others come, until that is gone or time is over.
#[test]
fn a_client_stays_with_its_endpoint() {
    let stage = Stage::new();
    let (e1, e2) = (v4(stage.endpoint("e1")), v4(stage.endpoint("e2")));
    let tell = |endpoints: &[(IpAddr, &str)]| {
        stage.tell(&[service("web", &[WEB], ", affinity: 3600"), slice("web", endpoints)]);
    };
    let to = at(WEB, 80);
    let names = || -> BTreeSet<String> {
        let counts = ask::count(&stage.client.netns, 30, || ask::tcp(to));
        counts.into_keys().filter_map(|said| said.split(' ').next().map(str::to_owned)).collect()
    };
    tell(&[e1]);
    eventually("the Service", &stage.client.netns, || ask::tcp(to), Result::is_ok);
    assert_eq!(names(), BTreeSet::from(["e1".to_owned()]));
    tell(&[e1, e2]);
    // Whoever is new may be sent to either; who was there stays.
    let other = stage.endpoint("e1");
    eventually("the second endpoint to be known", &other.netns, || ask::tcp(to), Result::is_ok);
    assert_eq!(names(), BTreeSet::from(["e1".to_owned()]));
    tell(&[e2]);
    let right = |said: &io::Result<ask::Answer>| said.as_ref().is_ok_and(|(name, _)| name == "e2");
    eventually("the other endpoint", &stage.client.netns, || ask::tcp(to), right);
    tell(&[e1, e2]);
    assert_eq!(names(), BTreeSet::from(["e2".to_owned()]));
}

/// Its time is over when it has made no connection for that long: then it is as good as new.
#[test]
fn a_client_whose_time_is_over_may_be_led_elsewhere() {
    let stage = Stage::new();
    let endpoints = [v4(stage.endpoint("e1")), v4(stage.endpoint("e2"))];
    stage.tell(&[service("web", &[WEB], ", affinity: 1"), slice("web", &endpoints)]);
    let mut names = BTreeSet::new();
    wait_until("both endpoints", 3 * PATIENCE, || {
        let said = stage.client.netns.within(|| ask::tcp(at(WEB, 80))).unwrap();
        names.extend(said.map(|(name, _)| name));
        if names.len() == 2 {
            return Ok(());
        }
        // What is waited for is that time passes.
        std::thread::sleep(Duration::from_millis(2500));
        Err(format!("only {names:?}"))
    })
    .unwrap();
}

/// A day is longer than a flow can last: when what was learned ends, the client keeps its endpoint
/// for the rest, and loses it with the endpoint.
#[test]
fn a_client_stays_for_longer_than_a_flow_can_last() {
    let stage = Stage::new();
    let (e1, e2) = (v4(stage.endpoint("e1")), v4(stage.endpoint("e2")));
    let tell = |endpoints: &[(IpAddr, &str)]| {
        stage.tell(&[service("web", &[WEB], ", affinity: 86400"), slice("web", endpoints)]);
    };
    let ask = || ask::tcp(at(WEB, 80));
    tell(&[e1]);
    eventually("the Service", &stage.client.netns, ask, Result::is_ok);
    let ovs = stage.cluster.fabric.nodes()[0].ovs();
    let kept = || -> Vec<String> {
        let flows = ovs.ofctl(&["--no-stats", "dump-flows", "br-int", "table=26"]).unwrap();
        let learned = |line: &&str| line.contains("cookie=0x6f74");
        flows.lines().filter(learned).map(|line| line.trim().to_owned()).collect()
    };
    let learned = kept();
    let [learned] = learned.as_slice() else { panic!("one client, but {learned:?}") };
    assert!(learned.contains("hard_timeout=65535"), "{learned}");
    // As if that time had passed.
    let over = learned.replace("hard_timeout=65535", "hard_timeout=1");
    ovs.add_flows("br-int", &over).unwrap();
    wait_until("what is left of its time", PATIENCE, || match kept().as_slice() {
        [one] if one.contains("priority=95") && one.contains("hard_timeout=65535") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    tell(&[e1, e2]);
    let other = stage.endpoint("e1");
    eventually("the second endpoint to be known", &other.netns, ask, Result::is_ok);
    let said = ask::count(&stage.client.netns, 30, ask).into_keys();
    let names: BTreeSet<_> =
        said.filter_map(|said| Some(said.split(' ').next()?.to_owned())).collect();
    assert_eq!(names, BTreeSet::from(["e1".to_owned()]));
    tell(&[e2]);
    let right = |said: &io::Result<ask::Answer>| said.as_ref().is_ok_and(|(name, _)| name == "e2");
    eventually("the other endpoint", &stage.client.netns, ask, right);
}

/// An agent that comes back forgets what went while it was away, and nothing else.
#[test]
fn what_went_while_the_agent_was_away_is_forgotten() {
    let mut stage = Stage::new();
    let (e1, e2) = (v4(stage.endpoint("e1")), v4(stage.endpoint("e2")));
    Parrot::start(&stage.endpoint("e2").netns, e2.0);
    let steady = slice("steady", &[e2]).replace(&TARGET.to_string(), &Parrot::PORT.to_string());
    let steady = [service("steady", &["10.96.0.11"], ""), steady].concat();
    let tell = |stage: &Stage, endpoint| {
        stage.tell(&[service("web", &[WEB], ""), slice("web", &[endpoint]), steady.clone()]);
    };
    let socket = stage.client.netns.udp_bind("0.0.0.0:5555".parse().unwrap()).unwrap();
    socket.connect(at(WEB, 80)).unwrap();
    let answered = |by: &str| {
        wait_until(&format!("an answer of {by}"), PATIENCE, || match ask_again(&socket) {
            Ok((name, _)) if name == by => Ok(()),
            said => Err(format!("{said:?}")),
        })
        .unwrap();
    };
    tell(&stage, e1);
    answered("e1");
    let connect = || stage.client.netns.tcp_connect(at("10.96.0.11", 80));
    let stream = wait_until("the other Service", PATIENCE, connect).unwrap();
    assert!(says(&stream, b"before").unwrap());
    stage.cluster.agents[0].end(Signal::SIGKILL);
    tell(&stage, e2);
    assert!(says(&stream, b"meanwhile").unwrap());
    stage.cluster.start_agent(0);
    answered("e2");
    assert!(says(&stream, b"after").unwrap());
}
