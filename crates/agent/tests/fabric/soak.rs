//! A runtime that never rests: pods come and go by the thousand, many at once, while the agent and
//! the plugin are killed at any moment. At no moment two pods have one address, and in the end
//! nothing is left.
//!
//! `OSIER_SOAK_SEED` repeats the choices of a run, `OSIER_SOAK_OPERATIONS` sets its length. The
//! moments of kills and the order of concurrent calls are the machine's.

use crate::cluster::{Addressing, AgentProcess, Cluster};
use crate::lab::{PATIENCE, Pod, addresses, pod_links, pod_ports, succeeds};
use osier_testbed::traffic::Conversation;
use osier_testbed::{Lab, Signal, wait_until};
use serde_json::json;
use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{ScopedJoinHandle, panicking, sleep};
use std::time::{Duration, Instant};

/// Pods that may be there at once; the blocks have room for some twenty more.
const SLOTS: usize = 40;
/// Small ones, so that addresses come again, and each of them can be asked for in the end.
const BLOCKS: [&str; 2] = ["10.1.1.0/26", "fd01:0:0:1::/122"];
/// How long the agent lives between two kills, at most.
const LIFE: Duration = Duration::from_secs(3);
/// How long a plugin that is killed lives, at most: about as long as a call takes.
const CALL: Duration = Duration::from_millis(25);

/// How long it goes on, and how rough.
struct Plan {
    operations: usize,
    workers: usize,
    seed: u64,
}

#[test]
fn soak_in_short_nothing_is_leaked_and_nothing_given_twice() {
    soak(&Plan { operations: 150, workers: 8, seed: seed() });
}

#[test]
#[ignore = "takes minutes: make soak"]
fn soak_of_10000_calls_with_kills() {
    let operations = std::env::var("OSIER_SOAK_OPERATIONS");
    let operations = operations.map_or(10_000, |text| text.parse().unwrap());
    soak(&Plan { operations, workers: 16, seed: seed() });
}

fn seed() -> u64 {
    match std::env::var("OSIER_SOAK_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
    }
}

/// What all workers share.
struct Runtime {
    lab: Lab,
    socket: PathBuf,
    slots: Vec<Mutex<Option<Pod>>>,
    /// Who has which address, as pods were told.
    held: Mutex<HashMap<IpAddr, String>>,
    /// Calls begun, of all that shall be.
    operations: AtomicUsize,
    tally: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    added: AtomicUsize,
    deleted: AtomicUsize,
    refused: AtomicUsize,
    plugins_killed: AtomicUsize,
    agents_killed: AtomicUsize,
}

/// A failure of one ends the work of all.
struct StopOnPanic<'a>(&'a AtomicUsize);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if panicking() {
            self.0.store(usize::MAX / 2, Relaxed);
        }
    }
}

/// Choices that a seed repeats.
struct Chance(u64);

impl Chance {
    /// A number below another.
    fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).unwrap()
    }

    fn part_of(&mut self, whole: Duration) -> Duration {
        whole * u32::try_from(self.below(1000)).unwrap() / 1000
    }
}

