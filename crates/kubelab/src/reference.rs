//! The network that others are compared with: the CNI project's `bridge`, `host-local` and `portmap`,
//! with a route to each node's pods on all machines. It needs `podCIDRs`.

use crate::cluster::Cluster;
use crate::error::ClusterError;
use serde_json::{Value, json};

/// Where Debian has the plugins.
const PLUGINS: &str = "/usr/lib/cni/.";

impl Cluster {
    /// Installs the reference network on all nodes, and waits until they are ready.
    pub fn install_reference_network(&self) -> Result<(), ClusterError> {
        self.route_pods()?;
        for node in self.nodes() {
            let ranges = self.pod_cidrs(node.name())?;
            for other in self.nodes().iter().filter(|other| other.name() != node.name()) {
                let netns = other.machine().netns()?;
                for range in &ranges {
                    if let Some(gateway) = node.gateway_for(range) {
                        netns.ip(&format!("route replace {range} via {gateway}"))?;
                    }
                }
            }
            node.machine().run(&["cp", "-a", PLUGINS, "/opt/cni/bin/"])?;
            let config = configuration(&ranges).to_string();
            node.machine().write("/etc/cni/net.d/10-bridge.conflist", config)?;
        }
        self.wait_until_ready()
    }
}

fn configuration(ranges: &[String]) -> Value {
    let routes = ranges
        .iter()
        .map(|range| json!({"dst": if range.contains(':') { "::/0" } else { "0.0.0.0/0" }}));
    json!({
        "cniVersion": "0.4.0",
        "name": "reference",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": ranges.iter().map(|range| [json!({"subnet": range})]).collect::<Vec<_>>(),
                    "routes": routes.collect::<Vec<_>>(),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_a_range_and_a_way_out() {
        let ranges = ["10.64.1.0/24".to_owned(), "fd64:0:0:1::/64".to_owned()];
        let ipam = &configuration(&ranges)["plugins"][0]["ipam"];
        assert_eq!(ipam["ranges"][1][0]["subnet"], "fd64:0:0:1::/64");
        assert_eq!(ipam["routes"], json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]));
    }
}
