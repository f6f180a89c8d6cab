//! Our own resources: networks and their like, written with `kubectl`; blocks of addresses.

use crate::agent::Agent;
use crate::controller::Controller;
use crate::server::{Server, turn, until};
use osier_controller::config::{AddressSource, BlockMasks, BlockRest, KubernetesConfig};
use osier_fleet::AttachRequest;
use osier_model::{DeviceName, InterfaceName, NetworkName, PortKey};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

fn resource(kind: &str, name: &str, spec: Value) -> String {
    json!({"apiVersion": "osier.dev/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": spec})
    .to_string()
}

/// What the status of a resource says, once somebody has judged it.
fn judged(server: &Server, what: &str) -> (bool, Value) {
    until(&format!("a judgement of {what}"), || {
        let status = server.own(what)["status"].clone();
        match status["conditions"][0]["status"].as_str() {
            Some(truth) => Ok((truth == "True", status)),
            None => Err(status.to_string()),
        }
    })
}

#[test]
fn resources_are_judged_in_their_status_and_keep_their_numbers() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    // What the API server refuses itself.
    for (kind, spec) in [
        ("Network", json!({"vni": 1})),
        ("Network", json!({"subnets": [{"cidr": "10.5.0.0/24", "gateway": "10.6.0.1"}]})),
        ("Network", json!({"subnets": [{"cidr": "ten"}]})),
        ("Pool", json!({"cidr": "10.5.0.0/24", "exclude": ["10.6.0.0/30"]})),
        ("Router", json!({"vrf": 0})),
        ("Port", json!({"network": "blue"})),
    ] {
        let manifest = resource(kind, "bad", spec);
        server.kubectl_with(&["create", "-f", "-"], &manifest).expect_err(&manifest);
    }
    turn.run(async || {
        let controller = Controller::start(server, 0).await;
        // In an order in which each refers to what is not there yet.
        server.apply(&resource("Port", "shop.web", json!({"network": "blue", "node": "a"})));
        let blue = json!({"router": "east", "pools": ["blue"],
            "subnets": [{"cidr": "10.5.0.0/24", "gateway": "10.5.0.1"}]});
        server.apply(&resource("Network", "blue", blue));
        server.apply(&resource("Network", "green", json!({"subnets": [{"cidr": "10.6.0.0/24"}]})));
        server.apply(&resource("Pool", "blue", json!({"cidr": "10.5.0.128/25"})));
        server.apply(&resource("Router", "east", json!({})));
        let numbers = |server: &Server| -> BTreeMap<&str, Value> {
            let all = ["networks/blue", "networks/green", "routers/east", "ports/shop.web"];
            let said = |what: &'static str| {
                let status = until(&format!("{what} is ready"), || match judged(server, what) {
                    (true, status) => Ok(status),
                    (false, status) => Err(status.to_string()),
                });
                let mut numbers = json!({});
                for field in ["vni", "vrf", "addresses", "mac"] {
                    numbers[field] = status[field].clone();
                }
                (what, numbers)
            };
            all.into_iter().map(said).collect()
        };
        let before = numbers(server);
        assert_eq!(before["ports/shop.web"]["addresses"], json!(["10.5.0.129"]));
        // Two that want the same: one has it, the other hears why not.
        let same = before["networks/blue"]["vni"].clone();
        server.apply(&resource("Network", "rival", json!({"vni": same})));
        let (is_ready, status) = judged(server, "networks/rival");
        let why = status["conditions"][0]["message"].as_str().unwrap_or_default();
        assert!(!is_ready && why.contains("blue"), "{why}");
        attach(server, &controller).await;
        // Another leader gives nobody another number, though green came first to it by name.
        controller.stop().await;
        let next = Controller::start(server, 1).await;
        server.apply(&resource("Network", "amber", json!({})));
        let (_, amber) = judged(server, "networks/amber");
        assert_eq!(numbers(server), before);
        assert!(before.values().all(|number| number["vni"] != amber["vni"]));
        // Somebody writes what is ours: it is written back.
        let patch = [
            "patch",
            "network.osier.dev/blue",
            "--subresource=status",
            "--type=merge",
            "-p",
            "{\"status\": {\"vni\": 77}}",
        ];
        server.kubectl(&patch).unwrap();
        until("the number is back", || match numbers(server) {
            now if now == before => Ok(()),
            now => Err(format!("{now:?}")),
        });
        server.kubectl(&["delete", "port.osier.dev/shop.web", "network.osier.dev/blue"]).unwrap();
        let (is_ready, _) = until("the rival's turn", || {
            let (is_ready, status) = judged(server, "networks/rival");
            if is_ready { Ok((is_ready, status)) } else { Err(status.to_string()) }
        });
        assert!(is_ready);
        next.stop().await;
    });
}

/// An agent's port is an object before the agent hears of it, and goes with it.
async fn attach(server: &Server, controller: &Controller) {
    let agent = Agent::join(server, &[controller], "a", "192.0.2.1").await;
    agent.following(1).await;
    let key = PortKey {
        device: DeviceName::new("shop:db").unwrap(),
        interface: InterfaceName::new("net1").unwrap(),
    };
    let network = NetworkName::new("blue").unwrap();
    let request = AttachRequest {
        key: key.clone(),
        network,
        mac: None,
        addresses: Vec::new(),
        generation: 1,
    };
    let port = agent.client.attach(&request).await.unwrap();
    let objects = server.own("ports?labelSelector=osier.dev/attached");
    let object = &objects["items"][0];
    assert_eq!(object["metadata"]["annotations"]["osier.dev/port"], "shop:db:net1");
    assert_eq!(object["status"]["addresses"][0], port.addresses[0].to_string());
    assert_eq!(agent.client.attach(&request).await.unwrap(), port);
    agent.client.detach(&key, 1).await.unwrap();
    let objects = server.own("ports?labelSelector=osier.dev/attached");
    assert_eq!(objects["items"], json!([]));
}

