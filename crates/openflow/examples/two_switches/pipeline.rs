//! The flows of a node: a small pipeline that knows each pod by where it is and what it is.
//!
//! ```text
//! classifier -> port_security -> arp_responder -> l2_forward -> output
//!            \-> tunnel_in ---------------------/
//! ```
//!
//! A packet carries its sender's identity through the tunnel, in a Geneve option, and the receiving
//! node admits it by that: it need not know any address of the other side for it.

use anyhow::Result;
use osier_openflow::action::{Action, SetField};
use osier_openflow::field::{Field, IntoValue, Mac};
use osier_openflow::flow::Flow;
use osier_openflow::instruction::Instructions;
use osier_openflow::matching::{Match, MatchBuilder};
use osier_openflow::message::TlvMap;
use osier_openflow::port_no::PortNo;
use osier_openflow::subfield::Subfield;
use osier_openflow::text::TableNames;
use std::net::Ipv4Addr;

/// From which port, and as what?
const CLASSIFIER: u8 = 0;
/// Does a pod speak as itself?
const PORT_SECURITY: u8 = 10;
/// Is the sender one that this node admits?
const TUNNEL_IN: u8 = 20;
/// Answers for pods elsewhere, so that ARP need not travel.
const ARP_RESPONDER: u8 = 30;
/// Where to?
const L2_FORWARD: u8 = 40;
/// Out.
const OUTPUT: u8 = 220;

/// The tunnel's port on each switch.
pub(crate) const TUNNEL_PORT: u16 = 1;
/// The network's key in the tunnel.
pub(crate) const VNI: u32 = 42;
/// The Geneve option that carries the sender's identity: of the class for experiments, and marked
/// as critical, so that nobody who does not know it lets a packet pass (RFC 8926, 3.5).
pub(crate) const IDENTITY_OPTION: TlvMap = TlvMap { class: 0xffff, kind: 0x80, len: 4, index: 0 };

const IDENTITY: Field = Field::tun_metadata(0);
const OUT_PORT: Field = Field::reg(1);

/// The priority of flows that know what to do.
const WANTED: u16 = 100;
/// Of those that take the rest.
const OTHERWISE: u16 = 0;

/// A pod, as both nodes know it.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    /// The index of its node.
    pub(crate) node: usize,
    pub(crate) port: u16,
    pub(crate) mac: Mac,
    pub(crate) ip: Ipv4Addr,
    pub(crate) identity: u32,
}

/// What a node must know.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    /// Its own index.
    pub(crate) here: usize,
    /// The nodes' addresses for tunnels.
    pub(crate) nodes: &'a [Ipv4Addr],
    pub(crate) pods: &'a [Pod],
    /// Identities that may enter through the tunnel.
    pub(crate) admitted: &'a [u32],
}

/// The tables' names.
pub(crate) fn table_names() -> TableNames {
    let names = [
        (CLASSIFIER, "classifier"),
        (PORT_SECURITY, "port_security"),
        (TUNNEL_IN, "tunnel_in"),
        (ARP_RESPONDER, "arp_responder"),
        (L2_FORWARD, "l2_forward"),
        (OUTPUT, "output"),
    ];
    names.into_iter().collect()
}

/// All flows of a node.
pub(crate) fn flows(view: &View<'_>) -> Result<Vec<Flow>> {
    let mut flows = Vec::new();
    for pod in view.pods {
        if pod.node == view.here {
            flows.extend(local_pod(pod)?);
        } else {
            flows.extend(remote_pod(pod, view.nodes[pod.node])?);
        }
    }
    flows.extend(from_tunnel(view.admitted)?);
    flows.extend(multicast(view)?);
    flows.push(flow(ARP_RESPONDER, OTHERWISE, any(), Instructions::goto(L2_FORWARD))?);
    let out = Action::OutputReg { src: Subfield::whole(OUT_PORT), max_len: u16::MAX };
    flows.push(flow(OUTPUT, WANTED, any(), vec![out].into())?);
    // What no flow wants is dropped anyway; as flows, the drops are counted where they happen.
    for table in [CLASSIFIER, PORT_SECURITY, TUNNEL_IN, L2_FORWARD] {
        flows.push(flow(table, OTHERWISE, any(), Instructions::drop())?);
    }
    Ok(flows)
}

/// Whether this is the flow that drops senders which are not admitted.
pub(crate) fn refuses(flow: &Flow) -> bool {
    flow.table == TUNNEL_IN && flow.instructions.is_drop()
}

