//! Echoes between two pods without a pause, in both families, and how many were lost.

use crate::world::World;
use osier_kubelab::Signal;
use osier_testbed::Process;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// Ten a second: a gap of a tenth is one of them.
const INTERVAL: &str = "0.1";

pub(crate) struct Stream {
    pings: Vec<Process>,
}

impl Stream {
    /// From pod `a` to pod `b`.
    pub(crate) fn start(world: &World) -> Self {
        let pid = process_in(world, "node-1", "default:a").to_string();
        let host = world.cluster.lab().host();
        let ping = |to: String| {
            let args = ["-t", &pid, "-n", "--", "ping", "-i", INTERVAL, "-n", &to];
            host.command("nsenter").args(args).spawn().unwrap()
        };
        let pings = world.addresses("b").into_iter().map(ping).collect();
        let stream = Self { pings };
        // Neighbours of the underlay are found by then.
        let began = || match stream.pings.iter().all(|ping| ping.stdout().lines().count() > 5) {
            true => Ok(()),
            false => Err("no replies"),
        };
        world.cluster.wait("replies", Duration::from_secs(30), began).unwrap();
        stream
    }

    /// How many echoes were sent, and how many are missing.
    pub(crate) fn stop(self) -> (u32, u32) {
        let (mut sent, mut lost) = (0, 0);
        for mut ping in self.pings {
            ping.stop(Signal::SIGINT, Duration::from_secs(10)).unwrap();
            let said = ping.stdout();
            let summary = said.lines().find(|line| line.contains(" packets transmitted")).unwrap();
            let transmitted = summary.split(' ').find_map(|word| word.parse::<u32>().ok());
            let transmitted = transmitted.unwrap_or_else(|| panic!("{summary}"));
            sent += transmitted;
            // The very last one may have been under way; it, and no other, is not counted.
            let mut missing = missing(&said, transmitted);
            missing.retain(|number| *number != transmitted);
            lost += u32::try_from(missing.len()).unwrap();
            if !missing.is_empty() {
                println!("echoes {missing:?} of {transmitted}, {INTERVAL} s each, did not come");
            }
        }
        (sent, lost)
    }

    /// Ends it, and tells what a fault cost: nothing.
    pub(crate) fn nothing_lost(self, fault: &str) {
        let (sent, lost) = self.stop();
        println!("{fault}: {lost} of {sent} echoes lost");
        assert_eq!(lost, 0, "{fault}: of {sent}");
    }
}

/// The numbers of echoes that did not come.
fn missing(said: &str, sent: u32) -> Vec<u32> {
    let number = |line: &str| line.split_once("icmp_seq=")?.1.split_once(' ')?.0.parse().ok();
    let came: BTreeSet<u32> = said.lines().filter_map(number).collect();
    (1..=sent).filter(|number| !came.contains(number)).collect()
}

/// A process on the host that is in a pod's network namespace.
fn process_in(world: &World, node: &str, device: &str) -> u32 {
    let machine = world.cluster.node(node).unwrap().machine();
    let query = format!("external_ids:osier-device=\"{device}\"");
    let find = ["ovs-vsctl", "--bare", "--columns=external_ids", "find", "interface", &query];
    let record = machine.run(&find).unwrap();
    let id = record.split_whitespace().find_map(|id| id.strip_prefix("osier-netns-id=")).unwrap();
    let inode = id.trim_matches('"').split_once(':').unwrap().1.to_owned();
    let wanted = format!("net:[{inode}]");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let there = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|ns| ns.as_os_str() == &*wanted)
    };
    pids.find(there).unwrap_or_else(|| panic!("nobody is in {wanted}"))
}
