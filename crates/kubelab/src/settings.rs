//! What a cluster is to be like, and which addresses follow from that.
//!
//! Addresses exist only inside of a cluster's own namespaces, so they are the same in every cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The kube-proxy of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// There is none.
    None,
    /// With iptables.
    Iptables,
    /// With nftables.
    Nftables,
}

/// What a cluster is to be like.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many nodes, at most 200.
    pub nodes: u8,
    /// Nodes, pods and services have IPv6 addresses, too.
    pub dual: bool,
    /// Nodes run Open vSwitch, with its files at their default paths, and their uplink is in its
    /// bridge `br-phy` of the userspace datapath. If not, the uplink is a plain `eth0`.
    pub switch: bool,
    /// The nodes' kube-proxy.
    pub proxy: Proxy,
    /// The cluster gives each node its `podCIDRs`.
    pub pod_cidrs: bool,
    /// The underlay's MTU.
    pub mtu: u16,
    /// Archives of images that every node has from the start, beside those of Kubernetes.
    pub images: Vec<PathBuf>,
    /// More arguments for kube-apiserver.
    pub apiserver_args: Vec<String>,
    /// Tell on standard error what is done, and how long it took.
    pub verbose: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes: 2,
            dual: false,
            switch: true,
            proxy: Proxy::Iptables,
            pod_cidrs: true,
            mtu: 1500,
            images: Vec::new(),
            apiserver_args: Vec::new(),
            verbose: true,
        }
    }
}

/// The control plane's place in the underlay.
pub(crate) const CONTROL_PLANE: u8 = 1;
/// Where the API server listens.
pub(crate) const API_PORT: u16 = 6443;
/// The first address of the services' range, which is the API server's own.
pub(crate) const API_SERVICE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd96, 0, 0, 0, 0, 0, 0, 1)),
];
/// The cluster's resolver.
pub(crate) const CLUSTER_DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

const PODS: [&str; 2] = ["10.64.0.0/16", "fd64::/48"];
const SERVICES: [&str; 2] = ["10.96.0.0/16", "fd96::/112"];

impl Settings {
    /// Where pods get their addresses, for `--cluster-cidr`.
    pub fn pod_ranges(&self) -> String {
        self.of_families(&PODS)
    }

    /// Where services get their addresses.
    pub fn service_ranges(&self) -> String {
        self.of_families(&SERVICES)
    }

    /// The addresses of a machine in the underlay; IPv4 comes first.
    pub(crate) fn underlay(&self, place: u8) -> Vec<IpAddr> {
        let four = Ipv4Addr::new(172, 22, 0, place).into();
        let six = Ipv6Addr::new(0xfd22, 0, 0, 0, 0, 0, 0, place.into()).into();
        if self.dual { vec![four, six] } else { vec![four] }
    }

    /// The place of a node, counted from 1, in the underlay.
    pub(crate) fn node_place(number: u8) -> u8 {
        10 + number
    }

    /// Where a node comes back that is given another address. Clusters of more than 30 nodes have no room
    /// for that.
    pub(crate) fn moved_place(number: u8) -> u8 {
        220 + number.min(30)
    }

    /// The API server as the cluster's machines reach it.
    pub(crate) fn api_url(&self) -> String {
        format!("https://{}:{API_PORT}", self.underlay(CONTROL_PLANE)[0])
    }

    fn of_families(&self, ranges: &[&str; 2]) -> String {
        if self.dual { ranges.join(",") } else { ranges[0].to_owned() }
    }
}

/// The length of an underlay's prefix.
pub(crate) fn prefix_length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 24 } else { 64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_follow_the_setting() {
        let four = Settings::default();
        let dual = Settings { dual: true, ..Settings::default() };
        assert_eq!(four.pod_ranges(), "10.64.0.0/16");
        assert_eq!(dual.service_ranges(), "10.96.0.0/16,fd96::/112");
        assert_eq!(four.underlay(Settings::node_place(2)).len(), 1);
        let second: Vec<String> =
            dual.underlay(Settings::node_place(2)).iter().map(IpAddr::to_string).collect();
        assert_eq!(second, ["172.22.0.12", "fd22::c"]);
        assert_eq!(dual.api_url(), "https://172.22.0.1:6443");
    }
}
