//! What data means to the model: a pod's life, first and last of a namespace, Services, pools.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_resource::{Kind, Resource};
use osier_restconf::{Coe, Isolation, Problem, Target};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const HOST: &str = "192.0.2.11";

/// The resources that there are, kept as whoever stores them would.
#[derive(Default)]
struct World {
    coe: Coe,
    there: BTreeMap<Target, Value>,
}

fn uid(n: u32) -> String {
    format!("00000000-0000-0000-0000-{n:012}")
}

fn pod(n: u32, name: &str, host: &str, address: &str) -> Value {
    let mut pod = json!({
        "uid": uid(n), "name": name, "network-NS": "shop", "host-ip-address": host,
        "interface": [{"uid": uid(n), "ip-address": address}],
    });
    if address.is_empty() {
        pod["interface"][0].as_object_mut().unwrap().remove("ip-address");
    }
    if host.is_empty() {
        pod.as_object_mut().unwrap().remove("host-ip-address");
    }
    pod
}

impl World {
    fn new(isolation: Isolation) -> Self {
        let mut world = Self { coe: Coe::new(isolation), ..Self::default() };
        world.node(1, "n1", HOST);
        world.node(2, "n2", "192.0.2.12");
        world
    }

    fn learn(&mut self, path: &str, value: Option<Value>) -> Result<(), Problem> {
        let (targets, _) = self.coe.learn(&[(path.to_owned(), value)])?;
        self.follow(targets);
        Ok(())
    }

    fn follow(&mut self, targets: BTreeSet<Target>) {
        for target in targets {
            match self.coe.wanted(&target) {
                Some(wanted) => self.there.insert(target, wanted.to_value()),
                None => self.there.remove(&target),
            };
        }
        // What is learnt bit by bit is what is learnt at once.
        let all = self.coe.targets().into_iter();
        let all = all.filter_map(|t| Some((t.clone(), self.coe.wanted(&t)?.to_value())));
        assert_eq!(all.collect::<BTreeMap<_, _>>(), self.there);
    }

    fn node(&mut self, n: u32, name: &str, address: &str) {
        let node = json!({"uid": uid(n), "host-name": name, "internal-ip-address": address});
        self.put("k8s-node:k8s-nodes-info/k8s-nodes", n, node);
    }

    fn put(&mut self, list: &str, n: u32, value: Value) {
        self.learn(&format!("{list}={}", uid(n)), Some(value)).unwrap();
    }

    fn delete(&mut self, list: &str, n: u32) {
        self.learn(&format!("{list}={}", uid(n)), None).unwrap();
    }

    fn names(&self, kind: Kind) -> Vec<&str> {
        self.there.keys().filter(|(k, _)| *k == kind).map(|(_, name)| name.as_str()).collect()
    }

    fn spec(&self, kind: Kind, name: &str) -> &Value {
        let found = self.there.get(&(kind, name.to_owned()));
        &found.unwrap_or_else(|| panic!("there is no {kind} {name}"))["spec"]
    }
}

const PODS: &str = "pod:coe/pods";
const SERVICES: &str = "service:service-information/services";
const ENDPOINTS: &str = "service:endpoints-info/endpoints";

#[test]
fn network_and_router_are_there_from_the_first_pod_to_the_last() {
    let mut world = World::new(Isolation::None);
    assert_eq!(world.names(Kind::Network), [""; 0]);
    world.put(PODS, 11, pod(11, "web", "", ""));
    assert_eq!(world.names(Kind::Router), [""; 0], "it has no host yet");
    world.put(PODS, 11, pod(11, "web", HOST, ""));
    assert_eq!(world.names(Kind::Network), ["192.0.2.11:shop"]);
    assert_eq!(world.names(Kind::Router), ["default", "shop"]);
    assert_eq!(world.names(Kind::Port), [""; 0], "it has no address yet");
    world.put(PODS, 11, pod(11, "web", HOST, "10.11.1.4"));
    assert_eq!(
        world.spec(Kind::Port, "shop:web"),
        &json!({"network": "192.0.2.11:shop", "node": "n1", "addresses": ["10.11.1.4"]})
    );
    world.put(PODS, 12, pod(12, "db", HOST, "10.11.1.5"));
    world.put(PODS, 13, pod(13, "far", "192.0.2.12", "10.11.2.4"));
    assert_eq!(world.names(Kind::Network), ["192.0.2.11:shop", "192.0.2.12:shop"]);
    world.delete(PODS, 11);
    assert_eq!(world.names(Kind::Network).len(), 2, "the last of the host is still there");
    world.delete(PODS, 12);
    assert_eq!(world.names(Kind::Network), ["192.0.2.12:shop"]);
    world.delete(PODS, 13);
    assert_eq!(world.names(Kind::Router), [""; 0]);
    assert_eq!(world.names(Kind::Node), ["n1", "n2"]);
}

