//! Replays the corpus of the fuzz targets through their bodies, without libFuzzer.
//!
//! `cargo test --test corpus -- --ignored` writes seeds into the corpus: the captured messages and
//! some random flows, groups and meters. `scripts/fuzz` grows and minimises it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[path = "../../../fuzz/src/openflow/mod.rs"]
#[allow(unreachable_pub, reason = "public to the fuzz targets")]
mod bodies;
mod generator;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use bodies::TARGETS;
use generator::{Rng, Scope};
use osier_openflow::flow::{Flow, FlowDesc, FlowMod, FlowStats};
use osier_openflow::group::{Group, GroupMod};
use osier_openflow::message::Message;
use osier_openflow::meter::{Meter, MeterMod};
use osier_openflow::wire::Writer;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

#[test]
fn every_target_has_a_body_and_a_corpus() {
    replay::assert_complete("of_", TARGETS);
}

#[test]
fn no_input_of_the_corpus_fails() {
    replay::assert_survived(TARGETS);
}

// === seeds ===

/// Adds an input to a target's corpus, under a name that follows from its content.
fn seed(target: &str, input: &[u8]) {
    assert!(TARGETS.iter().any(|(name, _)| *name == target), "{target}");
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let directory = replay::fuzz("corpus").join(target);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(format!("{:016x}", hasher.finish())), input).unwrap();
}

fn seed_encoded<E>(target: &str, encode: impl FnOnce(&mut Writer) -> Result<(), E>) {
    let mut w = Writer::new();
    if encode(&mut w).is_ok() {
        seed(target, w.as_slice());
    }
}

/// A whole message, and its body for the target of its type.
fn seed_message(bytes: &[u8]) {
    seed("of_message", bytes);
    let (target, skip) = match (bytes[1], bytes.get(8..16)) {
        (1, _) => ("of_error", 8),
        (4, Some([0, 0, 0x23, 0x20, 0, 0, 0, 28 | 30])) => ("of_packet_in2", 16),
        (4, Some([0, 0, 0x23, 0x20, 0, 0, 0, 24 | 26])) => ("of_tlv_table", 16),
        (14, _) => ("of_flow_mod", 8),
        (15, _) => ("of_group", 8),
        (18, _) => ("of_multipart_request", 8),
        (19, _) => ("of_multipart_reply", 8),
        (29, _) => ("of_meter", 8),
        (34, _) => ("of_bundle", 8),
        _ => return,
    };
    seed(target, &bytes[skip..]);
    match Message::decode(bytes) {
        Ok((_, Message::FlowMod(m))) => seed_flow(&m.flow),
        Ok((_, Message::GroupMod(m))) => seed_group(&m.group),
        Ok((_, Message::MeterMod(m))) => seed("of_meter_text", m.meter.to_string().as_bytes()),
        _ => {}
    }
}

fn seed_flow(flow: &Flow) {
    seed("of_flow_text", flow.to_string().as_bytes());
    seed_encoded("of_match", |w| flow.matching.encode(w));
    seed_encoded("of_instructions", |w| flow.instructions.encode(w));
    let actions = &flow.instructions.apply;
    seed_encoded("of_actions", |w| actions.iter().try_for_each(|action| action.encode(w)));
    let stats = FlowStats {
        duration: Some(Duration::from_millis(1500)),
        idle: Some(Duration::from_secs(1)),
        flows: None,
        packets: Some(7),
        bytes: Some(u64::MAX),
    };
    let desc = FlowDesc { flow: flow.clone(), stats };
    seed_encoded("of_flow_desc", |w| desc.encode(w));
}

fn seed_group(group: &Group) {
    seed("of_group_text", group.to_string().as_bytes());
    seed_encoded("of_group", |w| group.encode_desc(w));
}

fn seed_meter(meter: &Meter) {
    seed("of_meter_text", meter.to_string().as_bytes());
    seed_encoded("of_meter", |w| meter.encode_desc(w));
}

/// The captured messages: each alone, and all that the switch sent as one stream.
fn seed_fixture(text: &str) {
    // Behind a hello, in pieces of 3, 50 and 255 bytes.
    let mut stream = vec![0, 3, 50, 255];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (direction, hex) = line.split_once(' ').unwrap();
        let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
        // A small corpus is a fast one.
        if bytes.len() > 2048 {
            continue;
        }
        seed_message(&bytes);
        if direction == "<" {
            stream.extend(bytes);
        }
    }
    seed("of_session", &stream[..stream.len().min(4096)]);
}

#[test]
#[ignore = "writes into fuzz/corpus"]
fn write_seeds() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for entry in fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "hex") {
            seed_fixture(&fs::read_to_string(path).unwrap());
        }
    }
    let scope = Scope { tun_metadata: &[(0, 4), (5, 16)], unprinted: true };
    let mut rng = Rng(1);
    let mut w = Writer::new();
    for id in 1..=600 {
        w.truncate(0);
        let message = match id % 6 {
            0 => Message::GroupMod(GroupMod::set(generator::group(&mut rng, id, scope))),
            1 => Message::MeterMod(MeterMod::add(generator::meter(&mut rng, id))),
            _ => Message::FlowMod(FlowMod::add(generator::flow(&mut rng, scope))),
        };
        if message.encode(id, &mut w).is_ok() {
            seed_message(w.as_slice());
        }
        if id % 6 == 1 {
            seed_meter(&generator::meter(&mut rng, id));
        }
    }
    for text in
        ["unix:/run/br0.mgmt", "tcp:10.0.0.1:99", "ssl:[fe80::1%eth0]:1", "ptcp:0:[::]", "pssl:"]
    {
        seed("of_endpoint_text", text.as_bytes());
    }
}
