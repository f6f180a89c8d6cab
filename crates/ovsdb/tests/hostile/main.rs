//! Hostile inputs, replayed through every decoder: chosen by hand, and made from good ones by
//! chance. Whatever comes, the process lives.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report")]

mod targets;

use proptest::prelude::*;
use targets::TARGETS;

/// Good inputs of all decoders, to be spoiled.
const SEEDS: &[&str] = &[
    r#"{"id":1,"result":[false,"00000000-0000-0000-0000-000000000000",{"Bridge":{}}],"error":null}"#,
    r#"{"id":null,"method":"update3","params":["osier-1","00000000-0000-0000-0000-000000000001",{"Bridge":{"0a5aa98b-0339-4fc8-b333-f5f8b2819d57":{"modify":{"name":"br0"}}}}]}"#,
    r#"{"id":"echo","method":"echo","params":[]}"#,
    r#"{"id":2,"result":{"_Server":{}},"error":null}"#,
    r#"{"Bridge":{"0a5aa98b-0339-4fc8-b333-f5f8b2819d57":{"insert":{"name":"br0","ports":["set",[["uuid","3ee3d821-e54d-431a-a12e-dce93e981989"]]],"external_ids":["map",[["a","b"],["c d","1"]]],"flood_vlans":["set",[1,2,3]]}}},"Port":{"3ee3d821-e54d-431a-a12e-dce93e981989":{"old":{"tag":5},"new":{"tag":6,"name":"p"}}}}"#,
    r#"{"Bridge":{"0a5aa98b-0339-4fc8-b333-f5f8b2819d57":{"delete":null}}}"#,
    r#"[{"uuid":["uuid","a8061ab7-ea06-4c82-8a1f-7104db680b47"]},{"details":"Table Port column interfaces row a8061ab7-ea06-4c82-8a1f-7104db680b47 references nonexistent row a0f1a2b3-0001-4abc-8def-0123456789ab in table Interface.","error":"referential integrity violation"}]"#,
    r#"["map",[[1,["uuid","a8061ab7-ea06-4c82-8a1f-7104db680b47"]],[2,1.5]]]"#,
    r#"["set",["a","b",true,-5,1e300]]"#,
    r#"{"name":"D","version":"1.0.0","tables":{"T":{"isRoot":true,"maxRows":3,"indexes":[["c"]],"columns":{"c":{"type":{"key":{"type":"string","enum":["set",["a","b"]]},"value":{"type":"uuid","refTable":"T","refType":"weak"},"min":0,"max":"unlimited"},"ephemeral":true,"mutable":false}}}}}"#,
    "\u{5}{a=b, \"c d\"=\"1\"}",
    "\u{9}[1, 2]",
    "ssl:[::1]:6640",
    "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=40000,dport=80),reply=(src=10.0.0.3,dst=10.0.0.1,sport=8080,dport=40000),zone=5,mark=7,labels=0x1,protoinfo=(state=ESTABLISHED)",
    "netdev@ovs-netdev: hit:3 missed:1\n  br0:\n    br0 65534/1: (tap)\n",
    "netdev@ovs-netdev:\n  flows         : (current 4) (avg 2) (max 9) (limit 200000)\n",
    "txn_success                0.2/sec     0.017/sec        0.0003/sec   total: 12\n",
    "atoms:27 udpif keys:47",
];

/// What has broken parsers before.
fn nasty() -> Vec<Vec<u8>> {
    let mut inputs: Vec<Vec<u8>> = SEEDS.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    for opening in ["[", "{\"a\":", "[\"set\",[", "[\"map\",[[", "(", "\"", "{\"tables\":", "\\"] {
        inputs.push(opening.repeat(50_000).into_bytes());
        inputs.push(format!("{{\"Bridge\":{}", opening.repeat(50_000)).into_bytes());
    }
    let texts = [
        "",
        " ",
        "\0",
        "{",
        "}",
        "{}{}{}",
        "{\"a\":\"\\",
        "{\"a\":\"\\ud800\"}",
        "[\"uuid\",\"\"]",
        "[\"set\",[[\"set\",[]]]]",
        "99999999999999999999999999",
        "-9223372036854775809",
        "1e400",
        "-0.0",
        "[null]",
        "[{}]",
        "[{\"error\":5}]",
        "[null,null,null,{\"error\":\"x\"}]",
        "{\"Bridge\":null}",
        "{\"Bridge\":{\"x\":{}}}",
        "{\"Bridge\":{\"0a5aa98b-0339-4fc8-b333-f5f8b2819d57\":{}}}",
        "{\"Bridge\":{\"0a5aa98b-0339-4fc8-b333-f5f8b2819d57\":{\"modify\":{\"name\":{}}}}}",
        "{\"id\":null,\"method\":\"monitor_canceled\",\"params\":[\"osier-0\"]}",
        "{\"id\":null,\"method\":\"locked\",\"params\":[\"x\"]}",
        "{\"id\":1,\"id\":2,\"method\":\"echo\"}",
        "ssl:[",
        "tcp:[]:0",
        "unix:",
        "tcp:a:65536",
        "tcp,orig=(",
        "tcp,orig=(),reply=()",
        "=",
        "a=(",
        ",,,,,",
    ];
    inputs.extend(texts.iter().map(|text| text.as_bytes().to_vec()));
    inputs.push(vec![0xff; 1000]);
    inputs.push([b"{\"a\":\"".as_slice(), &[0xc3, 0x28], b"\"}"].concat());
    inputs
}

#[test]
fn no_nasty_input_fails() {
    for (name, body) in TARGETS {
        for input in nasty() {
            // Shown if the body panics.
            println!("{name} {}", String::from_utf8_lossy(&input[..input.len().min(200)]));
            body(&input);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_spoiled_input_fails(
        seed in 0..SEEDS.len(),
        target in 0..TARGETS.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<Option<u8>>(), 0u8..3), 1..6),
    ) {
        let mut input = SEEDS[seed].as_bytes().to_vec();
        for (at, byte, kind) in edits {
            let at = at.index(input.len());
            match (kind, byte) {
                (0, Some(byte)) => input[at] = byte,
                (1, Some(byte)) => input.insert(at, byte),
                (2, _) if input.len() > 1 => drop(input.remove(at)),
                _ => input.truncate(at.max(1)),
            }
        }
        (TARGETS[target].1)(&input);
    }
}
