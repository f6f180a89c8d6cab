//! Captured messages, both ways: bytes of a real switch and of `ovs-ofctl` decode to the expected
//! values, and the values encode to the same bytes.
//!
//! `fixtures/capture.py` makes the files. Each holds the command in a comment, then one message
//! to a line: `>` to the switch, `<` from it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[path = "fixtures/values.rs"]
mod values;

use osier_openflow::message::{ErrorCode, ErrorMessage, Header, Message};
use osier_openflow::wire::Writer;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// One captured message.
pub struct Captured {
    /// The file's name and the message's place in it.
    pub name: String,
    /// The message.
    pub bytes: Vec<u8>,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn parse_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|d| std::str::from_utf8(d).unwrap());
    digits.map(|d| u8::from_str_radix(d, 16).unwrap()).collect()
}

/// The messages of one file.
pub fn fixture(name: &str) -> Vec<Captured> {
    let text = std::fs::read_to_string(directory().join(format!("{name}.hex"))).unwrap();
    assert!(text.starts_with("# "), "{name} does not say what made it");
    let messages = text.lines().filter_map(|l| l.strip_prefix("> ").or(l.strip_prefix("< ")));
    let messages = messages
        .enumerate()
        .map(|(at, line)| Captured { name: format!("{name} {at}"), bytes: parse_hex(line) });
    messages.collect()
}

/// The messages of all files.
fn fixtures() -> Vec<Captured> {
    let mut names: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "hex"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names.iter().flat_map(|name| fixture(name)).collect()
}

fn encode(xid: u32, message: &Message) -> Vec<u8> {
    let mut w = Writer::new();
    message.encode(xid, &mut w).unwrap();
    w.into_bytes()
}

/// What `ovs-ofctl` says of a message.
fn ofp_print(bytes: &[u8]) -> String {
    let hex = bytes.iter().fold(String::new(), |mut hex, b| {
        write!(hex, "{b:02x}").unwrap();
        hex
    });
    let output = Command::new("ovs-ofctl").args(["ofp-print", &hex, "3"]).output().unwrap();
    assert!(output.status.success(), "ovs-ofctl ofp-print {hex}");
    // The last lines are a dump of the bytes.
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.lines().filter(|l| !l.starts_with("00000")).collect::<Vec<_>>().join("\n");
    text.replace("(OF1.1)", "(OF1.5)")
}

const WIDE: &str = "a pair of registers where we write one";

/// Messages that Open vSwitch writes in other bytes than we do, and why.
const NOT_CANONICAL: [(&str, &str); 13] = [
    ("add-flow 0", WIDE),
    ("dump-flows 1", WIDE),
    ("dump-meters 1", "a burst size that nobody asked for"),
    ("dump-ports 1", "Intel's counters of sizes, all unknown"),
    ("error-experimenter 0", "tunnel metadata with leading zeros"),
    ("hello-failed 2", "version 1.1, which the peer asked for"),
    ("monitor 1", WIDE),
    ("monitor 4", WIDE),
    ("packet-in2 8", WIDE),
    ("packet-in2 9", WIDE),
    ("packet-in2 10", WIDE),
    ("packet-out 0", WIDE),
    ("request-forward 4", "a burst size that nobody asked for"),
];

