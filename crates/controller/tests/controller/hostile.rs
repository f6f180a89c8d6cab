//! Bad input: refused with the reason, and nothing changes.

use crate::rig::{Rig, resource, until};
use osier_controller::credentials::{self, Role};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// All that is stored of the model.
fn model(rig: &Rig) -> Vec<Value> {
    ["/nodes", "/pools", "/routers", "/networks", "/ports", "/fabrics"]
        .map(|path| rig.get(path).expect(200)["items"].clone())
        .to_vec()
}

#[test]
fn who_may_not_is_refused_and_written_down() {
    let mut rig = Rig::new();
    let router = resource("Router", "r", &json!({})).to_string();
    for header in [
        "X-Nothing: 1",
        "Authorization: Bearer",
        "Authorization: Bearer osier_00000000_00",
        "Authorization: Basic YWRtaW46YWRtaW4=",
    ] {
        let answer = rig.anonymous("/routers", &["-H", header], Some(&router));
        answer.refused(401, "Unauthorized");
        assert!(answer.head.to_lowercase().contains("www-authenticate: bearer"), "{}", answer.head);
    }
    let read = credentials::add(&rig.config.credentials(), "viewer", Role::Read).unwrap();
    let write = std::mem::replace(&mut rig.credential, read.clone());
    until("the new credential", || (rig.get("/routers").status == 200).then_some(()));
    let said = rig.curl("/routers", &[], Some(&router)).refused(403, "Forbidden");
    assert_eq!(said, "credential viewer may read, but this needs write");
    assert_eq!(rig.get("/routers").expect(200)["items"], json!([]));
    credentials::revoke(&rig.config.credentials(), "viewer").unwrap();
    until("the revocation", || (rig.get("/routers").status == 401).then_some(()));
    rig.credential = write;
    rig.curl("/routers", &[], Some(&router)).expect(201);

    let log = std::fs::read_to_string(rig.config.audit_log()).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!(last["objects"], json!(["Router r created"]));
    assert_eq!((&last["status"], &last["from"]), (&json!(201), &json!("127.0.0.1")));
    assert!(last["who"].as_str().unwrap().starts_with("admin ("), "{last}");
    assert!(last["revision"].is_u64());
    assert!(lines.iter().any(|line| line["code"] == "Forbidden"));
    for secret in [&rig.credential, &read] {
        assert!(!log.contains(secret.rsplit('_').next().unwrap()), "a secret is in the log");
    }
}

#[test]
fn what_contradicts_the_model_is_refused() {
    let rig = Rig::new();
    rig.apply(&[
        resource("Node", "n1", &json!({"tunnel": "192.0.2.1", "blocks": ["10.1.1.0/24"]})),
        resource("Network", "blue", &json!({"vni": 7, "subnets": [{"cidr": "10.5.0.0/24"}]})),
        resource(
            "Port",
            "shop:web",
            &json!({"network": "blue", "node": "n1", "addresses": ["10.5.0.9"]}),
        ),
    ]);
    let before = model(&rig);
    for (path, kind, name, spec, said) in [
        (
            "/ports",
            "Port",
            "shop:db",
            json!({"network": "blue", "node": "n1", "addresses": ["10.5.0.9"]}),
            "Port shop:db: spec.addresses[0]: 10.5.0.9 is port shop:web's already",
        ),
        (
            "/ports",
            "Port",
            "shop:db",
            json!({"network": "blue", "node": "n1", "addresses": ["10.6.0.9"]}),
            "Port shop:db: spec.addresses[0]: 10.6.0.9 is not a usable address of network blue",
        ),
        (
            "/ports",
            "Port",
            "shop:db",
            json!({"network": "blue", "node": "n7"}),
            "Port shop:db: spec.node: there is no node n7",
        ),
        (
            "/networks",
            "Network",
            "green",
            json!({"vni": 7}),
            "Network green: spec.vni: 7 is network blue's already",
        ),
        (
            "/networks",
            "Network",
            "green",
            json!({"subnets": [{"cdir": "10.0.0.0/8"}]}),
            "Network green: spec.subnets[0].cdir: no such field: did you mean cidr?",
        ),
        (
            "/nodes",
            "Node",
            "n2",
            json!({"tunnel": "192.0.2.2", "blocks": ["10.1.0.0/16"]}),
            "Node n2: spec.blocks[0]: 10.1.0.0/16 overlaps node n1",
        ),
        (
            "/nodes",
            "Node",
            "../n2",
            json!({"tunnel": "192.0.2.2"}),
            "Node ../n2: metadata.name: \"../n2\" has '/': names have letters, digits and . - _ : @",
        ),
    ] {
        let answer = rig.send("POST", path, &resource(kind, name, &spec));
        assert_eq!(answer.refused(422, "Invalid"), said);
    }
    assert_eq!(model(&rig), before);
}

