//! `osier check --pre` in namespaces where something is wrong, and where nothing is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_testbed::{Lab, Netns, OvsdbServer};
use serde_json::Value;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A machine: a namespace with an uplink, a default route, a folder for CNI configurations.
struct Machine {
    lab: Lab,
    netns: Netns,
    cni: PathBuf,
}

/// An interface that works; whatever is behind it says nothing.
fn add_link(netns: &Netns, name: &str) {
    netns.ip(&format!("link add {name} type veth peer name {name}-far")).unwrap();
    for end in [name.to_owned(), format!("{name}-far")] {
        netns.ip(&format!("link set {end} up")).unwrap();
    }
}

impl Machine {
    fn new() -> Self {
        let lab = Lab::new().unwrap();
        let netns = lab.netns("m").unwrap();
        add_link(&netns, "uplink");
        netns.ip("addr add 192.0.2.5/24 dev uplink").unwrap();
        netns.ip("addr add fd00:2::5/64 dev uplink nodad").unwrap();
        netns.ip("route add default via 192.0.2.1 dev uplink").unwrap();
        let cni = lab.make_dir("net.d").unwrap();
        Self { lab, netns, cni }
    }

    /// What is said with the switch's own datapath, which no kernel lacks a module for.
    fn check(&self, pods: &str, database: &Path) -> Verdict {
        let command = self.netns.command(env!("CARGO_BIN_EXE_osier"));
        let command = command.args(["check", "--pre", "--userspace", "-o", "json"]);
        let command = command.args(["--pod-cidr", pods, "--service-cidr", "10.96.0.0/12"]);
        let command = command.arg("--cni-folder").arg(&self.cni).arg("--ovsdb").arg(database);
        let output = command.output().unwrap();
        let said: Value = serde_json::from_str(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", output.stdout, output.stderr));
        Verdict { checks: said["checks"].as_array().unwrap().clone(), ok: output.status.success() }
    }

    /// A database of a switch that says it is of a version.
    fn database(&self, version: &str) -> OvsdbServer {
        let server = OvsdbServer::builder(&self.netns, "ovs").start(Path::new(SCHEMA)).unwrap();
        let row = format!(
            r#"["Open_vSwitch",{{"op":"insert","table":"Open_vSwitch","row":{{"ovs_version":"{version}"}}}}]"#
        );
        server.client("transact", &[&row]).unwrap();
        server
    }
}

struct Verdict {
    checks: Vec<Value>,
    ok: bool,
}

impl Verdict {
    /// How one check ended, and what it said.
    fn of(&self, name: &str) -> (String, String) {
        let check = self.checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("{name} is not in {:#?}", self.checks));
        let text = |key: &str| check[key].as_str().unwrap().to_owned();
        let advice = text("advice");
        assert_eq!(advice.is_empty(), ["ok", "skipped"].contains(&text("result").as_str()));
        (text("result"), text("detail"))
    }

    #[track_caller]
    fn expect(&self, name: &str, result: &str, said: &str) {
        let (found, detail) = self.of(name);
        assert!(found == result && detail.contains(said), "{name}: {found}: {detail}");
    }
}

#[test]
fn a_machine_that_is_fit_is_told_so() {
    let machine = Machine::new();
    let database = machine.database("3.1.0");
    let verdict = machine.check("10.244.0.0/16", &database.socket());
    for name in ["kernel", "nftables", "Open vSwitch", "uplink MTU", "addresses", "other CNI"] {
        verdict.expect(name, "ok", "");
    }
    for name in ["firewall: pods", "firewall: nodes", "TCP 6645", "TCP 9476", "UDP 6081"] {
        verdict.expect(name, "ok", "");
    }
    assert!(verdict.ok, "{:#?}", verdict.checks);
}

#[test]
fn planted_faults_are_found_each_with_advice() {
    let machine = Machine::new();
    let netns = &machine.netns;
    netns.ip("link set uplink mtu 1300").unwrap();
    add_link(netns, "other");
    netns.ip("route add 10.244.7.0/24 dev other").unwrap();
    add_link(netns, "cni0");
    netns.run(&["nft", "add table inet strict"]).unwrap();
    for hook in ["forward", "input"] {
        let chain = format!(
            "add chain inet strict {hook} {{ type filter hook {hook} priority 0; policy drop; }}"
        );
        netns.run(&["nft", &chain]).unwrap();
    }
    let _api = netns.tcp_listen("0.0.0.0:6645".parse().unwrap()).unwrap();
    let _tunnels = netns.udp_bind("0.0.0.0:6081".parse().unwrap()).unwrap();
    let nobody = machine.lab.dir().join("nobody.sock");

    let verdict = machine.check("10.244.0.0/16", &nobody);
    assert!(!verdict.ok);
    verdict.expect("Open vSwitch", "failed", "nobody answers at");
    verdict.expect("uplink MTU", "failed", "uplink has 1300");
    verdict.expect("addresses", "failed", "10.244.7.0/24, which this machine has on other");
    verdict.expect("other CNI", "warning", "cni0 was left behind");
    verdict.expect("firewall: pods", "failed", "inet strict forward drops");
    verdict.expect("firewall: nodes", "warning", "inet strict input drops");
    verdict.expect("TCP 6645", "failed", "the controller's API");
    verdict.expect("UDP 6081", "failed", "tunnels");
    verdict.expect("TCP 6646", "ok", "free");
}

#[test]
fn addresses_files_and_versions_are_compared() {
    let machine = Machine::new();
    let old = machine.database("2.17.3");
    std::fs::write(machine.cni.join("05-cilium.conflist"), "{}").unwrap();
    let verdict = machine.check("fd00:2::/48", &old.socket());
    verdict.expect("Open vSwitch", "failed", "2.17.3 is too old");
    verdict.expect("addresses", "failed", "fd00:2::/64, which this machine has on uplink");
    verdict.expect("other CNI", "failed", "05-cilium.conflist comes before");
    let verdict = machine.check("10.100.0.0/16", &old.socket());
    verdict.expect("addresses", "failed", "services' 10.96.0.0/12 overlap");
}

#[test]
fn iptables_that_drops_is_no_failure_for_the_agent_knows_it() {
    let machine = Machine::new();
    machine.netns.run(&["iptables", "-P", "FORWARD", "DROP"]).unwrap();
    let verdict = machine.check("10.244.0.0/16", &machine.lab.dir().join("nobody"));
    verdict.expect("firewall: pods", "ok", "ip filter FORWARD drops; the agent puts two rules");
}
