//! Pools over REST, and pods that ask for their addresses on switches without an agent.

use crate::rig::{CLUSTER, Dial, PATIENCE, Pod, Rig, uid};
use osier_testbed::{Dhclient, Process, Signal, wait_until};
use serde_json::{Value, json};
use std::path::PathBuf;

const POOLS: &str = "/restconf/config/dhcp_allocation_pool:dhcp_allocation_pool/network/";
/// The router's address of the link.
const ROUTER: &str = "fe80::c6f:73ff:fe69:6572";
/// A network whose clients renew after ten seconds, the soonest that there is, and a port of it.
const SHORT: &str = "\
apiVersion: osier.dev/v1alpha1
kind: Router
metadata: { name: green }
---
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: { name: link }
spec:
  router: green
  subnets: [{ cidr: 10.7.0.0/24, gateway: 10.7.0.1 }, { cidr: 'fd07::/64', gateway: 'fd07::1' }]
  dhcp: { lease: 20, dns: [10.7.0.53, 'fd07::53'], domain: green.example, mtu: 1380 }
---
apiVersion: osier.dev/v1alpha1
kind: Port
metadata: { name: 'red:asks' }
spec: { network: link, node: n1, addresses: [10.7.0.5, 'fd07::5'] }
";
/// What `udhcpc` calls, instead of what would write the machine's own files.
const SCRIPT: &str = "#!/bin/sh
case $1 in
deconfig) ip -4 addr flush dev $interface; ip link set $interface up ;;
bound | renew)
    ip addr replace $ip/$mask dev $interface
    ip route replace default via $router dev $interface ;;
esac
";

/// A pool, as the document of COE prints one.
fn pool(id: &str, subnet: &str, from: &str, to: &str, gateway: &str) -> Value {
    let member = |name: &str| format!("dhcp_allocation_pool:{name}");
    json!({ member("network"): [{
        member("network-id"): id,
        member("allocation-pool"): [{
            member("subnet"): subnet, member("allocate-from"): from,
            member("allocate-to"): to, member("gateway"): gateway,
            member("dns-servers"): ["10.30.0.53"],
        }],
    }]})
}

impl Rig {
    fn put_pool(&self, id: &str, body: &Value) -> (u16, String) {
        self.curl("PUT", &format!("{POOLS}{id}"), Some(&body.to_string()))
    }

    /// A pod that has a wire, and no address.
    fn bare_pod(&self, n: u32, name: &str, namespace: &str, node: usize) -> Pod {
        let placeholder = format!("10.99.{node}.{n}");
        let pod = self.add_pod(name, node, &placeholder, &format!("{namespace}:{name}"));
        pod.netns.ip("addr flush dev eth0").unwrap();
        self.put_pod(n, name, namespace, node, "");
        pod
    }

    fn script(&self) -> PathBuf {
        let script = self.lab.dir().join("udhcpc.sh");
        if !script.exists() {
            std::fs::write(&script, SCRIPT).unwrap();
            self.fabric.segment().run(&["chmod", "+x", &script.display().to_string()]).unwrap();
        }
        script
    }

    fn udhcpc(&self, pod: &Pod) -> Process {
        let flags = ["-f", "-i", "eth0", "-t", "60", "-T", "1", "-s"];
        pod.netns.command("udhcpc").args(flags).arg(self.script()).spawn().unwrap()
    }

    /// Waits until so many leases have come to this.
    fn leased(&self, family: u8, event: &str, least: u64) {
        let name = format!(
            "osier_controller_switches_leases_total{{family=\"{family}\",event=\"{event}\"}} "
        );
        wait_until(&format!("{event} of IPv{family}"), PATIENCE, || {
            let page = self.metrics();
            let count = page.lines().find_map(|line| line.strip_prefix(&name));
            let count: u64 = count.map_or(0, |count| count.parse().unwrap());
            if count >= least { Ok(()) } else { Err(page) }
        })
        .unwrap();
    }
}

