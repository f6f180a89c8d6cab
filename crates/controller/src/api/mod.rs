//! The model over HTTPS and JSON.
//!
//! Every route is a row of [`routes`], from which both the router and the published OpenAPI document
//! are made. Who may call, how often and how long is the [`guard`]'s; what a change does is the
//! engine's.

mod agents;
mod bulk;
mod error;
mod flows;
mod guard;
mod judged;
mod nodes;
mod openapi;
mod pods;
mod policies;
mod resources;
mod routes;
mod selector;
mod serve;
mod services;
mod traffic;
mod watch;

pub(crate) use error::{ApiError, Code};
pub(crate) use guard::{Access, Buckets, Guarded, guard};
pub(crate) use resources::note;
pub(crate) use serve::{Door, serve, serve_at};

use crate::audit::Audit;
use crate::config::Config;
use crate::credentials::Credentials;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::northbound::Northbound;
use crate::pki::Certificates;
use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::extract::Request;
use axum::extract::rejection::QueryRejection;
use bytes::BytesMut;
use http_body_util::BodyExt;
use osier_fleet::server::Agents;
use osier_store::Embedded;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch as signal};

/// Where all resources are.
pub(crate) const BASE: &str = "/apis/osier.dev/v1alpha1";

/// What requests need.
pub(crate) struct Api {
    pub(crate) config: Config,
    pub(crate) engine: Engine,
    /// The store again, if it is a file that can be copied.
    pub(crate) embedded: Option<Arc<Embedded>>,
    pub(crate) term: u64,
    pub(crate) started: String,
    pub(crate) nodes: Nodes,
    pub(crate) agents: Agents,
    pub(crate) credentials: Credentials,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) audit: Audit,
    pub(crate) metrics: Metrics,
    /// Who owns the model, if not its users here.
    pub(crate) northbound: Option<Arc<dyn Northbound>>,
    pub(crate) buckets: Buckets,
    pub(crate) watches: Arc<Semaphore>,
    /// Becomes true when the controller stops.
    pub(crate) stopping: signal::Receiver<bool>,
}

/// What is read of a body that is refused: clients that are not done with sending hear no answer.
const DRAIN: usize = 1 << 20;

/// The body of a request, if it is not too large.
pub(crate) async fn body(api: &Api, request: Request) -> Result<Bytes, ApiError> {
    let most = api.config.limits.body_bytes;
    let (mut body, mut bytes) = (request.into_body(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let unread = |error| ApiError::malformed(format!("the body could not be read: {error}"));
        let Ok(data) = frame.map_err(unread)?.into_data() else { continue };
        if bytes.len() + data.len() > most {
            drain(body).await;
            return Err(ApiError::too_large(most));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// Reads some of a body, for nothing.
async fn drain(mut body: Body) {
    let read = async {
        let mut left = DRAIN;
        while let (Some(Ok(frame)), true) = (body.frame().await, left > 0) {
            left = left.saturating_sub(frame.into_data().map_or(0, |data| data.len()));
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), read).await;
}

/// The body of a request, read as JSON.
async fn json<T: DeserializeOwned>(api: &Api, request: Request) -> Result<T, ApiError> {
    let bytes = body(api, request).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::malformed(format!("the body is not what it should be: {error}")))
}

/// What stands behind the question mark.
fn query<T>(found: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    found.map(|Query(query)| query).map_err(|error| ApiError::malformed(error.body_text()))
}
