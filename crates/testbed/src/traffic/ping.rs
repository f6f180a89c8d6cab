//! Reachability and loss, by `ping`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;

use super::TrafficError;
use crate::command::CommandError;
use crate::netns::Netns;
use crate::process::Process;
use crate::wait::{Timeout, wait_until};

/// How long `ping` waits for the last reply.
const PATIENCE: Duration = Duration::from_secs(1);

/// What became of some pings.
#[derive(Debug, Clone, PartialEq)]
pub struct Ping {
    /// Requests sent.
    pub sent: u32,
    /// Requests answered.
    pub received: u32,
    /// Round-trip times, in the order of the replies.
    pub rtts: Vec<Duration>,
}

/// Sends `count` requests, 20 ms apart.
pub fn ping(from: &Netns, to: IpAddr, count: u32) -> Result<Ping, TrafficError> {
    let text = from
        .command("ping")
        .args(["-n", "-i", "0.02", "-W", &PATIENCE.as_secs().to_string()])
        .args(["-c".to_owned(), count.to_string(), to.to_string()])
        .output()?;
    let (sent, received) = summary(&text.stdout).ok_or_else(|| unreadable(&text.stdout))?;
    let rtts = text.stdout.lines().filter_map(Reply::parse).map(|reply| reply.rtt).collect();
    Ok(Ping { sent, received, rtts })
}

/// Pings until the first reply.
pub fn ping_until(from: &Netns, to: IpAddr, deadline: Duration) -> Result<(), Timeout> {
    let what = format!("a reply to ping from {} to {to}", from.name());
    // Not as patient as usual: the first requests are lost to neighbour discovery.
    let once = || from.command("ping").args(["-n", "-c1", "-W0.2", &to.to_string()]).run();
    wait_until(&what, deadline, || once().map(drop))
}

/// Loss, as a [`Pinger`] saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Requests that count: up to the last reply, for later ones may be on the way; all if that
    /// came long ago.
    pub sent: u32,
    /// Requests among them without a reply.
    pub lost: u32,
    /// The longest time without a reply, start and end included.
    pub longest_gap: Duration,
}

/// Pings without pause until stopped; a guard.
#[derive(Debug)]
pub struct Pinger {
    process: Process,
    started: Duration,
}

impl Pinger {
    /// The usual interval.
    pub const INTERVAL: Duration = Duration::from_millis(10);
    /// The time that the last replies may take, on a busy machine, before they count as lost.
    const GRACE: Duration = Duration::from_secs(2);

    /// Starts pinging, each [`Self::INTERVAL`].
    pub fn start(from: &Netns, to: IpAddr) -> Result<Self, CommandError> {
        let interval = Self::INTERVAL;
        let process = from
            .command("ping")
            .args(["-n", "-D", "-i"])
            .args([interval.as_secs_f64().to_string(), to.to_string()])
            .spawn()?;
        Ok(Self { process, started: now() })
    }

    /// The replies so far, to wait for.
    pub fn replies(&self) -> usize {
        self.process.stdout().lines().filter(|line| Reply::parse(line).is_some()).count()
    }

    /// Stops and counts. Sequence numbers have 16 bits: stop within ten minutes.
    pub fn stop(mut self) -> Result<Loss, TrafficError> {
        let stopped = now();
        self.process.stop(Signal::SIGINT, PATIENCE * 5)?;
        let text = self.process.stdout();
        let (sent, _) = summary(&text).ok_or_else(|| unreadable(&text))?;
        let replies: Vec<_> = text.lines().filter_map(Reply::parse).collect();
        Ok(loss(sent, &replies, self.started, stopped))
    }
}

/// One line of `ping` about one reply.
struct Reply {
    sequence: u32,
    rtt: Duration,
    /// When it came, if `ping` was asked to say (`-D`), since the epoch.
    at: Option<Duration>,
}

impl Reply {
    /// `[1700000000.123456] 64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.031 ms`
    fn parse(line: &str) -> Option<Self> {
        let after = |mark: &str| line.split_once(mark)?.1.split_whitespace().next();
        let milliseconds: f64 = after(" time=")?.parse().ok()?;
        let at = line.strip_prefix('[').and_then(|rest| rest.split_once(']')?.0.parse().ok());
        Some(Self {
            sequence: after(" icmp_seq=")?.parse().ok()?,
            rtt: Duration::from_secs_f64(milliseconds / 1000.0),
            at: at.map(Duration::from_secs_f64),
        })
    }
}

fn loss(sent: u32, replies: &[Reply], started: Duration, stopped: Duration) -> Loss {
    let arrivals: BTreeMap<u32, Duration> =
        replies.iter().filter_map(|reply| Some((reply.sequence, reply.at?))).collect();
    let judged = match arrivals.last_key_value() {
        Some((last, at)) if stopped.saturating_sub(*at) <= Pinger::GRACE => *last,
        _ => sent,
    };
    let answered = arrivals.len();
    let mut times: Vec<_> = arrivals.into_values().chain([started, stopped]).collect();
    times.sort();
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    Loss {
        sent: judged,
        lost: judged.saturating_sub(u32::try_from(answered).unwrap_or(u32::MAX)),
        longest_gap: gaps.max().unwrap_or_default(),
    }
}

/// `5 packets transmitted, 3 received, …`
fn summary(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find(|line| line.contains("packets transmitted"))?;
    let mut numbers = line.split(',').map(|part| part.split_whitespace().next()?.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn unreadable(text: &str) -> TrafficError {
    TrafficError::Unreadable { tool: "ping", what: "its summary", text: text.to_owned() }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_with_and_without_its_time() {
        let line = "[1700000000.500000] 64 bytes from fd77::1: icmp_seq=12 ttl=64 time=1.50 ms";
        let reply = Reply::parse(line).unwrap();
        assert_eq!((reply.sequence, reply.rtt), (12, Duration::from_micros(1500)));
        assert_eq!(reply.at, Some(Duration::from_millis(1_700_000_000_500)));
        assert_eq!(Reply::parse(line.split_once("] ").unwrap().1).unwrap().at, None);
        assert!(Reply::parse("From 10.0.0.1 icmp_seq=1 Destination Host Unreachable").is_none());
    }

    #[test]
    fn loss_counts_holes_but_not_what_is_on_its_way() {
        let ms = Duration::from_millis;
        let reply =
            |sequence| Reply { sequence, rtt: ms(0), at: Some(ms(10 * u64::from(sequence))) };
        // 100 requests, 21 to 40 lost, and the last five still unanswered.
        let replies: Vec<_> = (1..=95).filter(|s| !(21..=40).contains(s)).map(reply).collect();
        let seen = loss(100, &replies, ms(0), ms(1000));
        assert_eq!(seen, Loss { sent: 95, lost: 20, longest_gap: ms(210) });
        // Silence is not on its way.
        let seen = loss(400, &replies, ms(0), ms(4000));
        assert_eq!(seen, Loss { sent: 400, lost: 325, longest_gap: ms(3050) });
    }

    #[test]
    fn errors_in_between_do_not_disturb_the_summary() {
        let text = "5 packets transmitted, 3 received, +2 errors, 40% packet loss, time 80ms";
        assert_eq!(summary(text), Some((5, 3)));
    }
}