/// Waits for the address that a pod has of a prefix.
fn address(pod: &Pod, prefix: &str) -> std::net::IpAddr {
    let mut found = None;
    wait_until(&format!("an address of {prefix}"), PATIENCE, || {
        let said = pod.netns.ip("-o addr show dev eth0").unwrap();
        let mut words = said.split_whitespace().filter_map(|word| word.split_once('/'));
        found = words.find(|(address, _)| address.starts_with(prefix)).map(|(a, _)| a.to_owned());
        found.as_ref().map(drop).ok_or(said)
    })
    .unwrap();
    found.unwrap().parse().unwrap()
}

/// Waits until the router has told of itself.
fn hears_router(pod: &Pod) {
    let routes = || match pod.netns.ip("-6 route").unwrap() {
        said if said.contains(&format!("default via {ROUTER} dev eth0 proto ra")) => Ok(()),
        said => Err(said),
    };
    wait_until("the router", PATIENCE, routes).unwrap();
}

#[test]
fn pods_get_their_addresses_from_pools_and_ask_for_them() {
    let rig = Rig::new(2, Rig::allowed());
    for node in [0, 1] {
        rig.put_node(node);
        rig.make_bridge(node, Dial::Switch);
    }
    // A namespace's pool of both families, and one for all else.
    let mut red = pool("red", "10.30.0.0/24", "10.30.0.10", "10.30.0.12", "10.30.0.1");
    let pools = red["dhcp_allocation_pool:network"][0]["dhcp_allocation_pool:allocation-pool"]
        .as_array_mut()
        .unwrap();
    pools.push(json!({ "subnet": "fd30::/64", "allocate-from": "fd30::10",
        "allocate-to": "fd30::12", "gateway": "fd30::1" }));
    assert_eq!(rig.put_pool("red", &red).0, 200);
    let flat = pool("pod-pool", "10.31.0.0/24", "10.31.0.10", "10.31.0.50", "10.31.0.1");
    assert_eq!(rig.put_pool("pod-pool", &flat).0, 200);

    let (a, b) = (rig.bare_pod(4, "a", "red", 0), rig.bare_pod(5, "b", "red", 1));
    let c = rig.bare_pod(6, "c", "blue", 1);
    for pod in [&a, &b, &c] {
        pod.netns.sysctl("net/ipv6/conf/eth0/accept_ra", "2").unwrap();
        pod.netns.ip("link set eth0 down").unwrap();
        pod.netns.ip("link set eth0 up").unwrap();
    }
    let clients = [&a, &b, &c].map(|pod| rig.udhcpc(pod));
    let (of_a, of_b) = (address(&a, "10.30.0.1"), address(&b, "10.30.0.1"));
    let of_c = address(&c, "10.31.0.");
    assert_ne!(of_a, of_b);
    for (from, to) in [(&a, of_b), (&b, of_a), (&a, of_c), (&c, of_b)] {
        from.reaches(to);
    }
    clients[0].signal(Signal::SIGUSR1).unwrap();
    rig.leased(4, "renewed", 1);
    clients[0].signal(Signal::SIGUSR2).unwrap();
    rig.leased(4, "released", 1);
    // The other family: the router tells of itself, an address is asked for.
    hears_router(&a);
    let leases = rig.lab.dir().join("dhclient");
    let mut client =
        a.netns.command("dhclient").args(["-6", "-d", "-v", "-sf", "/bin/true", "-lf"]);
    client = client.arg(leases.with_extension("leases")).arg("-pf");
    let _client = client.arg(leases.with_extension("pid")).arg("eth0").spawn().unwrap();
    rig.leased(6, "given", 1);
    // Whose pod it is is told where operators look.
    let (_, said) = rig.curl("GET", "/restconf/operational/l3vpn:vpn-interfaces", None);
    assert!(said.contains(&of_b.to_string()), "{said}");

    // A Service without an address gets one, and leads to a pod that was given one, too.
    let services = pool("service-pool", "10.32.0.0/24", "10.32.0.10", "10.32.0.10", "10.32.0.1");
    assert_eq!(rig.put_pool("service-pool", &services).0, 200);
    let service = |n: u32, name: &str, more: Value| {
        let (id, pod) = (uid(n), uid(5));
        let mut body = json!({"services": [{"uid": id, "name": name, "network-NS": "red",
            "endpoints": [pod], "service-ports": []}]});
        if !more.is_null() {
            body["services"][0]["cluster-ip-address"] = more;
        }
        let path = format!("/restconf/config/service:service-information/services/{id}");
        rig.curl("PUT", &path, Some(&body.to_string()))
    };
    // Not those that say that they have none: they would use up the only one.
    for (n, none) in [(23, ""), (24, "None")] {
        assert_eq!(service(n, &format!("headless{n}"), json!(none)).0, 200);
    }
    assert_eq!(service(21, "floats", Value::Null).0, 200);
    c.reaches("10.32.0.10".parse().unwrap());
    let (status, said) = service(22, "more", Value::Null);
    assert_eq!(status, 409, "{said}");
    assert!(said.contains("10.32.0.0/24 has no free address"), "{said}");

    // The pool has one address more.
    rig.put_pod(7, "d", "red", 0, "");
    let body = format!(
        r#"{{"pods":[{{"uid":"{id}","cluster-id":"{CLUSTER}","name":"e","host-ip-address":"{}",
            "network-NS":"red","interface":[{{"uid":"{id}"}}]}}]}}"#,
        rig.node(0).underlay(),
        id = uid(8),
    );
    let (status, said) = rig.curl("PUT", &crate::rig::pod_path(8), Some(&body));
    assert_eq!(status, 409, "{said}");
    assert!(said.contains("10.30.0.0/24 has no free address"), "{said}");
    let other = pool("green", "10.30.0.0/16", "10.30.0.12", "10.30.1.0", "10.30.0.2");
    let (status, said) = rig.put_pool("green", &other);
    assert_eq!(status, 409, "{said}");
    assert!(said.contains("overlap in what they give out"), "{said}");
}

