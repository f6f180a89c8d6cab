//! Every pod to every other, at each of its addresses.

use crate::enter::output;
use crate::error::LabError;
use crate::layout::{Layout, PodLayout};
use serde::Serialize;
use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many pods ping at a time.
const AT_ONCE: usize = 8;
/// How long `ping` waits for one reply, in seconds.
const ONE_REPLY: &str = "0.5";

/// One pod to one address of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// Who pinged.
    pub from: String,
    /// Who was pinged.
    pub to: String,
    /// At which address.
    pub address: IpAddr,
    /// The round trip, in milliseconds; `None`: no reply came.
    pub milliseconds: Option<f64>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matrix {
    /// The pods' names, in order.
    pub pods: Vec<String>,
    /// What came out.
    pub probes: Vec<Probe>,
}

impl Matrix {
    /// Whether all replied.
    pub fn is_ok(&self) -> bool {
        self.probes.iter().all(|probe| probe.milliseconds.is_some())
    }
}

/// Pings from every pod to every address of every other. A pair counts as lost if no reply comes
/// within `patience`: the first packets between two nodes may be lost to neighbour discovery.
pub fn ping_all(layout: &Layout, patience: Duration) -> Result<Matrix, LabError> {
    let next = AtomicUsize::new(0);
    let probes = Mutex::new(Vec::new());
    let work = || -> io::Result<()> {
        loop {
            let Some(from) = layout.pods.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return Ok(());
            };
            let found = from_one(layout, from, patience)?;
            probes.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        }
    };
    let results: Vec<io::Result<()>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|w| w.join().expect("it does not panic")).collect()
    });
    results.into_iter().collect::<io::Result<()>>().map_err(LabError::Ping)?;
    let mut probes = probes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let order = |name: &str| layout.pods.iter().position(|pod| pod.name == name);
    probes.sort_by_key(|p: &Probe| (order(&p.from), order(&p.to), p.address.is_ipv6()));
    Ok(Matrix { pods: layout.pods.iter().map(|pod| pod.name.clone()).collect(), probes })
}

fn from_one(layout: &Layout, from: &PodLayout, patience: Duration) -> io::Result<Vec<Probe>> {
    let mut probes = Vec::new();
    for to in layout.pods.iter().filter(|to| to.name != from.name) {
        for address in &to.addresses {
            let milliseconds = ping(&from.netns, *address, patience)?;
            let (from, to) = (from.name.clone(), to.name.clone());
            probes.push(Probe { from, to, address: *address, milliseconds });
        }
    }
    Ok(probes)
}

/// Pings until the first reply.
fn ping(netns: &str, to: IpAddr, patience: Duration) -> io::Result<Option<f64>> {
    let end = Instant::now() + patience;
    loop {
        let mut command = Command::new("ping");
        command.args(["-n", "-c1", "-W", ONE_REPLY, &to.to_string()]);
        let said = output(netns, &mut command)?;
        let milliseconds = round_trip(&String::from_utf8_lossy(&said.stdout));
        if milliseconds.is_some() || Instant::now() >= end {
            return Ok(milliseconds);
        }
        if said.status.code() == Some(2) {
            // Not a lost packet: there is no route, say. Others may come; do not spin.
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// `64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.031 ms`
fn round_trip(said: &str) -> Option<f64> {
    said.split_once(" time=")?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read() {
        let said = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n\
                    64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.031 ms\n";
        assert_eq!(round_trip(said), Some(0.031));
        let lost = "1 packets transmitted, 0 received, 100% packet loss, time 0ms\n";
        assert_eq!(round_trip(lost), None);
    }
}
