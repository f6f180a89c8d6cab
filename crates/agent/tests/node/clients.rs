//! Clients that ask for their addresses, and the node answers: `dhclient` and `udhcpc` of Debian, the
//! kernel's own router discovery. Networks of both kinds, bridged and routed.

use crate::dhcp::daemon;
use crate::lab::{Agent, PATIENCE, Pod, addresses, metrics, one_node, port, succeeds, view};
use osier_testbed::{Dhclient, Lab, Node, Signal, traffic, wait_until};
use serde_json::json;

/// The shortest lease: clients renew after ten seconds.
const NETWORKS: &str = "\
- { kind: router, name: green, vrf: 5 }
- { kind: network, name: link, vni: 51, router: green, subnets: [
    { cidr: 10.7.0.0/24, gateway: 10.7.0.1 }, { cidr: 'fd07::/64', gateway: 'fd07::1' }],
    dhcp: { lease: 20, dns: [10.7.0.53, 'fd07::53'], domain: green.example, mtu: 1380,
      routes: [{ to: 10.99.0.0/16, via: 10.7.0.99 }] } }
- { kind: network, name: routed, vni: 52, router: green, reach: routed, subnets: [
    { cidr: 10.8.0.0/24, gateway: 10.8.0.1 }, { cidr: 'fd08::/64', gateway: 'fd08::1' }],
    dhcp: { dns: [10.7.0.53] } }
";
/// The router's address of the link.
const ROUTER: &str = "fe80::c6f:73ff:fe69:6572";

fn ports() -> String {
    let of = |pod: &str, network: &str, n: u8, subnet: u8| {
        let rest = format!(
            "mac: '02:00:00:00:0{subnet}:0{n}', addresses: [10.{subnet}.0.{n}, 'fd0{subnet}::{n}']"
        );
        port(pod, "eth0", network, "n1", &rest)
    };
    of("a", "link", 5, 7) + &of("b", "link", 6, 7) + &of("c", "routed", 5, 8)
}

/// A pod that has an interface, and nothing on it.
fn bare(lab: &Lab, name: &str, network: &str, agent: &Agent) -> Pod {
    let pod = Pod::new(lab, name, agent).second("eth0", network);
    pod.add();
    for command in ["link set eth0 down", "-4 addr flush dev eth0", "-6 addr flush dev eth0"] {
        pod.netns.ip(command).unwrap();
    }
    pod.netns.ip("neigh flush nud all dev eth0").unwrap();
    pod
}

/// How often something became of a lease.
fn count(node: &Node, family: u8, event: &str) -> u64 {
    let name = format!("osier_agent_leases_total{{family=\"{family}\",event=\"{event}\"}} ");
    let page = metrics(node);
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(0, |count| count.parse().unwrap())
}

fn counted(node: &Node, family: u8, event: &str, least: u64) {
    wait_until(&format!("{event} of IPv{family}"), PATIENCE, || match count(node, family, event) {
        found if found >= least => Ok(()),
        found => Err(format!("{found} of {least}\n{}", metrics(node))),
    })
    .unwrap();
}

fn shows(pod: &Pod, command: &str, all: &[&str]) {
    wait_until(&format!("{command} of {} to show {all:?}", pod.name), PATIENCE, || {
        let said = pod.netns.ip(command).unwrap();
        if all.iter().all(|word| said.contains(word)) { Ok(()) } else { Err(said) }
    })
    .unwrap();
}