fn soak(plan: &Plan) {
    eprintln!("soak: {} calls, OSIER_SOAK_SEED={}", plan.operations, plan.seed);
    let mut cluster = Cluster::start_with(Addressing::Dual, 1, |view| {
        let view = view.replace("'10.1.1.0/24'", &format!("'{}'", BLOCKS[0]));
        view.replace("'fd01:0:0:1::/64'", &format!("'{}'", BLOCKS[1]))
    });
    let steady = ["s0", "s1"].map(|name| cluster.pod(0, name));
    let given = steady.each_ref().map(Pod::addresses);
    let before = Leftovers::of(&cluster);
    let steady_talk = Conversation::start(&steady[0].netns, &steady[1].netns, given[1][0]).unwrap();

    let runtime = Runtime {
        lab: cluster.lab.clone(),
        socket: cluster.agents[0].socket.clone(),
        slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
        held: Mutex::default(),
        operations: AtomicUsize::new(0),
        tally: Tally::default(),
    };
    for (pod, addresses) in steady.iter().zip(&given) {
        runtime.hold(pod, addresses);
    }
    let done = AtomicBool::new(false);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.workers)
            .map(|n| {
                let runtime = &runtime;
                let chance = Chance(plan.seed ^ (n as u64 + 1) << 32);
                scope.spawn(move || runtime.work(plan.operations, chance, started))
            })
            .collect();
        let killer = scope.spawn(|| kill_agents(&mut cluster, &runtime, plan.seed, &done));
        let results: Vec<_> = workers.into_iter().map(ScopedJoinHandle::join).collect();
        done.store(true, Relaxed);
        killer.join().unwrap();
        assert!(results.iter().all(Result::is_ok), "a worker failed");
    });
    let mut chance = Chance(plan.seed);
    for slot in &runtime.slots {
        runtime.end(slot.lock().unwrap().take(), &mut chance);
    }
    let spent = started.elapsed();
    eprintln!("soak: {:?} in {spent:.1?}", runtime.tally);
    let talk = steady_talk.stop().unwrap();
    eprintln!("soak: the steady connection had {talk:?}");
    before.wait_until_again(&cluster);
    every_address_is_free(&cluster, &given);
}

/// Kills and starts the agent until all is done.
fn kill_agents(cluster: &mut Cluster, runtime: &Runtime, seed: u64, done: &AtomicBool) {
    let mut chance = Chance(seed);
    while !done.load(Relaxed) {
        // Not to wait for anything: the moment is what differs.
        sleep(chance.part_of(LIFE));
        cluster.agents[0].end(Signal::SIGKILL);
        runtime.tally.agents_killed.fetch_add(1, Relaxed);
        sleep(chance.part_of(Duration::from_millis(100)));
        cluster.agents[0] = AgentProcess::again(&cluster.fabric.nodes()[0]);
        // Sometimes it does not even come to serve.
        if chance.below(4) > 0 {
            cluster.agents[0].wait_ready();
        }
    }
    cluster.agents[0].wait_ready();
}

// === impl Runtime ===

impl Runtime {
    fn work(&self, operations: usize, mut chance: Chance, started: Instant) {
        let _all_stop = StopOnPanic(&self.operations);
        loop {
            let n = self.operations.fetch_add(1, Relaxed);
            if n >= operations {
                return;
            }
            if n.is_multiple_of(500) {
                let held = self.held().len() / 2;
                let seconds = started.elapsed().as_secs();
                eprintln!("soak: {n} calls in {seconds} s, {held} pods; {:?}", self.tally);
            }
            let mut slot = self.slots[chance.below(SLOTS)].lock().unwrap();
            *slot = match slot.take() {
                None => self.create(n, &mut chance),
                pod => {
                    self.end(pod, &mut chance);
                    None
                }
            };
        }
    }

    /// A new sandbox; if its network cannot be made, it goes again, as the kubelet does it.
    fn create(&self, n: usize, chance: &mut Chance) -> Option<Pod> {
        let pod = Pod::at(&self.lab, &format!("p{n}"), &self.socket);
        let output = self.call(&pod, "ADD", chance);
        if output.status.success() && !output.stdout.is_empty() {
            self.tally.added.fetch_add(1, Relaxed);
            self.hold(&pod, &addresses(&succeeds(&output)));
            return Some(pod);
        }
        self.tally.refused.fetch_add(1, Relaxed);
        self.end(Some(pod), chance);
        None
    }

    /// Calls the plugin, and kills it now and then before it is done.
    fn call(&self, pod: &Pod, command: &str, chance: &mut Chance) -> Output {
        let mut call = pod.begin(command, &pod.path());
        if chance.below(10) == 0 {
            sleep(chance.part_of(CALL));
            call.kill().unwrap();
            self.tally.plugins_killed.fetch_add(1, Relaxed);
        }
        call.wait_with_output().unwrap()
    }

