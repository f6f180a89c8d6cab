//! The machine's own way to its pods, and theirs to the outside: the interface `osier0`.
//!
//! Pods leave the cluster by it and by the host's stack, with the machine's address if so
//! configured: our nftables table does that, and nothing inside of the cluster is translated. The
//! machine's own network card is not touched. What shall be is computed here as values; the kernel
//! is asked by `netlink`, and nftables by its own tool, in one transaction.

use crate::firewall::Exceptions;
use crate::netlink::{self, HostInterface, HostRoute, NetlinkError};
use crate::services::NodePort;
use ipnet::IpNet;
use osier_compiler::NODE_PORT_ADDRESSES;
use osier_model::{Fabric, Mac, Node};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Stdio;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The interface's name.
pub const INTERFACE: &str = "osier0";

/// The machine's next hops to all pods: no addresses of anybody, known by permanent neighbours.
const NEXT_HOPS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 111, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
];

/// What could not be set up.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The kernel refused.
    #[error("the gateway {INTERFACE} cannot be set up")]
    Kernel(#[from] NetlinkError),
    /// `nft` could not be run.
    #[error("nft cannot be run, which source addresses of pods are translated by")]
    Run(#[source] io::Error),
    /// `nft` refused.
    #[error("nft refused our table: {0}")]
    Refused(String),
    /// A defect of ours.
    #[error("setting up the gateway panicked")]
    Panicked,
}

/// Addresses of all pods: what the cluster says, or else all nodes' blocks.
pub fn pod_prefixes<'a>(fabric: &Fabric, nodes: impl Iterator<Item = &'a Node>) -> Vec<IpNet> {
    let mut prefixes: BTreeSet<IpNet> = fabric.cluster.iter().copied().collect();
    for block in nodes.flat_map(|node| node.blocks.iter()) {
        if !prefixes.iter().any(|prefix| prefix.contains(block)) {
            prefixes.insert(*block);
        }
    }
    prefixes.into_iter().collect()
}

/// What the interface shall be; `prefixes` are all that is reached by it.
pub fn interface(node: &Node, prefixes: &[IpNet], mtu: u16) -> HostInterface {
    let addresses: Vec<IpAddr> = node.blocks.iter().map(|block| Node::gateway_of(*block)).collect();
    let of_family = |v4: bool| move |address: &&IpAddr| address.is_ipv4() == v4;
    let routes = prefixes.iter().filter_map(|prefix| {
        let v4 = prefix.addr().is_ipv4();
        // Without an address of the family there is nothing to send from.
        let source = addresses.iter().find(of_family(v4)).copied()?;
        let via = *NEXT_HOPS.iter().find(of_family(v4))?;
        Some(HostRoute { destination: *prefix, via, source: Some(source) })
    });
    let routes = routes.collect();
    let neighbours = NEXT_HOPS.map(|address| (address, Mac::FABRIC)).to_vec();
    HostInterface { name: INTERFACE.to_owned(), mtu, addresses, neighbours, routes }
}

