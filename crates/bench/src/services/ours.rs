//! Our side: Services in the model of a managed node.

use super::{PORT, TARGET, address, endpoints};
use crate::api::Client;
use crate::controlled::{apply, resource};
use crate::managed::Managed;
use anyhow::Result;
use osier_testbed::Node;
use serde_json::{Value, json};

/// Starts it with so many Services; the first and the last can be asked.
pub(super) fn start(osier: &str, services: usize) -> Result<Managed> {
    Managed::start(osier, |node| model(node, services))
}

/// Another endpoint of a Service is the ready one.
pub(super) fn change(client: &mut Client<'_>, service: usize, ready: usize) -> Result<()> {
    apply(client, &[slice(service, Some(ready))])
}

fn model(node: &Node, services: usize) -> Vec<Value> {
    let own = node.underlay();
    let mut items = vec![
        resource(
            "Fabric",
            "default",
            &json!({"cluster": ["10.1.0.0/16"], "services": ["10.96.0.0/14"]}),
        ),
        resource("Router", "default", &json!({"vrf": 0})),
        resource("Network", "pods", &json!({"vni": 1, "router": "default", "reach": "routed"})),
        resource(
            "Node",
            "n1",
            &json!({"tunnel": own, "addresses": [own], "blocks": ["10.1.1.0/24"]}),
        ),
    ];
    for number in 0..services {
        let ports = json!([{"name": "p", "transport": "udp", "port": PORT}]);
        let spec = json!({"addresses": [address(number)], "ports": ports});
        items.push(resource("Service", &format!("bench:s{number}"), &spec));
        let asked = [0, services - 1].contains(&number).then_some(0);
        items.push(slice(number, asked));
    }
    items
}

fn slice(number: usize, asked: Option<usize>) -> Value {
    let endpoint = |(address, ready): (String, bool)| {
        let state = if ready { "ready" } else { "unready" };
        json!({"address": address, "state": state})
    };
    let endpoints: Vec<Value> = endpoints(number, asked).into_iter().map(endpoint).collect();
    let ports = json!([{"name": "p", "transport": "udp", "port": TARGET}]);
    let spec =
        json!({"service": format!("bench:s{number}"), "ports": ports, "endpoints": endpoints});
    resource("Endpoints", &format!("bench:s{number}-a"), &spec)
}