    /// Detaches a pod, as often as it takes, and takes its namespace away.
    fn end(&self, pod: Option<Pod>, chance: &mut Chance) {
        let Some(pod) = pod else { return };
        // From here on others may have its addresses.
        self.held().retain(|_, holder| *holder != pod.name);
        let delete = || match self.call(&pod, "DEL", chance) {
            output if output.status.success() => Ok(()),
            output => Err(said(&output)),
        };
        wait_until(&format!("DEL of {}", pod.name), PATIENCE * 2, delete).unwrap();
        self.tally.deleted.fetch_add(1, Relaxed);
    }

    fn hold(&self, pod: &Pod, addresses: &[IpAddr]) {
        assert_eq!(addresses.len(), 2, "{}: {addresses:?}", pod.name);
        for address in addresses {
            let holder = self.held().insert(*address, pod.name.clone());
            assert_eq!(holder, None, "{} was given {address}, too", pod.name);
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What pods might leave on a node.
#[derive(Debug, PartialEq, Eq)]
struct Leftovers {
    ports: Vec<String>,
    interfaces: Vec<String>,
    links: usize,
    flows: Vec<String>,
    groups: Vec<String>,
    meters: Vec<String>,
    /// Under `/run/netns`.
    namespaces: Vec<String>,
    /// Namespaces that the agent has open: they would not go.
    kept: usize,
}

impl Leftovers {
    fn of(cluster: &Cluster) -> Self {
        let node = &cluster.fabric.nodes()[0];
        let sorted = |text: String| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let ofctl = |what| sorted(node.ovs().ofctl(&["--no-stats", what, "br-int"]).unwrap());
        let names = ["--no-wait", "--bare", "--columns=name", "list", "interface"];
        Self {
            ports: pod_ports(node),
            interfaces: sorted(node.ovs().vsctl(&names).unwrap()),
            links: pod_links(node),
            flows: ofctl("dump-flows"),
            groups: ofctl("dump-groups"),
            // What OpenFlow 1.0 does not know.
            meters: sorted(
                node.ovs().ofctl(&["-O", "OpenFlow15", "dump-meters", "br-int"]).unwrap(),
            ),
            namespaces: namespaces(cluster.lab.id()),
            kept: kept_namespaces(cluster.agents[0].process.pid()),
        }
    }

    fn wait_until_again(&self, cluster: &Cluster) {
        let now = || match Self::of(cluster) {
            now if now == *self => Ok(()),
            now => Err(format!("{now:#?}, and before there was {self:#?}")),
        };
        wait_until("all to be as before", PATIENCE, now).unwrap();
    }
}

fn namespaces(lab: &str) -> Vec<String> {
    let names = fs::read_dir("/run/netns").unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(lab)).collect();
    names.sort();
    names
}

fn kept_namespaces(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets
        .map(|target| target.display().to_string())
        .filter(|target| target.starts_with("net:") || target.contains("/netns/"))
        .count()
}

/// Each address of the blocks can be had, but for those in use: none was forgotten.
fn every_address_is_free(cluster: &Cluster, in_use: &[Vec<IpAddr>]) {
    let mut pod = cluster.pod(0, "last");
    // The last ones stand for clients of Services, and IPv6 has no broadcast address.
    let ipv4 = (2..=61).map(|host| IpAddr::from([10, 1, 1, host]));
    let ipv6 = (2..=62).map(|host| IpAddr::from([0xfd01, 0, 0, 1, 0, 0, 0, host]));
    for address in ipv4.chain(ipv6) {
        if in_use.iter().flatten().any(|used| *used == address) {
            continue;
        }
        pod.config["runtimeConfig"] = json!({ "ips": [address.to_string()] });
        assert!(pod.addresses().contains(&address), "{address}");
        succeeds(&pod.call("DEL"));
    }
}
