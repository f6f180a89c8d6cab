//! Pools, and whose addresses else are.

use crate::rig::{Rig, resource};
use serde_json::{Value, json};

/// Who has addresses.
fn taken() -> Vec<Value> {
    vec![
        resource(
            "Fabric",
            "default",
            &json!({"cluster": ["10.1.0.0/16", "fd01::/48"], "services": ["10.96.0.0/16"]}),
        ),
        resource(
            "Node",
            "n1",
            &json!({"tunnel": "192.0.2.1", "addresses": ["192.0.2.129"], "blocks": ["10.2.1.0/24"]}),
        ),
        resource("Pool", "red", &json!({"cidr": "10.5.0.0/24", "exclude": ["10.5.0.128/25"]})),
        resource("Pool", "six", &json!({"cidr": "fd05::/64"})),
    ]
}

fn pool(cidr: &str, exclude: &[&str]) -> Value {
    resource("Pool", "green", &json!({"cidr": cidr, "exclude": exclude}))
}

fn model(rig: &Rig) -> [Value; 3] {
    ["fabrics", "nodes", "pools"]
        .map(|plural| rig.get(&format!("/{plural}")).expect(200)["items"].clone())
}

/// What a pool gives out is nobody else's, whoever comes later.
#[test]
fn pools_are_apart_from_all_else() {
    let rig = Rig::new();
    rig.apply(&taken());
    let before = model(&rig);
    for (item, said) in [
        (pool("10.5.0.0/16", &[]), "Pool green: spec.cidr: 10.5.0.1 is given out by pool red, too"),
        (
            pool("fd05::/48", &["fd05::/120"]),
            "Pool green: spec.cidr: fd05::100 is given out by pool six, too",
        ),
        (
            pool("10.2.0.0/16", &[]),
            "Pool green: spec.cidr: 10.2.1.0, which it gives out, is of the block 10.2.1.0/24 of node n1",
        ),
        (
            pool("10.1.200.0/24", &[]),
            "Pool green: spec.cidr: 10.1.200.1, which it gives out, is of 10.1.0.0/16, which nodes' \
             blocks are taken from",
        ),
        (
            pool("10.96.7.0/24", &[]),
            "Pool green: spec.cidr: 10.96.7.1, which it gives out, is of the fabric's services 10.96.0.0/16",
        ),
        (
            pool("192.0.2.0/24", &["192.0.2.128/25"]),
            "Pool green: spec.cidr: 192.0.2.1, which it gives out, is node n1's own",
        ),
        (
            pool("192.0.2.128/25", &[]),
            "Pool green: spec.cidr: 192.0.2.129, which it gives out, is node n1's own",
        ),
        (
            pool("10.6.0.0/30", &["10.6.0.1/32", "10.6.0.2/32"]),
            "Pool green: spec.exclude: no address is left to give",
        ),
        (
            resource("Node", "n2", &json!({"tunnel": "10.5.0.7", "blocks": ["10.2.2.0/24"]})),
            "Node n2: spec.tunnel: 10.5.0.7 of 10.5.0.7/32 is given out by pool red",
        ),
        (
            resource("Node", "n2", &json!({"tunnel": "192.0.2.2", "blocks": ["10.5.0.64/26"]})),
            "Node n2: spec.blocks[0]: 10.5.0.64 of 10.5.0.64/26 is given out by pool red",
        ),
        (
            resource(
                "Fabric",
                "default",
                &json!({"cluster": ["10.1.0.0/16"], "services": ["10.5.0.0/16"]}),
            ),
            "Fabric default: spec.services[0]: 10.5.0.1 of 10.5.0.0/16 is given out by pool red",
        ),
    ] {
        let answer = rig.send("POST", "/apply", &json!({"items": [item]}));
        assert_eq!(answer.refused(422, "Invalid"), said);
        assert_eq!(model(&rig), before, "{said}");
    }
}

#[test]
fn pools_that_come_together_are_apart_or_refused() {
    let rig = Rig::new();
    rig.apply(&taken());
    let before = model(&rig);
    // Two that come together.
    let both = [pool("10.7.0.0/24", &[]), resource("Pool", "b", &json!({"cidr": "10.7.0.0/30"}))];
    let said = rig.send("POST", "/apply", &json!({"items": both})).refused(422, "Invalid");
    assert!(said.contains("10.7.0.1 is given out by pool"), "{said}");
    assert_eq!(model(&rig), before);
    // Side by side, in one prefix.
    rig.apply(&[pool("10.5.0.0/24", &["10.5.0.0/25"])]);
    rig.apply(&[resource("Node", "n2", &json!({"tunnel": "192.0.2.2"}))]);
}
