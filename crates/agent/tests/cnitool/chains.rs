//! Debian's plugins behind ours in a list, and before it. They are older than CNI 1.1.0.

use crate::lab::{PATIENCE, addresses};
use crate::runtime::Runtime;
use crate::verbs::is_clean;
use osier_testbed::{Netns, traffic, wait_until};
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

const VERSION: &str = "1.0.0";
/// The node's address of IPv6.
const NODE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Answers everybody who connects, in a pod, as long as the test runs.
fn serve(pod: &Netns, port: u16, said: &'static str) {
    let listener = pod.tcp_listen(SocketAddr::from(([0_u16; 8], port))).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            // A client that is gone is none of ours.
            let _ = stream.write_all(said.as_bytes());
        }
    });
}

/// The same by datagrams.
fn serve_datagrams(pod: &Netns, port: u16, said: &'static str) {
    let bound = pod.within(|| UdpSocket::bind(SocketAddr::from(([0_u16; 8], port)))).unwrap();
    let socket = bound.unwrap();
    std::thread::spawn(move || {
        while let Ok((_, client)) = socket.recv_from(&mut [0; 16]) {
            let _ = socket.send_to(said.as_bytes(), client);
        }
    });
}

fn hears_datagram(client: &Netns, server: IpAddr, port: u16) -> Result<String, String> {
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let ask = || -> io::Result<String> {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((server, port))?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket.send(b"?")?;
        let mut said = [0; 16];
        let length = socket.recv(&mut said)?;
        Ok(String::from_utf8_lossy(&said[..length]).into_owned())
    };
    client.within(ask).unwrap().map_err(|error| error.to_string())
}

/// Somebody outside who has both families, as the node has then. The node's switch works in userspace,
/// where nobody else fills checksums in.
fn outsider(runtime: &Runtime) -> &Netns {
    let outside = runtime.fabric.segment();
    outside.ip("address add 198.51.100.254/24 dev segment").unwrap();
    outside.ip("address add 2001:db8::fe/64 dev segment nodad").unwrap();
    outside.run(&["ethtool", "-K", "segment", "tx", "off"]).unwrap();
    runtime.node().netns().ip(&format!("address add {NODE_V6}/64 dev br-phy nodad")).unwrap();
    outside
}

fn hears(client: &Netns, server: IpAddr, port: u16) -> Result<String, String> {
    let (server, patience) = (SocketAddr::new(server, port), Duration::from_secs(3));
    let connected = client.within(|| TcpStream::connect_timeout(&server, patience)).unwrap();
    let mut stream = connected.map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).map_err(|error| error.to_string())?;
    Ok(said)
}

#[test]
fn portmap_leads_from_the_nodes_port_to_the_pod() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let outside = runtime.fabric.segment();
    outside.ip("address add 198.51.100.254/24 dev segment").unwrap();
    // The node's switch works in userspace, where nobody else fills checksums in.
    outside.run(&["ethtool", "-K", "segment", "tx", "off"]).unwrap();
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    runtime.configure(VERSION, &[runtime.ours(json!({})), portmap]);
    let mapping = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]);
    let container = runtime.container("a").wishing(&json!({"portMappings": mapping}));
    let result = container.does("add");
    // No CHECK: Debian's portmap 1.1.1 looks for the rules of IPv4 among those of IPv6.
    assert_eq!(addresses(&result).len(), 2, "{result}");
    serve(&container.netns, 80, "hello");
    // From outside, from the node itself, from another pod, and from the pod itself.
    let other = runtime.container("b");
    other.does("add");
    for client in [outside, node.netns(), &other.netns, &container.netns] {
        let heard = || match hears(client, node.underlay(), 8080) {
            Ok(said) if said == "hello" => Ok(()),
            other => Err(format!("{other:?}")),
        };
        wait_until("an answer through the node's port", PATIENCE, heard).unwrap();
    }
    let rules = || node.netns().run(&["iptables", "-t", "nat", "-S"]).unwrap();
    assert!(rules().contains("8080"));
    container.does("del");
    assert!(!rules().contains("8080"));
    other.does("del");
    is_clean(&runtime);
}