#[test]
fn what_is_decoded_encodes_to_the_same_bytes() {
    let mut others = Vec::new();
    for Captured { name, bytes } in fixtures() {
        let (xid, message) = Message::decode(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let again = encode(xid, &message);
        assert_eq!(Message::decode(&again).unwrap(), (xid, message), "{name}");
        if again != bytes {
            assert_eq!(ofp_print(&again), ofp_print(&bytes), "{name}");
            others.push(name);
        }
    }
    assert_eq!(others, NOT_CANONICAL.map(|(name, _)| name));
}

#[test]
fn every_message_is_known() {
    for Captured { name, bytes } in fixtures() {
        let (_, message) = Message::decode(&bytes).unwrap();
        let made_up = name.starts_with("experimenter 0") || name == "monitor-abbrev 6";
        match message {
            Message::Unknown { .. } => panic!("{name}"),
            Message::Experimenter(_) => assert!(made_up, "{name}"),
            _ => assert!(!made_up),
        }
    }
}

#[test]
fn a_cut_message_is_an_error_or_a_shorter_one() {
    for Captured { name, bytes } in fixtures() {
        for len in 0..bytes.len() {
            // With the length that it had, and with one that fits what is left.
            assert!(Message::decode(&bytes[..len]).is_err(), "{name} at {len}");
            let mut cut = bytes[..len].to_vec();
            if let Some(length) = cut.get_mut(2..4) {
                length.copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
            }
            if let Ok((xid, message)) = Message::decode(&cut) {
                encode(xid, &message);
            }
        }
    }
}

#[test]
fn a_damaged_message_is_an_error_or_another_one() {
    // A small generator of our own: the same damage on each run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 16).unwrap() % below
    };
    for Captured { name, bytes } in fixtures() {
        for _ in 0..300 {
            let mut damaged = bytes.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                damaged[at] = u8::try_from(random(256)).unwrap();
            }
            let Ok((xid, message)) = Message::decode(&damaged) else { continue };
            let mut w = Writer::new();
            if message.encode(xid, &mut w).is_ok() {
                let again = Message::decode(w.as_slice());
                assert_eq!(again.unwrap(), (xid, message), "{name}: {damaged:02x?}");
            }
        }
    }
}

/// What `ovs-ofctl` says of many messages: the first line of each.
fn ofp_parse(bytes: &[u8]) -> Vec<String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let output = Command::new("ovs-ofctl").arg("ofp-parse").arg(file.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.starts_with("OFPT_ERROR")).map(str::to_owned).collect()
}

#[test]
fn errors_have_the_names_of_open_vswitch() {
    let standard = (0..30).flat_map(|kind| (0..40).map(move |code| (kind, code)));
    let mut codes: Vec<ErrorCode> =
        standard.map(|(kind, code)| ErrorCode::Standard { kind, code }).collect();
    let nicira = (0..100).map(|kind| ErrorCode::Experimenter { experimenter: 0x2320, kind });
    codes.extend(nicira);
    let mut w = Writer::new();
    for code in &codes {
        let data = vec![6, 20, 0, 8, 0, 0, 0, 1];
        Message::Error(ErrorMessage { code: *code, data }).encode(1, &mut w).unwrap();
    }
    let printed = ofp_parse(w.as_slice());
    assert_eq!(printed.len(), codes.len());
    for (code, printed) in codes.iter().zip(printed) {
        let name = printed.rsplit_once(": ").unwrap().1;
        let known = (!printed.contains("***decode error")).then_some(name);
        assert_eq!(code.name(), known, "{code:?}");
    }
}

#[test]
fn unknown_messages_survive() {
    for kind in [22, 23, 31, 35, 99, 255] {
        let bytes = [6, kind, 0, 12, 0, 0, 0, 9, 1, 2, 3, 4];
        let (xid, message) = Message::decode(&bytes).unwrap();
        assert_eq!(message, Message::Unknown { kind, body: vec![1, 2, 3, 4] });
        assert_eq!(encode(xid, &message), bytes);
    }
}

#[test]
fn another_version_is_refused_save_where_all_versions_are_alike() {
    let hello = [1, 0, 0, 8, 0, 0, 0, 9];
    assert!(Message::decode(&hello).is_ok());
    let features = [4, 6, 0, 32, 0, 0, 0, 9];
    let features = [features.as_slice(), &[0; 24]].concat();
    let e = Message::decode(&features).unwrap_err();
    assert_eq!(e.to_string(), "header at byte 0: value 0x4, expected version 6");
    assert_eq!(Header::decode(&[6, 14, 0, 8, 0, 0, 0, 1]).unwrap().name(), Some("flow-mod"));
}
