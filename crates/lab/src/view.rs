//! What the agents of a lab are told: a view with the default network of a cluster, the same for
//! all, and a configuration for each. As text, so that who looks into a lab finds what the
//! documentation shows.

use crate::spec::{LabSpec, PodFamily, TunnelKind};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The addresses of all pods.
fn cluster(family: PodFamily) -> Vec<IpNet> {
    let v4 = Ipv4Net::new(Ipv4Addr::new(10, 1, 0, 0), 16).map(IpNet::V4);
    let v6 = Ipv6Net::new(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 0), 48).map(IpNet::V6);
    of_family(family, v4.ok(), v6.ok())
}

/// The addresses of the pods of node `n`.
pub(crate) fn blocks(family: PodFamily, n: u8) -> Vec<IpNet> {
    let v4 = Ipv4Net::new(Ipv4Addr::new(10, 1, n, 0), 24).map(IpNet::V4);
    let v6 = Ipv6Net::new(Ipv6Addr::new(0xfd01, 0, 0, n.into(), 0, 0, 0, 0), 64).map(IpNet::V6);
    of_family(family, v4.ok(), v6.ok())
}

fn of_family(family: PodFamily, v4: Option<IpNet>, v6: Option<IpNet>) -> Vec<IpNet> {
    let v4 = v4.filter(|_| family.has_ipv4());
    let v6 = v6.filter(|_| family.has_ipv6());
    v4.into_iter().chain(v6).collect()
}

/// The view of a lab whose nodes have these addresses.
pub(crate) fn view(spec: &LabSpec, nodes: &[IpAddr]) -> String {
    let tunnel = match spec.tunnel {
        TunnelKind::Geneve => "geneve",
        TunnelKind::Vxlan => "vxlan",
    };
    let cluster = list(&cluster(spec.family));
    let mut text = format!(
        "fabric: {{ tunnel: {tunnel}, cluster: {cluster} }}\nobjects:\n  \
         - {{ kind: router, name: default, vrf: 0 }}\n  \
         - {{ kind: network, name: pods, vni: 1, router: default, reach: routed }}\n"
    );
    for (n, address) in (1..).zip(nodes) {
        let blocks = list(&blocks(spec.family, n));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  - {{ kind: node, name: n{n}, tunnel: \"{address}\", addresses: [\"{address}\"], blocks: {blocks} }}"
        );
    }
    text
}

/// The same, as a controller is told.
pub(crate) fn resources(spec: &LabSpec, nodes: &[IpAddr]) -> String {
    let tunnel = match spec.tunnel {
        TunnelKind::Geneve => "geneve",
        TunnelKind::Vxlan => "vxlan",
    };
    let resource = |kind: &str, name: &str, spec: &str| {
        format!(
            "---\napiVersion: osier.dev/v1alpha1\nkind: {kind}\nmetadata: {{ name: {name} }}\n\
             spec: {{ {spec} }}\n"
        )
    };
    let fabric = format!("tunnel: {tunnel}, cluster: {}", list(&cluster(spec.family)));
    let mut text = resource("Fabric", "default", &fabric);
    text += &resource("Router", "default", "vrf: 0");
    text += &resource("Network", "pods", "vni: 1, router: default, reach: routed");
    for (n, address) in (1..).zip(nodes) {
        let blocks = list(&blocks(spec.family, n));
        let node = format!("tunnel: \"{address}\", addresses: [\"{address}\"], blocks: {blocks}");
        text += &resource("Node", &format!("n{n}"), &node);
    }
    text
}

fn list(prefixes: &[IpNet]) -> String {
    let quoted: Vec<String> = prefixes.iter().map(|prefix| format!("\"{prefix}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

/// The configuration of a node's agent, all of whose files are in the node's directory.
pub(crate) fn agent_config(node: &str, dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "node = '{node}'\ndatapath = 'netdev'\novsdb = '{dir}/db.sock'\novs_run_dir = '{dir}'\n\
         cni_socket = '{dir}/cni.sock'\nstate_dir = '{dir}'\nview = '{dir}/view.yaml'\n"
    )
}

/// The part of it that names a controller.
pub(crate) fn with_controller(address: &str, dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "cni_config = '{dir}/10-osier.conflist'\n\
         [controller]\naddress = '{address}'\ntoken_file = '{dir}/token'\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LabName;

    #[test]
    fn a_view_names_each_node_with_its_blocks() {
        let spec = LabSpec {
            name: LabName::default_name(),
            nodes: 2,
            pods: 0,
            family: PodFamily::Dual,
            tunnel: TunnelKind::Vxlan,
            controller: false,
            apply: None,
        };
        let nodes = [[198, 51, 100, 1].into(), [198, 51, 100, 2].into()];
        let text = view(&spec, &nodes);
        assert!(
            text.starts_with(
                "fabric: { tunnel: vxlan, cluster: [\"10.1.0.0/16\", \"fd01::/48\"] }"
            )
        );
        assert!(
            text.ends_with(
                "  - { kind: node, name: n2, tunnel: \"198.51.100.2\", \
             addresses: [\"198.51.100.2\"], blocks: [\"10.1.2.0/24\", \"fd01:0:0:2::/64\"] }\n"
            ),
            "{text}"
        );
        let text = view(&LabSpec { family: PodFamily::Ipv6, ..spec }, &nodes);
        assert!(!text.contains("10.1."), "{text}");
    }
}
