//! Pictures of what a real controller has answered. The lab's tests record the answers, with
//! `OSIER_RECORD=1`, and see in every run that a controller still answers in that form; then the same
//! variable writes the pictures here.

use super::describe::Related;
use super::paint::Paint;
use super::table::{self, Table};
use super::trace::Depth;
use super::{check, describe, moment, status, trace};
use crate::client::answers::{Checks, Page, Status, Trace};
use osier_resource::{Kind, Resource};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use time::OffsetDateTime;

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/answers", name].iter().collect()
}

fn answer<T: DeserializeOwned>(name: &str) -> T {
    let path = file(&format!("{name}.json"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn is_drawn(name: &str, drawn: &str) {
    let path = file(&format!("{name}.txt"));
    if std::env::var_os("OSIER_RECORD").is_some() {
        std::fs::write(&path, drawn).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(drawn, known, "{}", path.display());
}

/// A little after the answers were recorded.
fn now() -> OffsetDateTime {
    let status: serde_json::Value = answer("status");
    let seen = status["nodes"][0]["lastSeen"].as_str().and_then(moment::read);
    seen.expect("a node that was seen") + time::Duration::minutes(2)
}

#[test]
fn a_cluster_and_its_health() {
    let answered: Status = answer("status");
    is_drawn("status", &status::draw(&answered, false, now(), Paint::OFF));
    is_drawn("status-wide", &status::draw(&answered, true, now(), Paint::OFF));
    assert!(status::problems(&answered, now()).is_empty());
    let checks: Checks = answer("check");
    is_drawn("check", &check::draw(&checks.checks, Paint::OFF));
}

#[test]
fn packets_that_arrive_or_not() {
    for (name, question) in [
        ("trace-delivered", "test:web → test:db, icmp"),
        ("trace-dropped", "test:web → test:vault, icmp"),
    ] {
        let answered: Trace = answer(name);
        is_drawn(name, &trace::draw(question, &answered, Depth::Words, Paint::OFF));
        assert_eq!(trace::has_arrived(&answered, true), name == "trace-delivered");
    }
}

#[test]
fn resources_with_what_belongs_to_them() {
    let (ports, cluster): (Page, Status) = (answer("ports"), answer("status"));
    let mut drawn = Table::new(table::headings(Kind::Port, true));
    for port in &ports.items {
        drawn.push(table::row(Kind::Port, port, true, now()));
    }
    is_drawn("ports", &drawn.draw("", Paint::OFF));
    let read = |name: &str| Resource::from_value(&answer(name)).expect("a resource");
    let of_front = ports.items.iter().filter(|port| port["spec"]["network"] == "front");
    let resources = vec![("Ports".to_owned(), Kind::Port, of_front.cloned().collect())];
    let related = Related { resources, node: None };
    let network = read("network-front");
    is_drawn("network-front", &describe::draw(&network, &related, now(), Paint::OFF));
    let node = cluster.nodes.into_iter().find(|node| node.name == "n1");
    let related = Related { resources: Vec::new(), node };
    is_drawn("node-n1", &describe::draw(&read("node-n1"), &related, now(), Paint::OFF));
}
