//! A real cluster without kube-proxy: Osier makes Services and policies real, and the suite's smoke set of
//! them passes. So it does with kube-proxy, in both of its modes.

#![allow(clippy::unwrap_used, reason = "a panic is the report")]

#[path = "../osier/world.rs"]
#[allow(dead_code, reason = "of the other test it is the way to the programs")]
mod world;

use osier_kubelab::{Cluster, Osier, Outcome, Proxy, SERVICES, Settings, Suite};
use std::time::Duration;

/// Inside and by nodes' ports, both transports, affinity, and names, which are a Service themselves.
const SERVING: &str = r"\[sig-network\] (Services should (serve .*|be able to create a functioning NodePort.*|have session affinity work .*)|DNS should provide DNS for services) .*\[Conformance\]";

/// What comes in by labels of pods and namespaces, what goes out by nothing and by addresses, and the API.
const JUDGING: &str = r"\[sig-network\] Netpol (API should|NetworkPolicy between server and client should (enforce policy based on PodSelector and NamespaceSelector|deny egress from all pods in a namespace|enforce except clause))";

#[test]
fn services_and_policies_are_real_without_kube_proxy() {
    let values = [&["datapath=netdev"][..], &SERVICES].concat();
    passes(Proxy::None, &values);
}

/// Services by kube-proxy, through every node's service gateway: policies hold there, too.
#[test]
#[ignore = "minutes: run by `make soak`"]
fn soak_of_kube_proxy_with_iptables() {
    passes(Proxy::Iptables, &["datapath=netdev"]);
}

#[test]
#[ignore = "minutes: run by `make soak`"]
fn soak_of_kube_proxy_with_nftables() {
    passes(Proxy::Nftables, &["datapath=netdev"]);
}

fn passes(proxy: Proxy, values: &[&str]) {
    let programs = world::programs();
    let settings = Settings { dual: true, proxy, ..Settings::default() };
    let cluster = Cluster::up(settings).unwrap();
    let osier = Osier::of_programs(cluster.lab(), &programs, "test", values).unwrap();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cluster.install_osier(&osier).unwrap();
        // It asks the API server by the address of a Service.
        cluster.install_dns().unwrap();
        smoke(&cluster);
    }));
    if let Err(panic) = done {
        println!("logs: {:?}", cluster.keep_logs());
        std::panic::resume_unwind(panic);
    }
}

fn smoke(cluster: &Cluster) {
    let suite = Suite {
        focus: format!("{SERVING}|{JUDGING}"),
        skip: String::new(),
        processes: 4,
        timeout: Duration::from_mins(10),
        arguments: Vec::new(),
    };
    let dir = cluster.lab().dir().join("e2e");
    let report = suite.run(&cluster.layout().unwrap(), &dir).unwrap();
    let (passed, failed) = (report.count(Outcome::Passed), report.count(Outcome::Failed));
    assert!(failed == 0 && passed >= 6 + 5, "{}", report.to_table());
    println!("{passed} specs passed");
}