/// `dhclient` of Debian, with its script: it renews by itself, and gives its lease back at the end.
#[test]
fn clients_renew_and_release_leases_of_both_families() {
    let rig = Rig::new(1, Rig::allowed());
    rig.put_node(0);
    rig.make_bridge(0, Dial::Switch);
    rig.apply(SHORT);
    let pod = rig.add_pod("asks", 0, "10.99.0.5", "red:asks");
    pod.netns.ip("addr flush dev eth0").unwrap();
    pod.netns.sysctl("net/ipv6/conf/eth0/accept_ra", "2").unwrap();
    for state in ["down", "up"] {
        pod.netns.ip(&format!("link set eth0 {state}")).unwrap();
    }
    // From then on it has an address of the link, too, without which dhclient gives up.
    hears_router(&pod);
    let client = |is_ipv6| Dhclient::new(&rig.lab, &pod.netns, is_ipv6, "eth0").unwrap();
    let clients = [client(false), client(true)];
    let mut running = clients.each_ref().map(|client| client.start().unwrap());
    assert_eq!(address(&pod, "10.7.0."), std::net::IpAddr::from([10, 7, 0, 5]));
    assert_eq!(address(&pod, "fd07:").to_string(), "fd07::5");
    for (client, server) in clients.iter().zip(["10.7.0.53", "fd07::53"]) {
        wait_until("the name server", PATIENCE, || match client.resolv_conf() {
            said if said.contains(server) && said.contains("green.example") => Ok(()),
            said => Err(said),
        })
        .unwrap();
    }
    for family in [4, 6] {
        rig.leased(family, "given", 1);
        rig.leased(family, "renewed", 2);
    }
    for client in &mut running {
        client.stop(Signal::SIGKILL, PATIENCE).unwrap();
    }
    for client in &clients {
        client.release().unwrap();
    }
    for family in [4, 6] {
        rig.leased(family, "released", 1);
    }
    let said = pod.netns.ip("addr show dev eth0").unwrap();
    assert!(!said.contains("10.7.0.5") && !said.contains("fd07::5"), "{said}");
    // Given back, it is the same one again.
    let _running = clients.each_ref().map(|client| client.start().unwrap());
    assert_eq!(address(&pod, "10.7.0."), std::net::IpAddr::from([10, 7, 0, 5]));
    assert_eq!(address(&pod, "fd07:").to_string(), "fd07::5");
}
