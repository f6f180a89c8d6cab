//! Floating addresses: a pod is attached to a Service and removed from it, with packets.

use crate::rig::{Dial, PATIENCE, Pod, Rig, uid};
use osier_testbed::traffic::ping_until;
use osier_testbed::wait_until;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address and the path that COE's own samples have.
const FLOATING: IpAddr = IpAddr::V4(Ipv4Addr::new(5, 21, 5, 0));
const SERVICES: &str = "/restconf/config/service:service-information";

/// What the samples send: no ports, and pods by their UUIDs.
fn attach(rig: &Rig, pods: &[u32]) {
    let pods: Vec<String> = pods.iter().map(|n| format!("\"{}\"", uid(*n))).collect();
    let body = format!(
        r#"{{"service:service-information":{{"service:services":[{{
            "service:uid":"EeafFFB7-D9Fc-aAeD-FBc9-8Af8BFaacDD9",
            "service:cluster-ip-address":"{FLOATING}","service:endpoints":[{}]}}]}}}}"#,
        pods.join(",")
    );
    rig.put(SERVICES, &body);
}

/// Says a pod's name to whoever connects.
pub(crate) fn answer(pod: &Pod, name: &'static str) {
    let listener = pod.netns.tcp_listen(SocketAddr::new(pod.address, 8080)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(name.as_bytes());
        }
    });
}

/// Who answers at the floating address, of some connections.
fn answers(from: &Pod) -> BTreeSet<String> {
    answers_at(from, SocketAddr::new(FLOATING, 8080))
}

/// Who answers at an address.
pub(crate) fn answers_at(from: &Pod, at: SocketAddr) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for _ in 0..24 {
        if let Ok(mut stream) = from.netns.tcp_connect(at) {
            let mut name = String::new();
            let _ = stream.read_to_string(&mut name);
            names.insert(name);
        }
    }
    names
}

#[test]
fn a_pod_is_attached_to_a_service_and_removed_from_it() {
    let rig = Rig::new(2, Rig::allowed());
    for node in 0..2 {
        rig.put_node(node);
        rig.make_bridge(node, Dial::Switch);
    }
    let client = rig.pod(4, "client", "red", 0);
    let (near, far) = (rig.pod(5, "near", "red", 0), rig.pod(6, "far", "red", 1));
    client.reaches(near.address);
    client.reaches(far.address);
    answer(&near, "near");
    answer(&far, "far");
    attach(&rig, &[5]);
    client.reaches(FLOATING);
    assert_eq!(answers(&client), BTreeSet::from(["near".to_owned()]));
    // Several pods share it.
    attach(&rig, &[5, 6]);
    let both = BTreeSet::from(["far".to_owned(), "near".to_owned()]);
    let shared = || match answers(&client) {
        names if names == both => Ok(()),
        names => Err(format!("{names:?}")),
    };
    wait_until("both to answer", PATIENCE, shared).unwrap();
    attach(&rig, &[6]);
    let only = || match answers(&client) {
        names if names == BTreeSet::from(["far".to_owned()]) => Ok(()),
        names => Err(format!("{names:?}")),
    };
    wait_until("only one to answer", PATIENCE, only).unwrap();
    client.reaches(FLOATING);
    // None is left: it is silent, and the pods still answer at their own addresses.
    attach(&rig, &[]);
    client.loses(FLOATING);
    client.reaches(far.address);
}

/// Namespaces apart: each is its own router's, and a machine still reaches its own pods.
#[test]
fn isolation_keeps_namespaces_apart_but_not_a_node_from_its_pods() {
    let rig = Rig::new(2, &format!("isolation = true\n{}", Rig::allowed()));
    for node in 0..2 {
        rig.put_node(node);
        rig.make_bridge(node, Dial::Switch);
    }
    let (one, other) = (rig.pod(4, "one", "red", 0), rig.pod(5, "other", "blue", 0));
    let (far, apart) = (rig.pod(6, "far", "red", 1), rig.pod(7, "apart", "blue", 1));
    one.reaches(far.address);
    other.reaches(apart.address);
    for (from, to) in [(&one, &other), (&other, &one), (&one, &apart), (&apart, &far)] {
        assert!(from.misses(to.address), "{} is reached from {}", to.address, from.address);
    }
    let node = rig.node(0).netns();
    ping_until(node, one.address, PATIENCE).unwrap();
    ping_until(node, other.address, PATIENCE).unwrap();
    one.reaches([10, 11, 1, 1].into());
}
