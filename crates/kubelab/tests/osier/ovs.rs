//! Open vSwitch of Osier's own daemon set, on nodes that have none.
//!
//! Its datapath is the userspace one here, whose tunnels need a bridge of the uplink. A node that gave
//! its uplink to a switch in a pod could not start that pod; so pods of one node talk.

use crate::stream::Stream;
use crate::world::{PATIENCE, World, programs};
use osier_kubelab::{Osier, Settings};
use std::time::Instant;

const VALUES: [&str; 2] = ["datapath=netdev", "ovs.install=true"];

#[test]
#[ignore = "minutes: run by `make soak`"]
fn soak_of_our_own_switch() {
    let settings = Settings { dual: true, switch: false, ..Settings::default() };
    let world = World::of(settings, &programs(), "test", &VALUES, "node-1");
    let mut switches = world.parts("osier-ovs");
    assert_eq!(switches.len(), 2, "{switches:?}");
    world.step("pods of a node talk", |world| {
        for address in world.addresses("b") {
            world.talk("a", &address);
        }
        world.reach_from_the_node("node-1", "b");
    });
    world.step("a new version waits until somebody deletes its pod", |world| {
        let values = [VALUES.as_slice(), &["ovs.resources.requests.cpu=51m", "mtu=1400"]].concat();
        let stream = Stream::start(world);
        let other = Osier::of_programs(world.cluster.lab(), &programs(), "test", &values).unwrap();
        world.cluster.apply(&other.manifest).unwrap();
        world.wait_for_osier();
        let mut now = world.parts("osier-ovs");
        now.sort();
        switches.sort();
        assert_eq!(now, switches);
        stream.nothing_lost("another version is applied");
    });
    world.step("the switch of a node is replaced", |world| {
        let stream = Stream::start(world);
        let begun = Instant::now();
        let on = ["get", "pod", "-n", "osier-system", "-l", "app.kubernetes.io/name=osier-ovs"];
        let on = [&on[..], &["--field-selector=spec.nodeName=node-1", "-o", "name"]].concat();
        let old = world.cluster.kubectl(&on).unwrap();
        world.cluster.kubectl(&["delete", "-n", "osier-system", old.trim()]).unwrap();
        let another = || match world.cluster.kubectl(&on) {
            Ok(name) if name.trim().is_empty() || name == old => Err(name),
            Ok(name) => {
                let ready = ["wait", "-n", "osier-system", name.trim(), "--for=condition=Ready"];
                world.cluster.kubectl(&ready).map_err(|e| e.to_string())
            }
            Err(e) => Err(e.to_string()),
        };
        world.cluster.wait("another switch", PATIENCE, another).unwrap();
        for address in world.addresses("b") {
            world.talk("a", &address);
        }
        let took = begun.elapsed().as_secs_f64();
        let (sent, lost) = stream.stop();
        println!(
            "a switch was replaced: pods talk after {took:.1} s, {lost} of {sent} echoes lost"
        );
        world.start_pod("c", "node-1");
        world.wait_for_pod("c");
        world.talk("a", &world.addresses("c")[0]);
    });
}
