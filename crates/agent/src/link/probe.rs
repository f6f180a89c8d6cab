//! Whether other nodes answer through the tunnel: small questions from gateway to gateway.
//!
//! They take the way that pods' packets take: the switch, the tunnel, the other switch. Tunnels
//! whose end is in the flow have no state of their own that could be asked instead. The answer
//! says the time there, and is as long as the question.
//!
//! ```text
//! | "OSIER?" or "OSIER!" | number: u64 | microseconds since 1970: u64 | zeros |
//! ```

use crate::switch::Switch;
use osier_model::{Node, NodeName};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::timeout;

/// The port, on gateways' addresses only.
pub(super) const PORT: u16 = 6647;
/// How often nodes are asked.
const PERIOD: Duration = Duration::from_secs(5);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Nodes that are asked at once; the others have their turn later.
const AT_ONCE: usize = 64;
/// So many answers may be missed.
const MISSES: u32 = 2;

const QUESTION: &[u8; 6] = b"OSIER?";
const ANSWER: &[u8; 6] = b"OSIER!";
const LENGTH: usize = 6 + 8 + 8;

/// What was last heard of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Heard {
    /// When it answered last.
    pub at: Option<SystemTime>,
    /// How long that took.
    pub round_trip: Option<Duration>,
    /// How far its clock is ahead, in microseconds.
    pub ahead: i64,
    /// Questions without an answer since.
    pub missed: u32,
}

/// What was heard of whom.
pub(crate) type Probes = BTreeMap<NodeName, Heard>;

// === impl Heard ===

impl Heard {
    /// Whether the tunnel works, if that is known.
    pub(crate) fn up(&self) -> Option<bool> {
        match (self.at, self.missed) {
            (_, MISSES..) => Some(false),
            (Some(_), _) => Some(true),
            (None, _) => None,
        }
    }
}

