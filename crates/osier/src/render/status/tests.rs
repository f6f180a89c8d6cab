use super::*;
use serde_json::{Value, json};

fn now() -> OffsetDateTime {
    moment::read("2026-01-01T12:00:00Z").unwrap()
}

fn read(value: Value) -> Status {
    serde_json::from_value(value).unwrap()
}

fn node(name: &str, peers: &[(&str, &str)]) -> Value {
    let tunnels: Vec<Value> = peers
        .iter()
        .map(|(peer, state)| match state.parse::<f64>() {
            Ok(rtt) => json!({"peer": peer, "state": "up", "rttMs": rtt}),
            Err(_) => json!({"peer": peer, "state": state}),
        })
        .collect();
    json!({
        "name": name, "connected": true, "since": "2026-01-01T10:00:00Z", "converged": true,
        "convergedSince": "2026-01-01T11:57:00Z", "wantedRevision": 17, "appliedRevision": 17,
        "version": "0.1.0", "ports": 4, "tunnels": tunnels,
        "certificateExpiry": "2026-01-02T12:00:00Z", "somethingNew": [1]
    })
}

fn controller() -> Value {
    json!({"version": "0.1.0", "term": 3, "leader": true, "certificateExpiry": "2026-01-03T12:00:00Z"})
}

#[test]
fn a_healthy_cluster() {
    let status = read(json!({"controller": controller(), "nodes": [
        node("n1", &[("n2", "0.42"), ("n3", "up")]),
        node("n2", &[("n1", "0.4"), ("n3", "unknown")]),
        node("n3", &[("n1", "1.25")]),
    ]}));
    let said = "\
controller 0.1.0, leader of term 3, certificate ends in 2 d

NODE  STATE        SINCE  REVISION  PORTS  VERSION
n1    ✓ converged  3 min  17        4      0.1.0
n2    ✓ converged  3 min  17        4      0.1.0
n3    ✓ converged  3 min  17        4      0.1.0

tunnels, round trips in ms where they are measured
FROM  n1   n2   n3
n1    ·    0.4  up
n2    0.4  ·    ?
n3    1.2  -    ·

✓ all 3 nodes have converged, 1 of 5 tunnels are not measured yet
";
    assert_eq!(draw(&status, false, now(), Paint::OFF), said);
    assert!(problems(&status, now()).is_empty());
}

#[test]
fn each_trouble_is_named() {
    let mut behind = node("n2", &[("n1", "down")]);
    behind["converged"] = json!(false);
    behind["appliedRevision"] = json!(15);
    behind["differs"] = json!(["network blue: 3 flows are missing"]);
    behind["faults"] = json!(["ovs-vswitchd does not answer"]);
    let mut paused = node("n3", &[]);
    paused["paused"] = json!(true);
    let away = json!({"name": "n4", "connected": false, "since": "2026-01-01T11:59:30Z",
        "wantedRevision": 17, "certificateExpiry": "2026-01-01T11:00:00Z"});
    let status =
        read(json!({"controller": controller(), "nodes": [node("n1", &[]), behind, paused, away]}));
    let said = "\
controller 0.1.0, leader of term 3, certificate ends in 2 d

NODE  STATE            SINCE  REVISION    PORTS  VERSION
n1    ✓ converged      3 min  17          4      0.1.0
n2    ✗ behind         2 h    15 of 17    4      0.1.0
n3    ‖ paused         3 min  17          4      0.1.0
n4    ✗ not connected  30 s   none of 17  -      -

n2 differs from what is wanted:
  network blue: 3 flows are missing

tunnels, round trips in ms where they are measured
FROM  n1      n2  n3  n4
n1    ·       -   -   -
n2    ✗ down  ·   -   -
n3    -       -   ·   -
n4    -       -   -   ·

✗ n2: its switch is not yet as wanted
✗ n2: ovs-vswitchd does not answer
✗ n2: the tunnel to n1 is down
✗ n3: paused: nothing is changed there until `osier node resume`
✗ n4: not connected; it goes on with the last it heard
✗ n4: its certificate expired 60 min ago
";
    assert_eq!(draw(&status, false, now(), Paint::OFF), said);
}

#[test]
fn no_nodes_and_many_nodes() {
    let none = read(json!({"controller": {"version": "0.1.0"}, "nodes": []}));
    let said =
        "controller 0.1.0\n\nno nodes yet: `osier node token NAME --address IP` lets one join\n";
    assert_eq!(draw(&none, false, now(), Paint::OFF), said);
    let many: Vec<Value> = (0..13).map(|n| node(&format!("n{n}"), &[("n0", "up")])).collect();
    let many = read(json!({"controller": controller(), "nodes": many}));
    let text = draw(&many, false, now(), Paint::OFF);
    assert!(text.contains("13 of 13 tunnels are not down"), "{text}");
    assert!(text.ends_with("✓ all 13 nodes have converged, all tunnels are up\n"), "{text}");
    let one = read(json!({"controller": controller(), "nodes": [node("n1", &[])]}));
    let text = draw(&one, false, now(), Paint::OFF);
    assert!(text.ends_with("✓ the one node has converged\n"), "{text}");
    assert!(draw(&many, true, now(), Paint::OFF).contains("FROM"));
}
