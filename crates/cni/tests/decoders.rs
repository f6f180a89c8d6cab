//! Every decoder of what others wrote, fed with rubbish and with almost right documents: none may
//! panic, and what is understood must print.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_cni::config::{
    AttachRequest, DetachRequest, GcRequest, Header, NetworkConfig, version_of,
};
use osier_cni::rpc::{Reply, Request};
use osier_cni::spec::{AddResult, CniArgs, Command, Environment, Error, Version};
use proptest::prelude::*;

fn all(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let environment = |command| Environment {
        command,
        container_id: "a".into(),
        netns: "/n".into(),
        ifname: "eth0".into(),
        args: text.clone(),
        path: String::new(),
        netns_override: false,
    };
    let _ = version_of(bytes);
    let _ = Header::decode(bytes);
    let _ = NetworkConfig::decode(bytes);
    let _ = AttachRequest::decode(&environment(Command::Add), bytes);
    let _ = DetachRequest::decode(&environment(Command::Del), bytes);
    let _ = GcRequest::decode(bytes);
    let _ = CniArgs::parse(&text);
    if let Ok(error) = Error::decode(bytes) {
        let _ = error.render(Version::NEWEST);
    }
    if let Ok(reply) = Reply::decode(bytes) {
        assert_eq!(Reply::decode(&reply.encode().unwrap()[4..]).unwrap(), reply);
    }
    if let Ok(request) = Request::decode(bytes) {
        let _ = request.call();
        assert_eq!(
            Request::decode(&request.encode().unwrap()[4..]).unwrap().environment,
            request.environment
        );
    }
    if let Ok(result) = AddResult::decode(bytes) {
        for version in Version::ALL {
            let text = result.render(version);
            let read = AddResult::decode(text.as_bytes()).unwrap();
            assert_eq!(read.render(version), text);
        }
    }
}

/// Documents that are right, to be spoilt.
const SEEDS: &[&str] = &[
    include_str!("configs/osier.json"),
    include_str!("configs/odlovs-cni.json"),
    include_str!("configs/odlcoe-chained.json"),
    include_str!("configs/ovs-odl.json"),
    r#"{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mac":"a","mtu":1,"sandbox":"/n","socketPath":"/s","pciID":"0"}],"ips":[{"version":"4","address":"10.0.0.1/8","gateway":"10.0.0.2","interface":0}],"routes":[{"dst":"::/0","gw":"::1","mtu":1,"advmss":1,"priority":1,"table":1,"scope":1}],"dns":{"nameservers":["a"],"domain":"d","search":["s"],"options":["o"]},"ip4":{"ip":"10.0.0.1/8","routes":null}}"#,
    r#"{"cniVersion":"1.0.0","code":7,"msg":"m","details":"d"}"#,
    r#"{"protocol":1,"error":{"code":7,"msg":"m"}}"#,
    r#"{"protocol":1,"result":{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.1/8"}]}}"#,
    r#"{"protocol":1,"environment":{"command":"GC"},"timeoutMs":1,"config":{"cniVersion":"1.1.0","name":"n","type":"osier","cni.dev/valid-attachments":[{"containerID":"a","ifname":"b"}]}}"#,
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;IP=10.0.0.1;MAC=02:00:00:00:00:01",
];

/// Pieces that change the meaning of a document.
const PIECES: &[&str] = &[
    "null",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "1e999",
    "18446744073709551616",
    "true",
    ",",
    "}",
    "]",
    "\"",
    "\u{0}",
    "\u{1f980}",
];

#[test]
fn the_seeds_are_right() {
    for seed in SEEDS {
        all(seed.as_bytes());
    }
}

proptest! {
    #[test]
    fn rubbish_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        all(&bytes);
    }

    #[test]
    fn spoilt_documents_are_refused_or_read(
        seed in prop::sample::select(SEEDS),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), 0..12usize, prop::sample::select(PIECES)), 1..4),
    ) {
        let mut bytes = seed.as_bytes().to_vec();
        for (at, cut, piece) in spoils {
            let at = at.index(bytes.len() + 1);
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, piece.bytes());
        }
        all(&bytes);
    }
}