/// It is known by its port, must use its own Ethernet address, and is reached by that.
fn local_pod(pod: &Pod) -> Result<[Flow; 3]> {
    let Pod { port, mac, identity, .. } = *pod;
    let from = || any().eq(Field::IN_PORT, u32::from(port));
    let known = vec![set(Field::TUN_ID, VNI)?, set(IDENTITY, identity)?];
    Ok([
        flow(CLASSIFIER, WANTED, from(), then(known, PORT_SECURITY))?,
        flow(
            PORT_SECURITY,
            WANTED,
            from().eq(Field::ETH_SRC, mac),
            Instructions::goto(ARP_RESPONDER),
        )?,
        flow(
            L2_FORWARD,
            WANTED,
            any().eq(Field::ETH_DST, mac),
            then(vec![set(OUT_PORT, u32::from(port))?], OUTPUT),
        )?,
    ])
}

/// The switch itself answers ARP for it; frames for it go to its node.
fn remote_pod(pod: &Pod, node: Ipv4Addr) -> Result<[Flow; 2]> {
    let Pod { mac, ip, .. } = *pod;
    let asked =
        any().eq(Field::ETH_TYPE, 0x0806_u16).eq(Field::ARP_OP, 1_u16).eq(Field::ARP_TPA, ip);
    let answer = vec![
        copy(Field::ETH_SRC, Field::ETH_DST),
        set(Field::ETH_SRC, mac)?,
        set(Field::ARP_OP, 2_u16)?,
        copy(Field::ARP_SHA, Field::ARP_THA),
        copy(Field::ARP_SPA, Field::ARP_TPA),
        set(Field::ARP_SHA, mac)?,
        set(Field::ARP_SPA, ip)?,
        Action::output(PortNo::IN_PORT),
    ];
    let tunnel = vec![set(Field::TUN_DST, node)?, set(OUT_PORT, u32::from(TUNNEL_PORT))?];
    Ok([
        flow(ARP_RESPONDER, WANTED, asked, answer.into())?,
        flow(L2_FORWARD, WANTED, any().eq(Field::ETH_DST, mac), then(tunnel, OUTPUT))?,
    ])
}

/// Who comes through the tunnel is asked for its identity.
fn from_tunnel(admitted: &[u32]) -> Result<Vec<Flow>> {
    let tunnel = any().eq(Field::IN_PORT, u32::from(TUNNEL_PORT)).eq(Field::TUN_ID, u64::from(VNI));
    let mut flows = vec![flow(CLASSIFIER, WANTED, tunnel, Instructions::goto(TUNNEL_IN))?];
    for identity in admitted {
        let one = any().eq(IDENTITY, *identity);
        flows.push(flow(TUNNEL_IN, WANTED, one, Instructions::goto(L2_FORWARD))?);
    }
    Ok(flows)
}

/// Multicast (IPv6 finds its neighbours by it) goes to all pods, but never back into the tunnel.
fn multicast(view: &View<'_>) -> Result<[Flow; 2]> {
    const GROUP: Mac = Mac([1, 0, 0, 0, 0, 0]);
    let group = || any().masked(Field::ETH_DST, GROUP, GROUP);
    let local = view.pods.iter().filter(|pod| pod.node == view.here);
    let here: Vec<_> = local.map(|pod| Action::output(u32::from(pod.port))).collect();
    let mut everywhere = here.clone();
    for (_, node) in view.nodes.iter().enumerate().filter(|(index, _)| *index != view.here) {
        everywhere.extend([set(Field::TUN_DST, *node)?, Action::output(u32::from(TUNNEL_PORT))]);
    }
    let from_tunnel = group().eq(Field::IN_PORT, u32::from(TUNNEL_PORT));
    Ok([
        flow(L2_FORWARD, WANTED - 1, from_tunnel, here.into())?,
        flow(L2_FORWARD, WANTED - 2, group(), everywhere.into())?,
    ])
}

fn flow(
    table: u8,
    priority: u16,
    matching: MatchBuilder,
    instructions: Instructions,
) -> Result<Flow> {
    Ok(Flow { table, priority, matching: matching.build()?, instructions, ..Flow::default() })
}

fn any() -> MatchBuilder {
    Match::builder()
}

fn then(apply: Vec<Action>, table: u8) -> Instructions {
    Instructions { apply, ..Instructions::goto(table) }
}

fn set(field: Field, value: impl IntoValue) -> Result<Action> {
    Ok(Action::SetField(SetField::new(field, value)?))
}

fn copy(src: Field, dst: Field) -> Action {
    Action::Move { src: Subfield::whole(src), dst: Subfield::whole(dst) }
}
