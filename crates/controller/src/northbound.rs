//! What another owner of the model brings: where Kubernetes is the truth, the controller serves what
//! that says, and asks it who may come in.
//!
//! The controller knows no API server: this trait is all of it, in words of the model.

use crate::credentials::Role;
use futures_util::future::BoxFuture;
use osier_fleet::{JoinRefused, Redemption};
use osier_model::NodeName;
use osier_resource::Resource;
use serde::Serialize;
use std::net::IpAddr;

/// Who owns the model in the controller's place.
pub trait Northbound: Send + Sync + 'static {
    /// What users hear who try to write the model here: where it is written instead.
    fn read_only(&self) -> &'static str;

    /// Who shows a token, if anybody whom it knows.
    fn review<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<Caller>>;

    /// Whether a node may join with what it shows.
    fn admit<'a>(&'a self, by: &'a Redemption) -> BoxFuture<'a, Result<(), JoinRefused>>;

    /// Records a port that an agent asked for, with what was allocated; before the agent hears.
    fn record<'a>(&'a self, port: &'a Resource) -> BoxFuture<'a, Result<(), String>>;

    /// Such a port is gone.
    fn erase<'a>(&'a self, port: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Remembers that a node is paused, or not.
    fn pause<'a>(&'a self, node: &'a NodeName, paused: bool) -> BoxFuture<'a, Result<(), String>>;

    /// All pods, by namespace and name.
    fn pods(&self) -> Vec<Pod>;
}

/// Somebody who may use the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub name: String,
    /// What for.
    pub role: Role,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its node, once it has one.
    pub node: Option<String>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// How far it is: `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: Option<String>,
    /// Whether its network is its node's own.
    pub host_network: bool,
}

/// How a node is, for who tells others of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Which.
    pub name: NodeName,
    /// Whether its agent is connected.
    pub connected: bool,
    /// Whether its switch is as wanted.
    pub converged: bool,
    /// Up to which revision its switch is as wanted.
    pub applied: Option<u64>,
    /// What is not as it should be, in words.
    pub differs: Vec<String>,
    /// Objects that its agent could not make real: which port, if it is one, and why.
    pub faults: Vec<(Option<String>, String)>,
}
