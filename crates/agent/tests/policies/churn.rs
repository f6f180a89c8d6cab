//! Pods come and go under many policies that change, while others ask without a pause: what may not
//! pass never does, and what may is not lost, from a pod's first packet on.
//!
//! What pods may send by rules that select others is known to those nodes a moment after a pod's own, if
//! nobody was like it before: that moment is measured from the pod's start, and printed.
//!
//! Tunnels of the userspace datapath are excepted, and only they. Whenever an interface of the machine
//! changes, as pods' do, `ovs-vswitchd` (3.1) forgets the kernel's routes and reads them again; flows that
//! are looked at meanwhile drop what should go into a tunnel, and hand what comes out of one to the
//! node. Captures show just that of probes that were lost: Geneve that arrives at `br-phy`, or
//! never leaves. Pods that no policy is about lose as many, and are counted beside.

use crate::ask::{By, until_denied, until_reached};
use crate::lab::PATIENCE;
use crate::stage::{Guest, Stage, policy, selection};
use crate::talk::Echo;
use osier_testbed::wait_until;
use std::fmt::{self, Write as _};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const EVERYONE: [(&str, u32); 6] =
    [("web", 300), ("near", 301), ("far", 301), ("other", 302), ("free", 310), ("away", 310)];
/// Identities of pods that come and are subjects of a policy of their own.
const SUBJECTS: u32 = 1000;
/// How many come at once.
const BATCH: usize = 4;
/// How long an answer may take on a busy machine until it is lost, and how often it may be in a tunnel.
const LOST: Duration = Duration::from_secs(5);
const TRIES: usize = 3;
/// How long a probe waits for what must not come, and between two of them.
const PAUSE: Duration = Duration::from_millis(20);
/// Identities that nobody had before, and how many of them there are.
const FRESH: u32 = 50_000;
const MOMENTS: usize = 60;
/// After how many pods is told how far it is.
const TELL: usize = 100;

#[test]
fn what_may_pass_does_and_nothing_else_while_pods_come_and_go() {
    churn(12, 20);
}

#[test]
#[ignore = "takes minutes: make soak"]
fn soak_of_1000_pods_under_500_policies() {
    churn(1000, 500);
}

/// What probes saw.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    silent: AtomicUsize,
    /// In tunnels, and asked again.
    lost: AtomicUsize,
    wrong: Mutex<Vec<String>>,
    /// From a pod's start to the first answer to what only a rule of its own lets it send.
    moments: Mutex<Vec<Duration>>,
}

fn churn(pods: usize, policies: u32) {
    let mut stage = Stage::new();
    stage.add(0, "free");
    stage.add(1, "away");
    stage.tell(&EVERYONE, &law(policies, 0, &[], None));
    let web = stage.guest("web");
    for ipv6 in [false, true] {
        for name in ["near", "far"] {
            until_reached(&stage.guest(name).netns, By::Udp, web.at(ipv6));
        }
        until_denied(&stage.guest("other").netns, By::Udp, web.at(ipv6));
    }
    let (done, seen, beside) = (AtomicBool::new(false), Seen::default(), Seen::default());
    thread::scope(|scope| {
        let asking = [("near", "web"), ("far", "web"), ("other", "web"), ("away", "free")];
        for (from, to) in asking {
            let (done, passes) = (&done, from != "other");
            let seen = if to == "free" { &beside } else { &seen };
            let [from, to] = [from, to].map(|name| stage.guest(name));
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    for ipv6 in [false, true] {
                        seen.probe(from, to, ipv6, passes);
                    }
                    thread::sleep(PAUSE);
                }
            });
        }
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let begun = Instant::now();
            let every = (pods / BATCH / MOMENTS).max(1);
            for first in (0..pods).step_by(BATCH) {
                if (first / BATCH).is_multiple_of(every) {
                    come_unheard(&stage, policies, first, &seen);
                }
                come_and_go(&stage, policies, first, &seen);
                if (first + BATCH).is_multiple_of(TELL) {
                    eprintln!(
                        "{} of {pods} pods after {:?}: {seen}",
                        first + BATCH,
                        begun.elapsed()
                    );
                }
            }
        }));
        done.store(true, Relaxed);
        if let Err(panic) = changed {
            std::panic::resume_unwind(panic);
        }
    });
    eprintln!("{pods} pods under {policies} policies: {seen}");
    eprintln!("without a policy, through the same tunnels: {beside}");
    let mut moments = std::mem::take(&mut *seen.moments.lock().unwrap());
    moments.sort();
    eprintln!(
        "from the start of a pod like nobody before to what its own rules let it send: median {:?}, at \
         most {:?}, of {}",
        moments[moments.len() / 2],
        moments[moments.len() - 1],
        moments.len()
    );
    for seen in [seen, beside] {
        let wrong = seen.wrong.into_inner().unwrap();
        assert!(
            wrong.is_empty(),
            "{} were wrong: {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(20)]
        );
        let [answered, lost] = [seen.answered, seen.lost].map(AtomicUsize::into_inner);
        assert!(lost <= 5 + answered / 20, "{lost} of {answered} were lost in tunnels");
    }
}

