//! What policies did, which nodes tell.

use super::error::ApiError;
use super::{Api, agents};
use axum::Json;
use axum::response::{IntoResponse, Response};
use osier_fleet::ask::{Ask, RuleHits};
use osier_model::{PolicyName, RuleRef};
use osier_resource::RuleStatus;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a policy did.
#[derive(Debug, Default, Serialize)]
struct Done {
    /// Connections that its rules let through.
    hits: u64,
    rules: Vec<RuleStatus>,
}

/// How often rules let something through, by policy, over all nodes.
pub(super) async fn hits(api: &Arc<Api>) -> Result<Response, ApiError> {
    let nodes = api.engine.hub().node_names();
    let (told, unanswered) = agents::ask_all::<Vec<RuleHits>>(api, nodes, &Ask::Hits).await;
    let mut rules: BTreeMap<RuleRef, u64> = BTreeMap::new();
    for RuleHits { rule, connections } in told.into_iter().flat_map(|(_, told)| told) {
        *rules.entry(rule).or_default() += connections;
    }
    let mut policies: BTreeMap<PolicyName, Done> = BTreeMap::new();
    for (RuleRef { policy, direction, index }, hits) in rules {
        let done = policies.entry(policy).or_default();
        done.hits += hits;
        done.rules.push(RuleStatus { rule: format!("{direction}[{index}]"), hits });
    }
    Ok(Json(json!({"policies": policies, "unanswered": unanswered})).into_response())
}
