//! From an earlier build to this one, part by part, while pods talk and others are made.
//!
//! Agents and controller of different builds work together for a while, in both ways, and so do agents and
//! the plugins that runtimes start.

use crate::stream::Stream;
use crate::world::{PATIENCE, World, programs};
use osier_kubelab::Osier;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Where `scripts/build-earlier` has put it.
const EARLIER: &str = "OSIER_EARLIER_DIR";
/// Pods that must be made while builds differ.
const PODS: usize = 4;

#[test]
#[ignore = "takes an earlier build: run by `make upgrade`"]
fn an_upgrade_takes_no_packet_and_builds_may_differ() {
    let earlier = std::env::var(EARLIER).expect("OSIER_EARLIER_DIR says where an earlier build is");
    let earlier = Path::new(&earlier);
    let world = World::with(&earlier.join("release"), "earlier");
    let new = Osier::of_programs(world.cluster.lab(), &programs(), "later", &["datapath=netdev"]);
    let new = new.unwrap();
    let (old_agent, new_agent) = (of_agent(&world.osier.manifest), of_agent(&new.manifest));
    world.cluster.load_image(&new.image).unwrap();
    let stream = Stream::start(&world);
    let makers = Makers::new();
    thread::scope(|scope| {
        scope.spawn(|| makers.work(&world));
        // It must end also when a step fails.
        let _stop = Stop(&makers.done);
        makers.step(&world, "agents are newer than the controller", &new_agent);
        makers.step(&world, "all is new", &new.manifest);
        makers.with_plugin(&world, "plugins are older than agents", &earlier.join("plugin"));
        makers.step(&world, "agents are older than the controller", &old_agent);
        makers.with_plugin(&world, "plugins are newer than agents", &programs().join("../plugin"));
        makers.step(&world, "all is new again", &new.manifest);
    });
    stream.nothing_lost("upgraded");
    let mut delays = makers.delays.into_inner().unwrap();
    delays.sort_unstable();
    println!(
        "{} pods were made meanwhile: ready after {:.1?}, at most {:.1?}",
        delays.len(),
        delays[delays.len() / 2],
        delays[delays.len() - 1],
    );
}

/// What of a manifest is the agents' own.
fn of_agent(manifest: &str) -> String {
    let own = |document: &&str| {
        let is = |text: &str| document.contains(&format!("\n{text}\n"));
        is("  name: osier-agent") && (is("kind: DaemonSet") || is("kind: ConfigMap"))
    };
    let documents: Vec<&str> = manifest.split("\n---\n").filter(own).collect();
    assert_eq!(documents.len(), 2, "{documents:?}");
    documents.join("\n---\n")
}

/// Makes pods, one after the other, and takes them away.
struct Makers {
    done: AtomicBool,
    delays: std::sync::Mutex<Vec<Duration>>,
}

/// Ends the work of others when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Makers {
    fn new() -> Self {
        Self { done: AtomicBool::new(false), delays: std::sync::Mutex::new(Vec::new()) }
    }

    fn made(&self) -> usize {
        self.delays.lock().unwrap().len()
    }

    fn work(&self, world: &World) {
        for n in 0.. {
            if self.done.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("made-{n}");
            let begun = Instant::now();
            world.start_pod(&name, ["node-1", "node-2"][n % 2]);
            world.wait_for_pod(&name);
            let ready = begun.elapsed();
            world.addresses(&name).iter().for_each(|address| world.talk("a", address));
            self.delays.lock().unwrap().push(ready);
            world.cluster.kubectl(&["delete", "pod", &name, "--wait=false"]).unwrap();
        }
    }

    /// Waits until so many more pods were made.
    fn make_more(&self, world: &World) {
        let before = self.made();
        let enough = || match self.made() - before {
            made if made >= PODS => Ok(()),
            made => Err(format!("{made} pods")),
        };
        world.cluster.wait("pods to be made", PATIENCE, enough).unwrap();
    }

    /// Puts another build's plugin on all nodes, in one step as an upgrade does, and has pods made by it.
    fn with_plugin(&self, world: &World, what: &str, dir: &Path) {
        world.step(what, |world| {
            let plugin = dir.join("osier-cni").display().to_string();
            for node in world.cluster.nodes() {
                let machine = node.machine();
                machine.run(&["cp", &plugin, "/opt/cni/bin/.osier-other"]).unwrap();
                machine.run(&["mv", "/opt/cni/bin/.osier-other", "/opt/cni/bin/osier"]).unwrap();
            }
            self.make_more(world);
        });
    }

    /// Applies a manifest, waits until it is real, and until pods were made with it.
    fn step(&self, world: &World, what: &str, manifest: &str) {
        world.step(what, |world| {
            world.cluster.apply(manifest).unwrap();
            world.wait_for_osier();
            self.make_more(world);
            let query = "jsonpath={.items[*].status.conditions[?(@.type=='NetworkUnavailable')].status}";
            let said = world.cluster.kubectl(&["get", "nodes", "-o", query]).unwrap();
            assert_eq!(said, "False False");
            let images = "jsonpath={range .items[*]}{.spec.containers[0].image}={.status.containerStatuses[0].restartCount} {end}";
            let running = world.cluster.kubectl(&["get", "pods", "-n", "osier-system", "-o", images]);
            println!("  runs: {}", running.unwrap());
        });
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
