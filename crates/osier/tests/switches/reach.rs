//! Who reaches whom: on one node, over the tunnel, and the machine itself.

use crate::papers::Papers;
use crate::rig::{BRIDGE, CLUSTER, Dial, PATIENCE, Rig};
use osier_testbed::wait_until;

/// Nodes that COE's plugin alone has made.
#[test]
fn pods_reach_one_another_their_gateway_and_their_node() {
    let rig = Rig::new(2, Rig::allowed());
    for node in 0..2 {
        rig.put_node(node);
        rig.make_bridge(node, Dial::Switch);
    }
    let web = rig.pod(4, "web", "red", 0);
    let db = rig.pod(5, "db", "blue", 0);
    let far = rig.pod(6, "far", "red", 1);
    // In the first form of ids.
    let old = rig.add_pod("old", 1, "10.11.2.7", "red:old");
    rig.put_pod(7, "old", "red", 1, "10.11.2.7");
    for (from, to) in
        [(&web, &db), (&db, &web), (&web, &far), (&far, &db), (&old, &web), (&old, &far)]
    {
        from.reaches(to.address);
    }
    web.reaches([10, 11, 1, 1].into());
    far.reaches([10, 11, 2, 1].into());
    let node = rig.node(0).netns();
    osier_testbed::traffic::ping_until(node, web.address, PATIENCE).unwrap();
    let arp = web.netns.ip("neighbour show").unwrap();
    assert!(
        arp.contains("10.11.1.5"),
        "a pod of another namespace is asked for as a neighbour: {arp}"
    );
    let own = "arp_spa=10.11.1.4,arp_tpa=10.11.1.4";
    let flows = rig.flows(0);
    let silent = flows.lines().any(|flow| flow.contains(own) && flow.ends_with("actions=drop"));
    assert!(silent, "nobody answers who asks whether another has its address: {flows}");
}

/// Over TLS a switch needs a certificate of the authority; in the clear it is not heard.
#[test]
fn switches_are_driven_over_tls() {
    let (papers, strangers) = (Papers::new(), Papers::new());
    let [key, certificate, authority] =
        papers.files("controller").map(|file| file.display().to_string());
    let tls = format!(
        "[switches.tls]\nprivate_key = '{key}'\ncertificate = '{certificate}'\n\
         ca_certificate = '{authority}'\n"
    );
    let rig = Rig::new(2, &(Rig::allowed().to_owned() + &tls));
    for (node, papers) in [&papers, &strangers].into_iter().enumerate() {
        rig.put_node(node);
        let [key, certificate, authority] = papers.files("switch").map(|f| f.display().to_string());
        rig.node(node).ovs().vsctl(&["set-ssl", &key, &certificate, &authority]).unwrap();
        rig.make_bridge(node, Dial::Tls);
    }
    let (one, other) = (rig.pod(4, "one", "red", 0), rig.pod(5, "other", "red", 0));
    one.reaches(other.address);
    let protocols = rig.node(1).ovs().vsctl(&["get", "bridge", BRIDGE, "protocols"]).unwrap();
    assert!(!protocols.contains("OpenFlow15"), "a stranger's certificate was taken: {protocols}");
}

/// Switches listen: for both, or for one of the two, and dial for the other.
#[test]
fn a_switch_that_listens_is_dialled() {
    let dials = (1..=3).map(|n| format!("[[switches.dial]]\naddress = '198.51.100.{n}'\n"));
    let rig = Rig::new(3, &(Rig::allowed().to_owned() + &dials.collect::<String>()));
    let pods = [Dial::Controller, Dial::Manager, Dial::OpenFlow].into_iter().enumerate();
    let pods: Vec<_> = pods
        .map(|(node, dial)| {
            rig.put_node(node);
            rig.make_bridge(node, dial);
            ["one", "other"].map(|name| {
                let n = if name == "one" { 4 } else { 5 };
                rig.pod(
                    10 * u32::try_from(node).unwrap() + n,
                    &format!("{name}{node}"),
                    "red",
                    node,
                )
            })
        })
        .collect();
    for (n, [one, other]) in pods.iter().enumerate() {
        one.reaches(other.address);
        one.reaches(pods[(n + 1) % pods.len()][0].address);
    }
}

/// What is off stays off, and who is not allowed is not spoken with.
#[test]
fn who_is_not_allowed_is_refused() {
    let rig = Rig::new(1, "[switches]\nallow = ['203.0.113.0/24']\n");
    rig.put_node(0);
    rig.make_bridge(0, Dial::Switch);
    rig.await_log("a switch at 198.51.100.1 is not allowed");
    let protocols = rig.node(0).ovs().vsctl(&["get", "bridge", BRIDGE, "protocols"]).unwrap();
    assert!(!protocols.contains("OpenFlow15"), "{protocols}");
}

/// A switch may claim no port of another node, and no port that may be two.
#[test]
fn a_wire_that_claims_what_is_not_its_nodes_is_refused() {
    let rig = Rig::new(2, Rig::allowed());
    for node in 0..2 {
        rig.put_node(node);
        rig.make_bridge(node, Dial::Switch);
    }
    let (web, other) = (rig.pod(4, "web", "red", 0), rig.pod(5, "other", "red", 0));
    other.reaches(web.address);
    let thief = rig.add_pod("thief", 1, "10.11.1.4", "red:web");
    rig.await_log("red:web is a port of node n1");
    assert!(thief.misses(other.address), "who is refused sends nothing");
    other.reaches(web.address);
    // The same name in two namespaces, and no address that tells them apart.
    rig.put_pod(8, "twin", "red", 1, "10.11.2.8");
    rig.put_pod(9, "twin", "blue", 1, "10.11.2.9");
    let twin = rig.add_pod("twin", 1, "10.11.2.9", &format!("{CLUSTER}:twin"));
    twin.reaches(web.address);
    let clear = ["remove", "interface", &twin.host, "external_ids", "ip-address"];
    rig.node(1).ovs().vsctl(&clear).unwrap();
    rig.put_pod(10, "twine", "red", 1, "10.11.2.10");
    let clear = ["remove", "interface", &twin.host, "external_ids", "attached-mac"];
    rig.node(1).ovs().vsctl(&clear).unwrap();
    rig.await_log("may be blue:twin or red:twin");
    // Whoever asks how the cluster is, is told so, too.
    let told = || match rig.seats[0].administrator(&["status"]).output().unwrap() {
        said if said.stdout.contains("may be blue:twin or red:twin") => Ok(()),
        said => Err(said.stdout),
    };
    wait_until("the status to tell it", PATIENCE, told).unwrap();
}
