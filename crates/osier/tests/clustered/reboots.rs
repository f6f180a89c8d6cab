//! What the systems before us promised to live through, with pods that talk meanwhile: the active
//! controller, the standby, several of them, the store, all at once, and switches; each again and again.
//!
//! Where the switch itself is not restarted no packet is lost. Where it is, it is silent for as long as it
//! takes to start and to be told its flows.

use crate::rig::{Dial, PATIENCE, Pod, Rig};
use crate::tended::{MODEL, agent, plugin, pod};
use osier_testbed::traffic::{Pinger, ping_until};
use osier_testbed::{Netns, Process, wait_until};
use std::net::IpAddr;
use std::time::Duration;

/// How long pods may be silent when their switch, or their machine's, starts anew: on a busy machine, for a
/// switch whose controllers are there.
const GAP: Duration = Duration::from_secs(10);
/// Replies before and behind.
const REPLIES: usize = 20;

/// Two controllers; a node without an agent and one with it, and pods on both.
struct Site {
    agent: Process,
    bare: [Pod; 2],
    tended: (Netns, IpAddr),
    rig: Rig,
    /// Wires of pods that come later, and pods that came.
    late: Vec<(u32, Pod)>,
    told: Vec<Pod>,
}

// === impl Site ===

impl Site {
    fn new() -> Self {
        let rig = Rig::clustered(2, 2, Rig::allowed());
        rig.apply(MODEL);
        let plugin = plugin();
        let agent = agent(&rig, 1);
        let tended = pod(&rig, &plugin, 1, "");
        rig.put_node(0);
        rig.make_bridge(0, Dial::Switch);
        let bare = [rig.pod(4, "one", "red", 0), rig.pod(5, "other", "red", 0)];
        bare[0].reaches(bare[1].address);
        bare[0].reaches(tended.1);
        ping_until(&tended.0, bare[0].address, PATIENCE).unwrap();
        let late = rig.wires(6..12);
        Self { agent, bare, tended, rig, late, told: Vec::new() }
    }

    /// Pods of one node, and of two.
    fn talk(&self) -> [Pinger; 2] {
        let from = &self.bare[0].netns;
        let to = [self.bare[1].address, self.tended.1];
        let pingers = to.map(|to| Pinger::start(from, to).unwrap());
        more_replies(&pingers);
        pingers
    }

    /// Does something while pods talk: no packet is lost.
    fn without_loss(&mut self, what: impl FnOnce(&mut Self)) {
        let pingers = self.talk();
        what(self);
        more_replies(&pingers);
        for pinger in pingers {
            let loss = pinger.stop().unwrap();
            assert_eq!(loss.lost, 0, "pods lost packets: {loss:?}");
        }
    }

    /// Does something to switches while pods talk: they are silent for a while, and talk again.
    fn with_gap(&mut self, what: impl FnOnce(&mut Self)) {
        let pingers = self.talk();
        what(self);
        more_replies(&pingers);
        for pinger in pingers {
            let loss = pinger.stop().unwrap();
            assert!(loss.longest_gap < GAP, "pods were silent for too long: {loss:?}");
        }
    }

    /// A pod more, which both switches get to know: whoever leads drives them.
    fn is_driven(&mut self) {
        let late = self.late.pop().unwrap();
        self.rig.tell(&late);
        late.1.reaches(self.bare[0].address);
        late.1.reaches(self.tended.1);
        self.told.push(late.1);
    }

    fn etcd(&mut self) -> &mut osier_testbed::Etcd {
        &mut self.rig.etcd.as_mut().unwrap().1
    }

    fn kill_vswitchd(&mut self, node: usize) {
        let node = &mut self.rig.fabric.nodes_mut()[node];
        node.kill_vswitchd();
        node.start_vswitchd().unwrap();
    }
}

fn more_replies(pingers: &[Pinger]) {
    for pinger in pingers {
        let enough = pinger.replies() + REPLIES;
        let heard = || if pinger.replies() >= enough { Ok(()) } else { Err(pinger.replies()) };
        wait_until("replies", PATIENCE * 2, heard).unwrap();
    }
}

/// The leader, the standby, and both, each twice.
#[test]
#[ignore = "takes half a minute: make soak"]
fn soak_controllers_reboot() {
    let mut site = Site::new();
    site.without_loss(|site| {
        for _ in 0..2 {
            // The standby: nobody notices.
            site.rig.seats[1].launch();
            site.is_driven();
            site.rig.seats[0].kill();
            site.rig.seats[1].await_ready();
            site.is_driven();
            // Both, of which the one that is back first leads.
            site.rig.seats[1].kill();
            site.rig.seats[0].launch();
            site.rig.seats[0].await_ready();
            site.is_driven();
        }
        let log = site.agent.stderr();
        let terms: Vec<u64> = log
            .lines()
            .filter(|line| line.contains("a controller of a new term is followed"))
            .filter_map(|line| line.split("term=").nth(1)?.trim().parse().ok())
            .collect();
        assert!(terms.len() >= 3 && terms.is_sorted(), "the agent followed {terms:?}");
    });
}

/// The members of the store one by one, and all of them.
#[test]
#[ignore = "takes half a minute: make soak"]
fn soak_the_store_reboots() {
    let mut site = Site::new();
    site.without_loss(|site| {
        for member in 0..3 {
            site.etcd().kill(member);
            site.is_driven();
            site.etcd().revive(member).unwrap();
        }
        (0..3).for_each(|member| site.etcd().kill(member));
        let led = |site: &mut Site| (0..2).any(|n| site.rig.seats[n].is_running());
        // Who led ends; who did not waits.
        wait_until("the leader's end", PATIENCE, || {
            let running = (0..2).filter(|n| site.rig.seats[*n].is_running()).count();
            if running < 2 { Ok(()) } else { Err(running) }
        })
        .unwrap();
        assert!(led(site), "the standby waits");
        (0..3).for_each(|member| site.etcd().revive(member).unwrap());
        for seat in 0..2 {
            if !site.rig.seats[seat].is_running() {
                site.rig.seats[seat].launch();
            }
        }
        site.is_driven();
    });
}

/// A switch with an agent and one without, each three times, and both at once.
#[test]
#[ignore = "takes half a minute: make soak"]
fn soak_switches_reboot() {
    let mut site = Site::new();
    for node in [0, 0, 0, 1, 1, 1] {
        site.with_gap(|site| site.kill_vswitchd(node));
    }
    site.with_gap(|site| (0..2).for_each(|node| site.kill_vswitchd(node)));
    site.is_driven();
}

/// Controllers, the store and all switches at once; twice. The agent stays.
#[test]
#[ignore = "takes half a minute: make soak"]
fn soak_the_whole_cluster_reboots() {
    let mut site = Site::new();
    for _ in 0..2 {
        (0..2).for_each(|seat| site.rig.seats[seat].kill());
        (0..3).for_each(|member| site.etcd().kill(member));
        site.rig.fabric.nodes_mut().iter_mut().for_each(osier_testbed::Node::kill_vswitchd);
        for node in site.rig.fabric.nodes_mut() {
            node.start_vswitchd().unwrap();
        }
        (0..3).for_each(|member| site.etcd().revive(member).unwrap());
        (0..2).for_each(|seat| site.rig.seats[seat].launch());
        site.bare[0].reaches(site.bare[1].address);
        site.bare[0].reaches(site.tended.1);
        ping_until(&site.tended.0, site.bare[0].address, PATIENCE).unwrap();
        site.is_driven();
    }
}
