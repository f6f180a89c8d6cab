//! What a cluster says of itself, asked by the command line of real agents: its state, its health, the
//! ways of packets, the packets themselves.

use crate::cluster::{Cluster, PATIENCE};
use crate::world::all;
use osier_testbed::wait_until;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// A shop of two networks that a router joins, and a bank of its own.
const SHOP: &str = "
{apiVersion: osier.dev/v1alpha1, kind: Router, metadata: {name: shop}}
---
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: {name: front}
spec: {router: shop, subnets: [{cidr: FRONT, gateway: FRONT-1}]}
---
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: {name: back}
spec: {router: shop, subnets: [{cidr: BACK, gateway: BACK-1}]}
---
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: {name: bank}
spec: {subnets: [{cidr: BANK}]}
";

fn shop(front: [&str; 2], back: [&str; 2], bank: &str) -> String {
    let quoted = |text: &str| format!("\"{text}\"");
    SHOP.replace("FRONT-1", &quoted(front[1]))
        .replace("FRONT", &quoted(front[0]))
        .replace("BACK-1", &quoted(back[1]))
        .replace("BACK", &quoted(back[0]))
        .replace("BANK", &quoted(bank))
}

/// A pod of each network, on two nodes: their addresses.
fn populate(cluster: &mut Cluster, shop: &str) -> [String; 3] {
    cluster.apply(shop);
    let web = cluster.add("n1", "web", Some("front"));
    let db = cluster.add("n2", "db", Some("back"));
    let vault = cluster.add("n2", "vault", Some("bank"));
    cluster.converges();
    [web, db, vault]
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", all(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What must not succeed, and is no wrong usage either.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", all(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn reach(cluster: &Cluster, pod: &str, to: &str) {
    let netns = cluster.netns(pod);
    wait_until("the pod to answer", PATIENCE, || {
        let mut ping = Command::new("ip");
        let output = ping.args(["netns", "exec", &netns, "ping", "-c1", "-W1", to]).output();
        let output = output.map_err(|error| error.to_string())?;
        output.status.success().then_some(()).ok_or_else(|| all(&output))
    })
    .unwrap();
}

/// All tunnels were measured, and are up.
fn tunnels_are_up(cluster: &Cluster) {
    wait_until("tunnels between all nodes", PATIENCE, || {
        let output = cluster.osier("status -o json");
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let is_up = |node: &Value| {
            let tunnels = node["tunnels"].as_array();
            tunnels.is_some_and(|all| all.len() == 1 && all[0]["state"] == "up")
        };
        if nodes.len() == 2 && nodes.iter().all(is_up) { Ok(()) } else { Err(all(&output)) }
    })
    .unwrap();
}

fn arrives(cluster: &Cluster) {
    let said = said(&cluster.osier("trace test:web test:db"));
    let (first, second) = (said.find("● n1").unwrap(), said.find("● n2").unwrap());
    assert!(first < second, "{said}");
    assert!(said.contains("✓ delivered: it reaches port test:db on node n2"), "{said}");
}

#[test]
fn a_cluster_tells_how_it_is_and_why_packets_arrive_or_not() {
    let mut cluster = Cluster::with("--family ipv4");
    let text = shop(["10.30.0.0/24", "10.30.0.1"], ["10.31.0.0/24", "10.31.0.1"], "10.32.0.0/24");
    let [web, db, vault] = populate(&mut cluster, &text);
    tunnels_are_up(&cluster);
    let status = said(&cluster.osier("status"));
    assert!(status.contains("n1") && status.contains("n2") && !status.contains('✗'), "{status}");
    let checked = said(&cluster.osier("check"));
    for subject in ["controller", "clock", "version", "mtu", "firewall", "tunnel"] {
        assert!(checked.to_lowercase().contains(subject), "{subject}: {checked}");
    }

    reach(&cluster, "web", &db);
    arrives(&cluster);
    let tcp = said(&cluster.osier("trace test:web test:db --tcp 5432"));
    assert!(tcp.contains("tcp 5432") && tcp.contains("✓ delivered"), "{tcp}");
    // Its own network, another's, and nobody's.
    for (to, why) in [
        ("10.30.0.99", "unknown destination: nobody in network front has 10.30.0.99"),
        ("test:vault", "no route: router shop has no way to"),
        (vault.as_str(), "no route: router shop has no way to"),
    ] {
        let trace = refused(&cluster.osier(&format!("trace test:web {to}")));
        assert!(trace.contains("✗ dropped") && trace.contains(why), "{to}: {trace}");
        assert!(!trace.contains("by pipeline"), "{trace}");
    }
    recorded(&cluster);
    let raw = said(&cluster.osier("trace test:web test:db --raw"));
    assert!(raw.contains("Final flow:") && raw.contains("priority"), "{raw}");
    led_by_services(&cluster, &db);
    led_by_machines(&mut cluster);
    captured(&cluster, &web, &db);
    bundled(&cluster);
    paused(&cluster);
}

/// A packet to a Service goes to one of its endpoints, here of one address and two ports, and it is told
/// why to that one.
fn led_by_services(cluster: &Cluster, db: &str) {
    let endpoints = |slice: u8, port: u16| {
        format!(
            "---
apiVersion: osier.dev/v1alpha1
kind: Endpoints
metadata: {{name: \"test:pair-{slice}\"}}
spec:
  service: \"test:pair\"
  ports: [{{name: sql, port: {port}}}, {{name: log, transport: udp, port: {port}}}]
  endpoints: [{{address: \"{db}\"}}]
"
        )
    };
    let service = "apiVersion: osier.dev/v1alpha1
kind: Service
metadata: {name: \"test:pair\"}
spec:
  router: shop
  addresses: [\"10.99.0.10\"]
  ports: [{name: sql, port: 5432}, {name: log, transport: udp, port: 514}]
";
    cluster.apply(&format!("{service}{}", endpoints(1, 7001)));
    cluster.converges();
    let only = said(&cluster.osier("trace test:web svc/test/pair:5432"));
    let chosen = format!("of which {db}:7001 was chosen");
    assert!(only.contains(&chosen) && only.contains("✓ delivered"), "{only}");
    cluster.apply(&endpoints(2, 7002));
    cluster.converges();
    for line in ["svc/test/pair:5432", "svc/test/pair:514 --udp 514"] {
        let said = said(&cluster.osier(&format!("trace test:web {line}")));
        assert!(said.contains("✓ delivered") && said.contains("port test:db on node n2"), "{said}");
        assert!(said.contains("one of its endpoints, by a hash of the connection"), "{said}");
    }
}

/// Where kube-proxy leads, a packet is followed to the service gateway of its node.
fn led_by_machines(cluster: &mut Cluster) {
    cluster.set_fabric(|spec| {
        spec["services"] = serde_json::json!(["10.96.0.0/16"]);
        spec["serviceGateway"] = true.into();
    });
    let client = cluster.add("n1", "client", None);
    cluster.apply(&format!(
        "apiVersion: osier.dev/v1alpha1
kind: Service
metadata: {{name: \"test:led\"}}
spec: {{addresses: [\"10.96.0.10\"], ports: [{{name: http, port: 80}}]}}
---
apiVersion: osier.dev/v1alpha1
kind: Endpoints
metadata: {{name: \"test:led-1\"}}
spec:
  service: \"test:led\"
  ports: [{{name: http, port: 8080}}]
  endpoints: [{{address: \"{client}\"}}]
"
    ));
    cluster.converges();
    // Nodes make the port when they have heard of it.
    wait_until("the service gateway", PATIENCE, || {
        let traced = cluster.osier("trace test:client svc/test/led:80");
        let told = ["routed: service test:led is 10.96.0.10:80", "service gateway of node n1"];
        let said = all(&traced);
        let is_led = traced.status.success() && told.iter().all(|part| said.contains(part));
        if is_led { Ok(()) } else { Err(said) }
    })
    .unwrap();
}

/// The command line's own tests draw what a controller has answered here: what it answers now has the
/// same form. `OSIER_RECORD=1` writes the answers down.
fn recorded(cluster: &Cluster) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../osier/tests/fixtures/answers");
    for (name, line) in [
        ("status", "status -o json"),
        ("trace-delivered", "trace test:web test:db -o json"),
        ("trace-dropped", "trace test:web test:vault -o json"),
        ("check", "check -o json"),
        ("network-front", "get network front -o json"),
        ("node-n1", "get node n1 -o json"),
        ("ports", "get ports -o json"),
    ] {
        let output = cluster.osier(line);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let path = folder.join(format!("{name}.json"));
        if std::env::var_os("OSIER_RECORD").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            let text = serde_json::to_string_pretty(&answer).unwrap();
            std::fs::write(&path, text + "\n").unwrap();
        }
        let known: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(form(&answer), form(&known), "{line} answers otherwise than {name}.json");
    }
}

/// The fields that an answer has, whatever is in them. What is nothing may be something else next
/// time, and a list have more of the same.
fn form(value: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, path: &str, out: &mut BTreeSet<String>) {
        match value {
            Value::Null => {}
            Value::Array(items) => items.iter().for_each(|item| walk(item, path, out)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    walk(value, &format!("{path}.{name}"), out);
                }
            }
            other => {
                let kind = match other {
                    Value::Bool(_) => "bool",
                    Value::Number(_) => "number",
                    _ => "text",
                };
                out.insert(format!("{path}: {kind}"));
            }
        }
    }
    let mut out = BTreeSet::new();
    walk(value, "", &mut out);
    out
}

/// Packets of a pod, read by others' tools.
fn captured(cluster: &Cluster, web: &str, db: &str) {
    let file = cluster.dir.join("web.pcap");
    let line = format!("capture test:web --count 8 --seconds 60 -w {}", file.display());
    let recorded = std::thread::scope(|scope| {
        let capture = scope.spawn(|| cluster.osier(&line));
        while !capture.is_finished() {
            reach(cluster, "web", db);
        }
        capture.join().unwrap()
    });
    assert!(all(&recorded).contains("8 packets of test:web"), "{}", all(&recorded));
    let read = |filter: &str| {
        let mut tcpdump = Command::new("tcpdump");
        let output = tcpdump.args(["-n", "-r"]).arg(&file).args(filter.split(' ')).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let requests = read("icmp[icmptype] == icmp-echo");
    assert!(!requests.is_empty(), "{}", read("ip or arp"));
    assert!(requests.lines().all(|line| line.contains(&format!("{web} > {db}"))), "{requests}");
    assert_eq!(read("tcp"), "");
    let nobody = cluster.osier("capture test:nobody --seconds 1 -w none.pcap");
    assert!(all(&nobody).contains("there is no Port test:nobody"), "{}", all(&nobody));
}

fn bundled(cluster: &Cluster) {
    let file = cluster.dir.join("bundle.tar.gz");
    said(&cluster.osier(&format!("support-bundle -o {}", file.display())));
    let tar = |arguments: &[&str]| {
        let mut tar = Command::new("tar");
        let output = tar.arg("-xzOf").arg(&file).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let list = Command::new("tar").arg("-tzf").arg(&file).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    for name in ["status.txt", "check", "resources/ports.json", "nodes/n1", "nodes/n2"] {
        assert!(list.contains(name), "{name}: {list}");
    }
    assert_eq!(tar(&["osier-support/errors.txt"]).trim(), "none");
    let content = tar(&[]);
    assert!(content.contains("table=") || content.contains("priority="), "flows are in it");
    let credential = std::fs::read_to_string(cluster.dir.join("controller/credential")).unwrap();
    assert!(!content.contains(credential.trim()), "the credential is in it");
}

/// A paused node is left as it is, whatever happens to it, and is put right afterwards.
fn paused(cluster: &Cluster) {
    let routes = || {
        let line = "exec n2 -- ovs-ofctl -O OpenFlow15 dump-flows br-int table=21";
        cluster.world.succeeds(line).matches("table=21").count()
    };
    let before = routes();
    assert!(before > 0);
    said(&cluster.osier("node pause n2"));
    let state = || {
        let output = cluster.osier("node list -o json");
        let nodes: Value = serde_json::from_slice(&output.stdout).unwrap();
        nodes.as_array().unwrap().iter().find(|node| node["name"] == "n2").unwrap().clone()
    };
    assert_eq!(state()["paused"], true);
    cluster.world.succeeds("exec n2 -- ovs-ofctl -O OpenFlow15 del-flows br-int table=21");
    cluster.apply("{apiVersion: osier.dev/v1alpha1, kind: Router, metadata: {name: late}}");
    assert_eq!(routes(), 0, "nobody puts it right");
    said(&cluster.osier("node resume n2"));
    wait_until("the flows to be there again", PATIENCE, || match routes() {
        now if now == before => Ok(()),
        now => Err(format!("{now} of {before}")),
    })
    .unwrap();
    assert_eq!(state()["paused"], false);
    cluster.converges();
}

#[test]
fn only_ipv6_and_over_vxlan() {
    let mut cluster = Cluster::with("--family ipv6 --tunnel vxlan");
    let text = shop(["fd30::/64", "fd30::1"], ["fd31::/64", "fd31::1"], "fd32::/64");
    let [_, db, vault] = populate(&mut cluster, &text);
    let traffic = cluster.traffic();
    tunnels_are_up(&cluster);
    reach(&cluster, "web", &db);
    arrives(&cluster);
    let trace = refused(&cluster.osier(&format!("trace test:web {vault}")));
    assert!(trace.contains("no route: router shop has no way to fd32::"), "{trace}");
    said(&cluster.osier("check"));
    traffic.flowed_on();
}
