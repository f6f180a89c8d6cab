//! Connections as people see them: with names, verdicts and rules, compared with what the switches'
//! own tool says.

use crate::cluster::{Cluster, PATIENCE};
use crate::world::{all, executables};
use nix::sys::signal::Signal;
use osier_testbed::wait_until;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;

/// The shop's database is for its web servers only; a Service leads to it.
const LAW: &str = "
apiVersion: osier.dev/v1alpha1
kind: Workload
metadata: {name: \"test:web\", labels: {app: web}}
spec: {node: n1}
---
apiVersion: osier.dev/v1alpha1
kind: Workload
metadata: {name: \"test:other\", labels: {app: other}}
spec: {node: n1}
---
apiVersion: osier.dev/v1alpha1
kind: Workload
metadata: {name: \"test:db\", labels: {app: db}}
spec: {node: n2}
---
apiVersion: osier.dev/v1alpha1
kind: NetworkPolicy
metadata: {name: \"test:db\"}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: nobody}}}]
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{port: 7000}]
---
apiVersion: osier.dev/v1alpha1
kind: Service
metadata: {name: \"test:front\"}
spec: {addresses: [10.99.0.10], ports: [{port: 80}]}
---
apiVersion: osier.dev/v1alpha1
kind: Service
metadata: {name: \"test:empty\"}
spec: {addresses: [10.99.0.11], ports: [{port: 80}]}
---
apiVersion: osier.dev/v1alpha1
kind: Endpoints
metadata: {name: \"test:front-1\"}
spec: {service: \"test:front\", ports: [{port: 7000}], endpoints: [{address: DB}]}
";

/// A connection that comes to be, sooner or later.
fn connected(cluster: &Cluster, pod: &str, to: &str) -> TcpStream {
    let connect = || cluster.connect(pod, to).map_err(|error| error.to_string());
    wait_until("a connection", PATIENCE, connect).unwrap()
}

/// Connections that fit, and whether all nodes answered.
fn flows(cluster: &Cluster, options: &str) -> Vec<Value> {
    let output = cluster.osier(&format!("flows -o json {options}"));
    assert!(output.status.success(), "{}", all(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["items"].as_array().unwrap().clone()
}

/// From where TCP connections of ours come, as the switches' own tool has it.
fn dumped(cluster: &Cluster) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for node in ["n1", "n2"] {
        let line = format!("exec {node} -- ovs-appctl dpctl/dump-conntrack");
        for line in cluster.world.succeeds(&line).lines().filter(|line| line.starts_with("tcp")) {
            let member = |name: &str| {
                let rest = line.split(&format!("{name}=")).nth(1)?;
                Some(rest.split([',', ')']).next()?.to_owned())
            };
            let zone: u16 = member("zone").unwrap_or_default().parse().unwrap_or_default();
            if zone > 1 {
                found.insert((member("src").unwrap(), member("sport").unwrap().parse().unwrap()));
            }
        }
    }
    found
}

/// What `osier flows --follow` tells.
struct Follower(Child, BufReader<std::process::ChildStdout>);

impl Follower {
    fn start(cluster: &Cluster, options: &str) -> Self {
        let osier = executables().join("osier");
        let line = format!("exec controller -- {} flows -f -o json {options}", osier.display());
        let mut command = cluster.world.command(&line);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self(child, lines)
    }

    /// Reads until this happens to the connection from this port. A test's own time limit bounds it.
    fn until(&mut self, event: &str, port: u16) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.1.read_line(&mut line).unwrap() > 0, "it ended");
            let said: Value = serde_json::from_str(&line).unwrap();
            if said["event"] == event && said["flow"]["source"]["port"] == port {
                return said["flow"].clone();
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn connections_are_told_with_names_verdicts_and_rules() {
    let mut cluster = Cluster::with("--family ipv4");
    cluster.add("n1", "web", None);
    cluster.add("n1", "other", None);
    let db = cluster.add("n2", "db", None);
    cluster.apply(&LAW.replace("DB", &db));
    cluster.converges();
    // Agents tell of new pods within a second or two.
    wait_until("the controller to know all pods", PATIENCE, || {
        let said = all(&cluster.osier("get pods -A"));
        ["web", "other", "db"].iter().all(|pod| said.contains(pod)).then_some(()).ok_or(said)
    })
    .unwrap();
    let listener = cluster.within("db", || TcpListener::bind("0.0.0.0:7000")).unwrap();
    let held = connected(&cluster, "web", "10.99.0.10:80");
    let _accepted = listener.accept().unwrap();
    let from = u64::from(held.local_addr().unwrap().port());

    // Both nodes track it: the one knows the Service, the other the rule.
    let is_it = |flow: &&Value| flow["source"]["port"] == from;
    let told = flows(&cluster, "");
    let flow = told.iter().find(is_it).unwrap_or_else(|| panic!("{told:#?}"));
    for (pointer, expected) in [
        ("/source/name", "test:web"),
        ("/target/name", "test:front"),
        ("/target/kind", "service"),
        ("/answering/name", "test:db"),
        ("/state", "ESTABLISHED"),
        ("/verdict", "allowed"),
        ("/by/0", "test:db ingress[1]"),
        ("/nodes/0", "n1"),
        ("/nodes/1", "n2"),
    ] {
        assert_eq!(flow.pointer(pointer).unwrap(), expected, "{pointer} of {flow:#}");
    }
    let own = |flow: &Value| {
        let source = &flow["source"];
        (source["address"].as_str().unwrap().to_owned(), source["port"].as_u64().unwrap())
    };
    let ours: BTreeSet<_> = flows(&cluster, "--protocol tcp").iter().map(own).collect();
    assert_eq!(ours, dumped(&cluster), "as the switches' own tool has it");
    traced(&cluster, &db);
    filtered(&cluster, from);
    people(&cluster);
    followed(&cluster, &listener);
    counted(&cluster);
    log_and_count(&cluster);
    used(&cluster, &listener);
    denied(&cluster, &db);
    unanswered(&mut cluster);
}

/// A trace names the rule that lets it through, or the policies that do not.
fn traced(cluster: &Cluster, db: &str) {
    let allowed = cluster.osier("trace test:web test:db --tcp 7000");
    assert!(allowed.status.success(), "{}", all(&allowed));
    for words in ["policy test:db ingress[1]", "✓ delivered"] {
        assert!(all(&allowed).contains(words), "{words}: {}", all(&allowed));
    }
    let by_service = all(&cluster.osier("trace test:web svc/test/front:80"));
    assert!(by_service.contains("policy test:db ingress[1]"), "{by_service}");
    for line in [
        "trace test:other test:db --tcp 7000",
        "trace test:web test:db --tcp 7001",
        "trace test:web test:db",
        &format!("trace test:other {db} --udp 7000"),
    ] {
        let dropped = cluster.osier(line);
        assert_eq!(dropped.status.code(), Some(1), "{line}: {}", all(&dropped));
        for words in ["✗ dropped", "denied: no ingress rule of policy test:db grants it"] {
            assert!(all(&dropped).contains(words), "{line}: {words}: {}", all(&dropped));
        }
    }
}

/// Each filter lets it through, or not.
fn filtered(cluster: &Cluster, from: u64) {
    for (options, shown) in [
        ("--pod test/web", true),
        ("--pod test:db --port 7000", true),
        ("--pod test:other", false),
        ("--service test/front -n test", true),
        ("-n elsewhere", false),
        ("--verdict allowed --protocol tcp --port 80", true),
        ("--verdict open", false),
        ("--protocol udp", false),
        ("--port 81", false),
        ("--node n1", true),
    ] {
        let told = flows(cluster, options);
        let is_there = told.iter().any(|flow| flow["source"]["port"] == from);
        assert_eq!(is_there, shown, "{options}: {told:#?}");
    }
    for (options, why) in [
        ("--pod test:nobody", "no pod or port is called \"test:nobody\""),
        ("--service test:nothing", "there is no Service test:nothing"),
        ("--node n9", "there is no Node n9"),
    ] {
        let output = cluster.osier(&format!("flows {options}"));
        assert_eq!(output.status.code(), Some(1), "{}", all(&output));
        assert!(all(&output).contains(why), "{}", all(&output));
    }
}

fn people(cluster: &Cluster) {
    let output = cluster.osier("flows --pod test:web -o wide");
    let said = all(&output);
    for word in ["PROTOCOL", "test:web (", "svc/test:front (10.99.0.10:80) → test:db (", "n1,n2"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
}

fn followed(cluster: &Cluster, listener: &TcpListener) {
    let mut follower = Follower::start(cluster, "--pod test:web");
    let stream = connected(cluster, "web", "10.99.0.10:80");
    let (accepted, _) = listener.accept().unwrap();
    let port = stream.local_addr().unwrap().port();
    let begun = follower.until("begun", port);
    assert_eq!(begun["by"][0], "test:db ingress[1]", "{begun:#}");
    drop((stream, accepted));
    let changed = follower.until("changed", port);
    assert_ne!(changed["state"], "ESTABLISHED", "{changed:#}");
}

/// Packets that flows of a table and a rule have counted, as the switch's own tool has it.
fn dumped_hits(cluster: &Cluster, node: &str) -> u64 {
    let line = format!("exec {node} -- ovs-ofctl -O OpenFlow15 dump-flows br-int table=244");
    let said = cluster.world.succeeds(&line);
    let granted = said.lines().filter(|line| line.contains("conj_id="));
    let packets = granted.filter_map(|line| {
        let rest = line.split("n_packets=").nth(1)?;
        rest.split(',').next()?.parse::<u64>().ok()
    });
    packets.sum()
}

/// What a node's agent tells Prometheus.
fn metrics(cluster: &Cluster, node: &str) -> String {
    let page = cluster.within(node, || {
        let mut stream = TcpStream::connect("127.0.0.1:9476")?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
        io::read_to_string(stream)
    });
    page.unwrap()
}

/// Connections are counted by the rule that let them through: in tables, in words, and for Prometheus.
fn counted(cluster: &Cluster) {
    // The switch is up to a second late.
    let hits = wait_until("two connections to be counted", PATIENCE, || {
        match dumped_hits(cluster, "n2") {
            hits if hits >= 2 => Ok(hits),
            hits => Err(hits.to_string()),
        }
    });
    let hits = hits.unwrap();
    let output = cluster.osier("get policies -o json");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let status = &told["items"][0]["status"];
    assert_eq!(status["hits"], hits, "{told:#}");
    assert_eq!(status["rules"][1], serde_json::json!({"rule": "ingress[1]", "hits": hits}));
    let table = all(&cluster.osier("get policies"));
    assert!(table.contains("HITS"), "{table}");
    let described = all(&cluster.osier("describe netpol test:db"));
    for words in [": 0 hits", &format!(": {hits} hits")] {
        assert!(described.contains(words), "{words}: {described}");
    }
    let metrics = metrics(cluster, "n2");
    for line in [
        &format!(
            "osier_agent_policy_rule_connections_total{{policy=\"test:db\",rule=\"ingress[1]\"}} {hits}\n"
        ),
        "osier_agent_services 2\n",
        "osier_agent_service_endpoints 1\n",
        "osier_agent_switch_answers 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// The fabric says that denied connections are logged, and Services' bytes counted.
fn log_and_count(cluster: &Cluster) {
    cluster.set_fabric(|spec| {
        spec["policy"] = serde_json::json!({"log": true});
        spec["accounting"] = true.into();
    });
    wait_until("flows that count", PATIENCE, || {
        let said = dumped_flows(cluster, "n1");
        said.contains("ct_nw_dst=10.99.0.10").then_some(()).ok_or(said)
    })
    .unwrap();
}

/// Flows that lead to Services, and that count what goes through.
fn dumped_flows(cluster: &Cluster, node: &str) -> String {
    let tables = [24, 28].map(|table| {
        let dump = format!("ovs-ofctl -O OpenFlow15 dump-flows br-int table={table}");
        cluster.world.succeeds(&format!("exec {node} -- {dump}"))
    });
    tables.concat()
}

/// What came to Services, by the switches' own counters.
fn used(cluster: &Cluster, listener: &TcpListener) {
    const SENT: usize = 100_000;
    let mut asking = connected(cluster, "web", "10.99.0.10:80");
    let (mut answering, _) = listener.accept().unwrap();
    let writing = thread::spawn(move || {
        asking.write_all(&vec![0; SENT]).unwrap();
        asking
    });
    answering.read_exact(&mut vec![0; SENT]).unwrap();
    answering.write_all(b"!").unwrap();
    let mut asking = writing.join().unwrap();
    asking.read_exact(&mut [0]).unwrap();
    // Nobody is behind this one.
    assert!(cluster.connect("web", "10.99.0.11:80").is_err());
    let front = wait_until("the same counters as the switch's tool shows", PATIENCE, || {
        let output = cluster.osier("top services -o json");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let of = |name: &str| {
            let items = told["items"].as_array().into_iter().flatten();
            items.into_iter().find(|item| item["service"] == name).cloned()
        };
        let (front, empty) = (of("test:front"), of("test:empty"));
        let dumped = dumped_flows(cluster, "n1");
        let bytes: u64 = dumped
            .lines()
            .filter(|line| line.contains("_dst=10.99.0.10"))
            .filter_map(|line| {
                line.split("n_bytes=").nth(1)?.split(',').next()?.parse::<u64>().ok()
            })
            .sum();
        let is_same = front.as_ref().is_some_and(|front| front["bytes"] == bytes)
            && empty.as_ref().is_some_and(|empty| empty["refused"].as_u64() >= Some(1))
            && bytes > SENT as u64;
        front.filter(|_| is_same).ok_or_else(|| format!("{bytes}: {told:#}\n{dumped}"))
    });
    let front = front.unwrap();
    assert!(front["open"].as_u64() >= Some(2) && front["begun"].as_u64() >= Some(3), "{front:#}");
    let table = all(&cluster.osier("top services -n test --sort refused"));
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[1].starts_with("test:empty") && rows[2].starts_with("test:front"), "{table}");
}

/// What policies deny is told for a while, if the fabric says that it is to be logged.
fn denied(cluster: &Cluster, db: &str) {
    let told = wait_until("something denied", PATIENCE, || {
        cluster.connect("other", &format!("{db}:7000")).map_or(Ok(()), |_| Err("it may"))?;
        let told = flows(cluster, "--verdict denied");
        told.first().cloned().ok_or("nothing was")
    });
    let told = told.unwrap();
    for (pointer, expected) in [
        ("/source/name", "test:other"),
        ("/target/name", "test:db"),
        ("/by/0", "test:db"),
        ("/ingress/by", "denied"),
    ] {
        assert_eq!(told.pointer(pointer).unwrap(), expected, "{pointer} of {told:#}");
    }
    assert!(told["denied"]["times"].as_u64().unwrap() > 0, "{told:#}");
}

/// Who does not answer is named, and the others are heard.
fn unanswered(cluster: &mut Cluster) {
    cluster.signal("n2/agent.toml", Signal::SIGKILL);
    let output = cluster.osier("flows");
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    let said = all(&output);
    assert!(said.contains("node n2") && said.contains("svc/test:front:80"), "{said}");
}
