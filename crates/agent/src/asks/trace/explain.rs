//! What a trace means, in the model's words. Pure.

use super::parse::{Output, Step, Walk, number};
use crate::desired::PodPort;
use osier_compiler::pipeline::Table;
use osier_compiler::{Article, Compiler, Owner, Question};
use osier_fleet::ask::{Outcome, Packet, TraceStep, Traced, Transit, chosen};
use osier_model::{Direction, Identity, Key, View};
use std::net::IpAddr;
use std::sync::Arc;

/// Numbers of the ports that are no pod's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    pub(super) tunnel: u32,
    pub(super) gateway: u32,
    /// If there is one.
    pub(super) service_gateway: Option<u32>,
}

/// Tells what became of a packet.
pub(super) fn explain(
    compiler: &Compiler,
    living: &[Arc<PodPort>],
    fixed: Fixed,
    sent: &Packet,
    walk: &Walk,
    raw: String,
) -> Result<Traced, String> {
    if walk.steps.is_empty() {
        return Err(format!("the switch's trace cannot be read: {raw}"));
    }
    let owner = |step: &Step| owner(compiler, step).map(|owner| called(compiler, &owner));
    let told = |step: &Step| told(compiler.view(), step, owner(step));
    let steps: Vec<TraceStep> = walk.steps.iter().map(told).collect();
    let packet = at_the_end(sent, walk);
    let outcome = outcome(compiler, living, fixed, walk, &packet);
    Ok(Traced { steps, outcome, packet, raw })
}

fn table(number: u8) -> Option<Table> {
    Table::ALL.iter().copied().find(|table| table.number() == number)
}

fn name(number: u8) -> String {
    table(number).map_or_else(|| number.to_string(), |table| table.name().to_owned())
}

fn owner(compiler: &Compiler, step: &Step) -> Option<Owner> {
    step.flow.as_ref()?;
    compiler.owner_of(step.cookie)
}

/// Whose flow it is; of a rule, in which policies it stands.
fn called(compiler: &Compiler, owner: &Owner) -> String {
    match owner {
        Owner::Article(Article::Rule(rule)) => {
            let rules: Vec<String> = compiler.rules(*rule).map(ToString::to_string).collect();
            format!("policy {}", rules.join(", "))
        }
        owner => owner.to_string(),
    }
}

fn told(view: &View, step: &Step, owner: Option<String>) -> TraceStep {
    let mut notes: Vec<String> =
        step.actions.iter().filter_map(|action| in_words(view, action)).collect();
    notes.dedup();
    notes.extend(passed(step).filter(|_| notes.is_empty()).map(str::to_owned));
    TraceStep { table: step.table, name: name(step.table), flow: step.flow.clone(), owner, notes }
}

/// What it means that a packet went on from a table, if nothing was done to it there.
fn passed(step: &Step) -> Option<&'static str> {
    let next = |table: Table| {
        let goes = format!("goto_table:{}", table.number());
        step.actions.contains(&goes)
    };
    let ends = step.actions.iter().any(|action| action == "drop");
    Some(match table(step.table).filter(|_| !ends)? {
        Table::Ingress => "comes in",
        Table::SpoofGuard => "from its own address",
        Table::Dispatch => "a packet to forward",
        Table::GatewayMac if next(Table::Route) => "to be routed",
        Table::GatewayMac => "inside of its network",
        Table::TunnelIn => "known by its key",
        Table::Forward => "by its Ethernet address",
        Table::Route => "by its address",
        Table::Affinity => chosen::BY_AFFINITY,
        _ => "goes on",
    })
}

/// What only steers a packet, or repeats what was said.
const STEERING: [&str; 8] =
    ["goto_table:", "resubmit(", "move:", "thaw", "Resuming from ", "nat", "bucket ", "load:"];

/// What an action does to a packet; nothing for what only steers it through the tables, which the
/// next step shows.
fn in_words(view: &View, action: &str) -> Option<String> {
    let set = action.strip_prefix("set_field:").and_then(|set| set.split_once("->"));
    Some(match (set, action) {
        (Some((value, "reg15")), _) => to_node(view, IpAddr::from(number(value)?.to_be_bytes()))?,
        (Some((value, "xxreg2")), _) => {
            let bits = u128::from_str_radix(value.trim_start_matches("0x"), 16).ok()?;
            to_node(view, IpAddr::from(bits.to_be_bytes()))?
        }
        (Some((value, "eth_src")), _) => format!("from {value}"),
        (Some((value, "eth_dst")), _) => format!("to {value}"),
        (Some((_, field)), _)
            if ["reg", "xxreg", "ct_mark"].iter().any(|p| field.starts_with(p)) =>
        {
            return None;
        }
        (None, "dec_ttl") => "one hop less".to_owned(),
        (None, group) if group.starts_with("group:") => chosen::BY_HASH.to_owned(),
        (None, learn) if learn.starts_with("learn(") => "its client is kept there".to_owned(),
        (None, steers) if STEERING.iter().any(|p| steers.starts_with(p)) => return None,
        (None, out) if out.starts_with("output:") => "out".to_owned(),
        _ => action.to_owned(),
    })
}

