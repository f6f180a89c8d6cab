//! The state of nodes, tokens, pauses and bundles: what there is to see without agents.

use crate::controller::{Controller, run};
use crate::resources::SHOP;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn status_judges() {
    let controller = Controller::start();
    let said = controller.ok("status");
    assert!(said.starts_with("controller ") && said.contains("no nodes yet"), "{said}");
    controller.ok_with("apply -f -", SHOP);
    let said = controller.run("status");
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("✗ n1: not connected"), "{said:?}");
    let json = controller.run("status -o json");
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["nodes"][0]["connected"], false);
    assert!(controller.run("status -o yaml").out.contains("nodes:"));
    assert!(controller.ok("node list").contains("n1    ✗ not connected"));
    assert!(controller.ok("describe node n1").contains("not connected"));
    let watch = controller.start_command("status --watch");
    watch.until("✗ n1: not connected");
}

#[test]
fn tokens_are_printed_alone_and_nodes_are_paused() {
    let controller = Controller::start();
    controller.ok_with("apply -f -", SHOP);
    let said = controller.run("node token n2 --address 192.0.2.2 --ttl 60");
    assert_eq!((said.code, said.out.lines().count()), (0, 1), "{said:?}");
    assert!(said.err.contains("token for node n2 at 192.0.2.2"), "{said:?}");
    assert_eq!(controller.ok("node pause n1"), "node/n1 paused\n");
    assert_eq!(controller.json("node list -o json")[0]["paused"], true);
    assert_eq!(controller.ok("node resume n1"), "node/n1 resumed\n");
    assert_eq!(controller.json("node list -o json")[0]["paused"], false);
    assert!(controller.fails("node pause n9").contains("n9"));
}

#[test]
fn a_bundle_is_made_of_what_there_is_without_secrets() {
    let controller = Controller::start();
    controller.ok_with("apply -f -", SHOP);
    let said = controller.ok("support-bundle -o b.tar.gz");
    assert!(said.starts_with("b.tar.gz: "), "{said}");
    let path = controller.path("b.tar.gz");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&path).arg("-C").arg(controller.folder.path());
    assert_eq!(run(tar, "").code, 0);
    let read = |name: &str| {
        let path = controller.path("osier-support").join(name);
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(read("status.txt").contains("n1"));
    assert!(read("resources/networks.json").contains("\"blue\""));
    assert!(read("versions.txt").contains(env!("CARGO_PKG_VERSION")));
    // n1 has no agent.
    assert!(read("errors.txt").contains("node n1"), "{}", read("errors.txt"));
    let credential = fs::read_to_string(controller.path("credential")).unwrap();
    let mut grep = Command::new("grep");
    grep.args(["-r", credential.trim()]).arg(controller.path("osier-support"));
    assert_eq!(run(grep, "").code, 1, "the credential is in the bundle");
}

#[test]
fn what_only_agents_know_is_told_apart_without_agents() {
    let controller = Controller::start();
    controller.ok_with("apply -f -", SHOP);
    let said = controller.run("check");
    assert_eq!(said.code, 1, "{said:?}");
    for line in ["controller", "clock here", "version here", "converged", "n1"] {
        assert!(said.out.contains(line), "{line}: {said:?}");
    }
    assert!(controller.run("check -o json").out.contains("\"failed\""));

    let said = controller.run("trace shop/web 10.0.0.9");
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.starts_with("shop:web → 10.0.0.9, icmp\n"), "{said:?}");
    assert!(said.out.contains("✗ unknown: "), "{said:?}");
    let said = controller.fails("trace shop:nobody 10.0.0.9");
    assert!(said.contains("shop:nobody"), "{said}");

    let said = controller.fails("capture shop:web -w web.pcap --seconds 1");
    assert!(said.contains("n1"), "{said}");
    assert!(!controller.path("web.pcap").exists());
    assert!(controller.fails("capture shop:nobody").contains("there is no Port shop:nobody"));
}
