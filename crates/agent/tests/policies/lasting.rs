//! Connections that are older than a change of policies.

use crate::ask::{By, until_denied, until_reached};
use crate::grants::EVERYONE;
use crate::lab::PATIENCE;
use crate::stage::{Guest, Stage, policy, selection};
use osier_testbed::wait_until;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// How long nothing comes until that is the answer.
const SILENCE: Duration = Duration::from_millis(300);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// A connection that was granted lives on when its rule goes; new ones do not come.
#[test]
fn connections_outlive_their_rules() {
    let stage = Stage::new();
    let with = |rules: &str| {
        [selection(1, &[300]), selection(2, &[301]), policy("web", 1, rules)].concat()
    };
    stage.tell(&EVERYONE, &with("ingress: [{ peers: [{ selection: 2 }] }]"));
    let web = stage.guest("web");
    let far = &stage.guest("far").netns;
    until_denied(&stage.guest("other").netns, By::Tcp, web.at(false));
    until_reached(far, By::Tcp, web.at(false));
    let address = SocketAddr::new(web.at(false).ip(), 9000);
    let listener = web.netns.within(|| TcpListener::bind(address)).unwrap().unwrap();
    let mut asking = far.within(|| TcpStream::connect(address)).unwrap().unwrap();
    let (mut answering, _) = listener.accept().unwrap();
    stage.tell(&EVERYONE, &with("ingress: []"));
    until_denied(far, By::Tcp, web.at(false));
    for stream in [&mut asking, &mut answering] {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    let mut byte = [0];
    for _ in 0..3 {
        asking.write_all(b"?").unwrap();
        answering.read_exact(&mut byte).unwrap();
        answering.write_all(b"!").unwrap();
        asking.read_exact(&mut byte).unwrap();
    }
    // All that policies made goes with them.
    stage.tell(&EVERYONE, "");
    until_reached(&stage.guest("other").netns, By::Tcp, web.at(false));
    wait_until("no flow of a policy to be left", PATIENCE, || {
        let left = [stage.dump(0, 211), stage.dump(0, 244)].concat();
        match left.contains("conj") || left.contains("reg5=") {
            true => Err(left),
            false => Ok(()),
        }
    })
    .unwrap();
}

/// Both ends of a talk.
enum Talk {
    Tcp { asks: TcpStream, answers: TcpStream },
    Udp { asks: UdpSocket, answers: UdpSocket },
}

// === impl Talk ===

impl Talk {
    fn begin(by: By, from: &Guest, to: &Guest, ipv6: bool, port: u16) -> Self {
        let at = SocketAddr::new(to.at(ipv6).ip(), port);
        let talk = match by {
            By::Tcp => {
                let listener = to.netns.within(|| TcpListener::bind(at)).unwrap().unwrap();
                let asks = from.netns.within(|| TcpStream::connect(at)).unwrap().unwrap();
                Self::Tcp { asks, answers: listener.accept().unwrap().0 }
            }
            By::Udp => {
                let answers = to.netns.within(|| UdpSocket::bind(at)).unwrap().unwrap();
                let own = SocketAddr::new(from.at(ipv6).ip(), port);
                let asks = from.netns.within(|| UdpSocket::bind(own)).unwrap().unwrap();
                asks.connect(at).unwrap();
                answers.connect(own).unwrap();
                Self::Udp { asks, answers }
            }
        };
        assert!(talk.asks(ANSWER) && talk.is_answered(ANSWER), "{by:?} to {at} has begun");
        talk
    }

    /// Whether what is said arrives in time.
    fn asks(&self, wait: Duration) -> bool {
        arrives(match self {
            Self::Tcp { asks, answers } => through(asks, answers, wait),
            Self::Udp { asks, answers } => sent(asks, answers, wait),
        })
    }

    /// The same, the other way.
    fn is_answered(&self, wait: Duration) -> bool {
        arrives(match self {
            Self::Tcp { asks, answers } => through(answers, asks, wait),
            Self::Udp { asks, answers } => sent(answers, asks, wait),
        })
    }
}

fn through(mut from: &TcpStream, mut to: &TcpStream, wait: Duration) -> io::Result<()> {
    to.set_read_timeout(Some(wait))?;
    from.write_all(b"?")?;
    to.read_exact(&mut [0])
}

fn sent(from: &UdpSocket, to: &UdpSocket, wait: Duration) -> io::Result<()> {
    to.set_read_timeout(Some(wait))?;
    from.send(b"?")?;
    to.recv(&mut [0; 9]).map(drop)
}

fn arrives(result: io::Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
            false
        }
    }
}

