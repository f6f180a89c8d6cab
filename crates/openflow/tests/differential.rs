//! Our bytes and our text against `ovs-ofctl`'s, over random flows of every field and action.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod generator;

use generator::{Rng, Scope};
use osier_openflow::flow::{FlowCommand, FlowMod};
use osier_openflow::group::{BUCKET_ALL, Group, GroupCommand, GroupMod};
use osier_openflow::message::Message;
use osier_openflow::meter::{MeterCommand, MeterMod};
use osier_openflow::text::TableNames;
use osier_openflow::wire::Writer;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::{Duration, Instant};

const FLOWS: u64 = 12_000;
const GROUPS: u32 = 3_000;
const METERS: u32 = 2_000;
const SEED: u64 = 0x05ee_d0f1_0e55;
/// Tunnel metadata fields that take part, with the sizes of their options.
const TUN_METADATA: &[(u8, usize)] = &[(0, 4), (1, 8), (5, 16), (63, 32)];

fn flows(unprinted: bool) -> Vec<FlowMod> {
    let mut rng = Rng(SEED);
    let scope = Scope { tun_metadata: TUN_METADATA, unprinted };
    (0..FLOWS).map(|_| FlowMod::add(generator::flow(&mut rng, scope))).collect()
}

/// Prints messages by `ovs-ofctl ofp-parse`: one text for each.
fn ofp_parse(bytes: &[u8]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("messages");
    std::fs::write(&file, bytes).unwrap();
    let out = Command::new("ovs-ofctl").arg("ofp-parse").arg(&file).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "ovs-ofctl ofp-parse: {errors}");
    text.split("OFPT_").skip(1).map(|s| s.trim_end_matches('\n').to_owned()).collect()
}

/// Fails with the first few differences, and how many there are.
fn assert_none(differences: &[String], of: usize) {
    let shown = differences.iter().take(10).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(
        differences.is_empty(),
        "{} of {of} differ (seed {SEED:#x}):\n{shown}",
        differences.len()
    );
}

#[test]
fn our_bytes_print_as_our_text() {
    let flows = flows(false);
    let mut w = Writer::new();
    for (i, flow) in flows.iter().enumerate() {
        let xid = u32::try_from(i).unwrap();
        Message::FlowMod(flow.clone())
            .encode(xid, &mut w)
            .unwrap_or_else(|e| panic!("{flow}: {e}"));
    }
    let printed = ofp_parse(w.as_slice());
    assert_eq!(printed.len(), flows.len());
    let mut differences = Vec::new();
    for (i, (flow, theirs)) in flows.iter().zip(&printed).enumerate() {
        let ours = format!("FLOW_MOD (OF1.5) (xid={}): {flow}", hex(i));
        if ours != *theirs {
            differences.push(format!("  ours {ours}\ntheirs {theirs}"));
        }
    }
    assert_none(&differences, flows.len());
}

#[test]
fn groups_print_and_come_back() {
    let mut rng = Rng(SEED);
    let scope = Scope { tun_metadata: TUN_METADATA, unprinted: true };
    let commands = [GroupCommand::Add, GroupCommand::Modify, GroupCommand::AddOrModify];
    let groups: Vec<GroupMod> = (0..GROUPS)
        .map(|id| GroupMod {
            command: rng.pick(&commands),
            group: generator::group(&mut rng, id, scope),
            bucket: BUCKET_ALL,
        })
        .collect();
    let mut w = Writer::new();
    let mut differences = Vec::new();
    for m in &groups {
        let at = w.len();
        Message::GroupMod(m.clone()).encode(1, &mut w).unwrap();
        match Message::decode(&w.as_slice()[at..]) {
            Ok((1, Message::GroupMod(back))) if back == *m => {}
            other => differences.push(format!("wire {m}\n -> {other:?}")),
        }
        let text = m.group.to_string();
        match GroupMod::parse(m.command, &text, TableNames::NONE) {
            Ok(back) if back == *m => {}
            other => differences.push(format!("text {text}\n -> {other:?}")),
        }
    }
    let printed = ofp_parse(w.as_slice());
    assert_eq!(printed.len(), groups.len());
    for (m, theirs) in groups.iter().zip(&printed) {
        let ours = format!("GROUP_MOD (OF1.5) (xid=0x1):\n {m}");
        if ours != *theirs {
            differences.push(format!("  ours {ours}\ntheirs {theirs}"));
        }
    }
    assert_none(&differences, groups.len());
}