fn small_blocks(config: &mut KubernetesConfig) {
    config.cluster_cidrs = vec!["10.8.0.0/24".parse().unwrap(), "fd00:8::/112".parse().unwrap()];
    config.address_source = AddressSource::Blocks;
    config.block_masks = BlockMasks { v4: 28, v6: 124 };
    config.block_rest_seconds = BlockRest(3);
}

/// Prefixes by node, as `kubectl` has them.
fn blocks(server: &Server) -> BTreeMap<String, Vec<String>> {
    let all = server.own("addressblocks");
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for block in all["items"].as_array().unwrap() {
        let text = |field: &str| block["spec"][field].as_str().unwrap().to_owned();
        blocks.entry(text("node")).or_default().push(text("cidr"));
    }
    blocks
}

fn wait_for_blocks(server: &Server, node: &str, count: usize) -> Vec<String> {
    until(&format!("{count} blocks of {node}"), || {
        let own = blocks(server).remove(node).unwrap_or_default();
        let four: Vec<String> = own.into_iter().filter(|cidr| cidr.contains('.')).collect();
        if four.len() == count { Ok(four) } else { Err(format!("{:?}", blocks(server))) }
    })
}

#[test]
fn blocks_are_claimed_grown_and_returned() {
    let turn = turn();
    let server = turn.server;
    for n in 1..=4 {
        server.node(&format!("n{n}"), Some(&format!("192.0.2.{n}")), &[]);
    }
    server.node("elsewhere", None, &[]);
    // Another has claimed the first already, and one of another size.
    for (name, cidr) in [("10.8.0.0-28", "10.8.0.0/28"), ("10.8.0.16-29", "10.8.0.16/29")] {
        let spec = json!({"cidr": cidr, "node": "elsewhere"});
        server.apply(&resource("AddressBlock", name, spec));
    }
    turn.run(async || {
        let controller = Controller::with(server, 0, small_blocks).await;
        for n in 1..=4 {
            wait_for_blocks(server, &format!("n{n}"), 1);
        }
        let all = blocks(server);
        let mut four: Vec<&String> = all.values().flatten().collect();
        assert_eq!(four.len(), 10, "{all:?}");
        four.sort();
        four.dedup();
        assert_eq!(four.len(), 10);
        let agent = Agent::join(server, &[&controller], "n1", "192.0.2.1").await;
        agent.following(1).await;
        let own = wait_for_blocks(server, "n1", 1);
        let first: ipnet::Ipv4Net = own[0].parse().unwrap();
        let used =
            |n: usize| -> Vec<IpAddr> { first.hosts().skip(1).take(n).map(IpAddr::from).collect() };
        agent.has("n1", &used(11));
        wait_for_blocks(server, "n1", 2);
        // Fewer pods: one block goes back, and not the one that is in use.
        agent.has("n1", &used(2));
        assert_eq!(wait_for_blocks(server, "n1", 1), own);
        // Somebody deletes a block of a living node: it is claimed again.
        let name = own[0].replace('/', "-");
        server.kubectl(&["delete", "addressblock.osier.dev", &name]).unwrap();
        assert_eq!(wait_for_blocks(server, "n1", 1), own);
        // A node that is gone for good gives its blocks back.
        server.kubectl(&["delete", "node", "n4"]).unwrap();
        wait_for_blocks(server, "n4", 0);
        assert_eq!(blocks(server)["elsewhere"].len(), 2);
        controller.stop().await;
    });
}

#[test]
fn two_who_claim_at_once_never_have_the_same_block() {
    let turn = turn();
    let server = turn.server;
    for n in 1..=6 {
        server.node(&format!("n{n}"), Some(&format!("192.0.2.{n}")), &[]);
    }
    turn.run(async || {
        // Each leads in its own namespace, and knows nothing of the other.
        let one = Controller::with(server, 0, small_blocks).await;
        let other = Controller::with(server, 1, |config| {
            small_blocks(config);
            config.namespace = Some("default".to_owned());
            config.kubeconfig = Some(server.admin());
            config.block_masks.v4 = 27;
        })
        .await;
        for n in 1..=6 {
            let name = format!("n{n}");
            until(&format!("a block of {name}"), || {
                let all = blocks(server);
                let own = all.get(&name).ok_or_else(|| format!("{all:?}"))?;
                if own.len() > 1 { Ok(()) } else { Err(format!("{own:?}")) }
            });
        }
        // Whoever was later gives way in a moment.
        until("blocks that never meet", || {
            let all: Vec<ipnet::IpNet> =
                blocks(server).into_values().flatten().map(|cidr| cidr.parse().unwrap()).collect();
            let meets = |one: &ipnet::IpNet, other: &ipnet::IpNet| {
                one != other && (other.contains(one) || one.contains(other))
            };
            match all.iter().any(|one| all.iter().any(|other| meets(one, other))) {
                true => Err(format!("{all:?}")),
                false => Ok(()),
            }
        });
        one.stop().await;
        other.stop().await;
        let leftover = [
            "delete",
            "lease/osier-controller",
            "cm/osier-controllers",
            "secret/osier-authority",
            "-n",
            "default",
            "--ignore-not-found",
        ];
        server.kubectl(&leftover).unwrap();
    });
}
