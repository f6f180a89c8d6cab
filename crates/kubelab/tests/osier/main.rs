//! A real cluster with Osier as its network, installed from `deploy/`: pods on both nodes talk, names
//! resolve, the suite's smoke set passes, and what fails or is upgraded takes no packet with it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod bandwidth;
mod faults;
mod ovs;
mod people;
mod stream;
mod upgrade;
mod world;

use osier_kubelab::{Outcome, Suite};
use std::time::Duration;
use world::World;

/// What every cluster must do, of what a network has most to do with.
const SMOKE: &str = r"\[sig-network\] (Networking|DNS).*\[Conformance\]";

/// One cluster for all of it: to bring one up for each would take longer than the tests.
#[test]
fn osier_is_the_network_of_a_cluster() {
    let world = World::new();
    world.step("pods talk", |world| {
        for address in world.addresses("b") {
            world.talk("a", &address);
        }
        world.reach_from_the_node("node-1", "b");
    });
    world.step("names resolve", |world| {
        let name = "kube-dns.kube-system.svc.cluster.local";
        let found = world.cluster.kubectl(&["exec", "a", "--", "dig", "+short", name]);
        assert_eq!(found.unwrap().trim(), "10.96.0.10");
    });
    world.step("people are told", people::are_told);
    world.step("bandwidth is limited", bandwidth::is_limited);
    world.step("agents and the controller are killed", faults::kills);
    world.step("the API server is away", faults::outage);
    world.step("a node reboots", faults::reboot);
    world.step("the smoke set of the suite", |world| {
        let suite = Suite {
            focus: SMOKE.to_owned(),
            skip: String::new(),
            processes: 4,
            timeout: Duration::from_mins(15),
            arguments: Vec::new(),
        };
        let dir = world.cluster.lab().dir().join("e2e");
        let report = suite.run(&world.cluster.layout().unwrap(), &dir).unwrap();
        let (passed, failed) = (report.count(Outcome::Passed), report.count(Outcome::Failed));
        assert!(failed == 0 && passed >= 12, "{}", report.to_table());
        println!("{passed} specs passed");
    });
}

#[test]
#[ignore = "minutes: run by `make soak`"]
fn soak_of_a_node_that_comes_back_elsewhere() {
    let world = World::new();
    world.step("a pause is remembered", people::pause);
    world.step("a node gets another address", faults::readdressed);
}

#[test]
#[ignore = "minutes: run by `make soak`"]
fn soak_of_completed_pods() {
    World::new().step("more pods end than there are addresses", faults::completed);
}