#[test]
fn meters_print_and_come_back() {
    let mut rng = Rng(SEED);
    let commands = [MeterCommand::Add, MeterCommand::Modify];
    let meters: Vec<MeterMod> = (1..METERS)
        .map(|id| MeterMod { command: rng.pick(&commands), meter: generator::meter(&mut rng, id) })
        .collect();
    let mut w = Writer::new();
    let mut differences = Vec::new();
    for m in &meters {
        let at = w.len();
        Message::MeterMod(m.clone()).encode(1, &mut w).unwrap();
        match Message::decode(&w.as_slice()[at..]) {
            Ok((1, Message::MeterMod(back))) if back == *m => {}
            other => differences.push(format!("wire {m}\n -> {other:?}")),
        }
        match m.meter.to_string().parse() {
            Ok(back) if m.meter == back => {}
            other => differences.push(format!("text {}\n -> {other:?}", m.meter)),
        }
    }
    let printed = ofp_parse(w.as_slice());
    assert_eq!(printed.len(), meters.len());
    for (m, theirs) in meters.iter().zip(&printed) {
        let ours = format!("METER_MOD (OF1.5) (xid=0x1): {m}");
        if ours != *theirs {
            differences.push(format!("  ours {ours}\ntheirs {theirs}"));
        }
    }
    assert_none(&differences, meters.len());
}

fn hex(i: usize) -> String {
    if i == 0 { "0x0".to_owned() } else { format!("{i:#x}") }
}

#[test]
fn our_bytes_and_our_text_come_back() {
    let mut differences = Vec::new();
    let flows = flows(true);
    for flow in &flows {
        let mut w = Writer::new();
        Message::FlowMod(flow.clone()).encode(7, &mut w).unwrap();
        match Message::decode(w.as_slice()) {
            Ok((7, Message::FlowMod(back))) if back == *flow => {}
            other => differences.push(format!("wire {flow:?}\n  -> {other:?}")),
        }
        let text = flow.flow.to_string();
        match FlowMod::parse(FlowCommand::Add, &text, TableNames::NONE) {
            Ok(back) if back == *flow => {}
            other => differences.push(format!("text {text}\n  of {flow:?}\n  -> {other:?}")),
        }
    }
    assert_none(&differences, flows.len());
}

/// Plays a switch that takes everything, and keeps the messages inside of bundles, and meters.
fn play_switch(mut peer: UnixStream) -> Vec<Vec<u8>> {
    const HELLO: &[u8] = &[6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x40];
    peer.write_all(HELLO).unwrap();
    let mut bundled = Vec::new();
    let mut header = [0; 8];
    while peer.read_exact(&mut header).is_ok() {
        let mut body = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - 8];
        peer.read_exact(&mut body).unwrap();
        let mut answer = |kind: u8, body: &[u8]| {
            let len = u16::try_from(8 + body.len()).unwrap().to_be_bytes();
            peer.write_all(&[&[6, kind, len[0], len[1]], &header[4..8], body].concat()).unwrap();
        };
        match header[1] {
            // Barrier, and bundle control: its reply's type is the request's plus one.
            20 => answer(21, &[]),
            33 => answer(33, &[&body[..5], &[body[5] + 1], &body[6..8]].concat()),
            34 => bundled.push(body[8..].to_vec()),
            29 => bundled.push([&header[..], &body].concat()),
            _ => {}
        }
    }
    bundled
}

