//! Clients of Services that stay for longer than a flow can last, where no agent adds the rest.

use crate::rig::{BRIDGE, Dial, PATIENCE, Pod, Rig};
use crate::services::{answer, answers_at};
use osier_testbed::wait_until;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Who answers at 10.96.0.10: these, of the first node.
fn model(endpoints: &[&Pod]) -> String {
    let endpoints: Vec<String> =
        endpoints.iter().map(|pod| format!("{{ address: {}, node: n1 }}", pod.address)).collect();
    format!(
        "apiVersion: osier.dev/v1alpha1
kind: Service
metadata: {{ name: 'red:web' }}
spec: {{ addresses: [10.96.0.10], ports: [{{ port: 80 }}], affinity: 86400 }}
---
apiVersion: osier.dev/v1alpha1
kind: Endpoints
metadata: {{ name: 'red:web-1' }}
spec: {{ service: 'red:web', ports: [{{ port: 8080 }}], endpoints: [{}] }}
",
        endpoints.join(", ")
    )
}

#[test]
fn a_client_stays_for_longer_than_a_flow_can_last_without_an_agent() {
    let rig = Rig::new(1, Rig::allowed());
    rig.put_node(0);
    rig.make_bridge(0, Dial::Switch);
    let (client, other) = (rig.pod(4, "client", "red", 0), rig.pod(7, "other", "red", 0));
    let (e1, e2) = (rig.pod(5, "e1", "red", 0), rig.pod(6, "e2", "red", 0));
    answer(&e1, "e1");
    answer(&e2, "e2");
    client.reaches(e1.address);
    let at: SocketAddr = "10.96.0.10:80".parse().unwrap();
    let led = |pod: &Pod, to: &str| {
        wait_until(to, PATIENCE, || match answers_at(pod, at) {
            names if names == BTreeSet::from([to.to_owned()]) => Ok(()),
            names => Err(format!("{names:?}")),
        })
        .unwrap();
    };
    rig.apply(&model(&[&e1]));
    led(&client, "e1");
    let ovs = rig.node(0).ovs();
    let kept = || -> Vec<String> {
        let table = ["--no-stats", "-O", "OpenFlow15", "dump-flows", BRIDGE, "table=26"];
        let flows = ovs.ofctl(&table).unwrap();
        let learned = |line: &&str| line.contains("cookie=0x6f74");
        flows.lines().filter(learned).map(|line| line.trim().to_owned()).collect()
    };
    let learned = kept();
    let [learned] = learned.as_slice() else { panic!("one client, but {learned:?}") };
    assert!(learned.contains("hard_timeout=65535"), "{learned}");
    // As if that time had passed.
    let over = learned.replace("hard_timeout=65535", "hard_timeout=1");
    ovs.add_flows(BRIDGE, &over).unwrap();
    wait_until("what is left of its time", PATIENCE, || match kept().as_slice() {
        [one] if one.contains("priority=95") && one.contains("hard_timeout=65535") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    rig.apply(&model(&[&e1, &e2]));
    wait_until("the second endpoint to be known", PATIENCE, || {
        let flows = rig.flows(0);
        if flows.contains(&format!("dst={}:8080", e2.address)) { Ok(()) } else { Err(flows) }
    })
    .unwrap();
    led(&client, "e1");
    // Forgotten with its endpoint, and not by others.
    rig.apply(&model(&[&e2]));
    led(&client, "e2");
    led(&other, "e2");
}
