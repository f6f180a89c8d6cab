//! What others did to the machine before us, or do meanwhile: it works, or it is said, and nothing
//! half made stays.

use crate::lab::{
    Agent, PATIENCE, Pod, metrics, one_node, pod_links, pod_ports, rewrite_view, view,
};
use osier_agent::desired::host_interface;
use osier_cni::config::Attachment;
use osier_testbed::{traffic, wait_until};
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

fn causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |cause| (*cause).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn ports_of_others_with_our_names_are_left_alone() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let view = view(&fabric, 24);
    // The gateway's name is somebody else's: the agent says so, and ends.
    let taken =
        ["add-port", "br-int", "osier0", "--", "set", "interface", "osier0", "type=internal"];
    node.ovs().vsctl(&taken).unwrap();
    let error = causes(&Agent::launch(node, &view).stop_by_itself());
    assert!(error.contains("osier0") && error.contains("is not ours"), "{error}");
    assert!(node.ovs().vsctl(&["list-ports", "br-int"]).unwrap().contains("osier0"));
    node.ovs().vsctl(&["del-port", "osier0"]).unwrap();

    let agent = Agent::start(node, &view);
    let pod = Pod::new(&lab, "a", &agent);
    let attachment = Attachment { container_id: pod.container.clone(), ifname: "eth0".into() };
    let name = host_interface(&attachment, |_| false);
    // As a port of the switch only, and then as an interface of the machine.
    node.ovs().vsctl(&["--no-wait", "add-port", "br-int", &name]).unwrap();
    let error = pod.fails("ADD");
    assert_eq!(error["code"], 100, "{error}");
    assert!(error["details"].as_str().unwrap().contains("is not ours"), "{error}");
    assert_eq!((pod_ports(node), pod_links(node)), (vec![name.clone()], 0));
    assert!(pod.netns.ip("link show eth0").is_err());
    node.ovs().vsctl(&["del-port", &name]).unwrap();
    node.netns().ip(&format!("link add {name} type veth peer name other")).unwrap();
    let error = pod.fails("ADD");
    assert!(error["msg"].as_str().unwrap().contains(&name), "{error}");
    assert_eq!(pod_ports(node), Vec::<String>::new());
    assert!(node.netns().ip("link show other").is_ok());
    node.netns().ip(&format!("link del {name}")).unwrap();
    pod.add();
}

#[test]
fn a_bridge_that_goes_away_is_missed_and_found_again() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    // It is somebody else's, so it is not ours to make.
    let agent = Agent::start(node, &view(&fabric, 24));
    let bridge = |command: &[&str]| node.ovs().vsctl(&[&["--no-wait"], command].concat()).unwrap();
    bridge(&["del-br", "br-int"]);
    let pod = Pod::new(&lab, "a", &agent);
    let error = pod.fails("ADD");
    let said = error.to_string();
    assert!(error["code"] == 100 && said.contains("br-int"), "{said}");
    assert_eq!(pod_links(node), 0);
    bridge(&[
        "add-br",
        "br-int",
        "--",
        "set",
        "bridge",
        "br-int",
        "datapath_type=netdev",
        "fail_mode=secure",
        "protocols=OpenFlow10,OpenFlow13,OpenFlow15",
    ]);
    wait_until("the bridge to be used again", PATIENCE, || {
        let output = pod.call("ADD");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    })
    .unwrap();
    assert!(traffic::ping_until(&pod.netns, [10, 1, 1, 1].into(), PATIENCE).is_ok());
}

#[test]
fn a_database_that_refuses_is_said_and_nothing_stays() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let pod = Pod::new(&lab, "a", &agent);
    // It follows another server that is not there, and takes no orders meanwhile.
    let database = |command: &[&str]| node.ovs().database().appctl(command).unwrap();
    database(&["ovsdb-server/set-active-ovsdb-server", "tcp:127.0.0.1:1"]);
    database(&["ovsdb-server/connect-active-ovsdb-server"]);
    let error = pod.fails("ADD");
    assert_eq!(error["code"], 100, "{error}");
    assert!(error["details"].as_str().unwrap().contains("the database refused"), "{error}");
    assert_eq!(pod_links(node), 0);
    assert!(pod.netns.ip("link show eth0").is_err());
    database(&["ovsdb-server/disconnect-active-ovsdb-server"]);
    wait_until("the database to be written again", PATIENCE, || {
        let output = pod.call("ADD");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    })
    .unwrap();
    assert_eq!((pod_ports(node).len(), pod_links(node)), (1, 1));
}

#[test]
fn pools_that_overlap_are_refused() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let good = view(&fabric, 24);
    let agent = Agent::start(node, &good);
    let other = "- { kind: node, name: n2, tunnel: 198.51.100.2, blocks: [10.1.1.128/25] }\n";
    rewrite_view(node, &(good.clone() + other));
    wait_until("the view to be refused", PATIENCE, || match metrics(node) {
        page if page.contains("osier_agent_view_refused_total 1") => Ok(()),
        page => Err(page),
    })
    .unwrap();
    // The last good one stays.
    let pod = Pod::new(&lab, "a", &agent);
    pod.add();
    assert!(traffic::ping_until(&pod.netns, [10, 1, 1, 1].into(), PATIENCE).is_ok());
}

/// A small disk, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(path: PathBuf) -> Self {
        let mount = ["-t", "tmpfs", "-o", "size=256k", "osier-test"];
        assert!(Command::new("mount").args(mount).arg(&path).status().unwrap().success());
        Self(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The lab's janitor does it otherwise.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_said_and_nothing_stays() {
    let (lab, mut fabric) = one_node();
    let text = view(&fabric, 24);
    let disk = Disk::new(lab.make_dir("disk").unwrap());
    let node = &mut fabric.nodes_mut()[0];
    node.kill_ovsdb();
    let (database, moved) = (node.ovs().dir().join("db"), disk.0.join("db"));
    std::fs::copy(&database, &moved).unwrap();
    std::fs::remove_file(&database).unwrap();
    std::os::unix::fs::symlink(&moved, &database).unwrap();
    node.start_ovsdb().unwrap();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &text);
    let pods = ["a", "b"].map(|name| Pod::new(&lab, name, &agent));
    let given = pods[0].addresses();
    let rest = disk.0.join("rest");
    assert!(std::fs::write(&rest, vec![0; 1 << 20]).is_err(), "the disk is full");
    // And what was left of the database's last page, too.
    let fill = |n: u32| {
        let value = format!("external_ids:fill={n:0200}");
        node.ovs().vsctl(&["--no-wait", "set", "Open_vSwitch", ".", &value]).is_ok()
    };
    assert!(!(0..100).all(fill));
    let error = pods[1].fails("ADD");
    assert_eq!(error["code"], 11, "{error}");
    assert!(error["msg"].as_str().unwrap().contains("does not take changes"), "{error}");
    assert!(error["details"].as_str().unwrap().contains("I/O error"), "{error}");
    assert_eq!((pod_ports(node).len(), pod_links(node)), (1, 1));
    assert!(pods[1].netns.ip("link show eth0").is_err());
    // Who lives goes on, and with room again so do others.
    assert!(traffic::ping_until(node.netns(), given[0], PATIENCE).is_ok());
    std::fs::remove_file(rest).unwrap();
    wait_until("room on the disk", PATIENCE, || {
        let output = pods[1].call("ADD");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    })
    .unwrap();
    drop(agent);
}
