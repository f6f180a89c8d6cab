//! What pods send and the agent of their node answers. Nobody is between: these are the bytes of
//! whoever owns a pod.
//!
//! The first byte says what the switch asks, the second from which port the packet is; the rest is
//! the packet.

use osier_answers::reply;
use osier_compiler::registers::Register;
use osier_compiler::{Attachment, Compiler, LocalPorts, Question};
use osier_model::{Change, Fabric, NodeName, Object};
use osier_openflow::action::Action;
use osier_openflow::matching::Match;
use osier_openflow::message::PacketIn2;
use osier_openflow::port_no::PortNo;
use std::sync::LazyLock;

/// A target: its name, which is also that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets of the crate.
#[allow(dead_code, reason = "for the replay; a fuzz target calls its own body alone")]
pub const TARGETS: &[Target] = &[("agent_reply", packet)];

/// Ethernet, and the largest error of IPv6.
const LARGEST: usize = 14 + 1280;

/// Two ports: one routed, one bridged; of both families.
static COMPILER: LazyLock<Compiler> = LazyLock::new(|| {
    let objects = r#"[
        {"kind":"node","name":"n1","tunnel":"192.0.2.1","blocks":["10.1.1.0/24","fd01::/64"]},
        {"kind":"router","name":"default","vrf":0},
        {"kind":"network","name":"pods","vni":1,"router":"default","reach":"routed"},
        {"kind":"network","name":"lan","vni":2,"router":"default",
         "subnets":[{"cidr":"10.2.0.0/24","gateway":"10.2.0.1"},
                    {"cidr":"fd02::/64","gateway":"fd02::1"}],
         "dhcp":{"dns":["10.2.0.2","fd02::2"],"domain":"lan.example",
                 "routes":[{"to":"10.9.0.0/16","via":"10.2.0.9"}]}},
        {"kind":"port","device":"a","interface":"eth0","network":"pods","node":"n1",
         "mac":"0a:00:00:00:00:01","addresses":["10.1.1.5","fd01::5"]},
        {"kind":"port","device":"b","interface":"eth0","network":"lan","node":"n1",
         "mac":"0a:00:00:00:00:02","addresses":["10.2.0.5","fd02::5"]}]"#;
    let local = LocalPorts {
        gateway: PortNo(2),
        service_gateway: None,
        tunnel: PortNo(1),
        tunnel_mtu: Some(1442),
        connection_rate: None,
    };
    let node = NodeName::new("n1").unwrap();
    let mut compiler = Compiler::new(node, Fabric::default(), local);
    let objects: Vec<Object> = serde_json::from_str(objects).unwrap();
    let mut ports = Vec::new();
    for object in objects {
        if let Object::Port(port) = &object {
            ports.push(port.key.clone());
        }
        compiler.apply(Change::Put(object)).unwrap();
    }
    for (tag, key) in (0..).zip(ports) {
        let at = Attachment { ofport: PortNo(10 + tag), tag, mtu: None };
        compiler.attach(key, at).unwrap();
    }
    compiler
});

/// An answer goes to the port that asked, is no larger than everybody takes, and causes no other.
pub fn packet(data: &[u8]) {
    let [question, tag, packet @ ..] = data else { return };
    let question = match question % 6 {
        0 => Question::TooBig { mtu: 1442 },
        1 => Question::Expired,
        2 => Question::Neighbour,
        3 => Question::Dhcp,
        4 => Question::Dhcp6,
        _ => Question::Router,
    };
    let tag = u32::from(tag % 3);
    let asked = |packet: &[u8]| PacketIn2 {
        packet: packet.to_vec(),
        userdata: question.encode(),
        metadata: Match::builder().eq(Register::IN_TAG.field(), tag).build().unwrap(),
        ..PacketIn2::default()
    };
    let Some(answer) = reply(&COMPILER, &asked(packet)).packet else { return };
    assert_eq!(answer.actions, [Action::output(PortNo(10 + tag))]);
    assert!(answer.packet.len() <= LARGEST, "{} bytes", answer.packet.len());
    assert_eq!(reply(&COMPILER, &asked(&answer.packet)).packet, None, "an answer is answered");
}
