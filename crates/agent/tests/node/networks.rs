//! Networks beside the default one: of the view, of the runtime, of a controller.

use crate::lab::{
    Agent, NETWORKS, PATIENCE, Pod, addresses, one_node, pod_ports, port, succeeds, view,
};
use osier_agent::Upstream;
use osier_agent::controller::{Answer, AskError, Controller, PortRequest};
use osier_agent::view::{ViewContent, ViewDocument, channel};
use osier_model::{Change, Identity, Key, Limits, Mac, NodeName, Object, Port, PortKey};
use osier_testbed::{Fabric, Family, Lab, Netns, traffic, wait_until};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

fn reaches(from: &Netns, to: &str) {
    let reached = traffic::ping_until(from, to.parse().unwrap(), PATIENCE);
    assert!(reached.is_ok(), "{} does not reach {to}", from.name());
}

/// Who answers at an address.
fn who(from: &Netns, address: &str) -> String {
    let to = SocketAddr::new(address.parse().unwrap(), 7000);
    let mut said = String::new();
    from.tcp_connect(to).unwrap().read_to_string(&mut said).unwrap();
    said
}

/// Says its name to whoever comes.
fn answer(pod: &Pod) {
    let listener = pod.netns.tcp_listen("[::]:7000".parse().unwrap()).unwrap();
    let name = pod.name.clone();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            stream.write_all(name.as_bytes()).unwrap();
        }
    });
}

#[test]
fn the_same_addresses_in_two_routers_at_once() {
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, Family::Ipv4, 2).unwrap();
    let mut text = view(&fabric, 24) + NETWORKS;
    for (pod, network, node, n) in [
        ("red-a", "red-1", "n1", 10),
        ("red-b", "red-1", "n2", 11),
        ("blue-a", "blue-1", "n1", 10),
        ("blue-b", "blue-1", "n2", 11),
    ] {
        let rest = format!("mac: '02:00:00:00:00:{n}', addresses: [10.5.0.{n}, 'fd05::{n}']");
        text += &port(pod, "eth0", network, node, &rest);
    }
    let rest = "mac: '02:00:00:00:00:99', addresses: [10.6.0.9]";
    text += &port("red-c", "eth0", "red-2", "n2", rest);
    let agents: Vec<Agent> = fabric.nodes().iter().map(|node| Agent::start(node, &text)).collect();
    let pods = [("red-a", 0), ("blue-a", 0), ("red-b", 1), ("blue-b", 1), ("red-c", 1)]
        .map(|(name, node)| Pod::new(&lab, name, &agents[node]));
    let results = pods.each_ref().map(Pod::add);
    // The view said the network, the addresses and the Ethernet address.
    assert_eq!(results[0]["ips"], results[1]["ips"]);
    assert_eq!(results[0]["ips"][0]["address"], "10.5.0.10/24");
    assert_eq!(results[0]["ips"][0]["gateway"], "10.5.0.1");
    assert_eq!(results[0]["interfaces"][1]["mac"], "02:00:00:00:00:10");
    pods.iter().for_each(answer);
    let [red_a, blue_a, ..] = &pods;
    for to in ["10.5.0.11", "fd05::11"] {
        for (from, name) in [(red_a, "red-b"), (blue_a, "blue-b")] {
            reaches(&from.netns, to);
            assert_eq!(who(&from.netns, to), name);
        }
    }
    // By the router, to another network and to itself; only where there is one.
    reaches(&red_a.netns, "10.6.0.9");
    assert_eq!(who(&red_a.netns, "10.6.0.9"), "red-c");
    for to in ["10.5.0.1", "10.6.0.1", "fd05::1"] {
        reaches(&red_a.netns, to);
    }
    let lost = traffic::ping(&blue_a.netns, "10.6.0.9".parse().unwrap(), 2).unwrap();
    assert_eq!(lost.received, 0, "routers are not joined");
    // The one goes, the other stays.
    succeeds(&pods[3].call("DEL"));
    let lost = traffic::ping(&blue_a.netns, "10.5.0.11".parse().unwrap(), 2).unwrap();
    assert_eq!(lost.received, 0);
    assert_eq!(who(&red_a.netns, "10.5.0.11"), "red-b");
}

