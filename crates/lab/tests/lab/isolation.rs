//! Namespaces apart, by one setting: who reaches whom, seen by connections that come to be or not.

use crate::cluster::{Cluster, PATIENCE};
use crate::world::all;
use osier_testbed::wait_until;
use serde_json::json;
use std::net::TcpListener;

const PODS: [(&str, &str); 4] =
    [("shop:web", "n1"), ("shop:db", "n2"), ("bank:teller", "n1"), ("system:dns", "n2")];

/// All connections between pods that come to be, as `from>to`.
fn reached(cluster: &Cluster, addresses: &[String]) -> Vec<String> {
    let short = |pod: &'static str| pod.split_once(':').unwrap().1;
    let mut reached = Vec::new();
    for (from, _) in PODS {
        for ((to, _), address) in PODS.iter().zip(addresses).filter(|((to, _), _)| *to != from) {
            if cluster.connect(short(from), &format!("{address}:7000")).is_ok() {
                reached.push(format!("{}>{}", short(from), short(to)));
            }
        }
    }
    reached
}

fn until_reached(cluster: &Cluster, addresses: &[String], expected: &[&str]) {
    wait_until("those to be reached, and nobody else", PATIENCE, || {
        match reached(cluster, addresses) {
            found if found == expected => Ok(()),
            found => Err(found.join(" ")),
        }
    })
    .unwrap();
}

fn workload(pod: &str, node: &str) -> String {
    let metadata = json!({"name": pod, "labels": {"app": pod.split(':').nth(1)}});
    let spec = json!({"node": node});
    let kind = ("osier.dev/v1alpha1", "Workload");
    json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": spec}).to_string()
}

#[test]
fn namespaces_are_apart_by_one_setting() {
    let mut cluster = Cluster::with("--family ipv4");
    let addresses = PODS.map(|(pod, node)| cluster.add(node, pod, None));
    cluster.apply(&PODS.map(|(pod, node)| workload(pod, node)).join("\n---\n"));
    let listen = |(pod, _): (&str, &str)| {
        let place = pod.split_once(':').unwrap().1;
        cluster.within(place, || TcpListener::bind("0.0.0.0:7000")).unwrap()
    };
    let _listeners: Vec<TcpListener> = PODS.into_iter().map(listen).collect();
    until_reached(
        &cluster,
        &addresses,
        &[
            "web>db",
            "web>teller",
            "web>dns",
            "db>web",
            "db>teller",
            "db>dns",
            "teller>web",
            "teller>db",
            "teller>dns",
            "dns>web",
            "dns>db",
            "dns>teller",
        ],
    );

    cluster.set_fabric(|spec| spec["isolation"] = json!({"shared": ["system"]}));
    // The shop to itself, and what all share in both directions.
    let apart =
        ["web>db", "web>dns", "db>web", "db>dns", "teller>dns", "dns>web", "dns>db", "dns>teller"];
    until_reached(&cluster, &addresses, &apart);
    // A node reaches its own pods, and others'.
    for (place, address) in [("n1", &addresses[0]), ("n2", &addresses[1]), ("n2", &addresses[0])] {
        wait_until("the node to reach a pod", PATIENCE, || {
            let to = format!("{address}:7000");
            cluster.connect(place, &to).map(drop).map_err(|e| format!("{place} to {to}: {e}"))
        })
        .unwrap();
    }
    let test = |from: &str| {
        let line = format!("policy test --from {from} --to shop:web --port 7000");
        let output = cluster.osier(&line);
        (output.status.success(), all(&output))
    };
    for (from, passes) in [("bank:teller", false), ("shop:db", true), ("192.0.2.9", true)] {
        let (passed, said) = test(from);
        assert_eq!(passed, passes, "{said}");
        assert!(said.contains("shop:@isolation"), "{said}");
    }
    let described = all(&cluster.osier("describe fabric default"));
    assert!(described.contains("apart, but system"), "{described}");

    // A policy lets the bank in, too.
    cluster.apply(
        "{apiVersion: osier.dev/v1alpha1, kind: NetworkPolicy, metadata: {name: \"shop:bank\"}, spec: \
         {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: \
         {kubernetes.io/metadata.name: bank}}}]}]}}",
    );
    let mut more: Vec<&str> = apart.to_vec();
    more.insert(4, "teller>web");
    until_reached(&cluster, &addresses, &more);
    let ours = cluster.try_apply(
        "{apiVersion: osier.dev/v1alpha1, kind: NetworkPolicy, metadata: {name: \"shop:@isolation\"}}",
    );
    assert!(all(&ours).contains("names that begin with @ are Osier's own"), "{}", all(&ours));

    // One that nobody said anything of is in quarantine.
    let late = cluster.add("n1", "shop:late", None);
    let _listener = cluster.within("late", || TcpListener::bind("0.0.0.0:7000")).unwrap();
    assert!(cluster.connect("web", &format!("{late}:7000")).is_err());
    wait_until("its node to reach it", PATIENCE, || {
        cluster.connect("n1", &format!("{late}:7000")).map(drop).map_err(|e| e.to_string())
    })
    .unwrap();

    cluster.set_fabric(|spec| drop(spec.as_object_mut().unwrap().remove("isolation")));
    wait_until("namespaces to be together again", PATIENCE, || {
        let to = format!("{}:7000", addresses[1]);
        cluster.connect("teller", &to).map(drop).map_err(|e| e.to_string())
    })
    .unwrap();
}
