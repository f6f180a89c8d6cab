//! The text of `ofproto/trace`, of Open vSwitch 2.8 and later. Pure.
//!
//! ```text
//! bridge("br-int")
//! ----------------
//!  0. in_port=16, priority 100, cookie 0x6f73040000000001
//!     set_field:0x1->reg1
//!     goto_table:210
//!
//! Final flow: icmp,reg0=0x21,...
//! ```
//!
//! What it does not know it leaves out: a trace is for people, and never an error.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// More than these are no packet's way.
const MAX_STEPS: usize = 512;
const MAX_OUTPUTS: usize = 256;

/// A packet's way through one bridge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walk {
    /// Table by table.
    pub steps: Vec<Step>,
    /// Where it left the bridge.
    pub outputs: Vec<Output>,
    /// What was asked of a controller: the bytes that the flow gave along.
    pub questions: Vec<Vec<u8>>,
    /// The packet's fields at the end.
    pub last: BTreeMap<String, String>,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Its number.
    pub table: u8,
    /// Match and priority of the flow; nothing if none matched.
    pub flow: Option<String>,
    /// The flow's cookie.
    pub cookie: u64,
    /// What it did, as the switch writes it.
    pub actions: Vec<String>,
}

/// A way out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The port's number.
    pub ofport: u32,
    /// Where the tunnel shall end, if that was said.
    pub tunnel_target: Option<IpAddr>,
    /// The tunnel's key.
    pub tunnel_id: Option<u32>,
}

/// Reads a trace of a bridge; other bridges that the packet goes through are left out.
pub fn parse(text: &str, bridge: &str) -> Walk {
    let mut walk = Walk::default();
    let mut tunnel = Output::default();
    let mut inside = false;
    let heading = format!("bridge(\"{bridge}\")");
    for line in text.lines() {
        if let Some(flow) = line.strip_prefix("Final flow: ") {
            if walk.last.is_empty() {
                walk.last = fields(flow);
            }
            inside = false;
        } else if line.starts_with("bridge(") {
            inside = line == heading;
        } else if let Some(flow) = line.strip_prefix("Flow: ") {
            // What "unchanged" at the end means.
            tunnel = Output::default();
            walk.last = BTreeMap::new();
            if text.contains("Final flow: unchanged") {
                walk.last = fields(flow);
            }
        } else if !inside {
        } else if let Some(step) = step(line) {
            if walk.steps.len() < MAX_STEPS {
                walk.steps.push(step);
            }
        } else if let Some(action) = line.strip_prefix("    ") {
            let action = action.trim_start();
            note(&mut walk, &mut tunnel, action);
            if let Some(step) = walk.steps.last_mut()
                && step.actions.len() < MAX_STEPS
                && !action.starts_with("->")
            {
                step.actions.push(action.to_owned());
            }
        }
    }
    walk
}

/// `21. ip,nw_dst=10.1.2.0/24, priority 34, cookie 0x6f…` or `0. No match.`
fn step(line: &str) -> Option<Step> {
    let (number, rest) = line.trim_start().split_once(". ")?;
    let table = number.parse().ok()?;
    let missed = rest.starts_with("No match");
    let (flow, cookie) = match rest.rsplit_once(", cookie ") {
        Some((flow, cookie)) => (flow, hexadecimal(cookie.trim())),
        None => (rest, None),
    };
    if !missed && !flow.contains("priority ") {
        return None;
    }
    let flow = (!missed).then(|| flow.to_owned());
    Some(Step { table, flow, cookie: cookie.unwrap_or_default(), actions: Vec::new() })
}

/// What an action, or the remark after it, says of the packet's way out.
fn note(walk: &mut Walk, tunnel: &mut Output, action: &str) {
    if let Some((value, field)) =
        action.strip_prefix("set_field:").and_then(|set| set.split_once("->"))
    {
        let value = value.split('/').next().unwrap_or(value);
        match field {
            "tun_dst" | "tun_ipv6_dst" => tunnel.tunnel_target = value.parse().ok(),
            "tun_id" => tunnel.tunnel_id = number(value),
            _ => {}
        }
    }
    if let Some((field, value)) =
        action.strip_prefix("-> ").and_then(|remark| remark.split_once(" is now "))
    {
        let address = value.parse::<IpAddr>().ok().filter(|address| !address.is_unspecified());
        match field.split('[').next().unwrap_or(field) {
            "NXM_NX_TUN_IPV4_DST" | "NXM_NX_TUN_IPV6_DST" => {
                tunnel.tunnel_target = address.or(tunnel.tunnel_target);
            }
            "NXM_NX_TUN_ID" => tunnel.tunnel_id = number(value),
            _ => {}
        }
    }
    let port = action.strip_prefix("output:").or(action.strip_prefix("-> output port is "));
    if let Some(ofport) = port.and_then(|port| port.parse().ok())
        && walk.outputs.len() < MAX_OUTPUTS
    {
        walk.outputs.push(Output { ofport, ..tunnel.clone() });
    }
    if let Some(said) = action.strip_prefix("controller(") {
        let data = said.split([',', ')']).find_map(|part| part.strip_prefix("userdata="));
        walk.questions.push(data.map(bytes).unwrap_or_default());
    }
}

