//! A lab is made, looked at, used, damaged and removed.

use crate::world::{PATIENCE, World, all, executables, nothing_stays, processes, traces};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use osier_lab::{LabName, LabSpec, Playground, PodFamily, Programs, TunnelKind};
use osier_testbed::{Lab, wait_until};

#[test]
fn two_labs_live_side_by_side() {
    let world = World::new();
    let output = world.run("up --nodes 2 --pods 3");
    assert!(output.status.success(), "{}", all(&output));
    let (said, steps) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for part in ["lab default: 2 nodes, 3 pods, IPv4 and IPv6, Geneve", "pod3", "osier lab down"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert!(
        steps.starts_with("[1/9] underlay\n") && steps.contains("[9/9] pod3 on n1\n"),
        "{steps}"
    );
    world.succeeds("up --nodes 1 --pods 2 --family ipv6 --tunnel vxlan --name six");
    assert!(world.fails("up --name six").contains("there is a lab six already"));
    let dirs = ["default", "six"].map(|name| world.dir_of(name));

    let status = world.json("status");
    assert_eq!(status["health"]["nodes"][1]["agent"], "ok");
    assert_eq!(status["pods"][1]["addresses"][0], "10.1.2.2");
    assert_eq!(status["pods"][1]["node"], "n2");
    assert!(world.succeeds("status --name six").contains("all parts are well"));
    assert!(world.succeeds("status -o yaml").contains("tunnel: geneve"));
    let list = world.json("list");
    assert_eq!((&list[0]["name"], &list[1]["state"]), (&"default".into(), &"up".into()));

    // Every pod has the other two's two addresses; in the other lab one.
    for (lab, expected) in [("default", 12), ("six", 2)] {
        let matrix = world.json(&format!("ping-all --timeout 30 --name {lab}"));
        assert_eq!(matrix["probes"].as_array().unwrap().len(), expected, "{matrix}");
    }
    assert!(world.succeeds("ping-all --name six").ends_with("2 of 2 answered\n"));

    world.succeeds("down --name default");
    assert_eq!(traces(&dirs[0]), Vec::<String>::new(), "down is complete when it returns");
    world.succeeds("ping-all --name six");
    assert_eq!(world.names(), ["six"]);
    // The only one there is is meant.
    world.succeeds("down");
    assert_eq!(traces(&dirs[1]), Vec::<String>::new());
    assert_eq!(world.names(), Vec::<String>::new());
    world.succeeds("down");
}

#[test]
fn commands_run_in_pods_and_nodes() {
    let world = World::new();
    world.succeeds("up --nodes 1 --pods 1 --name one");
    assert!(world.succeeds("exec pod1 -- ip -brief address").contains(" 10.1.1.2/32 "));
    assert_eq!(world.run("exec pod1 -- false").status.code(), Some(1));
    let code = world.run("exec pod1 -- sh -c exit${IFS}42");
    assert_eq!(code.status.code(), Some(42), "{}", all(&code));
    assert_eq!(world.feed("exec pod1 -- cat", "in and out").stdout, b"in and out");
    assert_eq!(world.run("exec pod1 -- no-such-program").status.code(), Some(127));
    assert_eq!(world.run("exec pod1 -- /etc").status.code(), Some(126));
    assert!(world.fails("exec pod2 -- true").contains("it has pod1, n1"));
    // Open vSwitch's tools find the node's switch.
    assert!(world.succeeds("exec n1 -- ovs-vsctl list-br").contains("br-int"));
    assert!(world.succeeds("exec n1 -- ovs-appctl version").contains("ovs-vswitchd"));
    assert!(world.succeeds("exec n1 -- ovs-ofctl dump-flows br-int").contains("cookie=0x6f73"));
    // What still runs inside goes with the lab.
    let dir = world.dir_of("one");
    let mut sleeper = world.command("exec pod1 -- sleep 600").spawn().unwrap();
    wait_until("the sleeper", PATIENCE, || {
        let found = processes(&dir).iter().any(|(_, line)| line.starts_with("sleep"));
        found.then_some(()).ok_or("none")
    })
    .unwrap();
    world.succeeds("down");
    assert!(!sleeper.wait().unwrap().success());
    assert_eq!(traces(&dir), Vec::<String>::new());
}

#[test]
fn what_is_broken_is_told() {
    let world = World::new();
    world.succeeds("up --nodes 2 --pods 2 --name broken --family ipv4");
    let dir = world.dir_of("broken");
    let kill_one = |mark: &str| {
        let running = processes(&dir);
        let (pid, _) = running.iter().find(|(_, line)| line.contains(mark)).unwrap();
        kill(Pid::from_raw(*pid), Signal::SIGKILL).unwrap();
    };
    let is_told = |problem: &str| {
        wait_until(problem, PATIENCE, || {
            let output = world.run("status");
            let said = all(&output);
            let is_told = output.status.code() == Some(1) && said.contains(problem);
            is_told.then_some(()).ok_or(said)
        })
        .unwrap();
    };
    kill_one("/n2/agent.toml");
    is_told("✗ agent of n2: it ended");
    // Pods do not need it.
    world.succeeds("ping-all --timeout 30");
    world.succeeds("exec pod1 -- ip link set eth0 down");
    let output = world.run("ping-all --timeout 0");
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("LOST") && said.contains("✗ pod2 does not reach pod1 at 10.1.1.2"),
        "{said}"
    );
    is_told("✗ pod1: osier-cni CHECK of pod1 failed: ");
    kill_one("/n1/ovs-vswitchd.ctl");
    is_told("✗ switch of n1: ");
    world.succeeds("down");
    nothing_stays(&dir);
}

#[test]
fn a_playground_is_a_library() {
    let directory = executables();
    let programs = Programs { osier: directory.join("osier"), plugin: directory.join("osier-cni") };
    let spec = LabSpec {
        name: LabName::default_name(),
        nodes: 1,
        pods: 2,
        family: PodFamily::Dual,
        tunnel: TunnelKind::Geneve,
        controller: false,
        apply: None,
    };
    let lab = Lab::new().unwrap();
    let mut steps = Vec::new();
    let mut playground = Playground::build(lab, &spec, programs, |step| steps.push(step)).unwrap();
    assert_eq!(steps.len(), usize::from(Playground::steps(&spec)));
    let report = playground.report();
    assert!(report.is_ok(), "{:?}", report.problems());
    let dir = playground.layout().dir;
    assert!(!traces(&dir).is_empty());
    drop(playground);
    assert_eq!(traces(&dir), Vec::<String>::new());
}
