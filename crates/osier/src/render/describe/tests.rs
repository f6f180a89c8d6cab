use super::*;
use serde_json::json;

fn now() -> OffsetDateTime {
    moment::read("2026-01-01T12:00:00Z").unwrap()
}

fn value(kind: &str, name: &str, spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": "osier.dev/v1alpha1", "kind": kind, "spec": spec, "status": status,
        "metadata": {"name": name, "labels": {"tenant": "shop"}, "generation": 2,
            "resourceVersion": "17", "creationTimestamp": "2026-01-01T09:00:00Z"}})
}

fn read(value: &Value) -> Resource {
    Resource::from_value(value).unwrap()
}

fn port(name: &str) -> Value {
    let spec = json!({"network": "blue", "node": "n1"});
    value("Port", name, &spec, &json!({"addresses": ["10.0.0.5"], "mac": "0a:58:0a:00:00:05"}))
}

#[test]
fn a_network_and_its_ports() {
    let spec = json!({"router": "shop", "pools": ["blue"],
        "subnets": [{"cidr": "10.0.0.0/24", "gateway": "10.0.0.1"}]});
    let network = read(&value("Network", "blue", &spec, &json!({"vni": 4097})));
    let resources = vec![
        ("Ports".to_owned(), Kind::Port, vec![port("shop:web")]),
        ("Pools".to_owned(), Kind::Pool, vec![]),
    ];
    let related = Related { resources, node: None };
    let said = "\
Network blue
  VNI                 4097 (allocated)
  Router              shop
  Ports reach others  bridged
  Subnet              10.0.0.0/24, gateway 10.0.0.1
  Addresses from      blue
  Labels              tenant=shop
  Made                3 h ago (2026-01-01T09:00:00Z)
  Revision            version 17, generation 2

Ports: 1
  NAME      NETWORK  NODE  ADDRESSES  AGE
  shop:web  blue     n1    10.0.0.5   3 h

Pools: none
";
    assert_eq!(draw(&network, &related, now(), Paint::OFF), said);
}

#[test]
fn a_node_its_conditions_and_its_tunnels() {
    let status = json!({"blocks": ["10.1.0.0/24"], "conditions": [
        {"type": "Ready", "status": "False", "reason": "Away", "message": "not heard of",
         "lastTransitionTime": "2026-01-01T11:50:00Z"},
        {"type": "Converged", "status": "Unknown"}]});
    let node = read(&value("Node", "n1", &json!({"tunnel": "192.0.2.1"}), &status));
    let state = json!({"name": "n1", "connected": false, "since": "2026-01-01T11:50:00Z",
        "differs": ["port shop:web: its flows are missing"], "faults": ["no switch"],
        "certificateExpiry": "2026-01-01T18:00:00Z",
        "tunnels": [{"peer": "n2", "state": "up", "rttMs": 0.44}, {"peer": "n3", "state": "down"}]});
    let related = Related { resources: vec![], node: Some(serde_json::from_value(state).unwrap()) };
    let said = "\
Node n1
  Tunnels end at  192.0.2.1
  Pods' blocks    10.1.0.0/24 (allocated)
  Agent           not connected, for 10 min
  Switch          not yet as wanted
  Differs         port shop:web: its flows are missing
  Fault           no switch
  Certificate     ends in 6 h
  Labels          tenant=shop
  Made            3 h ago (2026-01-01T09:00:00Z)
  Revision        version 17, generation 2

CONDITION  IS SO    SINCE   WHY
Ready      no       10 min  Away: not heard of
Converged  unknown  -       -

TUNNEL TO  STATE  ROUND TRIP
n2         up     0.4 ms
n3         down   -
";
    assert_eq!(draw(&node, &related, now(), Paint::OFF), said);
}

#[test]
fn every_kind_has_words() {
    let nothing = json!({});
    for (kind, name, spec, said) in [
        ("Fabric", "default", json!({"cluster": ["10.0.0.0/8"]}), "nothing is translated"),
        ("Pool", "p", json!({"cidr": "10.9.0.0/24", "exclude": ["10.9.0.1/32"]}), "Not given out"),
        ("Router", "r", json!({}), "VRF       not allocated yet"),
        ("Router", "r", json!({"vrf": 7}), "VRF       7"),
        ("Network", "n", json!({}), "none: it is alone"),
    ] {
        let text = draw(
            &read(&value(kind, name, &spec, &nothing)),
            &Related::default(),
            now(),
            Paint::OFF,
        );
        assert!(text.contains(said), "{text}");
    }
    let limited =
        json!({"network": "blue", "node": "n1", "limits": {"egress": {"rate": 1_000_000}}});
    let text = draw(
        &read(&value("Port", "a:b", &limited, &nothing)),
        &Related::default(),
        now(),
        Paint::OFF,
    );
    assert!(text.contains("From it    at most 1000000 bit/s"), "{text}");
}
