//! What nodes of Kubernetes are to the model; pure.

use crate::world::node::{NoTunnel, NodeSeen, TUNNEL_ADDRESS};
use ipnet::IpNet;
use osier_resource::{
    Document, FabricSpec, FabricStatus, Kind, Metadata, NetworkSpec, NetworkStatus, NodeSpec,
    NodeStatus, Resource, RouterSpec, RouterStatus,
};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Something that is wrong with an object, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Of which kind it is, in one word.
    pub(crate) reason: &'static str,
    /// What is wrong, and what may be done.
    pub(crate) text: String,
}

/// A node, if it can be one. `blocks` are its own; `machines` are the addresses of all nodes.
pub(crate) fn node(
    seen: &NodeSeen,
    blocks: &[IpNet],
    machines: &BTreeSet<IpAddr>,
) -> Result<Resource, Problem> {
    let fail = |reason, text| Err(Problem { reason, text });
    let tunnel = match &seen.tunnel {
        Ok(address) => *address,
        Err(NoTunnel::Missing) => {
            let text = "the node has no InternalIP, so no other node can send to its pods; its \
                        kubelet sets it, or the annotation osier.dev/tunnel-address does";
            return fail("NodeWithoutAddress", text.to_owned());
        }
        Err(NoTunnel::Annotation(found)) => {
            let text = format!("annotation {TUNNEL_ADDRESS} is {found:?}, which is no IP address");
            return fail("BadAnnotation", text);
        }
    };
    if let Some(bad) = seen.bad_cidrs.first() {
        return fail("BadPodCIDR", format!("podCIDR {bad:?} is no prefix"));
    }
    for block in blocks {
        let (first, last) = (block.network(), block.broadcast());
        if let Some(machine) = machines.range(first..=last).next() {
            let text = format!(
                "the pods' addresses {block} contain {machine}, which is a node's own address: \
                 packets to one of them would not arrive"
            );
            return fail("PodCIDROverlapsNodes", text);
        }
    }
    if blocks.is_empty() {
        let text = "the node has no addresses for pods yet: neither spec.podCIDRs nor a block of \
                    Osier's own";
        return fail("NodeWithoutPodCIDR", text.to_owned());
    }
    Ok(Resource::Node(Document {
        metadata: Metadata::named(&seen.name),
        spec: NodeSpec {
            tunnel,
            addresses: seen.addresses.clone(),
            blocks: blocks.to_vec(),
            zone: seen.zone.clone(),
        },
        status: NodeStatus::default(),
    }))
}

/// What holds for the whole cluster.
pub(crate) fn fabric(spec: FabricSpec) -> Resource {
    let (metadata, status) = (Metadata::named(Kind::THE_FABRIC), FabricStatus::default());
    Resource::Fabric(Document { metadata, spec, status })
}

/// The network of pods and its router.
pub(crate) fn pods() -> [Resource; 2] {
    let router = osier_model::RouterName::new(crate::custom::DEFAULT_ROUTER).ok();
    [
        Resource::Router(Document {
            metadata: Metadata::named(crate::custom::DEFAULT_ROUTER),
            spec: RouterSpec { vrf: Some(osier_model::VrfId(0)) },
            status: RouterStatus::default(),
        }),
        Resource::Network(Document {
            metadata: Metadata::named(crate::custom::PODS),
            spec: NetworkSpec {
                vni: osier_model::Vni::new(1).ok(),
                router,
                reach: osier_model::Reach::Routed,
                ..NetworkSpec::default()
            },
            status: NetworkStatus::default(),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::node::NodeObject;
    use serde_json::json;

    fn seen(value: serde_json::Value) -> NodeSeen {
        serde_json::from_value::<NodeObject>(value).unwrap().into()
    }

    fn machines(all: &[&str]) -> BTreeSet<IpAddr> {
        all.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_node_is_its_addresses_and_blocks() {
        let node_seen = seen(json!({
            "metadata": {"name": "a", "uid": "1", "managedFields": [{"manager": "x"}]},
            "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:1::/64"]},
            "status": {"addresses": [
                {"type": "Hostname", "address": "a"},
                {"type": "InternalIP", "address": "192.0.2.1"},
                {"type": "InternalIP", "address": "fd00::1"}]},
        }));
        assert!(node_seen.pod_cidrs.len() == 2 && node_seen.addresses.len() == 2);
        let blocks = node_seen.pod_cidrs.clone();
        let made = node(&node_seen, &blocks, &machines(&["192.0.2.1", "fd00::1"])).unwrap();
        let Resource::Node(made) = made else { panic!("no node") };
        assert_eq!(made.spec.tunnel.to_string(), "192.0.2.1");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let none = json!({"metadata": {"name": "a"}, "spec": {}, "status": {}});
        let bad = json!({"metadata": {"name": "a", "annotations": {TUNNEL_ADDRESS: "here"}}});
        let fine = json!({"metadata": {"name": "a"},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.244.1.7"}]}});
        let blocks = ["10.244.1.0/24".parse().unwrap()];
        for (value, blocks, reason) in [
            (none, &blocks[..], "NodeWithoutAddress"),
            (bad, &blocks[..], "BadAnnotation"),
            (fine.clone(), &[][..], "NodeWithoutPodCIDR"),
            (fine, &blocks[..], "PodCIDROverlapsNodes"),
        ] {
            let machines = machines(&["10.244.1.7"]);
            assert_eq!(node(&seen(value), blocks, &machines).unwrap_err().reason, reason);
        }
    }
}