/// `icmp,reg0=0x1,dl_src=…`: names without a value have an empty one.
fn fields(flow: &str) -> BTreeMap<String, String> {
    let pair = |part: &str| match part.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (part.to_owned(), String::new()),
    };
    flow.split(',').map(str::trim).filter(|part| !part.is_empty()).map(pair).collect()
}

/// A number as the switch writes it: decimal, or hexadecimal with `0x`.
pub(super) fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// `01.05.a2`
fn bytes(text: &str) -> Vec<u8> {
    text.split('.').filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walk(text: &str) -> Walk {
        parse(text, "br-int")
    }

    #[test]
    fn a_packet_to_another_node() {
        let walk = walk(include_str!("../../../tests/fixtures/trace/trace-tunnel.txt"));
        let tables: Vec<u8> = walk.steps.iter().map(|step| step.table).collect();
        assert_eq!(tables, [0, 210, 17, 19, 21, 80, 220]);
        assert_eq!(walk.steps[0].flow.as_deref(), Some("in_port=16, priority 100"));
        assert_eq!(walk.steps[4].cookie, 0x6f73_0107_b549_bf25);
        assert_eq!(walk.steps[5].actions, ["dec_ttl", "goto_table:220"]);
        let target = Some("198.51.100.2".parse().unwrap());
        let output = Output { ofport: 1, tunnel_target: target, tunnel_id: Some(1) };
        assert_eq!(walk.outputs, [output]);
        assert_eq!(walk.last["nw_ttl"], "63");
        assert_eq!(walk.last["tun_metadata0"], "0x1");
    }

    #[test]
    fn a_packet_to_a_service_is_followed_to_its_endpoint() {
        let walk = walk(include_str!("../../../tests/fixtures/trace/trace-service.txt"));
        let tables: Vec<u8> = walk.steps.iter().map(|step| step.table).collect();
        assert_eq!(tables, [0, 17, 18, 24, 21, 80, 84, 220]);
        assert!(walk.steps[3].actions.iter().any(|action| action.starts_with("group:")));
        assert!(walk.steps[3].actions.contains(&"nat(dst=10.64.1.46:8083)".to_owned()));
        let target = Some("172.22.0.12".parse().unwrap());
        assert_eq!(walk.outputs, [Output { ofport: 1, tunnel_target: target, tunnel_id: Some(1) }]);
        assert_eq!(walk.last["nw_dst"], "10.64.1.46");
    }

    #[test]
    fn packets_to_ports_and_to_nobody() {
        let local = walk(include_str!("../../../tests/fixtures/trace/trace-local.txt"));
        assert_eq!(local.outputs, [Output { ofport: 17, ..Output::default() }]);
        assert_eq!(local.last["dl_dst"], "0a:58:0a:01:01:03");
        let spoof = walk(include_str!("../../../tests/fixtures/trace/trace-spoof.txt"));
        assert!(spoof.outputs.is_empty());
        assert_eq!((spoof.steps.len(), spoof.steps[1].table), (2, 210));
        let text = "bridge(\"br-int\")\n---\n 0. No match.\n     drop\n\nFinal flow: unchanged\n";
        assert_eq!(walk(text).steps[0].flow, None);
        let asked = "bridge(\"br-int\")\n---\n80. ip, priority 110, cookie 0x6f73000000000000\n    \
                     controller(max_len=1280,id=28531,userdata=01.05.a2,meter_id=7)\n";
        assert_eq!(walk(asked).questions, [vec![1, 5, 0xa2]]);
    }

    proptest! {
        #[test]
        fn nothing_that_a_switch_may_say_breaks_it(text in "(?s).{0,400}", lines in prop::collection::vec(
            "( 0\\. |bridge\\(\"br-int\"\\)|    set_field:|->tun_dst|output:|Final flow: |controller\\(|[0-9a-fx.,=]{0,9}|\n)", 0..60)) {
            walk(&text);
            walk(&lines.concat());
        }
    }
}
