//! Network policies that clients of RESTCONF write, with packets.

use crate::rig::{Dial, PATIENCE, Pod, Rig, uid};
use osier_testbed::wait_until;
use std::net::SocketAddr;

fn path(n: u32) -> String {
    format!("/restconf/config/k8s:k8s/network-policies/network-policy/{}", uid(n))
}

fn put(rig: &Rig, n: u32, name: &str, spec: &str) {
    let (status, said) = rig.curl("PUT", &path(n), Some(&body(n, name, spec)));
    assert_eq!(status, 200, "{said}");
}

fn body(n: u32, name: &str, spec: &str) -> String {
    let id = uid(n);
    format!(
        r#"{{"network-policy":[{{"uuid":"{id}","name":"{name}","network-policy-spec":{spec}}}]}}"#
    )
}

/// A rule for what comes from a peer.
fn from(peer: &str, ports: &str) -> String {
    format!(
        r#"{{"pod-selector":{{"match-labels":[{{"key":"osier.dev/pod-name","value":"web"}}]}},
            "ingress":[{{"network-policy-ingress-rule":{{{ports}
                "from":[{{"network-policy-peer":{peer}}}]}}}}]}}"#
    )
}

/// Listens, and lets whoever comes go again.
fn listen(pod: &Pod) -> SocketAddr {
    let at = SocketAddr::new(pod.address, 8080);
    let listener = pod.netns.tcp_listen(at).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    at
}

#[test]
fn policies_of_restconf_are_enforced_for_its_pods() {
    let rig = Rig::new(2, Rig::allowed());
    for node in 0..2 {
        rig.put_node(node);
        rig.make_bridge(node, Dial::Switch);
    }
    let (web, near) = (rig.pod(4, "web", "red", 0), rig.pod(5, "near", "red", 0));
    let (far, other) = (rig.pod(6, "far", "red", 1), rig.pod(7, "other", "blue", 1));
    for from in [&near, &far, &other] {
        from.reaches(web.address);
    }
    // Its own namespace.
    put(&rig, 1, "red:web", &from(r#"{"peer-pod-selector":{}}"#, ""));
    other.loses(web.address);
    near.reaches(web.address);
    far.reaches(web.address);
    web.reaches(other.address);
    // Who comes later is judged as well.
    let late = rig.pod(8, "late", "red", 1);
    late.reaches(web.address);
    // Another namespace by its name, and only one port.
    let blue = r#"{"peer-namespace-selector":{"match-labels":[
        {"key":"kubernetes.io/metadata.name","value":"blue"}]}}"#;
    let port = r#""ingress-ports":[{"network-policy-port":{"protocol":"TCP","port":"8080"}}],"#;
    put(&rig, 1, "red:web", &from(blue, port));
    near.loses(web.address);
    far.loses(web.address);
    let at = listen(&web);
    wait_until("a connection", PATIENCE, || other.netns.tcp_connect(at).map(drop)).unwrap();
    assert!(other.misses(web.address), "no other port, and no ping");
    // An address.
    let block = format!(r#"{{"ip-block":{{"cidr":"{}/32"}}}}"#, far.address);
    put(&rig, 1, "red:web", &from(&block, ""));
    far.reaches(web.address);
    other.loses(web.address);
    assert!(near.misses(web.address));
    // What cannot be enforced is refused, and nothing changes.
    let labels = r#"{"pod-selector":{"match-labels":[{"key":"app","value":"db"}]}}"#;
    let (status, said) = rig.curl("PUT", &path(2), Some(&body(2, "red:db", labels)));
    assert!(status == 400 && said.contains("match-labels=app"), "{status} {said}");
    assert_eq!(rig.curl("GET", &path(2), None).0, 404);
    // One for every namespace: nothing goes out any more, but answers.
    put(&rig, 3, "quiet", r#"{"policy-types":["egress"]}"#);
    far.loses(web.address);
    assert!(other.misses(late.address));
    rig.delete(&path(3));
    rig.delete(&path(1));
    for from in [&near, &far, &other] {
        from.reaches(web.address);
    }
    assert_eq!(rig.osier(&["get", "workloads", "-o", "name"]), "");
}