#[test]
fn namespaces_share_a_router_unless_they_are_kept_apart() {
    for (isolation, router) in [(Isolation::None, "default"), (Isolation::Namespaces, "shop")] {
        let mut world = World::new(isolation);
        world.put(PODS, 11, pod(11, "web", HOST, "10.11.1.4"));
        assert_eq!(world.spec(Kind::Network, "192.0.2.11:shop")["router"], router);
    }
}

#[test]
fn a_pod_waits_for_its_node_whoever_tells_of_it() {
    let mut world = World::new(Isolation::None);
    world.put(PODS, 11, pod(11, "web", "192.0.2.13", "10.11.3.4"));
    assert_eq!(world.names(Kind::Port), [""; 0]);
    world.node(3, "n3", "192.0.2.13");
    assert_eq!(world.spec(Kind::Port, "shop:web")["node"], "n3");
    // Somebody else's node is used as it is, and not made again.
    let hosts = BTreeMap::from([("192.0.2.13".parse().unwrap(), "agent3".parse().unwrap())]);
    let targets = world.coe.set_hosts(hosts);
    world.follow(targets);
    assert_eq!(world.spec(Kind::Port, "shop:web")["node"], "agent3");
    assert_eq!(world.names(Kind::Node), ["n1", "n2"]);
    let targets = world.coe.set_hosts(BTreeMap::new());
    world.follow(targets);
    world.delete("k8s-node:k8s-nodes-info/k8s-nodes", 3);
    assert_eq!(world.names(Kind::Port), [""; 0], "its node is gone");
}

#[test]
fn an_address_is_the_latest_pods_of_a_host_and_never_on_two() {
    let mut world = World::new(Isolation::None);
    world.put(PODS, 11, pod(11, "done", HOST, "10.11.1.4"));
    // A finished pod keeps its address in the data, and the host gives it to another.
    world.put(PODS, 12, pod(12, "web", HOST, "10.11.1.4"));
    assert_eq!(world.names(Kind::Port), ["shop:web"]);
    world.put(PODS, 11, pod(11, "done", HOST, "10.11.1.4"));
    assert_eq!(world.names(Kind::Port), ["shop:web"], "saying it again makes it no younger");
    world.delete(PODS, 12);
    assert_eq!(world.names(Kind::Port), ["shop:done"]);
    let far = pod(13, "far", "192.0.2.12", "10.11.1.4");
    let refused = world.learn(&format!("{PODS}={}", uid(13)), Some(far)).unwrap_err();
    assert_eq!(refused.message, "10.11.1.4 is pod shop:done's already, on another host");
    assert_eq!(world.names(Kind::Network), ["192.0.2.11:shop"], "nothing was learnt");
    // One of the host's own network has no port.
    world.put(PODS, 14, pod(14, "proxy", HOST, HOST));
    assert_eq!(world.names(Kind::Port), ["shop:done"]);
}

#[test]
fn a_pod_that_is_made_again_under_its_name_keeps_the_port() {
    let mut world = World::new(Isolation::None);
    world.put(PODS, 11, pod(11, "web-0", HOST, "10.11.1.4"));
    world.put(PODS, 12, pod(12, "web-0", "192.0.2.12", "10.11.2.4"));
    assert_eq!(world.spec(Kind::Port, "shop:web-0")["node"], "n2");
    world.delete(PODS, 11);
    assert_eq!(world.spec(Kind::Port, "shop:web-0")["node"], "n2", "the old one's end is no end");
}