/// Instead of that plugin: the agent's own table.
#[test]
fn ports_of_the_node_need_no_other_plugin() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let outside = outsider(&runtime);
    node.netns().ip("link set lo up").unwrap();
    let capable = json!({"capabilities": {"portMappings": true}});
    runtime.configure("1.1.0", &[runtime.ours(capable)]);
    let mapping = json!([
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
        {"hostPort": 8081, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1"},
        {"hostPort": 0, "containerPort": 81, "protocol": "tcp"},
        {"hostPort": 5353, "containerPort": 53, "protocol": "udp"},
        {"hostPort": 8082, "containerPort": 80, "protocol": "tcp", "hostIP": NODE_V6.to_string()},
    ]);
    let container = runtime.container("a").wishing(&json!({"portMappings": mapping}));
    container.does("add");
    container.does("check");
    serve(&container.netns, 80, "hello");
    serve_datagrams(&container.netns, 53, "hello");
    let other = runtime.container("b");
    other.does("add");
    let (at, at6) = (node.underlay(), IpAddr::from(NODE_V6));
    let own = IpAddr::from([127, 0, 0, 1]);
    let mut asked = vec![(node.netns(), own, 8080), (node.netns(), own, 8081)];
    for client in [outside, node.netns(), &other.netns, &container.netns] {
        asked.extend([(client, at, 8080), (client, at6, 8080), (client, at6, 8082)]);
        for server in [at, at6] {
            let heard = || match hears_datagram(client, server, 5353) {
                Ok(said) if said == "hello" => Ok(()),
                other => Err(format!("{server}: {other:?}")),
            };
            wait_until("a datagram through the node's port", PATIENCE, heard).unwrap();
        }
    }
    for (client, server, port) in asked {
        let heard = || match hears(client, server, port) {
            Ok(said) if said == "hello" => Ok(()),
            other => Err(format!("{server} {port}: {other:?}")),
        };
        wait_until("an answer through the node's port", PATIENCE, heard).unwrap();
    }
    assert!(hears(outside, at, 8081).is_err(), "that one is of the loopback address");
    assert!(hears(outside, at, 8082).is_err(), "that one is of the node's IPv6 address");
    let rules = || node.netns().run(&["nft", "list", "table", "inet", "osier"]).unwrap();
    for (transport, port) in [("tcp", 8080), ("udp", 5353)] {
        for family in ["ip", "ip6"] {
            let rule = format!("{transport} dport {port} dnat {family} to");
            assert!(rules().contains(&rule), "{rule}: {}", rules());
        }
    }
    container.does("del");
    for port in ["8080", "8081", "8082", "5353"] {
        assert!(!rules().contains(port), "{}", rules());
    }
    other.does("del");
    is_clean(&runtime);
}

#[test]
fn bandwidth_shapes_the_pods_wire() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let shaper = json!({"type": "bandwidth", "capabilities": {"bandwidth": true}});
    runtime.configure(VERSION, &[runtime.ours(json!({})), shaper]);
    let limits = json!({"bandwidth": {
        "ingressRate": 8_000_000, "ingressBurst": 800_000,
        "egressRate": 8_000_000, "egressBurst": 800_000,
    }});
    let container = runtime.container("a").wishing(&limits);
    let result = container.does("add");
    container.does("check");
    let address = addresses(&result)[0];
    assert!(traffic::ping_until(node.netns(), address, PATIENCE).is_ok());
    // Towards the pod only: a switch in userspace takes packets from the pod before the kernel's
    // queue, by which the plugin would limit them, has seen them.
    let rate = traffic::iperf_tcp(node.netns(), &container.netns, address, 2).unwrap();
    assert!(rate.mbit_per_second < 16.0, "{rate:?}");
    container.does("del");
    is_clean(&runtime);
}

/// Instead of that plugin: what the switch limits itself.
#[test]
fn our_own_limits_are_the_switchs_meters() {
    let runtime = Runtime::new();
    let node = runtime.node();
    runtime.configure("1.1.0", &[runtime.ours(json!({"capabilities": {"bandwidth": true}}))]);
    let limits = json!({"bandwidth": {"ingressRate": 8_000_000, "egressRate": 8_000_000}});
    let container = runtime.container("a").wishing(&limits);
    let result = container.does("add");
    container.does("check");
    let (address, gateway) = (addresses(&result)[0], [10, 1, 1, 1].into());
    assert!(traffic::ping_until(node.netns(), address, PATIENCE).is_ok());
    let to = traffic::iperf_tcp(node.netns(), &container.netns, address, 2).unwrap();
    let from = traffic::iperf_tcp(&container.netns, node.netns(), gateway, 2).unwrap();
    assert!(to.mbit_per_second < 16.0 && from.mbit_per_second < 16.0, "{to:?} {from:?}");
    container.does("del");
    is_clean(&runtime);
}

