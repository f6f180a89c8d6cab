//! What only a node's agent can answer: traces, captures, diagnostics, checks.

use super::error::ApiError;
use super::{Api, nodes};
use axum::extract::Request;
use axum::response::Response;
use serde::Deserialize;

/// How much is captured.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CaptureQuery {
    seconds: Option<u32>,
    count: Option<u32>,
    snaplen: Option<u32>,
    filter: Option<String>,
}

/// What is said until agents can be asked.
const LATER: &str = "the agents of this version cannot be asked";

pub(super) async fn trace(_: &Api, _: Request) -> Result<Response, ApiError> {
    Err(ApiError::not_implemented(LATER))
}

pub(super) async fn capture(_: &Api, _: &str, _: CaptureQuery) -> Result<Response, ApiError> {
    Err(ApiError::not_implemented(LATER))
}

pub(super) async fn diagnostics(api: &Api, name: &str) -> Result<Response, ApiError> {
    nodes::known(api, name)?;
    Err(ApiError::not_implemented(LATER))
}

pub(super) async fn check(_: &Api) -> Result<Response, ApiError> {
    Err(ApiError::not_implemented(LATER))
}