/// Where a tunnel leads; nothing if it is of the other family.
fn to_node(view: &View, tunnel: IpAddr) -> Option<String> {
    let node = view.nodes().values().find(|node| node.tunnel == tunnel);
    match node {
        Some(node) => Some(format!("to node {} ({tunnel})", node.name)),
        None => (!tunnel.is_unspecified()).then(|| format!("to {tunnel}")),
    }
}

/// The packet as it leaves: what flows rewrote of it.
fn at_the_end(sent: &Packet, walk: &Walk) -> Packet {
    let field = |name: &str| walk.last.get(name);
    let mut packet = *sent;
    if let Some(mac) = field("dl_src").and_then(|mac| mac.parse().ok()) {
        packet.mac_source = Some(mac);
    }
    if let Some(mac) = field("dl_dst").and_then(|mac| mac.parse().ok()) {
        packet.mac_target = Some(mac);
    }
    if let Some(ttl) = field("nw_ttl").and_then(|ttl| ttl.parse().ok()) {
        packet.ttl = ttl;
    }
    let address = |names: [&str; 2]| names.iter().find_map(|name| field(name)?.parse().ok());
    packet.source = address(["nw_src", "ipv6_src"]).unwrap_or(packet.source);
    packet.target = address(["nw_dst", "ipv6_dst"]).unwrap_or(packet.target);
    // An endpoint may listen at another port than its Service.
    let port = |name: &str, sent: Option<u16>| sent.and(field(name)?.parse().ok());
    packet.source_port = port("tp_src", sent.source_port).or(sent.source_port);
    packet.target_port = port("tp_dst", sent.target_port).or(sent.target_port);
    packet
}

fn outcome(
    compiler: &Compiler,
    living: &[Arc<PodPort>],
    fixed: Fixed,
    walk: &Walk,
    packet: &Packet,
) -> Outcome {
    let key = |output: &Output| {
        let port = living.iter().find(|port| u32::from(port.ofport) == output.ofport);
        port.map(|port| port.key.clone())
    };
    match walk.outputs.as_slice() {
        [] => match walk.questions.first() {
            Some(question)
                if matches!(Question::decode(question), Some(Question::Denied { .. })) =>
            {
                dropped(compiler, walk, packet)
            }
            Some(question) => Outcome::Agent { why: asked(question) },
            None => dropped(compiler, walk, packet),
        },
        [only] if only.ofport == fixed.gateway => Outcome::Gateway,
        [only] if Some(only.ofport) == fixed.service_gateway => Outcome::ServiceGateway,
        [only] if only.ofport == fixed.tunnel => {
            Outcome::Tunnel(transit(compiler.view(), only, walk))
        }
        [only] => match key(only) {
            Some(key) => Outcome::Port { key },
            None => Outcome::Stranger { ofport: only.ofport },
        },
        several => Outcome::Many {
            ports: several.iter().filter_map(key).collect(),
            nodes: several
                .iter()
                .filter(|output| output.ofport == fixed.tunnel)
                .map(|output| transit(compiler.view(), output, walk))
                .collect(),
        },
    }
}

fn transit(view: &View, output: &Output, walk: &Walk) -> Transit {
    let unknown = IpAddr::from([0; 4]);
    let target = output.tunnel_target.unwrap_or(unknown);
    let own = view.nodes().get(view.node());
    let node = view.nodes().values().find(|node| node.tunnel == target);
    Transit {
        node: node.map(|node| node.name.clone()),
        source: own.map_or(unknown, |node| node.tunnel),
        target,
        vni: output.tunnel_id.unwrap_or_default(),
        identity: walk.last.get("tun_metadata0").and_then(|text| number(text)),
    }
}

fn asked(question: &[u8]) -> String {
    match Question::decode(question) {
        Some(Question::TooBig { mtu }) => {
            format!("it is larger than the {mtu} bytes that fit the tunnel: its sender is told so")
        }
        Some(Question::Expired) => "it has no hop left: its sender is told so".to_owned(),
        Some(Question::Reject) => "nobody answers at the Service: it is refused".to_owned(),
        Some(Question::Denied { .. }) => "policies did not grant it: it is logged".to_owned(),
        Some(Question::Neighbour) => "it asks for the router, which answers".to_owned(),
        Some(Question::Dhcp | Question::Dhcp6) => "its node gives it its address".to_owned(),
        Some(Question::Router) => "its node tells it of its router".to_owned(),
        None => "a controller is asked".to_owned(),
    }
}

