//! Policies, namespaces and pods of a real API server, in the views of agents.

use crate::agent::Agent;
use crate::controller::Controller;
use crate::nodes::events;
use crate::server::{Server, turn, until};
use osier_model::{Identity, Party, Talk, Transport, View};
use serde_json::{Value, json};

fn pod(server: &Server, name: &str, node: Option<&str>, labels: Value) {
    let body = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [
            {"name": "main", "image": "none",
                "ports": [{"name": "http", "containerPort": 8080}]}]}});
    server.send("POST", "/api/v1/namespaces/default/pods", &body);
}

fn policy(server: &Server, name: &str, spec: &Value) {
    let body = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name}, "spec": spec});
    server.send("POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", &body);
}

fn identity(view: &View, pod: &str) -> Option<Identity> {
    let device = format!("default:{pod}").parse().unwrap();
    view.workloads().get(&device).map(|workload| workload.identity)
}

/// Whether one pod may reach another's port, as the node judges.
fn passes(view: &View, from: &str, to: &str, port: u16) -> Option<bool> {
    let party = |pod| {
        Some(Party { identity: identity(view, pod)?, address: "10.244.1.9".parse().unwrap() })
    };
    let talk = Talk { from: party(from)?, to: party(to)?, port: Some((Transport::Tcp, port)) };
    Some(view.law().judge(&talk).passes())
}

#[test]
fn policies_are_followed_and_numbers_stay() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    server.node("b", Some("192.0.2.2"), &["10.244.2.0/24"]);
    pod(server, "web", Some("a"), json!({"app": "web", "build": "1"}));
    pod(server, "client", Some("a"), json!({"app": "client"}));
    turn.run(async || {
        let controller = Controller::start(server, 0).await;
        let a = Agent::join(server, &[&controller], "a", "192.0.2.1").await;
        let b = Agent::join(server, &[&controller], "b", "192.0.2.2").await;
        a.following(1).await;
        b.following(1).await;
        a.eventually("an open pod", |v| passes(v, "client", "web", 8080), Some(true));
        let web = json!({"podSelector": {"matchLabels": {"app": "web"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}],
                "ports": [{"port": "http"}]}]});
        policy(server, "web", &web);
        a.eventually("a closed pod", |v| passes(v, "client", "web", 8080), Some(false));
        a.eventually("a guard", |v| v.guards().len(), 1);
        // Node b hears of the namespace that has policies, and of nothing that it has nobody for.
        b.eventually("a guard", |v| (v.guards().len(), v.policies().len()), (1, 0));

        let labels = json!({"metadata": {"labels": {"app": "friend"}}});
        server.send("PATCH", "/api/v1/namespaces/default/pods/client", &labels);
        a.eventually("a friend", |v| passes(v, "client", "web", 8080), Some(true));
        assert_eq!(a.knows(|v| passes(v, "client", "web", 8081)), Some(Some(false)));
        // Another like it, elsewhere, is known to its node only.
        let before = a.received();
        pod(server, "client-2", Some("b"), json!({"app": "friend", "build": "2"}));
        b.eventually("the other", |v| identity(v, "client-2").is_some(), true);
        assert_eq!(a.received(), before);
        let number = a.knows(|v| identity(v, "client")).flatten();
        assert!(number.is_some() && b.knows(|v| identity(v, "client-2")).flatten() == number);

        // The next leader gives the same numbers.
        until("its record", || {
            let all = server.own("identities");
            let mut items = all["items"].as_array().unwrap().iter();
            let name = number.map(|number| number.0.to_string());
            let there = items.any(|item| item["metadata"]["name"].as_str() == name.as_deref());
            there.then_some(()).ok_or(all.to_string())
        });
        let known = |v: &View| v.workloads().values().map(|w| w.identity).collect::<Vec<_>>();
        let (one, other) = (a.knows(known), b.knows(known));
        controller.stop().await;
        let received = a.received();
        let controller = Controller::start(server, 0).await;
        a.following(crate::election::holder(server).map_or(0, |(_, term)| term << 32)).await;
        pod(server, "late", Some("a"), json!({"app": "friend"}));
        a.eventually("a late pod", |v| identity(v, "late"), number);
        assert_eq!(a.received() - received, 1, "the workload alone is new");
        b.eventually("the same", |v| Some(known(v)), other);
        assert_eq!(a.knows(known).map(|all| all.len()), one.map(|all| all.len() + 1));

        broken(server, &a);
        huge(server, &a);
        let gone = ["delete", "networkpolicies", "--all", "-n", "default"];
        server.kubectl(&gone).unwrap();
        a.eventually("no policies", |v| (v.policies().len(), v.guards().len()), (0, 0));
        a.eventually("nothing selected", |v| v.selections().len(), 0);
        controller.stop().await;
    });
}

