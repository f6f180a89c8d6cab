//! Ports of networks whose addresses the controller gives.

use futures_util::future::BoxFuture;
use osier_model::{Mac, NetworkName, NodeName, Port, PortKey};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use thiserror::Error;

/// A port that addresses are asked for. The node is the caller's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachRequest {
    /// Which one.
    #[serde(flatten)]
    pub key: PortKey,
    /// Of which network.
    pub network: NetworkName,
    /// The Ethernet address that it shall have, if that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// The addresses that it shall have, if that matters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// Which life of the port this is, on its node: higher than that of any before.
    #[serde(default)]
    pub generation: u64,
}

/// Why a controller gave, or took back, nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AttachError {
    /// It cannot now: the same call may succeed later.
    #[error("{0}")]
    Later(String),
    /// It will not.
    #[error("{0}")]
    Refused(String),
}

/// Gives ports addresses. The store must have what was given before the answer goes: no address is
/// given twice, whoever dies.
pub trait Attachments: Send + Sync + 'static {
    /// Makes a port of a node. The same key again gives the same port, also if somebody else made
    /// it on that node.
    fn attach<'a>(
        &'a self,
        node: &'a NodeName,
        request: &'a AttachRequest,
    ) -> BoxFuture<'a, Result<Port, AttachError>>;

    /// Such a port is gone: no view of the returned revision or a later one has it. What is not
    /// there, and what others made, is as good as gone. A port that was asked for in a later
    /// generation stays: this request was under way for too long.
    fn detach<'a>(
        &'a self,
        node: &'a NodeName,
        key: &'a PortKey,
        generation: u64,
    ) -> BoxFuture<'a, Result<u64, AttachError>>;
}

/// Gives nothing.
pub(crate) struct Nothing;

impl Attachments for Nothing {
    fn attach<'a>(
        &'a self,
        _: &'a NodeName,
        request: &'a AttachRequest,
    ) -> BoxFuture<'a, Result<Port, AttachError>> {
        let why = format!("this controller gives no addresses of network {}", request.network);
        Box::pin(std::future::ready(Err(AttachError::Refused(why))))
    }

    fn detach<'a>(
        &'a self,
        _: &'a NodeName,
        _: &'a PortKey,
        _: u64,
    ) -> BoxFuture<'a, Result<u64, AttachError>> {
        Box::pin(std::future::ready(Ok(0)))
    }
}
