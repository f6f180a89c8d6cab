//! Pods, as their owner tells of them, beside what the nodes' agents say of their ports.

use super::Api;
use crate::northbound::Pod;
use axum::Json;
use axum::response::{IntoResponse, Response};
use osier_model::{NodeName, Port};
use osier_resource::API_VERSION;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};

/// A pod with its port.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    pod: Pod,
    /// `Attached`, `Missing`, `Waiting`, `Unknown`, `Host` or `Done`.
    port: &'static str,
}

/// All pods. Where nobody tells of pods, those that agents have made ports for.
pub(super) fn list(api: &Api) -> Response {
    let (ports, connected) = api.nodes.told();
    let mut rows: Vec<Row> = match &api.northbound {
        Some(northbound) => {
            let row = |pod: Pod| Row { port: state(&pod, &ports, &connected), pod };
            northbound.pods().into_iter().map(row).collect()
        }
        None => ports.values().filter_map(of_port).collect(),
    };
    rows.sort_by(|a, b| {
        let key = |row: &Row| (row.pod.namespace.clone(), row.pod.name.clone());
        key(a).cmp(&key(b))
    });
    Json(json!({"apiVersion": API_VERSION, "kind": "PodList", "items": rows})).into_response()
}

fn of_port(port: &Port) -> Option<Row> {
    let name = port.key.to_string();
    let (namespace, pod) = name.split_once(':')?;
    // Only first interfaces are pods.
    if pod.contains(':') {
        return None;
    }
    let pod = Pod {
        namespace: namespace.to_owned(),
        name: pod.to_owned(),
        node: Some(port.node.to_string()),
        addresses: port.addresses.clone(),
        phase: None,
        host_network: false,
    };
    Some(Row { pod, port: "Attached" })
}

fn state(pod: &Pod, ports: &HashMap<String, Port>, connected: &BTreeSet<NodeName>) -> &'static str {
    if pod.host_network {
        return "Host";
    }
    if matches!(pod.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return "Done";
    }
    let Some(node) = pod.node.as_deref().and_then(|node| NodeName::new(node).ok()) else {
        return "Waiting";
    };
    if !connected.contains(&node) {
        return "Unknown";
    }
    let port = ports.get(&format!("{}:{}", pod.namespace, pod.name));
    match port.filter(|port| port.node == node) {
        Some(_) => "Attached",
        None if pod.addresses.is_empty() => "Waiting",
        None => "Missing",
    }
}