/// The pipeline's own decisions have no owner: the reason says what was decided.
fn dropped(compiler: &Compiler, walk: &Walk, packet: &Packet) -> Outcome {
    let fallback = Step::default();
    let last = walk.steps.last().unwrap_or(&fallback);
    let owner = owner(compiler, last).filter(|owner| *owner != Owner::Pipeline);
    let reason = decided(compiler, walk, packet, last, owner.as_ref());
    Outcome::Dropped {
        table: last.table,
        name: name(last.table),
        owner: owner.map(|owner| called(compiler, &owner)),
        reason,
    }
}

/// What the table that ended it decided, in words.
fn decided(
    compiler: &Compiler,
    walk: &Walk,
    packet: &Packet,
    last: &Step,
    owner: Option<&Owner>,
) -> String {
    let to = packet.target;
    match (table(last.table), owner) {
        (Some(Table::Ingress), _) => {
            match walk.last.get("tun_src").or(walk.last.get("tun_ipv6_src")) {
                Some(from) if from != "0.0.0.0" && from != "::" => {
                    format!("unknown sender: {from} is the tunnel of no node that this one knows")
                }
                _ => "unknown sender: the port that it comes from is in no network here".to_owned(),
            }
        }
        (Some(Table::SpoofGuard), _) => spoofed(compiler, walk, packet),
        (Some(Table::Route), Some(Owner::Object(Key::Node(node)))) => {
            format!("unknown destination: {to} is of node {node}'s block, and no pod there has it")
        }
        (Some(Table::Route), _) => {
            let vrf = walk.last.get("reg4").and_then(|text| number(text)).unwrap_or_default();
            let mut routers = compiler.view().routers().values();
            match routers.find(|router| u32::from(router.vrf.0) == vrf) {
                Some(router) => format!("no route: router {} has no way to {to}", router.name),
                None => format!("no route: its network has no router, and so no way to {to}"),
            }
        }
        (Some(Table::TunnelIn), _) => {
            "unknown network: it comes under the key of one that this node has nothing of"
                .to_owned()
        }
        (Some(Table::Forward | Table::Flood | Table::Arp | Table::Neighbour), _) => {
            match packet.mac_target {
                Some(mac) => format!(
                    "unknown destination: nobody in its network has the Ethernet address {mac}"
                ),
                None => "unknown destination: nobody in its network is to have it".to_owned(),
            }
        }
        (Some(Table::EgressPolicy), _) => denied(compiler, walk, Direction::Egress),
        (Some(Table::IngressPolicy), _) => denied(compiler, walk, Direction::Ingress),
        (Some(Table::Known), _) => "it belongs to no connection that is known".to_owned(),
        (Some(Table::Connection), _) => {
            "policies are about its receiver, and they can judge only IP".to_owned()
        }
        (Some(Table::Hop), _) => "no hop is left to it: its time to live is over".to_owned(),
        (Some(Table::Egress | Table::TunnelOut), _) => {
            "no way out: the port that it should leave by is not on this switch".to_owned()
        }
        (Some(table), _) => format!("no flow of table {} lets it go on", table.name()),
        (None, _) => "a flow that is not Osier's ends it".to_owned(),
    }
}

/// Which policies are about it, and grant it not.
fn denied(compiler: &Compiler, walk: &Walk, direction: Direction) -> String {
    let (side, register) = match direction {
        Direction::Egress => ("sender", "reg5"),
        Direction::Ingress => ("receiver", "reg6"),
    };
    let identity = Identity(walk.last.get(register).and_then(|id| number(id)).unwrap_or_default());
    if identity == Identity::QUARANTINED {
        return format!("denied: the labels of its {side} are not known yet");
    }
    let law = compiler.view().law();
    let names: Vec<&str> = law.about(identity, direction).map(|p| p.name.as_str()).collect();
    match names.as_slice() {
        [] => format!("denied: no {direction} rule that this node knows grants it to its {side}"),
        names => format!("denied: no {direction} rule of policy {} grants it", names.join(", ")),
    }
}

fn spoofed(compiler: &Compiler, walk: &Walk, packet: &Packet) -> String {
    let sender = walk.last.get("reg1").and_then(|tag| number(tag));
    let Some((port, ..)) = sender.and_then(|tag| compiler.port_with_tag(tag)) else {
        return "spoofed source: a port may send only from its own addresses".to_owned();
    };
    let own: Vec<String> = port.addresses.iter().map(ToString::to_string).collect();
    let mac = packet.mac_source.filter(|mac| *mac != port.mac);
    let mac = mac.map(|mac| format!(" with {mac}")).unwrap_or_default();
    format!(
        "spoofed source: port {} may send only from its own addresses ({} with {}), and this is \
         from {}{mac}",
        port.key,
        own.join(", "),
        port.mac,
        packet.source
    )
}