/// Our nftables table, anew, as one transaction. With `masquerade` what pods send outside gets the
/// machine's address, but for those with an address among the exceptions; without, only theirs.
pub fn nft_script(
    pods: &[IpNet],
    masquerade: bool,
    exceptions: &Exceptions,
    services: &BTreeSet<NodePort>,
) -> String {
    let mut script = String::from(
        "add table inet osier\ndelete table inet osier\ntable inet osier {\n\
         \tchain forward {\n\t\ttype filter hook forward priority filter - 5; policy accept;\n",
    );
    for address in &exceptions.hairpin {
        let family = if address.is_ipv4() { "ip" } else { "ip6" };
        // Writing to a string cannot fail.
        let _ = writeln!(script, "\t\t{family} saddr {address} {family} daddr {address} drop");
    }
    script.push_str("\t\tiifname \"osier0\" accept\n\t\toifname \"osier0\" accept\n\t}\n");
    script.push_str(&host_ports(&exceptions.host_ports));
    script.push_str(&node_ports(services));
    let exceptions = &exceptions.masquerade;
    script.push_str(&way_back(pods));
    if masquerade || !exceptions.is_empty() {
        script.push_str(
            "\tchain postrouting {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n",
        );
        for (family, v4) in [("ip", true), ("ip6", false)] {
            let of_family = pods.iter().filter(|prefix| prefix.addr().is_ipv4() == v4);
            let prefixes: Vec<String> = of_family.map(ToString::to_string).collect();
            let some = exceptions.iter().filter(|address| address.is_ipv4() == v4);
            let some: Vec<String> = some.map(ToString::to_string).collect();
            if prefixes.is_empty() || !masquerade && some.is_empty() {
                continue;
            }
            let (set, some) = (prefixes.join(", "), some.join(", "));
            let whom = match (masquerade, some.as_str()) {
                (true, "") => format!("{family} saddr {{ {set} }}"),
                (true, _) => {
                    format!("{family} saddr {{ {set} }} {family} saddr != {{ {some} }}")
                }
                (false, _) => format!("{family} saddr {{ {some} }}"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                script,
                "\t\toifname != \"osier0\" {whom} {family} daddr != {{ {set} }} masquerade"
            );
        }
        script.push_str("\t}\n");
    }
    script.push_str("}\n");
    script
}

/// Chains that lead from ports of the machine to pods, for who comes from elsewhere and for the
/// machine itself, also by its loopback address: what it sends from there gets an address that pods
/// can answer to, and what pods send there is dropped before anything is translated.
fn host_ports(rules: &BTreeSet<String>) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let rules: String =
        rules.iter().fold(String::new(), |rules, rule| rules + "\t\t" + rule + "\n");
    format!(
        "\tchain to-pods {{\n{rules}\t}}\n\
         \tchain loopback-guard {{\n\t\ttype filter hook prerouting priority raw; policy accept;\n\
         \t\tiifname \"osier0\" ip daddr 127.0.0.0/8 drop\n\t}}\n\
         \tchain host-ports {{\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\
         \t\tfib daddr type local jump to-pods\n\t}}\n\
         \tchain host-ports-own {{\n\t\ttype nat hook output priority -100; policy accept;\n\
         \t\tfib daddr type local jump to-pods\n\t}}\n\
         \tchain from-loopback {{\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\
         \t\toifname \"osier0\" ip saddr 127.0.0.0/8 masquerade\n\t}}\n"
    )
}

/// Chains that lead from ports of the machine to Services: the switch does the rest. Not by the
/// loopback address, which has no meaning there.
fn node_ports(ports: &BTreeSet<NodePort>) -> String {
    if ports.is_empty() {
        return String::new();
    }
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let [v4, v6] = NODE_PORT_ADDRESSES;
    format!(
        "\tset node-ports {{\n\t\ttype inet_proto . inet_service\n\t\telements = {{ {} }}\n\t}}\n\
         \tchain to-services {{\n\
         \t\tip daddr 127.0.0.0/8 return\n\t\tip6 daddr ::1 return\n\
         \t\tmeta nfproto ipv4 meta l4proto . th dport @node-ports dnat ip to {v4}\n\
         \t\tmeta nfproto ipv6 meta l4proto . th dport @node-ports dnat ip6 to {v6}\n\t}}\n\
         \tchain node-ports-in {{\n\
         \t\ttype nat hook prerouting priority dstnat; policy accept;\n\
         \t\tfib daddr type local jump to-services\n\t}}\n\
         \tchain node-ports-own {{\n\t\ttype nat hook output priority -100; policy accept;\n\
         \t\tfib daddr type local jump to-services\n\t}}\n",
        ports.join(", "),
    )
}

/// Lets the machine reach pods from its loopback address, which has no meaning elsewhere otherwise.
pub(crate) fn route_loopback() -> Result<(), NetlinkError> {
    netlink::write_sysctl(&format!("net/ipv4/conf/{INTERFACE}/route_localnet"), "1")
}

/// A chain for pods that reach a pod by an address that the machine translates (a port of the node,
/// a service by kube-proxy): the answer must come back here to be translated too, and
/// would go from pod to pod by the switch.
fn way_back(pods: &[IpNet]) -> String {
    let mut chain = String::from(
        "\tchain way-back {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n",
    );
    for prefix in pods {
        let family = if prefix.addr().is_ipv4() { "ip" } else { "ip6" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            chain,
            "\t\toifname \"osier0\" {family} saddr {prefix} ct status dnat masquerade"
        );
    }
    chain.push_str("\t}\n");
    chain
}

