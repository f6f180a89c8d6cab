//! What came to Services, summed over nodes.

use super::error::ApiError;
use super::{Api, agents};
use axum::Json;
use axum::response::{IntoResponse, Response};
use osier_fleet::ask::{Ask, ServiceTraffic};
use osier_model::ServiceName;
use osier_resource::API_VERSION;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What came to a Service.
#[derive(Debug, Default, Serialize)]
struct Total {
    service: String,
    /// Connections that are tracked now.
    open: u64,
    /// Connections that were led to an endpoint.
    begun: u64,
    /// Packets that nobody was there to answer.
    refused: u64,
    /// Both ways; nothing where nobody counts.
    packets: Option<u64>,
    bytes: Option<u64>,
    /// By how many nodes it came.
    nodes: usize,
}

/// Of all Services that anything came to.
pub(super) async fn services(api: &Arc<Api>) -> Result<Response, ApiError> {
    let nodes = api.engine.hub().node_names();
    let (told, unanswered) =
        agents::ask_all::<Vec<ServiceTraffic>>(api, nodes, &Ask::Services).await;
    let mut totals: BTreeMap<ServiceName, Total> = BTreeMap::new();
    for traffic in told.into_iter().flat_map(|(_, told)| told) {
        let service = traffic.service.to_string();
        let of = totals.entry(traffic.service.clone());
        of.or_insert_with(|| Total { service, ..Total::default() }).add(&traffic);
    }
    let items: Vec<Total> = totals.into_values().collect();
    let answer = json!({
        "apiVersion": API_VERSION,
        "kind": "ServiceTrafficList",
        "items": items,
        "unanswered": unanswered,
    });
    Ok(Json(answer).into_response())
}

// === impl Total ===

impl Total {
    fn add(&mut self, traffic: &ServiceTraffic) {
        self.open += traffic.open;
        self.begun += traffic.begun;
        self.refused += traffic.refused;
        if let Some(counted) = traffic.counted {
            *self.packets.get_or_insert_default() += counted.packets;
            *self.bytes.get_or_insert_default() += counted.bytes;
        }
        self.nodes += 1;
    }
}
