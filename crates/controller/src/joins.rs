//! Nodes that join: tokens are made here, kept in the store as hashes, and used up there.

use crate::engine::{Engine, Operation, PAUSES, Write, WriteError, key, token_key};
use crate::northbound::Northbound;
use futures_util::future::BoxFuture;
use osier_fleet::{Authority, JoinRefused, Joins, NodeConfiguration, Redemption, Token};
use osier_model::{Key, NodeName, Object};
use std::collections::BTreeSet;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Lets nodes in.
pub(crate) struct Doorkeeper {
    pub(crate) engine: Engine,
    pub(crate) mtu: Option<u16>,
    pub(crate) northbound: Option<Arc<dyn Northbound>>,
}

impl Doorkeeper {
    /// A node that its owner lets in; the model has it already.
    async fn known(&self, node: &NodeName) -> Result<NodeConfiguration, JoinRefused> {
        let found = self.engine.hub().get(&Key::Node(node.clone()));
        let found = found.and_then(|shared| match shared.object() {
            Object::Node(node) => Some(node.clone()),
            _ => None,
        });
        let why = "it has no addresses for pods yet, or no address of its own".to_owned();
        let found = found.ok_or_else(|| JoinRefused::Store(node.clone(), why))?;
        Ok(NodeConfiguration::of(&found, &self.engine.fabric().await, self.mtu))
    }
}

impl Joins for Doorkeeper {
    fn redeem<'a>(
        &'a self,
        redemption: &'a Redemption,
    ) -> BoxFuture<'a, Result<NodeConfiguration, JoinRefused>> {
        Box::pin(async move {
            if let Some(northbound) = &self.northbound {
                northbound.admit(redemption).await?;
                return self.known(&redemption.node).await;
            }
            let failed = |why: String| JoinRefused::Store(redemption.node.clone(), why);
            let write = Write::one(Operation::Redeem(redemption.clone()));
            let written = self.engine.write(write).await.map_err(|error| match error {
                WriteError::Join(refused) => refused,
                other => failed(match other.source() {
                    Some(cause) => format!("{other}: {cause}"),
                    None => other.to_string(),
                }),
            })?;
            let node = written.outcomes.into_iter().find_map(|outcome| outcome.joined);
            let node = node.ok_or_else(|| failed("there is no such node".to_owned()))?;
            Ok(NodeConfiguration::of(&node, &self.engine.fabric().await, self.mtu))
        })
    }
}

/// A new token for a node: its text, which is shown once. An older one is no longer good.
pub(crate) async fn issue(
    engine: &Engine,
    authority: &Authority,
    node: &NodeName,
    address: IpAddr,
    lifetime: Duration,
) -> Result<(String, u64), WriteError> {
    let expires = SystemTime::now() + lifetime;
    let (token, record) = Token::issue(node.clone(), address, authority.fingerprint(), expires)
        .map_err(|_| WriteError::Stopping)?;
    let record = serde_json::to_vec(&record).unwrap_or_default();
    let written =
        engine.write(Write::one(Operation::Keep(token_key(node)?, record.into()))).await?;
    Ok((token.reveal(), written.position.revision.0))
}

/// Remembers that a node is paused, or not.
pub(crate) async fn pause(
    engine: &Engine,
    node: &NodeName,
    is_paused: bool,
) -> Result<u64, WriteError> {
    let key = key(&format!("{PAUSES}{node}"))?;
    let operation = match is_paused {
        true => Operation::Keep(key, "{}".into()),
        false => Operation::Drop(key),
    };
    Ok(engine.write(Write::one(operation)).await?.position.revision.0)
}

/// A node that is paused, as the store has it: for a store that is filled before the controller
/// starts.
pub fn kept_pause(node: &NodeName) -> Option<(osier_store::Key, Vec<u8>)> {
    Some((key(&format!("{PAUSES}{node}")).ok()?, b"{}".to_vec()))
}

/// The nodes that are paused.
pub(crate) async fn paused(engine: &Engine) -> Result<BTreeSet<NodeName>, osier_store::ListError> {
    let mut nodes = BTreeSet::new();
    let mut query = osier_store::Query::under(PAUSES);
    loop {
        let page = engine.store().list(query.clone()).await?;
        let names = page.entries.iter().filter_map(|(key, _)| key.as_str().strip_prefix(PAUSES));
        nodes.extend(names.filter_map(|name| NodeName::new(name).ok()));
        if !page.more {
            return Ok(nodes);
        }
        query = query.behind(&page);
    }
}