#[test]
fn what_is_no_request_is_refused() {
    let rig = Rig::new();
    rig.apply(&[resource("Network", "blue", &json!({}))]);
    let before = model(&rig);
    let wrong_kind = rig.send("POST", "/routers", &resource("Network", "x", &json!({})));
    assert_eq!(
        wrong_kind.refused(422, "Invalid"),
        "Network x: kind: a Network was sent where a Router belongs"
    );
    let twice = json!({"items": [resource("Router", "r", &json!({})), resource("Router", "r", &json!({}))]});
    rig.send("POST", "/apply", &twice).refused(400, "Malformed");
    for body in ["", "{", "[]", "\"x\"", "{\"items\": 3}", &"[".repeat(100_000)] {
        rig.curl("/apply", &["-X", "POST"], Some(body)).refused(400, "Malformed");
    }
    rig.send("PATCH", "/networks/blue", &json!({"status": {"vni": 9}})).refused(422, "Invalid");
    rig.send("POST", "/nodes/n9/token", &json!({})).refused(422, "Invalid");
    rig.send("POST", "/nodes/n9/token", &json!({"address": "192.0.2.9", "ttlSeconds": 0}))
        .refused(422, "Invalid");
    rig.get("/podds").refused(404, "NotFound");
    rig.get("/../../../etc/passwd").refused(404, "NotFound");
    assert_eq!(rig.curl("/status", &["-X", "DELETE"], None).status, 405);
    assert_eq!(model(&rig), before);
}

#[test]
fn giant_requests_are_refused() {
    let rig = Rig::with(|config| config.limits.body_bytes = 100_000);
    let giant = format!("{{\"items\": [\"{}\"]}}", "x".repeat(1_000_000));
    rig.curl("/apply", &["-X", "POST"], Some(&giant)).refused(413, "TooLarge");
    let chunked = ["-X", "POST", "-H", "Transfer-Encoding: chunked"];
    rig.curl("/apply", &[&chunked[..], &["--http1.1"]].concat(), Some(&giant))
        .refused(413, "TooLarge");
    let header = format!("X-Giant: {}", "x".repeat(60_000));
    for version in ["--http1.1", "--http2"] {
        let answer = rig.curl("/status", &[version, "-H", &header], None);
        assert!(matches!(answer.status, 431 | 0), "{answer:?}");
    }
    rig.get("/status").expect(200);
}

#[test]
fn slow_requests_end() {
    let rig = Rig::with(|config| {
        config.limits.request_seconds = 2;
        config.limits.header_seconds = 2;
    });
    let body = json!({"items": [resource("Router", "r", &json!({}))]}).to_string();
    let slow = ["-X", "POST", "--limit-rate", "20"];
    let answer = rig.curl("/apply", &slow, Some(&format!("{body}{}", " ".repeat(2000))));
    assert!(matches!(answer.status, 408 | 0), "{answer:?}");
    // A busy machine may be slow itself.
    let routers = until("a list", || Some(rig.get("/routers")).filter(|list| list.status == 200));
    assert_eq!(routers.expect(200)["items"], json!([]));
    // Neither a handshake that never comes nor one that never ends holds a place for long.
    for bytes in [&b""[..], &b"\x16\x03\x01\x02\x00\x01"[..]] {
        let mut stream = TcpStream::connect(rig.api).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(bytes).unwrap();
        let ended = stream.read(&mut [0; 100]);
        assert!(
            matches!(ended, Ok(0))
                || ended.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset)
        );
    }
}

#[test]
fn too_many_requests_are_told_to_wait() {
    let rig = Rig::with(|config| {
        config.limits.burst = 5;
        config.limits.requests_per_second = 1;
    });
    // Many at once: one after the other they may be slow enough.
    let answer = until("the limit", || {
        std::thread::scope(|scope| {
            let get = || rig.get("/routers");
            let answers: Vec<_> = (0..12).map(|_| scope.spawn(get)).collect();
            let answers = answers.into_iter().map(|answer| answer.join().unwrap());
            answers.filter(|answer| answer.status == 429).last()
        })
    });
    answer.refused(429, "TooMany");
    assert!(answer.head.to_lowercase().contains("retry-after: "), "{}", answer.head);
    assert_eq!(rig.anonymous("//healthz", &[], None).status, 200);
}

#[test]
fn only_so_many_watch() {
    let rig = Rig::with(|config| config.limits.watches = 1);
    let mut first = rig.watching("/routers?watch=true");
    until("the first watch", || {
        rig.get("//metrics").body.contains("osier_controller_watches 1").then_some(())
    });
    rig.get("/routers?watch=true").refused(429, "TooMany");
    first.kill().unwrap();
    first.wait().unwrap();
    // Its place is another's when the server has seen that it is gone.
    until("the place of the first", || {
        rig.get("//metrics").body.contains("osier_controller_watches 0").then_some(())
    });
}