/// What `ovs-ofctl` sends for this command; `FILE` becomes a file of this text.
fn bytes_of_ovs_ofctl(command: &[&str], text: &str) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let (file, socket) = (dir.path().join("text"), dir.path().join("switch"));
    std::fs::write(&file, text).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let argument = |arg: &&str| match *arg {
        "FILE" => file.display().to_string(),
        "SWITCH" => format!("unix:{}", socket.display()),
        other => other.to_owned(),
    };
    let client = Command::new("ovs-ofctl")
        .args(["-O", "OpenFlow15", "--no-names"])
        .args(command.iter().map(argument))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    listener.set_nonblocking(true).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let peer = loop {
        match listener.accept() {
            Ok((peer, _)) => break peer,
            Err(_) if Instant::now() < deadline => std::thread::yield_now(),
            Err(_) => {
                let out = client.wait_with_output().unwrap();
                panic!("ovs-ofctl never came: {}", String::from_utf8_lossy(&out.stderr));
            }
        }
    };
    peer.set_nonblocking(false).unwrap();
    let kept = play_switch(peer);
    let out = client.wait_with_output().unwrap();
    assert!(out.status.success(), "ovs-ofctl: {}", String::from_utf8_lossy(&out.stderr));
    kept
}

/// Lines of text for `ovs-ofctl`.
fn lines<T: std::fmt::Display>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().fold(String::new(), |mut text, value| {
        writeln!(text, "{value}").unwrap();
        text
    })
}

/// Compares what `ovs-ofctl` sent with what its text says.
fn assert_equal(expected: &[Message], sent: &[Vec<u8>]) {
    assert_eq!(sent.len(), expected.len());
    let mut differences = Vec::new();
    for (ours, bytes) in expected.iter().zip(sent) {
        match Message::decode(bytes) {
            Ok((_, theirs)) if theirs == *ours => {}
            other => differences.push(format!("  ours {ours:?}\ntheirs {other:?}\n{bytes:02x?}")),
        }
    }
    assert_none(&differences, expected.len());
}

#[test]
fn flows_of_ovs_ofctl_decode_to_equal_values() {
    // Without ERSPAN and GTP-U, which `ovs-ofctl` 3.1 sends with the value as their mask.
    let flows = flows(false);
    let text = lines(flows.iter().map(|m| &m.flow));
    let sent = bytes_of_ovs_ofctl(&["--bundle", "add-flows", "SWITCH", "FILE"], &text);
    assert_equal(&flows.into_iter().map(Message::FlowMod).collect::<Vec<_>>(), &sent);
}

#[test]
fn groups_of_ovs_ofctl_decode_to_equal_values() {
    let mut rng = Rng(SEED);
    let scope = Scope { tun_metadata: TUN_METADATA, unprinted: true };
    // `ovs-ofctl` 3.1 does not read its own `check_pkt_larger` inside of a bucket.
    let read = |group: &Group| !group.to_string().contains("check_pkt_larger");
    let groups: Vec<_> =
        (0..GROUPS).map(|id| generator::group(&mut rng, id, scope)).filter(read).collect();
    let sent = bytes_of_ovs_ofctl(&["--bundle", "add-groups", "SWITCH", "FILE"], &lines(&groups));
    let add = |group| GroupMod { command: GroupCommand::Add, group, bucket: BUCKET_ALL };
    let expected: Vec<_> = groups.into_iter().map(|g| Message::GroupMod(add(g))).collect();
    assert_equal(&expected, &sent);
}

#[test]
fn meters_of_ovs_ofctl_decode_to_equal_values() {
    let mut rng = Rng(SEED);
    // One process each: `ovs-ofctl` has no file of meters.
    for id in 1..=60 {
        let meter = generator::meter(&mut rng, id);
        let text = meter.to_string().replace(['\n', ' '], ",").replace("bands=,", "bands=");
        let sent = bytes_of_ovs_ofctl(&["add-meter", "SWITCH", &text], "");
        let add = MeterMod { command: MeterCommand::Add, meter };
        assert_equal(&[Message::MeterMod(add)], &sent);
    }
}