/// Asks and answers, for ever.
pub(super) async fn run(switch: &Switch, probes: &watch::Sender<Probes>) {
    let mut ticks = tokio::time::interval(PERIOD);
    let mut socket: Option<(IpAddr, UdpSocket)> = None;
    let mut turn = 0;
    loop {
        let Some((own, peers)) = gateways(switch).await else {
            ticks.tick().await;
            continue;
        };
        if socket.as_ref().is_none_or(|(address, _)| *address != own) {
            socket = UdpSocket::bind((own, PORT)).await.ok().map(|bound| (own, bound));
        }
        let Some((_, bound)) = &socket else {
            // The gateway is not set up yet.
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        tokio::select! {
            () = answer(bound) => {}
            _ = ticks.tick() => {
                let count = peers.len();
                let some: Vec<_> =
                    peers.iter().cycle().skip(turn).take(count.min(AT_ONCE)).cloned().collect();
                turn = if count == 0 { 0 } else { (turn + some.len()) % count };
                // A socket of their own: answers to others go on.
                let asked = ask_all(own, &some);
                let heard = tokio::select! {
                    heard = asked => heard,
                    () = answer(bound) => BTreeMap::new(),
                };
                note(probes, &peers, heard);
            }
        }
    }
}

fn note(
    probes: &watch::Sender<Probes>,
    peers: &[(NodeName, IpAddr)],
    heard: BTreeMap<NodeName, Option<Heard>>,
) {
    probes.send_modify(|known| {
        known.retain(|node, _| peers.iter().any(|(peer, _)| peer == node));
        for (node, answered) in heard {
            let entry = known.entry(node).or_default();
            match answered {
                Some(answered) => *entry = answered,
                None => entry.missed = entry.missed.saturating_add(1),
            }
        }
    });
}

/// This node's gateway, and those of others that it can reach by the same family.
async fn gateways(switch: &Switch) -> Option<(IpAddr, Vec<(NodeName, IpAddr)>)> {
    switch
        .with_view(|view| {
            let gateway = |node: &Node, v4: Option<bool>| {
                let blocks = node.blocks.iter().map(|block| Node::gateway_of(*block));
                blocks.into_iter().find(|address| v4.is_none_or(|v4| address.is_ipv4() == v4))
            };
            let own = gateway(view.nodes().get(view.node())?, None)?;
            let others = view.nodes().values().filter(|node| node.name != *view.node());
            let peer = |node: &Node| Some((node.name.clone(), gateway(node, Some(own.is_ipv4()))?));
            Some((own, others.filter_map(peer).collect()))
        })
        .await
}

async fn ask_all(own: IpAddr, peers: &[(NodeName, IpAddr)]) -> BTreeMap<NodeName, Option<Heard>> {
    let asked = peers.iter().map(|(node, address)| async move {
        (node.clone(), echo(own, *address, LENGTH).await.ok())
    });
    futures_util::future::join_all(asked).await.into_iter().collect()
}

/// Asks the agent at a gateway with a question of so many bytes.
pub(crate) async fn echo(own: IpAddr, gateway: IpAddr, length: usize) -> io::Result<Heard> {
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect((gateway, PORT)).await?;
    let number = micros(SystemTime::now());
    let mut question = vec![0; length.max(LENGTH)];
    question[..6].copy_from_slice(QUESTION);
    question[6..14].copy_from_slice(&number.to_be_bytes());
    let asked = Instant::now();
    socket.send(&question).await?;
    let mut answer = vec![0; question.len() + 1];
    let heard = async {
        loop {
            let length = socket.recv(&mut answer).await?;
            if length == question.len()
                && answer[..6] == *ANSWER
                && answer[6..14] == question[6..14]
            {
                return Ok::<_, io::Error>(());
            }
        }
    };
    timeout(PATIENCE, heard).await??;
    let round_trip = asked.elapsed();
    let mut there = [0; 8];
    there.copy_from_slice(&answer[14..22]);
    let now = SystemTime::now();
    let middle = micros(now.checked_sub(round_trip / 2).unwrap_or(now));
    let ahead = i64::try_from(i128::from(u64::from_be_bytes(there)) - i128::from(middle));
    let ahead = ahead.unwrap_or(i64::MAX);
    Ok(Heard { at: Some(now), round_trip: Some(round_trip), ahead, missed: 0 })
}

/// Answers until the socket is of no use.
async fn answer(socket: &UdpSocket) {
    let mut question = vec![0; 65536];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut question).await else {
            // Told of an answer that nobody took.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if let Some(reply) = reply(&question[..length], from) {
            let _ = socket.send_to(&reply, from).await;
        }
    }
}

fn reply(question: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
    // Two that answer each other would never stop.
    if from.port() == PORT || question.len() < LENGTH || question[..6] != *QUESTION {
        return None;
    }
    let mut reply = question.to_vec();
    reply[..6].copy_from_slice(ANSWER);
    reply[14..22].copy_from_slice(&micros(SystemTime::now()).to_be_bytes());
    Some(reply)
}

fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_questions_are_answered() {
        let from: SocketAddr = "10.1.1.1:4000".parse().unwrap();
        let mut question = vec![0; 40];
        question[..6].copy_from_slice(QUESTION);
        let answer = reply(&question, from).unwrap();
        assert_eq!((answer.len(), &answer[..6]), (40, &ANSWER[..]));
        assert!(reply(&answer, from).is_none());
        assert!(reply(&question[..LENGTH - 1], from).is_none());
        assert!(reply(&question, "10.1.1.1:6647".parse().unwrap()).is_none());
    }

    #[test]
    fn one_lost_answer_is_no_broken_tunnel() {
        let heard = Heard::default();
        assert_eq!(heard.up(), None);
        assert_eq!(Heard { missed: MISSES, ..heard }.up(), Some(false));
        let heard = Heard { at: Some(SystemTime::now()), missed: 1, ..heard };
        assert_eq!(heard.up(), Some(true));
    }
}