/// Host bits are understood; they, a policy about nobody and ports that nobody has are told of.
fn broken(server: &Server, a: &Agent) {
    let blocks = json!({"podSelector": {}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": "198.51.100.7/24"}}]}]});
    policy(server, "blocks", &blocks);
    a.eventually("two policies", |v| v.policies().len(), 2);
    policy(server, "idle", &json!({"podSelector": {"matchLabels": {"app": "nobody"}}}));
    policy(
        server,
        "names",
        &json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"ports": [{"port": "http"},
            {"port": "sql"}, {"protocol": "UDP", "port": "http"}]}]}),
    );
    for (name, reason, words) in [
        ("blocks", "PolicyPrefixTruncated", "198.51.100.7/24"),
        ("idle", "PolicySelectsNothing", "podSelector"),
        ("names", "PolicyPortUnknown", "called so: sql/tcp, http/udp"),
    ] {
        until("an event", || {
            let all = events(server, name);
            let said = |(why, said): &(String, String)| why == reason && said.contains(words);
            if all.iter().any(said) { Ok(()) } else { Err(format!("{all:?}")) }
        });
    }
}

/// Ten thousand rules are followed. A policy that cannot be is closed, whatever it was before, and is
/// opened again when it can.
fn huge(server: &Server, a: &Agent) {
    let from = |n: usize, except: &[&str]| {
        // The pods' own addresses are among them.
        let (high, low) = (255 - n / 256, n % 256);
        let cidr = format!("10.{high}.{low}.0/24");
        let apart = except.iter().map(|last| format!("10.{high}.{low}.{last}/32"));
        json!({"from": [{"ipBlock": {"cidr": cidr, "except": apart.collect::<Vec<_>>()}}]})
    };
    let put = |verb: &str, name: &str, rules: Vec<Value>| {
        let spec = json!({"podSelector": {"matchLabels": {"app": "friend"}}, "ingress": rules});
        let body = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name}, "spec": spec});
        server.kubectl_with(&[verb, "-n", "default", "-f", "-"], &body.to_string()).unwrap();
    };
    let rules = |v: &View, name: &str| {
        let policy = v.policies().get(&format!("default:{name}").parse().unwrap())?.clone();
        let subjects = v.selections().get(&policy.subjects)?.members.len();
        Some((policy.ingress?.len(), policy.egress.map(|egress| egress.len()), subjects))
    };
    // It lets nobody out of the namespace.
    server.kubectl(&["delete", "networkpolicy", "blocks", "-n", "default"]).unwrap();
    a.eventually("a way out", |v| passes(v, "web", "client", 8080), Some(true));
    put("create", "many", (0..10_000).map(|n| from(n, &[])).collect());
    a.eventually("10,000 rules", |v| rules(v, "many"), Some((10_000, None, 1)));
    assert_eq!(a.knows(|v| passes(v, "web", "client", 8080)), Some(Some(true)));

    let long = ["1", "11", "111", "122", "133", "144", "155"];
    put("replace", "many", (0..10_000).map(|n| from(n, &long)).collect());
    a.eventually("a closed policy", |v| rules(v, "many"), Some((0, None, 1)));
    assert_eq!(a.knows(|v| passes(v, "web", "client", 8080)), Some(Some(false)));
    put("create", "new", (0..10_000).map(|n| from(n, &long)).collect());
    a.eventually("a new one, closed", |v| rules(v, "new"), Some((0, None, 1)));
    for name in ["many", "new"] {
        until("an event", || {
            let all = events(server, name);
            let said = |(why, said): &(String, String)| {
                why == "PolicyRefused" && said.contains("it lets nothing through")
            };
            if all.iter().any(said) { Ok(()) } else { Err(format!("{all:?}")) }
        });
    }
    put("replace", "many", vec![from(1, &long)]);
    a.eventually("a policy that can be", |v| rules(v, "many"), Some((1, None, 1)));
    server.kubectl(&["delete", "networkpolicy", "new", "-n", "default"]).unwrap();
    a.eventually("no policy", |v| rules(v, "new"), None);
}
