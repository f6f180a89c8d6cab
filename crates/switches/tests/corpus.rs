//! The fuzz target's corpus, through its body; and steps at random, of words that mean something.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/switches.rs"]
#[allow(unreachable_pub, reason = "public to the fuzz targets")]
mod target;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_oneof, proptest};
use proptest::sample::select;

const IDS: [&str; 8] =
    ["red:web", "blue:web", "c:web", "c:db", "red:db", "red:web:eth1", "web", "c:web:eth1"];
const PORTS: [&str; 6] =
    ["red:web", "blue:web", "c:web", "red:db", "blue:web:eth1", "red:web:eth1"];
/// A word that is empty is not said.
const MACS: [&str; 4] = ["0a:00:00:00:00:01", "0a:00:00:00:00:02", "ff:ff:ff:ff:ff:ff", ""];
const ADDRESSES: [&str; 4] = ["10.0.0.1", "10.0.0.2", "fd00::1", ""];

fn step() -> impl Strategy<Value = String> {
    let wire = (
        select(&["w", "w", "w", "o"][..]),
        0..4_u8,
        select(&["5", "6", "65000", "-1", ""][..]),
        select(&IDS[..]),
        select(&MACS[..]),
        select(&ADDRESSES[..]),
    );
    let said =
        |(on, n, ofport, id, mac, address)| format!("{on} {n} {ofport} {id} {mac} {address}");
    let port = (select(&PORTS[..]), select(&["n1", "n1", "n2"][..]), select(&MACS[..2]));
    let port = (port, select(&ADDRESSES[..]));
    prop_oneof![
        4 => wire.prop_map(said),
        1 => (0..4_u8).prop_map(|n| format!("g {n}")),
        3 => port.prop_map(|((name, node, mac), address)| format!("p {name} {node} {mac} {address}")),
        1 => select(&PORTS[..]).prop_map(|name| format!("d {name}")),
        1 => prop_oneof![Just("b br-int".to_owned()), Just("b br-ex".to_owned())],
    ]
}

#[test]
fn the_corpus_is_survived() {
    replay::assert_complete("sw_", target::TARGETS);
    replay::assert_survived(target::TARGETS);
}

proptest! {
    #[test]
    fn wires_are_what_they_would_be_if_they_had_just_come(steps in vec(step(), 1..40)) {
        target::claim(steps.join("\n").as_bytes());
    }
}
