//! The machine's own way to its pods, and theirs to the outside: the interface `osier0`.
//!
//! Pods leave the cluster by it and by the host's stack, with the machine's address if so
//! configured: our nftables table does that, and nothing inside of the cluster is translated. The
//! machine's own network card is not touched. What shall be is computed here as values; the kernel
//! is asked by `netlink`, and nftables by its own tool, in one transaction (`firewall` says what).
//!
//! And the service gateway, if there is one: the interface `osier-svc`, by which the machine takes in
//! what pods send to Services and gives it back, led to an endpoint by kube-proxy.

use crate::netlink::{self, HostInterface, HostRoute, NetlinkError};
use ipnet::IpNet;
use osier_model::{Fabric, Mac, Node};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Stdio;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The interface's name.
pub const INTERFACE: &str = "osier0";

/// The service gateway's name.
pub const SERVICES: &str = "osier-svc";

/// The service gateway's own addresses, which nobody talks to: Linux takes nothing in by an interface
/// that has none where it checks where packets come from.
const SERVICES_ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 111, 4)),
    IpAddr::V6(Ipv6Addr::new(0xfd6f, 0x7369, 0x6572, 0, 0, 0, 0, 4)),
];

/// By whom it sends: nobody's addresses, and no link-local one. A switch whose datapath is its own (Open
/// vSwitch 3.1) reads routes of all tables, and passes over those whose router no address is beside.
const SERVICES_HOPS: [IpAddr; 2] =
    [NEXT_HOPS[0], IpAddr::V6(Ipv6Addr::new(0xfd6f, 0x7369, 0x6572, 0, 0, 0, 0, 1))];

/// The machine's next hops to all pods: no addresses of anybody, known by permanent neighbours.
const NEXT_HOPS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 111, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
];

/// Parameters of the interface (`*`). Loose, where strict is the machine's default: replies may come by
/// other ways. And pods do not tell the machine how to route.
const PARAMETERS: [(&str, &str); 3] = [
    ("net/ipv4/conf/*/rp_filter", "2"),
    ("net/ipv4/conf/*/accept_source_route", "0"),
    ("net/ipv4/conf/*/accept_redirects", "0"),
];
/// The same for IPv6: there are no routers behind it.
const NO_ROUTERS: [&str; 3] = [
    "net/ipv6/conf/*/accept_ra",
    "net/ipv6/conf/*/accept_redirects",
    "net/ipv6/conf/*/accept_source_route",
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

/// What the service gateway shall be, for a node with addresses of these families.
pub fn service_interface(node: &Node, mtu: u16) -> HostInterface {
    let speaks = |address: &IpAddr| {
        node.blocks.iter().any(|block| block.addr().is_ipv4() == address.is_ipv4())
    };
    let addresses = SERVICES_ADDRESSES.into_iter().filter(speaks).collect();
    let hops = SERVICES_HOPS.into_iter().filter(speaks);
    let neighbours = hops.map(|hop| (hop, Mac::FABRIC)).collect();
    HostInterface { name: SERVICES.to_owned(), mtu, addresses, neighbours, routes: Vec::new() }
}

/// Lets the machine reach pods from its loopback address, which has no meaning elsewhere otherwise.
pub(crate) fn route_loopback() -> Result<(), NetlinkError> {
    netlink::write_sysctl(&format!("net/ipv4/conf/{INTERFACE}/route_localnet"), "1")
}

/// Sets the interface and the machine's forwarding up. What is so already stays.
pub async fn set_up(interface: HostInterface) -> Result<(), GatewayError> {
    blocking(move || set_up_interface(&interface)).await
}

/// Sets the service gateway up: what comes in by it leaves by it.
pub async fn set_up_services(interface: HostInterface) -> Result<(), GatewayError> {
    blocking(move || {
        set_up_interface(&interface)?;
        let hops: Vec<IpAddr> = interface.neighbours.iter().map(|(hop, _)| *hop).collect();
        netlink::set_up_detour(&interface.name, &hops)
    })
    .await
}

fn set_up_interface(interface: &HostInterface) -> Result<(), NetlinkError> {
    netlink::set_up_host(interface)?;
    for (name, value) in PARAMETERS {
        netlink::write_sysctl(&name.replace('*', &interface.name), value)?;
    }
    netlink::write_sysctl("net/ipv4/ip_forward", "1")?;
    if interface.addresses.iter().any(IpAddr::is_ipv6) {
        forward_ipv6()?;
        for name in NO_ROUTERS {
            netlink::write_sysctl(&name.replace('*', &interface.name), "0")?;
        }
    }
    Ok(())
}

async fn blocking(
    work: impl FnOnce() -> Result<(), NetlinkError> + Send + 'static,
) -> Result<(), GatewayError> {
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
}
