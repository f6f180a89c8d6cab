//! Addresses by DHCP: Debian's plugin and its daemon ask, a dnsmasq that is a pod answers.

use crate::lab::{Agent, NETWORKS, PATIENCE, Pod, addresses, pod_links, pod_ports, port, view};
use crate::lab::{one_node, succeeds};
use osier_testbed::{Fabric, Family, Lab, Node, Process, traffic, wait_until};
use serde_json::json;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Ports that talk from node to node: the other one must know of them.
fn ports() -> String {
    port("server", "eth0", "red-1", "n1", "mac: '02:00:00:00:00:02', addresses: [10.5.0.2]")
        + &port("a", "eth0", "red-1", "n1", "mac: '02:00:00:00:00:98', addresses: []")
        + &port("far", "eth0", "red-1", "n2", "mac: '02:00:00:00:00:99', addresses: []")
}

/// The plugin's daemon; it goes when dropped.
pub(crate) fn daemon(lab: &Lab, node: &Node) -> (Process, PathBuf) {
    let socket = lab.dir().join("dhcp.sock");
    let command = node.netns().command("/usr/lib/cni/dhcp");
    let process = command.arg("daemon").arg("-socketpath").arg(&socket).spawn().unwrap();
    let listening = || UnixStream::connect(&socket).map(drop);
    wait_until("the daemon to listen", PATIENCE, listening).unwrap();
    (process, socket)
}

/// A server in a pod; clients renew every three seconds.
fn server(pod: &Pod, leases: &Path) -> Process {
    let file = format!("--dhcp-leasefile={}", leases.display());
    let flags = ["--no-daemon", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file="];
    let range = "--dhcp-range=10.5.0.50,10.5.0.60,255.255.255.0,120s";
    let options = ["--dhcp-option=option:router,10.5.0.1", "--dhcp-option=option:T1,3"];
    let command = pod.netns.command("dnsmasq").args(flags).args(options);
    command.args(["--no-ping", "--dhcp-authoritative", range, &file]).spawn().unwrap()
}

/// Who has a lease, until when.
fn leases(file: &Path) -> Vec<(IpAddr, u64)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lease = |line: &str| {
        let mut words = line.split(' ');
        let until = words.next()?.parse().ok()?;
        Some((words.nth(1)?.parse().ok()?, until))
    };
    text.lines().filter_map(lease).collect()
}

fn client(lab: &Lab, name: &str, agent: &Agent, socket: &Path) -> Pod {
    let mut pod = Pod::new(lab, name, agent).second("eth0", "red-1");
    pod.config["ipam"] = json!({"type": "dhcp", "daemonSocketPath": socket});
    pod
}

fn is_renewed(file: &Path, address: IpAddr) {
    let until = || leases(file).into_iter().find(|lease| lease.0 == address).map(|lease| lease.1);
    let before = until().expect("it has a lease");
    wait_until("its lease to be renewed", PATIENCE, || match until() {
        Some(now) if now > before => Ok(()),
        other => Err(format!("{other:?}, before {before}")),
    })
    .unwrap();
}

#[test]
fn a_pod_asks_a_server_that_is_a_pod() {
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, Family::Ipv4, 2).unwrap();
    let nodes = fabric.nodes();
    let text = view(&fabric, 24) + NETWORKS + &ports();
    let mut agents: Vec<Agent> = nodes.iter().map(|node| Agent::start(node, &text)).collect();
    let serving = Pod::new(&lab, "server", &agents[0]);
    serving.add();
    let file = lab.dir().join("leases");
    let _server = server(&serving, &file);
    let (_daemon, socket) = daemon(&lab, &nodes[0]);

    let pods = [("a", 0), ("b", 0), ("far", 1)]
        .map(|(name, node)| client(&lab, name, &agents[node], &socket));
    let results = pods.each_ref().map(Pod::add);
    let given = results.each_ref().map(|result| addresses(result)[0]);
    for (pod, (result, address)) in pods.iter().zip(results.iter().zip(given)) {
        assert!(leases(&file).iter().any(|lease| lease.0 == address), "{result}");
        assert!(result["ips"][0]["address"].as_str().unwrap().ends_with("/24"), "{result}");
        let routes = pod.netns.ip("route").unwrap();
        assert!(routes.contains("default via 10.5.0.1 dev eth0"), "{routes}");
        // Twice is once.
        assert_eq!(pod.add(), *result);
    }
    assert_eq!(results[2]["interfaces"][1]["mac"], "02:00:00:00:00:99");
    let host = results[0]["interfaces"][0]["name"].as_str().unwrap();
    let record = nodes[0].ovs().vsctl(&["get", "interface", host, "external_ids"]).unwrap();
    assert!(record.contains(&format!("ip-address=\"{}\"", given[0])), "{record}");
    let [a, b, far] = &pods;
    for (from, to) in [(a, given[1]), (b, given[0]), (a, given[2]), (far, given[0])] {
        let reached = traffic::ping_until(&from.netns, to, PATIENCE);
        assert!(reached.is_ok(), "{} does not reach {to}", from.name);
    }
    is_renewed(&file, given[0]);
    is_renewed(&file, given[2]);

    // With and after another agent.
    agents.remove(0).stop().unwrap();
    is_renewed(&file, given[0]);
    let agent = Agent::start(&nodes[0], &text);
    assert_eq!(pods[0].add(), results[0]);
    is_renewed(&file, given[0]);
    for (pod, address) in pods.iter().zip(given) {
        succeeds(&pod.call("DEL"));
        wait_until("the server to hear of it", PATIENCE, || {
            let left = leases(&file);
            let gone = left.iter().all(|lease| lease.0 != address);
            if gone { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .unwrap();
        succeeds(&pod.call("DEL"));
    }
    assert_eq!((pod_ports(&nodes[0]).len(), pod_ports(&nodes[1]).len()), (1, 0));
    drop(agent);
}

#[test]
fn who_gets_no_address_leaves_nothing() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &(view(&fabric, 24) + NETWORKS));
    let is_clean = || {
        assert_eq!(pod_ports(node), Vec::<String>::new());
        assert_eq!(pod_links(node), 0);
        let flows = node.ovs().ofctl(&["dump-flows", "br-int", "table=210"]).unwrap();
        assert!(!flows.contains("tp_src=68"), "{flows}");
    };
    // No daemon.
    let socket = lab.dir().join("dhcp.sock");
    let mut pod = client(&lab, "a", &agent, &socket);
    let said = pod.fails("ADD");
    assert!(said["msg"].as_str().unwrap().contains("dhcp.sock"), "{said}");
    is_clean();
    // A daemon that nobody answers.
    let (_daemon, _) = daemon(&lab, node);
    pod.config["agentTimeout"] = json!(4);
    assert_eq!(pod.fails("ADD")["code"], 11);
    wait_until("all to be undone", PATIENCE, || match pod_ports(node).len() {
        0 => Ok(()),
        left => Err(left),
    })
    .unwrap();
    succeeds(&pod.call("DEL"));
    is_clean();
    // A network without broadcast.
    pod.config.as_object_mut().unwrap().remove("network");
    let said = pod.fails("ADD");
    assert_eq!(said["code"], 7, "{said}");
    assert!(said["msg"].as_str().unwrap().contains("is routed"), "{said}");
    is_clean();
}