#[test]
fn services_have_endpoints_in_both_spellings() {
    let mut world = World::new(Isolation::None);
    world.put(PODS, 11, pod(11, "web", HOST, "10.11.1.4"));
    let service = json!({
        "uid": uid(21), "name": "dns", "network-NS": "shop", "cluster-ip-address": "10.96.0.10",
        "endpoints": [uid(11)],
        "service-ports": [
            {"name": "dns", "port": 53, "target-port": "5353", "node-port": 0},
            {"name": "dns-tcp", "port": 53, "target-port": "5353", "node-port": 0},
            {"name": "metrics", "port": 9153, "target-port": "metrics", "node-port": 30053}],
    });
    world.put(SERVICES, 21, service.clone());
    let ports = world.spec(Kind::Service, "shop:dns")["ports"].clone();
    let shown = |p: &Value| format!("{} {} {}", p["name"], p["transport"], p["port"]);
    let shown: Vec<String> = ports.as_array().unwrap().iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            "\"dns-udp\" \"udp\" 53",
            "\"dns-tcp\" \"tcp\" 53",
            "\"metrics\" \"tcp\" 9153",
            "\"metrics-udp\" \"udp\" 9153"
        ]
        .map(str::to_owned)
    );
    let slice = world.spec(Kind::Endpoints, &uid(21));
    assert_eq!(
        slice["endpoints"],
        json!([{"address": "10.11.1.4", "node": "n1", "state": "ready"}])
    );
    assert_eq!(slice["ports"][0], json!({"name": "dns", "transport": "tcp", "port": 5353}));
    world.delete(PODS, 11);
    assert_eq!(world.names(Kind::Endpoints), [""; 0], "the pod is gone from the Service");

    let told = json!({
        "uid": uid(31), "name": "dns", "network-NS": "shop",
        "endpoint-addresses": [{"ip-address": "10.11.1.4"}, {"ip-address": "fd00::4"}],
        "endpoint-ports": [{"name": "dns", "port": 5353}],
    });
    world.put(ENDPOINTS, 31, told);
    assert_eq!(world.names(Kind::Endpoints), [uid(31), format!("{}-v6", uid(31))]);
    assert_eq!(world.spec(Kind::Endpoints, &uid(31))["service"], "shop:dns");
    let mut headless = service;
    headless.as_object_mut().unwrap().remove("cluster-ip-address");
    world.put(SERVICES, 21, headless);
    assert_eq!(world.names(Kind::Service), [""; 0]);
}

#[test]
fn pools_give_what_is_between_their_ends_and_never_overlap() {
    let mut world = World::new(Isolation::None);
    let list = "dhcp_allocation_pool:dhcp_allocation_pool/network";
    let pool = |id: &str, subnet: &str, from: &str, to: &str| {
        json!({"network-id": id, "allocation-pool": [
            {"subnet": subnet, "allocate-from": from, "allocate-to": to, "gateway": from}]})
    };
    world.put(PODS, 11, pod(11, "web", HOST, ""));
    world
        .learn(
            &format!("{list}=shop"),
            Some(pool("shop", "192.168.10.0/24", "192.168.10.8", "192.168.10.15")),
        )
        .unwrap();
    assert_eq!(world.names(Kind::Pool), ["shop:192.168.10.0-24"]);
    let spec = world.spec(Kind::Pool, "shop:192.168.10.0-24");
    assert_eq!(
        spec["exclude"],
        json!([
            "192.168.10.0/29",
            "192.168.10.8/32",
            "192.168.10.16/28",
            "192.168.10.32/27",
            "192.168.10.64/26",
            "192.168.10.128/25"
        ])
    );
    assert_eq!(
        world.spec(Kind::Network, "192.0.2.11:shop")["pools"],
        json!(["shop:192.168.10.0-24"])
    );
    assert!(world.spec(Kind::Port, "shop:web").get("addresses").is_none(), "it is given one");
    for (pool, said) in [
        (
            pool("far", "192.168.10.0/28", "192.168.10.15", "192.168.10.15"),
            "the pool has no address to give",
        ),
        (
            pool("far", "192.168.10.0/24", "192.168.10.15", "192.168.10.20"),
            "192.168.10.0/24 and 192.168.10.0/24 of network shop overlap in what they give out",
        ),
        (
            pool("far", "192.168.11.0/24", "192.168.11.20", "192.168.11.10"),
            "192.168.11.10 comes before 192.168.11.20",
        ),
        (
            pool("far", "192.168.11.0/24", "192.168.12.20", "192.168.11.10"),
            "192.168.12.20 is not of 192.168.11.0/24",
        ),
    ] {
        let refused = world.learn(&format!("{list}=far"), Some(pool)).unwrap_err();
        assert_eq!(refused.message, said);
    }
    world.learn(&format!("{list}=shop"), None).unwrap();
    assert_eq!(world.names(Kind::Pool), [""; 0]);
    assert_eq!(world.names(Kind::Port), [""; 0]);
}