#[test]
fn several_interfaces_of_one_pod() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &(view(&fabric, 24) + NETWORKS));
    let pods = ["a", "b"].map(|name| Pod::new(&lab, name, &agent));
    let given = pods.each_ref().map(Pod::addresses);
    let mut more = pods.each_ref().map(|pod| pod.second("net1", "red-1"));
    for (pod, n) in more.iter_mut().zip([7, 8]) {
        pod.config["runtimeConfig"] = json!({"ips": [format!("10.5.0.{n}"), format!("fd05::{n}")]});
    }
    let result = more[0].add();
    assert_eq!(result["ips"][0]["address"], "10.5.0.7/24");
    assert_eq!(result.get("routes"), None, "the first interface has them");
    // Twice is once.
    assert_eq!(more[0].add(), result);
    more[1].config["isGateway"] = json!(true);
    let routes = more[1].add()["routes"].clone();
    assert_eq!(routes, json!([{"dst": "10.6.0.0/24", "gw": "10.5.0.1"}]));
    let host = result["interfaces"][0]["name"].as_str().unwrap();
    let ids = node.ovs().vsctl(&["get", "interface", host, "external_ids"]).unwrap();
    assert!(ids.contains("iface-id=\"shop:a:net1\""), "{ids}");
    let default = pods[0].netns.ip("route show default").unwrap();
    assert!(default.contains("dev eth0") && !default.contains("net1"), "{default}");
    // Neighbours are on the link: the switch answers for them.
    for to in ["10.5.0.8", "fd05::8", &given[1][0].to_string(), "10.5.0.1", "10.1.1.1"] {
        reaches(&pods[0].netns, to);
    }
    let neighbours = pods[0].netns.ip("neigh show dev net1").unwrap();
    assert!(neighbours.contains("10.5.0.8") && neighbours.contains("0a:58:0a:05:00:08"));
    // Both live through a restart, and go one by one.
    agent.stop().unwrap();
    let agent = Agent::start(node, &(view(&fabric, 24) + NETWORKS));
    assert_eq!(more[0].add(), result);
    succeeds(&more[0].call("DEL"));
    assert_eq!(pod_ports(node).len(), 3);
    reaches(&pods[0].netns, &given[1][0].to_string());
    drop(agent);
}

#[test]
fn addresses_of_a_network_are_checked() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let remote =
        port("far", "eth0", "red-1", "n9", "mac: '02:00:00:00:00:01', addresses: [10.5.0.9]");
    let wished =
        port("near", "eth0", "red-1", "n1", "mac: '02:00:00:00:00:02', addresses: [10.5.0.5]");
    let agent = Agent::start(node, &(view(&fabric, 24) + NETWORKS + &remote + &wished));
    let first = Pod::new(&lab, "a", &agent).second("eth0", "red-1");
    let refused = |pod: &Pod, code: u32, said: &str| {
        let error = pod.fails("ADD");
        assert_eq!(error["code"], code, "{error}");
        assert!(error["msg"].as_str().unwrap().contains(said), "{error}");
    };
    let mut pod = first;
    // Nobody gives addresses of it, and that is said with what to do.
    refused(&pod, 11, "nobody gives addresses of network red-1: put port shop:a");
    for (ip, said) in [
        ("10.9.0.1", "10.9.0.1 is in no subnet of network red-1: 10.5.0.0/24, fd05::/64"),
        ("10.5.0.1", "10.5.0.1 is not among the addresses that 10.5.0.0/24 gives out"),
        ("10.5.0.9", "10.5.0.9 is that of port shop:far"),
        ("10.5.0.5", "10.5.0.5 is that of port shop:near"),
    ] {
        pod.config["runtimeConfig"] = json!({"ips": [ip]});
        refused(&pod, 101, said);
    }
    pod.config["runtimeConfig"] = json!({"ips": ["10.5.0.7"]});
    pod.config["ovs"] = json!({"vxlan": 32});
    refused(&pod, 7, "network red-1 has VNI 31, the configuration says 32");
    pod.config["network"] = json!("green");
    refused(&pod, 11, "the view has no network green");
    // The number alone is as good as the name.
    pod.config["network"] = json!(null);
    pod.config["ovs"] = json!({"vxlan": "00031"});
    assert_eq!(pod.add()["ips"][0]["address"], "10.5.0.7/24");
    let other = Pod::new(&lab, "b", &agent).second("eth0", "red-1");
    let mut other = Pod { container: "b".to_owned(), ..other };
    other.config["runtimeConfig"] = json!({"ips": ["10.5.0.7"]});
    refused(&other, 101, "10.5.0.7 is that of port shop:a");
    // What the view has of a port is not for a configuration to change.
    let mut near = Pod::new(&lab, "near", &agent);
    near.config["network"] = json!("blue-1");
    refused(&near, 7, "the view has port shop:near in network red-1");
    near.config["network"] = json!(null);
    near.config["runtimeConfig"] = json!({"ips": ["10.5.0.6"]});
    refused(&near, 101, "10.5.0.6 is not what the view has for the port: 10.5.0.5");
    assert_eq!(pod_ports(node).len(), 1);
}

#[test]
fn another_plugin_gives_addresses_of_a_network() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &(view(&fabric, 24) + NETWORKS));
    let data = lab.make_dir("host-local").unwrap();
    let mut pods = ["a", "b"].map(|name| Pod::new(&lab, name, &agent).second("eth0", "red-1"));
    for pod in &mut pods {
        pod.config["cniVersion"] = json!("1.0.0");
        pod.config["ipam"] = json!({
            "type": "host-local", "dataDir": data, "subnet": "10.5.0.0/24",
            "rangeStart": "10.5.0.50", "routes": [{"dst": "10.6.0.0/16"}],
        });
    }
    let result = pods[0].add();
    assert_eq!(result["ips"][0]["address"], "10.5.0.50/24");
    assert_eq!(result["routes"], json!([{"dst": "10.6.0.0/16", "gw": "10.5.0.1"}]));
    let to = addresses(&pods[1].add())[0].to_string();
    reaches(&pods[0].netns, &to);
    // One that gives what is none of the network's is refused, and gets it back.
    let mut wrong = Pod::new(&lab, "c", &agent).second("eth0", "red-2");
    wrong.config["ipam"] = pods[0].config["ipam"].clone();
    assert_eq!(wrong.fails("ADD")["code"], 101);
    assert!(!data.join("red-2").join("10.5.0.50").exists());
    succeeds(&pods[0].call("DEL"));
    assert!(!data.join("red-1").join("10.5.0.50").exists());
}

