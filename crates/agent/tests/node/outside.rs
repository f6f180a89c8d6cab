//! Ways out of the cluster, a bridge of our own, and addresses by other plugins.

use crate::lab::{Agent, PATIENCE, Pod, one_node, pod_ports, succeeds, view};
use osier_testbed::traffic;
use serde_json::json;
use std::net::IpAddr;

#[test]
fn pods_leave_the_cluster_with_the_nodes_address() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    // Somebody outside, who knows nodes and no pods.
    let outside = [IpAddr::from([198, 51, 100, 254]), "2001:db8::fe".parse().unwrap()];
    fabric.segment().ip("address add 198.51.100.254/24 dev segment").unwrap();
    fabric.segment().ip("address add 2001:db8::fe/64 dev segment nodad").unwrap();
    node.netns().ip("address add 2001:db8::1/64 dev br-phy nodad").unwrap();
    // Others' rules stay; a strict machine is no obstacle, nor one with Docker's policy. IPv6 has no
    // `rp_filter`: there it is a rule, such as firewalld's.
    node.netns().run(&["nft", "add", "table", "inet", "other"]).unwrap();
    node.netns().sysctl("net/ipv4/conf/all/rp_filter", "1").unwrap();
    let strict = "-t raw -A PREROUTING -m rpfilter --invert -j DROP";
    let strict: Vec<&str> = ["ip6tables"].into_iter().chain(strict.split(' ')).collect();
    node.netns().run(&strict).unwrap();
    for tables in ["iptables", "ip6tables"] {
        node.netns().run(&[tables, "-P", "FORWARD", "DROP"]).unwrap();
    }
    // The bridge is ours to make.
    node.ovs().vsctl(&["del-br", "br-int"]).unwrap();
    let agent = Agent::start(node, &view(&fabric, 24));
    let pod = Pod::new(&lab, "a", &agent);
    pod.add();
    for outside in outside {
        assert!(traffic::ping_until(&pod.netns, outside, PATIENCE).is_ok(), "{outside}");
    }
    let mode = node.ovs().vsctl(&["get", "bridge", "br-int", "datapath_type", "fail_mode"]);
    assert_eq!(mode.unwrap(), "netdev\nsecure\n");
    let tables = node.netns().run(&["nft", "list", "tables"]).unwrap();
    assert!(tables.contains("inet osier") && tables.contains("inet other"), "{tables}");
    for tables in ["iptables", "ip6tables"] {
        let rules = node.netns().run(&[tables, "-S", "FORWARD"]).unwrap();
        assert!(rules.contains("-P FORWARD DROP"), "{rules}");
        assert_eq!(rules.matches("osier0").count(), 2, "{rules}");
    }
    agent.stop().unwrap();
    // Nobody is needed for pods to talk.
    for outside in outside {
        assert!(traffic::ping_until(&pod.netns, outside, PATIENCE).is_ok(), "{outside}");
    }
}

#[test]
fn another_plugin_may_give_addresses() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let mut pod = Pod::new(&lab, "a", &agent);
    let data = lab.make_dir("host-local").unwrap();
    pod.config["cniVersion"] = json!("1.0.0");
    pod.config["ipam"] = json!({
        "type": "host-local", "dataDir": data, "subnet": "10.1.1.64/26", "rangeStart": "10.1.1.99",
    });
    assert_eq!(pod.addresses(), [IpAddr::from([10, 1, 1, 99])]);
    assert!(traffic::ping_until(node.netns(), [10, 1, 1, 99].into(), PATIENCE).is_ok());
    let given = || data.join("net").join("10.1.1.99").exists();
    assert!(given());
    // It is not given to others by us.
    let mut other = Pod::new(&lab, "b", &agent);
    other.config["runtimeConfig"] = json!({"ips": ["10.1.1.99"]});
    assert_eq!(other.fails("ADD")["code"], 101);
    succeeds(&pod.call("DEL"));
    assert!(!given());
    // What fails after it gave one takes it back.
    pod.netns.ip("link add eth1 type veth peer name eth0").ok();
    pod.fails("ADD");
    assert!(!given());
    assert_eq!(pod_ports(node), Vec::<String>::new());
    pod.config["ipam"] = json!({"type": "no-such-plugin"});
    assert_eq!(pod.fails("ADD")["code"], 7);
}
