//! The active controller dies, sleeps, is cut off etcd, or has a wrong clock, and members of etcd die:
//! nothing acknowledged is lost, no address is given twice, nothing that a deposed leader writes takes
//! effect, and no packet between pods is lost.

use crate::history::{MODEL, Writers};
use crate::rig::{Dial, PATIENCE, Pod, Rig};
use osier_testbed::traffic::Pinger;
use osier_testbed::{Signal, wait_until};
use std::fs;
use std::path::PathBuf;

/// Writes before and behind a fault.
const WRITES: usize = 10;

/// Two controllers, a switch that both may drive, pods that talk, and clients that write.
struct Scene {
    rig: Rig,
    pods: [Pod; 2],
    pinger: Pinger,
    writers: Writers,
    /// Wires of pods that come later, and pods that came.
    late: Vec<(u32, Pod)>,
    told: Vec<Pod>,
}

// === impl Scene ===

impl Scene {
    fn new() -> Self {
        let rig = Rig::clustered(1, 2, Rig::allowed());
        rig.apply(MODEL);
        rig.put_node(0);
        rig.make_bridge(0, Dial::Switch);
        let pods = [rig.pod(4, "one", "red", 0), rig.pod(5, "other", "red", 0)];
        pods[0].reaches(pods[1].address);
        let late = rig.wires(6..10);
        let pinger = Pinger::start(&pods[0].netns, pods[1].address).unwrap();
        let writers = Writers::start(&rig, 2);
        writers.await_more(WRITES);
        Self { rig, pods, pinger, writers, late, told: Vec::new() }
    }

    /// Waits until another controller leads, and all goes on: clients write, the switch is driven.
    fn goes_on(&mut self, leader: usize) {
        self.rig.seats[leader].await_ready();
        self.writers.await_more(WRITES);
        let late = self.late.pop().unwrap();
        self.rig.tell(&late);
        late.1.reaches(self.pods[0].address);
        self.told.push(late.1);
    }

    /// Waits until a controller has noticed that it leads no more, and starts it again.
    fn ends(&mut self, seat: usize) {
        let seat = &mut self.rig.seats[seat];
        let ended = || if seat.is_running() { Err(seat.said()) } else { Ok(()) };
        wait_until("the deposed one to end", PATIENCE, ended).unwrap();
        seat.launch();
    }

    /// Writes are acknowledged again, whoever leads. One that could not renew its lease while etcd had no
    /// leader has ended, and begins anew as its unit has it do.
    fn writes_go_on(&mut self) {
        let (seats, writers) = (&mut self.rig.seats, &self.writers);
        let enough = writers.count() + WRITES;
        let done = || {
            for seat in &mut *seats {
                if !seat.is_running() {
                    seat.launch();
                }
            }
            if writers.count() >= enough { Ok(()) } else { Err(writers.count()) }
        };
        wait_until("writes to be acknowledged", PATIENCE * 2, done).unwrap();
    }

    fn check(self) {
        let loss = self.pinger.stop().unwrap();
        assert_eq!(loss.lost, 0, "pods lost packets: {loss:?}");
        self.writers.check(&self.rig);
    }
}

#[test]
fn the_active_controller_is_killed() {
    let mut scene = Scene::new();
    scene.rig.seats[0].kill();
    scene.goes_on(1);
    // And back.
    scene.rig.seats[0].launch();
    scene.rig.seats[1].kill();
    scene.goes_on(0);
    scene.check();
}

#[test]
fn the_active_controller_sleeps_for_longer_than_its_lease() {
    let mut scene = Scene::new();
    scene.rig.seats[0].signal(Signal::SIGSTOP);
    scene.goes_on(1);
    scene.rig.seats[0].signal(Signal::SIGCONT);
    scene.ends(0);
    scene.writers.await_more(WRITES);
    scene.check();
}

#[test]
fn the_active_controller_is_cut_off_etcd() {
    let mut scene = Scene::new();
    scene.rig.set_etcd_link(0, false);
    scene.goes_on(1);
    scene.ends(0);
    scene.rig.set_etcd_link(0, true);
    // It may lead again.
    scene.rig.seats[1].kill();
    scene.goes_on(0);
    scene.check();
}

/// What makes a program's clocks others: Debian has it in the folder of the machine's kind.
fn faketime() -> String {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    let found = found.find(|library| library.exists());
    found.expect("Debian's libfaketime: scripts/install-packages").display().to_string()
}

/// A controller whose clocks, also the one that never goes back, say what this file does.
fn with_clock(rig: &mut Rig, seat: usize) -> PathBuf {
    let clock = rig.seats[seat].clock();
    set_clock(&clock, "+0");
    let preload = ("LD_PRELOAD", faketime());
    let file = ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string());
    rig.seats[seat].set_env(vec![preload, file, ("FAKETIME_NO_CACHE", "1".to_owned())]);
    clock
}

fn set_clock(clock: &PathBuf, to: &str) {
    // Nobody may read half of it.
    let next = clock.with_extension("next");
    fs::write(&next, format!("{to}\n")).unwrap();
    fs::rename(&next, clock).unwrap();
}

/// A clock that is slow lets a leader think that it has time left. One that leaps changes nothing.
#[test]
#[ignore = "takes half a minute: make soak"]
fn soak_the_active_controllers_clock_is_wrong() {
    let mut scene = Scene::new();
    let clocks = [1, 0].map(|seat| with_clock(&mut scene.rig, seat));
    scene.rig.seats[1].launch();
    scene.rig.seats[0].kill();
    scene.goes_on(1);
    scene.rig.seats[0].launch();
    set_clock(&clocks[0], "+0 x0.1");
    scene.goes_on(0);
    scene.ends(1);
    for leap in ["+1h", "-1h"] {
        set_clock(&clocks[1], leap);
        scene.goes_on(0);
    }
    scene.check();
}

#[test]
#[ignore = "takes half a minute: make soak"]
fn soak_members_of_etcd_die() {
    let mut scene = Scene::new();
    for member in 0..3 {
        let etcd = &mut scene.rig.etcd.as_mut().unwrap().1;
        etcd.kill(member);
        scene.writes_go_on();
        let etcd = &mut scene.rig.etcd.as_mut().unwrap().1;
        etcd.revive(member).unwrap();
        scene.writes_go_on();
    }
    // Without a majority nothing is acknowledged, and nobody leads.
    let etcd = &mut scene.rig.etcd.as_mut().unwrap().1;
    (0..2).for_each(|member| etcd.kill(member));
    let led = |scene: &mut Scene| (0..2).any(|n| scene.rig.seats[n].is_ready());
    while led(&mut scene) {
        let leads = (0..2).find(|n| scene.rig.seats[*n].is_ready()).unwrap();
        scene.ends(leads);
    }
    let before = scene.writers.count();
    let etcd = &mut scene.rig.etcd.as_mut().unwrap().1;
    (0..2).for_each(|member| etcd.revive(member).unwrap());
    scene.writes_go_on();
    assert!(scene.writers.count() > before);
    scene.check();
}