#[test]
fn clients_of_both_families_get_renew_and_release_leases() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &(view(&fabric, 24) + NETWORKS + &ports()));
    let a = bare(&lab, "a", "link", &agent);
    let other = Pod::new(&lab, "c", &agent).second("eth0", "routed");
    other.add();
    a.netns.sysctl("net/ipv6/conf/eth0/accept_ra", "2").unwrap();
    a.netns.ip("link set eth0 up").unwrap();

    // The kernel looks for routers by itself.
    shows(&a, "-6 route", &[&format!("default via {ROUTER} dev eth0 proto ra"), "fd07::/64"]);
    let client = |is_ipv6| Dhclient::new(&lab, &a.netns, is_ipv6, "eth0").unwrap();
    let (four, six) = (client(false), client(true));
    let mut clients = [four.start().unwrap(), six.start().unwrap()];
    shows(&a, "addr show dev eth0", &["inet 10.7.0.5/24", "inet6 fd07::5/", "mtu 1380"]);
    let routes = ["default via 10.7.0.1 dev eth0", "10.99.0.0/16 via 10.7.0.99 dev eth0"];
    shows(&a, "route", &routes);
    for (client, server) in [(&four, "nameserver 10.7.0.53"), (&six, "nameserver fd07::53")] {
        wait_until("the name server", PATIENCE, || match client.resolv_conf() {
            said if said.contains(server) && said.contains("green.example") => Ok(()),
            said => Err(said),
        })
        .unwrap();
    }
    for to in ["10.8.0.5", "fd08::5"] {
        traffic::ping_until(&a.netns, to.parse().unwrap(), PATIENCE).unwrap();
    }
    // It asks its router whether it is still there.
    shows(
        &a,
        "-6 neigh",
        &[&format!("{ROUTER} dev eth0 lladdr 0e:6f:73:69:65:72 router REACHABLE")],
    );
    for family in [4, 6] {
        counted(node, family, "given", 1);
        counted(node, family, "renewed", 1);
    }
    // Given back, it is the same one again.
    for client in &mut clients {
        client.stop(Signal::SIGKILL, PATIENCE).unwrap();
    }
    four.release().unwrap();
    six.release().unwrap();
    for family in [4, 6] {
        counted(node, family, "released", 1);
    }
    let said = a.netns.ip("addr show dev eth0").unwrap();
    assert!(!said.contains("10.7.0.5") && !said.contains("fd07::5"), "{said}");
    let _four = four.start().unwrap();
    shows(&a, "addr show dev eth0", &["inet 10.7.0.5/24"]);
}

/// The reference plugin asks the node for what the controller or the view gave.
#[test]
fn the_dhcp_plugin_asks_the_node() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &(view(&fabric, 24) + NETWORKS + &ports()));
    let (_daemon, socket) = daemon(&lab, node);
    let other = Pod::new(&lab, "c", &agent).second("eth0", "routed");
    other.add();
    let mut a = Pod::new(&lab, "a", &agent).second("eth0", "link");
    a.config["ipam"] = json!({"type": "dhcp", "daemonSocketPath": socket});
    let result = a.add();
    let given: Vec<String> = addresses(&result).iter().map(ToString::to_string).collect();
    assert_eq!(given, ["10.7.0.5", "fd07::5"]);
    assert_eq!(a.add(), result, "twice is once");
    counted(node, 4, "given", 1);
    traffic::ping_until(&a.netns, "10.8.0.5".parse().unwrap(), PATIENCE).unwrap();
    counted(node, 4, "renewed", 1);
    succeeds(&a.call("DEL"));
    counted(node, 4, "released", 1);
}

/// What `udhcpc` calls, instead of what would write the machine's own files.
const SCRIPT: &str = "#!/bin/sh
case $1 in
deconfig) ip -4 addr flush dev $interface; ip link set $interface up ;;
bound | renew)
    ip addr replace $ip/$mask dev $interface
    [ -z \"$router\" ] || ip route replace default via $router dev $interface onlink ;;
esac
";

#[test]
fn udhcpc_does_so_where_all_is_routed() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &(view(&fabric, 24) + NETWORKS + &ports()));
    let c = bare(&lab, "c", "routed", &agent);
    let other = Pod::new(&lab, "a", &agent).second("eth0", "link");
    other.add();
    let script = lab.dir().join("udhcpc.sh");
    std::fs::write(&script, SCRIPT).unwrap();
    c.netns.run(&["chmod", "+x", &script.display().to_string()]).unwrap();
    c.netns.sysctl("net/ipv6/conf/eth0/accept_ra", "2").unwrap();
    c.netns.ip("link set eth0 up").unwrap();
    let flags = ["-f", "-i", "eth0", "-t", "30", "-T", "1", "-s"];
    let udhcpc = c.netns.command("udhcpc").args(flags).arg(&script).spawn().unwrap();
    shows(&c, "addr show dev eth0", &["inet 10.8.0.5/24"]);
    shows(&c, "-6 route", &[&format!("default via {ROUTER} dev eth0 proto ra")]);
    let to = "10.7.0.5".parse().unwrap();
    traffic::ping_until(&c.netns, to, PATIENCE).unwrap();
    counted(node, 4, "given", 1);
    udhcpc.signal(Signal::SIGUSR1).unwrap();
    counted(node, 4, "renewed", 1);
    udhcpc.signal(Signal::SIGUSR2).unwrap();
    counted(node, 4, "released", 1);
    // An address that is another's is refused, and its own given after all.
    drop(udhcpc);
    let again = c.netns.command("udhcpc").args(["-r", "10.8.0.77"]).args(flags);
    let _again = again.arg(&script).spawn().unwrap();
    shows(&c, "addr show dev eth0", &["inet 10.8.0.5/24"]);
}