/// Some pods come, are asked and ask, and go. Half of them are on either node; one of four may ask `web`.
fn come_and_go(stage: &Stage, policies: u32, first: usize, seen: &Seen) {
    let coming: Vec<(String, usize, u32)> = (first..first + BATCH)
        .map(|n| {
            let own = SUBJECTS + u32::try_from(n).unwrap() % policies;
            (format!("c{n}"), n % 2, if n % 4 == 0 { 301 } else { own })
        })
        .collect();
    stage.tell(&EVERYONE, &law(policies, first, &coming, None));
    for (name, node, identity) in &coming {
        let pod = stage.cluster.pod(*node, name);
        let addresses = pod.addresses();
        let guest = Guest::new(name, pod.netns.clone(), addresses.clone(), *node);
        let open = *identity == 301;
        // Its first packets.
        for ipv6 in [false, true] {
            seen.probe(&guest, stage.guest("web"), ipv6, open);
            // Who is a subject may send to those, and to nobody else.
            seen.probe(&guest, stage.guest("far"), ipv6, true);
            seen.probe(&guest, stage.guest("other"), ipv6, open);
        }
        let _echo = Echo::start(name, &pod.netns, &addresses);
        for ipv6 in [false, true] {
            seen.probe(stage.guest("near"), &guest, ipv6, true);
            seen.probe(stage.guest("other"), &guest, ipv6, open);
        }
        assert!(pod.call("DEL").status.success());
    }
}

/// A pod comes whose identity nobody had before, while nodes are told of it: what it may not send never
/// passes, and what it may does in a moment.
fn come_unheard(stage: &Stage, policies: u32, first: usize, seen: &Seen) {
    let (node, identity) = (first / BATCH % 2, FRESH + u32::try_from(first).unwrap());
    let coming = [(format!("e{first}"), node, identity)];
    stage.say(&EVERYONE, &law(policies, first, &coming, Some(identity)));
    let pod = stage.cluster.pod(node, &coming[0].0);
    let guest = Guest::new(&pod.name, pod.netns.clone(), pod.addresses(), node);
    let started = Instant::now();
    for ipv6 in [false, true] {
        // To the other node: it has to know who this is.
        let to = stage.guest(["far", "near"][node]).at(ipv6);
        let answers = || match guest.netns.within(|| once(to, PAUSE)).unwrap() {
            Ok(()) => Ok(started.elapsed()),
            Err(error) => Err(error.to_string()),
        };
        let moment = wait_until("what a pod may send to pass", PATIENCE, answers).unwrap();
        seen.moments.lock().unwrap().push(moment);
        seen.probe(&guest, stage.guest("other"), ipv6, false);
    }
    assert!(pod.call("DEL").status.success());
    stage.until_heard();
}

/// Who is who among those who come, and policies: `web` and each subject take `near` and `far` and who
/// else is like them, and subjects send to nobody else. Ports of the others' change all the time. One who
/// is new may be a subject, too.
fn law(policies: u32, round: usize, coming: &[(String, usize, u32)], fresh: Option<u32>) -> String {
    let mut law = [selection(1, &[300]), selection(2, &[301])].concat();
    law += "- { kind: guard, namespace: shop }\n";
    law += &policy("web", 1, "ingress: [{ peers: [{ selection: 2 }] }]");
    for n in 0..policies {
        let id = 10 + u64::from(n);
        let fresh = fresh.filter(|_| n == 0);
        law += &selection(id, &fresh.into_iter().chain([SUBJECTS + n]).collect::<Vec<_>>());
        let last = 9000 + (n + u32::try_from(round).unwrap()) % 1000;
        let ports =
            format!("ports: [{{ transport: udp, range: {{ first: 7000, last: {last} }} }}]");
        law += &policy(
            &format!("p{n}"),
            id,
            &format!(
                "ingress: [{{ peers: [{{ selection: 2 }}], {ports} }}], \
                 egress: [{{ peers: [{{ selection: 2 }}], {ports} }}]"
            ),
        );
    }
    for (name, node, identity) in coming {
        let node = node + 1;
        writeln!(
            law,
            "- {{ kind: workload, device: 'shop:{name}', node: n{node}, identity: {identity} }}"
        )
        .unwrap();
    }
    law
}

// === impl Seen ===

impl Seen {
    /// Asks with one datagram; through a tunnel it may be lost, and is asked again.
    fn probe(&self, from: &Guest, to: &Guest, ipv6: bool, passes: bool) {
        let tries = if passes && from.node != to.node { TRIES } else { 1 };
        let (wait, at) = (if passes { LOST } else { PAUSE }, to.at(ipv6));
        let mut asked = (0..tries).map(|_| from.netns.within(|| once(at, wait)).unwrap().is_ok());
        let answered = asked.position(|answered| answered);
        match answered {
            Some(lost) => {
                self.answered.fetch_add(1, Relaxed);
                self.lost.fetch_add(lost, Relaxed);
            }
            None => drop(self.silent.fetch_add(1, Relaxed)),
        }
        if answered.is_some() != passes {
            let wrong = format!("{} to {at}: {answered:?}", from.name);
            eprintln!("wrong: {wrong}");
            self.wrong.lock().unwrap().push(wrong);
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [answered, silent, lost] =
            [&self.answered, &self.silent, &self.lost].map(|counter| counter.load(Relaxed));
        let wrong = self.wrong.lock().unwrap().len();
        write!(
            f,
            "{answered} probes passed, {silent} may not and did not, {wrong} were wrong; {lost} were lost \
             in tunnels and asked again"
        )
    }
}

fn once(to: SocketAddr, wait: Duration) -> io::Result<()> {
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(wait))?;
    socket.send(&[b'?'; 100])?;
    socket.recv(&mut [0; 200]).map(drop)
}