/// The switch has no router in this network: the pod must ask who has the address.
#[test]
fn a_router_that_a_plugin_says_may_be_a_pod() {
    let (lab, fabric) = one_node();
    let lan = "- { kind: network, name: lan, vni: 51, subnets: [{ cidr: 10.7.0.0/24 }] }\n";
    let agent = Agent::start(&fabric.nodes()[0], &(view(&fabric, 24) + lan));
    let mut router = Pod::new(&lab, "router", &agent).second("eth0", "lan");
    router.config["runtimeConfig"] = json!({"ips": ["10.7.0.254"]});
    router.add();
    let mut pod = Pod::new(&lab, "a", &agent).second("eth0", "lan");
    pod.config["cniVersion"] = json!("1.0.0");
    pod.config["ipam"] = json!({"type": "static", "routes": [{"dst": "0.0.0.0/0"}],
        "addresses": [{"address": "10.7.0.5/24", "gateway": "10.7.0.254"}]});
    pod.add();
    let routes = pod.netns.ip("route").unwrap();
    assert!(routes.contains("default via 10.7.0.254"), "{routes}");
    reaches(&pod.netns, "10.7.0.254");
}

/// A controller that knows one address, and remembers what it was told.
#[derive(Debug, Default)]
struct Knows {
    asked: Mutex<Vec<PortRequest>>,
    released: Mutex<Vec<PortKey>>,
}

impl Controller for Knows {
    fn grant(&self, request: PortRequest) -> Answer<'_, Result<Port, AskError>> {
        self.asked.lock().unwrap().push(request.clone());
        let PortRequest { key, node, network, .. } = request;
        let addresses: Vec<IpAddr> = vec!["10.5.0.20".parse().unwrap()];
        let (mac, identity) = (Mac([2, 0, 0, 0, 0, 0x20]), Identity::default());
        let port = match key.device.as_str() {
            "shop:a" => {
                Ok(Port { key, network, node, mac, addresses, identity, limits: Limits::default() })
            }
            _ => Err(AskError::Refused("no address is left".to_owned())),
        };
        Box::pin(std::future::ready(port))
    }

    fn release<'a>(&'a self, _: &'a NodeName, key: &'a PortKey) -> Answer<'a, ()> {
        self.released.lock().unwrap().push(key.clone());
        Box::pin(std::future::ready(()))
    }
}

#[test]
fn a_controller_sends_the_view_and_gives_addresses() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let (updates, updated) = channel();
    let controller = Arc::new(Knows::default());
    let text = view(&fabric, 24);
    let document = ViewDocument::parse(&text, Path::new("/view")).unwrap();
    updates.blocking_send(document.into()).unwrap();
    let upstream = Upstream::new(updated, controller.clone());
    let agent = Agent::start_with(node, upstream);
    let pod = Pod::new(&lab, "a", &agent).second("eth0", "red-1");
    assert_eq!(pod.fails("ADD")["code"], 11);
    let more = ViewDocument::parse(&(text + NETWORKS), Path::new("/view")).unwrap();
    let changes = more.objects.into_iter().map(Change::Put).collect();
    updates.blocking_send(ViewContent::Changes { fabric: None, changes }).unwrap();
    let given = wait_until("the network to be known", PATIENCE, || {
        let output = pod.call("ADD");
        if output.status.success() { Ok(succeeds(&output)) } else { Err(format!("{output:?}")) }
    });
    let given = given.unwrap();
    assert_eq!(given["ips"][0]["address"], "10.5.0.20/24");
    assert_eq!(given["interfaces"][1]["mac"], "02:00:00:00:00:20");
    reaches(&pod.netns, "10.5.0.1");
    assert_eq!(controller.asked.lock().unwrap()[0].network.as_str(), "red-1");
    let mut other = Pod::new(&lab, "b", &agent).second("eth0", "red-1");
    other.container = "b".to_owned();
    let refused = other.fails("ADD");
    assert_eq!(refused["code"], 101, "{refused}");
    // A step that goes back, and a source that is gone: the rest stays.
    let gone = Change::Delete(Key::Network("red-2".parse().unwrap()));
    let object = more_than_once();
    let changes = vec![gone, Change::Put(object)];
    updates.blocking_send(ViewContent::Changes { fabric: None, changes }).unwrap();
    drop(updates);
    reaches(&pod.netns, "10.5.0.1");
    succeeds(&pod.call("DEL"));
    assert_eq!(controller.released.lock().unwrap().len(), 1);
}

/// A network with a number that another has.
fn more_than_once() -> Object {
    serde_json::from_value(json!({"kind": "network", "name": "green", "vni": 31})).unwrap()
}
