//! How the machine is: tunnels, their size, clocks, the kernel's filters, tools.

use crate::gateway::INTERFACE;
use crate::link::{Heard, echo};
use crate::ports::Ports;
use osier_fleet::ask::{Check, CheckResult};
use osier_model::{Node, NodeName};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Clocks that differ by more break certificates, and by less confuse people.
const CLOCK_FAILED: Duration = Duration::from_mins(1);
const CLOCK_WARNING: Duration = Duration::from_secs(2);
/// What IP and UDP add to a question.
const HEADERS: [u16; 2] = [20 + 8, 40 + 8];

pub(super) async fn all(ports: &Ports, probes: &BTreeMap<NodeName, Heard>) -> Vec<Check> {
    let (switch, sizes, tools) = tokio::join!(switch(ports), sizes(ports), nft());
    let mut checks = vec![switch];
    checks.extend(probes.iter().map(|(node, heard)| tunnel(node, heard)));
    checks.extend(sizes);
    checks.extend(probes.iter().filter_map(|(node, heard)| clock(node, heard)));
    checks.push(reverse_path());
    checks.push(forwarding());
    checks.push(tools);
    checks
}

fn check(name: &str, result: CheckResult, detail: impl Into<String>, advice: &str) -> Check {
    let advice = if result == CheckResult::Ok { "" } else { advice };
    Check { name: name.to_owned(), result, detail: detail.into(), advice: advice.to_owned() }
}

async fn switch(ports: &Ports) -> Check {
    match ports.status().await {
        Ok(()) => check("switch", CheckResult::Ok, "the agent can attach pods", ""),
        Err(error) => check(
            "switch",
            CheckResult::Failed,
            error.to_string(),
            "see whether ovsdb-server and ovs-vswitchd run, and the agent's log",
        ),
    }
}

fn tunnel(node: &NodeName, heard: &Heard) -> Check {
    let (result, detail) = match (heard.up(), heard.round_trip) {
        (Some(true), Some(time)) => {
            (CheckResult::Ok, format!("node {node} answers within {time:.1?}"))
        }
        (Some(false), _) => (CheckResult::Failed, format!("node {node} does not answer")),
        _ => (CheckResult::Skipped, format!("node {node} was not asked yet")),
    };
    let advice = "see whether UDP port 6081 (Geneve) or 4789 (VXLAN) is open between the nodes";
    check("tunnel", result, detail, advice)
}

/// The largest packet that a pod may send to each node, there and back.
async fn sizes(ports: &Ports) -> Vec<Check> {
    let mtu = ports.mtu();
    let found = ports.switch().with_view(|view| {
        let gateway = |node: &Node, v4: Option<bool>| {
            let gateways = node.blocks.iter().map(|block| Node::gateway_of(*block));
            gateways.into_iter().find(|address| v4.is_none_or(|v4| address.is_ipv4() == v4))
        };
        let own = gateway(view.nodes().get(view.node())?, None)?;
        let others = view.nodes().values().filter(|node| node.name != *view.node());
        let peer = |node: &Node| Some((node.name.clone(), gateway(node, Some(own.is_ipv4()))?));
        Some((own, others.filter_map(peer).take(64).collect::<Vec<(NodeName, IpAddr)>>()))
    });
    let Some((own, peers)) = found.await else { return Vec::new() };
    let length = usize::from(mtu.saturating_sub(HEADERS[usize::from(own.is_ipv6())]));
    let checks = peers.iter().map(|(node, address)| async move {
        let advice = "give the underlay a larger MTU, or set `mtu` of the agents";
        match echo(own, *address, length).await {
            Ok(_) => check("mtu", CheckResult::Ok, format!("{mtu} bytes reach node {node}"), ""),
            Err(error) => {
                let detail = format!("{mtu} bytes do not reach node {node}: {error}");
                check("mtu", CheckResult::Failed, detail, advice)
            }
        }
    });
    futures_util::future::join_all(checks).await
}

fn clock(node: &NodeName, heard: &Heard) -> Option<Check> {
    heard.at?;
    let differs = Duration::from_micros(heard.ahead.unsigned_abs());
    let result = match differs {
        _ if differs >= CLOCK_FAILED => CheckResult::Failed,
        _ if differs >= CLOCK_WARNING => CheckResult::Warning,
        _ => CheckResult::Ok,
    };
    let way = if heard.ahead < 0 { "behind" } else { "ahead" };
    let detail = format!("node {node}'s clock is {differs:.1?} {way}");
    Some(check("clock", result, detail, "set the clocks by NTP"))
}

/// The kernel takes the stricter of an interface's word and that for all.
fn reverse_path() -> Check {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
        text.ok().and_then(|text| text.trim().parse::<u8>().ok())
    };
    match (read("all"), read(INTERFACE)) {
        (Some(_), Some(own)) if own != 1 => {
            check("rp_filter", CheckResult::Ok, format!("{INTERFACE} has {own}: loose"), "")
        }
        (Some(_), Some(_)) => {
            let advice = "something sets rp_filter of osier0 to 1: let it be 2";
            check("rp_filter", CheckResult::Warning, format!("{INTERFACE} has 1: strict"), advice)
        }
        _ => {
            let detail = format!("there is no {INTERFACE}");
            check("rp_filter", CheckResult::Failed, detail, "see the agent's log")
        }
    }
}

fn forwarding() -> Check {
    let read = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward");
    let advice = "something sets net.ipv4.ip_forward to 0: let it be 1";
    if read.is_ok_and(|text| text.trim() == "1") {
        return check("forwarding", CheckResult::Ok, "the machine forwards IPv4", "");
    }
    check("forwarding", CheckResult::Failed, "the machine forwards no IPv4", advice)
}

/// Our table, and whether iptables would drop what pods send outside.
async fn nft() -> Check {
    let run = async |tool: &str, arguments: &[&str]| {
        let mut command = Command::new(tool);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await;
        output.ok().and_then(Result::ok)
    };
    let failed =
        |detail: &str, advice: &str| check("firewall", CheckResult::Failed, detail, advice);
    match run("nft", &["list", "table", "inet", "osier"]).await {
        None => return failed("nft cannot be run", "install nftables"),
        Some(output) if !output.status.success() => {
            return failed("the table inet osier is not there", "see the agent's log");
        }
        Some(_) => {}
    }
    let listed = run("iptables", &["-w", "5", "-S", "FORWARD"]).await;
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let listed = listed.unwrap_or_default();
    let drops = listed.lines().any(|line| line == "-P FORWARD DROP");
    match drops && !listed.contains(INTERFACE) {
        true => failed(
            "iptables drops what pods send outside",
            "let iptables' FORWARD accept what goes over osier0",
        ),
        false => check("firewall", CheckResult::Ok, "pods may reach the outside", ""),
    }
}