/// With that option a connection ends with the rule that let it be, in both directions, at whichever
/// side the rule was; and goes on if it may again.
#[test]
fn connections_are_cut_with_their_rules_where_they_are_judged_again() {
    let stage = Stage::new();
    stage.rejudges.set(true);
    let web = stage.guest("web");
    let law = |name: &str, subjects, rules: &str| {
        [selection(1, &[300]), selection(2, &[301]), policy(name, subjects, rules)].concat()
    };
    let sides = [("web", 1, "ingress", 2), ("out", 2, "egress", 1)];
    for (name, subjects, direction, peers) in sides {
        let with =
            law(name, subjects, &format!("{direction}: [{{ peers: [{{ selection: {peers} }}] }}]"));
        stage.tell(&EVERYONE, &with);
        let mut talks = Vec::new();
        for (n, from) in ["near", "far"].into_iter().enumerate() {
            for ipv6 in [false, true] {
                let from = stage.guest(from);
                until_reached(&from.netns, By::Tcp, web.at(ipv6));
                let port = 9100 + 2 * u16::try_from(n).unwrap() + u16::from(ipv6);
                for by in [By::Tcp, By::Udp] {
                    let talk = Talk::begin(by, from, web, ipv6, port);
                    talks.push((format!("{direction}: {} {by:?}, IPv6 {ipv6}", from.name), talk));
                }
            }
        }
        // A change that is none of theirs cuts nothing.
        stage.tell(&EVERYONE, &(with.clone() + &selection(7, &[307])));
        for (called, talk) in &talks {
            assert!(talk.asks(ANSWER) && talk.is_answered(ANSWER), "{called} goes on");
        }
        stage.tell(&EVERYONE, &law(name, subjects, &format!("{direction}: []")));
        for ipv6 in [false, true] {
            for from in ["near", "far"] {
                until_denied(&stage.guest(from).netns, By::Tcp, web.at(ipv6));
            }
        }
        for (called, talk) in &talks {
            // The datapath looks at what it has cached in its own time.
            wait_until(&format!("{called} to be cut"), PATIENCE, || match talk.asks(SILENCE) {
                true => Err(stage.cluster.agents[0].process.stderr() + &stage.dump(0, 214)),
                false => Ok(()),
            })
            .unwrap();
            // The receiver's node refuses what a sender on another one may not send; answers do not ask it.
            let is_elsewhere = direction == "egress" && called.contains("far");
            assert!(is_elsewhere || !talk.is_answered(SILENCE), "{called} is answered still");
        }
        stage.tell(&EVERYONE, &with);
        for (called, talk) in &talks {
            wait_until(&format!("{called} to go on"), PATIENCE, || {
                let goes = talk.asks(SILENCE) && talk.is_answered(SILENCE);
                if goes { Ok(()) } else { Err("nothing comes".to_owned()) }
            })
            .unwrap();
        }
    }
}

/// Connections from before the first policy are known when who began them speaks. What its other end
/// sent meanwhile is not lost to TCP.
#[test]
fn connections_from_before_the_first_policy_go_on_when_they_are_spoken_in() {
    let stage = Stage::new();
    let web = stage.guest("web");
    stage.tell(&EVERYONE, "");
    let mut talks = Vec::new();
    for (n, from) in ["near", "far"].into_iter().enumerate() {
        for ipv6 in [false, true] {
            let from = stage.guest(from);
            until_reached(&from.netns, By::Tcp, web.at(ipv6));
            let port = 9200 + 2 * u16::try_from(n).unwrap() + u16::from(ipv6);
            for by in [By::Tcp, By::Udp] {
                let talk = Talk::begin(by, from, web, ipv6, port);
                talks.push((format!("{} {by:?}, IPv6 {ipv6}", from.name), talk));
            }
        }
    }
    // Nothing may come to those who asked, but answers.
    let law = [selection(2, &[301]), policy("asking", 2, "ingress: []")].concat();
    stage.tell(&EVERYONE, &law);
    for name in ["near", "far"] {
        for ipv6 in [false, true] {
            until_denied(&web.netns, By::Tcp, stage.guest(name).at(ipv6));
        }
    }
    for (called, talk) in &talks {
        // It looks as if the other end began it.
        if let Talk::Tcp { asks, answers } = talk {
            (&*answers).write_all(b"!").unwrap();
            assert!(talk.asks(ANSWER), "{called} asks");
            asks.set_read_timeout(Some(ANSWER)).unwrap();
            (&*asks).read_exact(&mut [0]).unwrap_or_else(|error| panic!("{called}: {error}"));
        }
        assert!(talk.asks(ANSWER), "{called} asks");
        assert!(talk.is_answered(ANSWER), "{called} is answered");
    }
}