#[test]
fn tuning_sets_what_is_inside() {
    let runtime = Runtime::new();
    let capability = json!({"capabilities": {"mac": true}});
    let mut tuning = json!({"type": "tuning", "mtu": 1300,
        "sysctl": {"net.ipv4.conf.eth0.arp_filter": "1", "net.core.somaxconn": "500"}});
    runtime.configure(VERSION, &[runtime.ours(capability), tuning.clone()]);
    let mac = json!({"mac": "02:11:22:33:44:55"});
    let container = runtime.container("a").wishing(&mac);
    let result = container.does("add");
    container.does("check");
    let link = container.netns.ip("-brief link show eth0").unwrap();
    assert!(link.contains("02:11:22:33:44:55"), "{link}");
    assert!(container.netns.ip("link show eth0").unwrap().contains("mtu 1300"));
    let value = container.netns.run(&["cat", "/proc/sys/net/ipv4/conf/eth0/arp_filter"]);
    assert_eq!(value.unwrap(), "1\n");
    let node = runtime.node().netns();
    assert!(traffic::ping_until(node, addresses(&result)[0], PATIENCE).is_ok());
    container.does("del");

    // Both may set the Ethernet address, if it is the same; the kernel then forgets who the router
    // is, and the pod has to ask.
    tuning["capabilities"] = json!({"mac": true});
    let capability = json!({"capabilities": {"mac": true}});
    runtime.configure(VERSION, &[runtime.ours(capability), tuning.clone()]);
    let container = runtime.container("both").wishing(&mac);
    let result = container.does("add");
    container.does("check");
    assert_eq!(container.netns.ip("neighbour show nud permanent").unwrap(), "");
    for address in addresses(&result) {
        assert!(traffic::ping_until(node, address, PATIENCE).is_ok(), "{address}");
    }
    container.does("del");

    // An Ethernet address behind our back is a forged one: it is found, and goes nowhere.
    runtime.configure(VERSION, &[runtime.ours(json!({})), tuning]);
    let container = runtime.container("b").wishing(&mac);
    let result = container.does("add");
    assert!(container.fails("check").contains("another Ethernet address"));
    assert_eq!(traffic::ping(node, addresses(&result)[0], 3).unwrap().received, 0);
    container.does("del");
    is_clean(&runtime);
}

/// As the distributions' own lists have them: one after the other, behind ours.
#[test]
fn portmap_bandwidth_and_tuning_work_behind_one_another() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let outside = outsider(&runtime);
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let shaper = json!({"type": "bandwidth", "capabilities": {"bandwidth": true}});
    let tuning = json!({"type": "tuning", "mtu": 1300, "sysctl": {"net.core.somaxconn": "500"}});
    runtime.configure(VERSION, &[runtime.ours(json!({})), portmap, shaper, tuning]);
    let wishes = json!({
        "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
            {"hostPort": 5353, "containerPort": 53, "protocol": "udp"}],
        "bandwidth": {"ingressRate": 8_000_000, "ingressBurst": 800_000,
            "egressRate": 8_000_000, "egressBurst": 800_000},
    });
    let container = runtime.container("a").wishing(&wishes);
    // No CHECK: Debian's portmap 1.1.1 looks for the rules of IPv4 among those of IPv6.
    let result = container.does("add");
    let given = addresses(&result);
    for address in &given {
        assert!(traffic::ping_until(node.netns(), *address, PATIENCE).is_ok(), "{address}");
    }
    serve(&container.netns, 80, "hello");
    serve_datagrams(&container.netns, 53, "hello");
    for server in [node.underlay(), NODE_V6.into()] {
        wait_until("answers through the node's ports", PATIENCE, || {
            let heard = [hears(outside, server, 8080), hears_datagram(outside, server, 5353)];
            let right = heard.iter().all(|said| said.as_ref().is_ok_and(|said| said == "hello"));
            if right { Ok(()) } else { Err(format!("{server}: {heard:?}")) }
        })
        .unwrap();
    }
    assert!(container.netns.ip("link show eth0").unwrap().contains("mtu 1300"));
    let value = container.netns.run(&["cat", "/proc/sys/net/core/somaxconn"]);
    assert_eq!(value.unwrap(), "500\n");
    let rate = traffic::iperf_tcp(node.netns(), &container.netns, given[0], 2).unwrap();
    assert!(rate.mbit_per_second < 16.0, "{rate:?}");
    // Twice is once, also for those behind.
    container.does("del");
    container.does("del");
    let rules = node.netns().run(&["iptables", "-t", "nat", "-S"]).unwrap();
    assert!(!rules.contains("8080") && !rules.contains("5353"), "{rules}");
    is_clean(&runtime);
}

/// `odlcoe` of September 2017 only plugged in what `bridge` had made. That is one interface and two
/// owners: refused, and told what to do.
#[test]
fn behind_a_plugin_that_makes_the_interface_it_says_what_to_do() {
    let runtime = Runtime::new();
    let data = runtime.lab.make_dir("leases").unwrap();
    let bridge = json!({"type": "bridge", "bridge": "cni0", "ipam": {
        "type": "host-local", "subnet": "10.11.0.0/16", "dataDir": data}});
    let odlcoe = json!({"type": "odlcoe", "agentSocket": runtime.socket(),
        "capabilities": {"ovsConfig": true}, "runtimeConfig": {"ovsConfig": {
            "manager": "192.0.2.1", "mgrPort": 6640, "mgrActive": true, "ovsBridge": "br-int",
            "controller": "192.0.2.1", "ctlrPort": 6653, "ctlrActive": true,
            "vtepIps": ["192.0.2.11"]}}});
    runtime.configure("0.3.1", &[bridge, odlcoe.clone()]);
    let container = runtime.container("a");
    let said = container.fails("add");
    assert!(said.contains("eth0 is there already") && said.contains("put it first"), "{said}");
    container.does("del");
    is_clean(&runtime);
    // Alone it is what it was.
    runtime.configure("0.3.1", &[odlcoe]);
    container.does("add");
    container.does("del");
    is_clean(&runtime);
}