#[test]
fn what_no_other_pool_is_for_comes_from_the_flat_ones() {
    let mut world = World::new(Isolation::None);
    let list = "dhcp_allocation_pool:dhcp_allocation_pool/network";
    let pool = |id: &str, net: &str| {
        json!({"network-id": id, "allocation-pool": [{"subnet": format!("{net}.0/24"),
            "gateway": format!("{net}.1"), "dns-servers": [format!("{net}.53"), "10.0.0.53"]}]})
    };
    world.put(PODS, 11, pod(11, "web", HOST, ""));
    let told = json!({"uid": uid(21), "name": "web", "network-NS": "shop",
        "endpoints": [uid(11)], "service-ports": []});
    world.put(SERVICES, 21, told.clone());
    assert_eq!(world.names(Kind::Port), [""; 0]);
    assert_eq!(world.names(Kind::Service), [""; 0]);
    for (id, net) in [("pod-pool", "10.31.0"), ("service-pool", "10.32.0")] {
        world.learn(&format!("{list}={id}"), Some(pool(id, net))).unwrap();
    }
    assert_eq!(world.names(Kind::Port), ["shop:web"]);
    let service = world.spec(Kind::Service, "shop:web");
    assert_eq!(service["pools"], json!(["service-pool:10.32.0.0-24"]));
    // Who says that it has no address gets none.
    let mut headless = told;
    headless["cluster-ip-address"] = json!("None");
    world.put(SERVICES, 21, headless);
    assert_eq!(world.names(Kind::Service), [""; 0]);
    let network = world.spec(Kind::Network, "192.0.2.11:shop");
    assert_eq!(network["pools"], json!(["pod-pool:10.31.0.0-24"]));
    assert_eq!(network["dhcp"]["dns"], json!(["10.31.0.53", "10.0.0.53"]));
    let subnet = json!({"cidr": "10.31.0.0/24", "gateway": "10.31.0.1"});
    assert_eq!(network["dhcp"]["subnets"], json!([subnet]));
    // A namespace's own is before all others.
    world.learn(&format!("{list}=shop"), Some(pool("shop", "10.30.0"))).unwrap();
    let network = world.spec(Kind::Network, "192.0.2.11:shop");
    assert_eq!(network["pools"], json!(["shop:10.30.0.0-24"]));
    let most = json!({"network-id": "far", "allocation-pool": [
        {"subnet": "10.33.0.0/24", "dns-servers": vec!["10.0.0.53"; 9]}]});
    let refused = world.learn(&format!("{list}=far"), Some(most)).unwrap_err();
    assert_eq!(refused.message, "9 are more than 8");
}

/// Everything that is made can be told by the label, and is valid alone.
#[test]
fn what_is_made_is_marked_and_valid() {
    let mut world = World::new(Isolation::Namespaces);
    world.put(PODS, 11, pod(11, "web", HOST, "10.11.1.4"));
    for (target, value) in &world.there {
        let resource = Resource::from_value(value).unwrap();
        assert!(osier_restconf::coe::is_ours(&resource), "{target:?}");
        resource.validate().unwrap();
    }
}

const POLICIES: &str = "k8s:k8s/network-policies/network-policy";

fn policy(n: u32, name: &str, spec: &Value) -> Value {
    json!({"uuid": uid(n), "name": name, "network-policy-spec": spec})
}

fn from(peer: &Value) -> Value {
    json!({"ingress": [{"position": 0, "network-policy-ingress-rule": {
        "from": [{"position": 0, "network-policy-peer": peer}]}}]})
}

fn labels(key: &str, value: &str) -> Value {
    json!({"match-labels": [{"key": key, "value": value}]})
}