/// Sets the interface and the machine's forwarding up. What is so already stays.
pub async fn set_up(interface: HostInterface) -> Result<(), GatewayError> {
    let work = move || -> Result<(), NetlinkError> {
        netlink::set_up_host(&interface)?;
        // Loose, where strict is the machine's default: replies may come by other ways.
        netlink::write_sysctl(&format!("net/ipv4/conf/{INTERFACE}/rp_filter"), "2")?;
        netlink::write_sysctl("net/ipv4/ip_forward", "1")?;
        if interface.addresses.iter().any(IpAddr::is_ipv6) {
            forward_ipv6()?;
        }
        Ok(())
    };
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| GatewayError::Panicked)?;
    Ok(done?)
}

/// A machine that forwards takes no more router advertisements, unless its interfaces are told to
/// (`accept_ra` 2): it would lose its own default route.
fn forward_ipv6() -> Result<(), NetlinkError> {
    const ALL: &str = "net/ipv6/conf/all/forwarding";
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/{name}"));
    if read(ALL).is_ok_and(|value| value.trim() == "1") {
        return Ok(());
    }
    let interfaces = std::fs::read_dir("/proc/sys/net/ipv6/conf");
    for entry in interfaces.into_iter().flatten().flatten() {
        let name = format!("net/ipv6/conf/{}/accept_ra", entry.file_name().display());
        if read(&name).is_ok_and(|value| value.trim() == "1") {
            netlink::write_sysctl(&name, "2")?;
        }
    }
    netlink::write_sysctl(ALL, "1")
}

/// Applies a script with `nft`: all of it or nothing.
pub async fn apply_nft(script: &str) -> Result<(), GatewayError> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(GatewayError::Run)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes()).await.map_err(GatewayError::Run)?;
    }
    let output = child.wait_with_output().await.map_err(GatewayError::Run)?;
    if output.status.success() {
        return Ok(());
    }
    Err(GatewayError::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node {
            name: "n1".parse().unwrap(),
            tunnel: "192.0.2.1".parse().unwrap(),
            addresses: Vec::new(),
            blocks: vec!["10.1.1.0/24".parse().unwrap(), "fd01:0:0:1::/64".parse().unwrap()],
            zone: None,
        }
    }

    #[test]
    fn the_machine_has_a_route_to_all_pods_of_its_families() {
        let fabric = Fabric { cluster: vec!["10.1.0.0/16".parse().unwrap()], ..Fabric::default() };
        let pods = pod_prefixes(&fabric, [node()].iter());
        let shown: Vec<String> = pods.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.1.0.0/16", "fd01:0:0:1::/64"]);
        let interface = interface(&node(), &pods, 1400);
        assert_eq!(interface.addresses[1].to_string(), "fd01:0:0:1::1");
        assert_eq!(interface.routes.len(), 2);
        assert_eq!(interface.routes[0].source.unwrap().to_string(), "10.1.1.1");
        assert_eq!(interface.routes[1].via.to_string(), "fe80::1");
    }

    #[test]
    fn only_what_leaves_the_cluster_is_translated() {
        let pods = [node().blocks[0], "10.2.0.0/16".parse().unwrap(), node().blocks[1]];
        let (nobody, none) = (Exceptions::default(), BTreeSet::new());
        let script = nft_script(&pods, true, &nobody, &none);
        let rule = "oifname != \"osier0\" ip saddr { 10.1.1.0/24, 10.2.0.0/16 } \
                    ip daddr != { 10.1.1.0/24, 10.2.0.0/16 } masquerade";
        assert!(script.contains(rule), "{script}");
        assert!(!nft_script(&pods, false, &nobody, &none).contains("oifname != "));
        assert!(
            script.contains("oifname \"osier0\" ip saddr 10.2.0.0/16 ct status dnat masquerade")
        );
        // One pod that is not like the others.
        let masquerade = BTreeSet::from(["10.1.1.9".parse().unwrap()]);
        let hairpin = BTreeSet::from(["fd01::9".parse().unwrap()]);
        let one = Exceptions { masquerade, hairpin, ..Exceptions::default() };
        let script = nft_script(&pods, true, &one, &none);
        assert!(script.contains(" ip saddr != { 10.1.1.9 } ip daddr !="), "{script}");
        let script = nft_script(&pods, false, &one, &none);
        assert!(script.contains("\"osier0\" ip saddr { 10.1.1.9 } ip daddr !="), "{script}");
        let rule = "\t\tip6 saddr fd01::9 ip6 daddr fd01::9 drop\n\t\tiifname";
        assert!(script.contains(rule), "{script}");
    }
}