#[test]
fn a_policy_is_one_of_its_namespace_and_makes_workloads_of_pods() {
    let mut world = World::new(Isolation::None);
    world.put(PODS, 11, pod(11, "web", HOST, "10.11.1.4"));
    assert_eq!(world.names(Kind::Workload), [""; 0], "nobody judges");
    let spec = json!({
        "pod-selector": labels("osier.dev/pod-name", "web"),
        "policy-types": ["ingress", "egress"],
        "ingress": [{"position": 0, "network-policy-ingress-rule": {
            "ingress-ports": [{"position": 0, "network-policy-port": {"protocol": "UDP", "port": "53"}}],
            "from": [
                {"position": 0, "network-policy-peer": {"peer-pod-selector": {}}},
                {"position": 1, "network-policy-peer": {
                    "peer-namespace-selector": labels("kubernetes.io/metadata.name", "ops")}},
                {"position": 2, "network-policy-peer": {
                    "ip-block": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}}},
            ],
        }}],
    });
    world.put(POLICIES, 1, policy(1, "shop/web", &spec));
    assert_eq!(
        world.spec(Kind::NetworkPolicy, "shop:web"),
        &json!({
            "podSelector": {"matchLabels": {"osier.dev/pod-name": "web"}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{
                "ports": [{"protocol": "UDP", "port": 53}],
                "from": [
                    {"podSelector": {}},
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}}},
                    {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}},
                ],
            }],
        })
    );
    assert_eq!(world.names(Kind::Workload), ["shop:web"]);
    world.put(PODS, 12, pod(12, "db", HOST, "10.11.1.5"));
    assert_eq!(world.names(Kind::Workload), ["shop:db", "shop:web"]);
    // Another, of all namespaces: it is there wherever pods are.
    world.put(POLICIES, 2, policy(2, "quiet", &json!({"policy-types": ["egress"]})));
    let mut elsewhere = pod(13, "api", "192.0.2.12", "10.11.2.4");
    elsewhere["network-NS"] = "ops".into();
    world.put(PODS, 13, elsewhere);
    assert_eq!(world.names(Kind::NetworkPolicy), ["ops:quiet", "shop:quiet", "shop:web"]);
    world.delete(PODS, 13);
    assert_eq!(world.names(Kind::NetworkPolicy), ["shop:quiet", "shop:web"]);
    world.delete(POLICIES, 1);
    assert_eq!(world.names(Kind::Workload).len(), 2);
    world.delete(POLICIES, 2);
    assert_eq!(world.names(Kind::Workload), [""; 0]);
    assert_eq!(world.names(Kind::NetworkPolicy), [""; 0]);
}

#[test]
fn what_of_a_policy_cannot_be_enforced_is_refused_where_it_stands() {
    let mut world = World::new(Isolation::None);
    world.put(PODS, 11, pod(11, "web", HOST, "10.11.1.4"));
    world.put(POLICIES, 1, policy(1, "taken", &json!({})));
    let port = |port: &str| {
        json!({"egress": [{"position": 0, "network-policy-egress-rule": {
            "egress-ports": [{"position": 0, "network-policy-port": {"port": port}}]}}]})
    };
    let block =
        |cidr: &str, except: &str| from(&json!({"ip-block": {"cidr": cidr, "except": [except]}}));
    for (name, spec, at, said) in [
        (
            "a",
            json!({"pod-selector": labels("app", "db")}),
            "pod-selector/match-labels=app",
            "nobody",
        ),
        (
            "a",
            from(&json!({"peer-namespace-selector": labels("team", "x")})),
            "ingress=0/from=0/network-policy-peer/peer-namespace-selector/match-labels=team",
            "kubernetes.io/metadata.name",
        ),
        ("a", from(&json!({})), "from=0/network-policy-peer", "names nobody"),
        (
            "a",
            from(&json!({"peer-pod-selector": {}, "ip-block": {"cidr": "10.0.0.0/8"}})),
            "ip-block",
            "the one or the other",
        ),
        ("a", from(&json!({"ip-block": {}})), "ip-block/cidr", "has to be there"),
        ("a", block("10.0.0.1/8", "10.1.0.0/16"), "ip-block/cidr", "no prefix"),
        ("a", block("10.0.0.0/8", "192.0.2.0/24"), "ip-block/except", "no part of"),
        ("a", port("http"), "egress=0/egress-ports=0/network-policy-port/port", "name none"),
        ("a", port("70000"), "network-policy-port/port", "no number"),
        ("taken", json!({}), "name", "already"),
        ("shop/taken", json!({}), "name", "already"),
        ("a b", json!({}), "name", "a b"),
    ] {
        let before = world.there.clone();
        let path = format!("{POLICIES}={}", uid(2));
        let problem = world.learn(&path, Some(policy(2, name, &spec))).unwrap_err();
        let text = problem.to_string();
        assert!(text.contains(said) && text.contains(at), "{at}: {text}");
        assert_eq!(world.there, before);
    }
}
