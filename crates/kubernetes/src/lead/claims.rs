//! Claims of our own blocks: whoever made the object has the block.

use super::Leader;
use crate::error::{failed, is_conflict, is_missing};
use crate::scribe;
use crate::world::block::{BlockObject, BlockSeen, name_of};
use futures_util::future::join_all;
use ipnet::IpNet;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a claim may take.
const PATIENCE: Duration = Duration::from_secs(10);

// === impl Leader ===

impl Leader {
    /// Makes blocks: whoever made one has it. Says which the API server did not answer for; the next
    /// are claimed later then.
    pub(super) async fn claim(&mut self, claims: &[(IpNet, String)]) -> BTreeSet<IpNet> {
        let api: Api<BlockObject> = Api::all(self.setup.client.clone());
        let parameters = scribe::ours();
        let make = |(cidr, node): &(IpNet, String)| {
            let (api, parameters, object) = (&api, &parameters, BlockObject::of(*cidr, node));
            let name = name_of(*cidr);
            async move {
                let made = tokio::time::timeout(PATIENCE, api.create(parameters, &object)).await;
                match made {
                    Ok(Ok(block)) => Some((name, block)),
                    // Somebody else has it: it is theirs, and we look for another next time.
                    Ok(Err(error)) if is_conflict(&error) => {
                        Some((name.clone(), api.get(&name).await.ok()?))
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(name, error = %failed(&error), "a block was not claimed");
                        None
                    }
                    Err(_) => None,
                }
            }
        };
        let made = join_all(claims.iter().map(make)).await;
        let unanswered: BTreeSet<IpNet> =
            claims.iter().zip(&made).filter(|(_, made)| made.is_none()).map(|(c, _)| c.0).collect();
        self.addresses.answered(unanswered.is_empty());
        let made: Vec<_> = made.into_iter().flatten().collect();
        let earlier = self.earlier(&made).await;
        for (name, block) in made {
            let cidr = block.spec.cidr;
            if let Some(other) = earlier.get(&cidr) {
                tracing::warn!(%cidr, other, "somebody has claimed a part of this block before");
                self.delete(cidr).await;
                continue;
            }
            tracing::info!(node = block.spec.node, %cidr, "block claimed");
            self.is_stale |= self.blocks.put(name, BlockSeen::from(block));
        }
        unanswered
    }

    /// Blocks of other lengths that were there before ours and share addresses with them: names do
    /// not meet then. Whoever comes later sees the earlier one, and gives way.
    async fn earlier(&self, made: &[(String, BlockObject)]) -> BTreeMap<IpNet, String> {
        let mut earlier = BTreeMap::new();
        if made.is_empty() {
            return earlier;
        }
        let api: Api<BlockObject> = Api::all(self.setup.client.clone());
        let parameters = ListParams::default();
        let Ok(Ok(all)) = tokio::time::timeout(PATIENCE, api.list(&parameters)).await else {
            return earlier;
        };
        let version = |block: &BlockObject| -> Option<u64> {
            block.metadata.resource_version.as_ref()?.parse().ok()
        };
        for (_, own) in made {
            let is_before = |other: &&BlockObject| {
                let cidr = &other.spec.cidr;
                let shares = cidr.contains(&own.spec.cidr) || own.spec.cidr.contains(cidr);
                shares && *cidr != own.spec.cidr && version(other) < version(own)
            };
            if let Some(other) = all.items.iter().find(is_before) {
                earlier.insert(own.spec.cidr, other.spec.cidr.to_string());
            }
        }
        earlier
    }

    /// Blocks that somebody has deleted are claimed again for the nodes that have them.
    pub(super) async fn reclaim(&mut self, names: &BTreeSet<String>) {
        let mut lost = self.addresses.take_lost();
        lost.retain(|block| names.contains(&block.spec.node));
        if lost.is_empty() {
            return;
        }
        let claims: Vec<_> = lost.iter().map(|b| (b.spec.cidr, b.spec.node.clone())).collect();
        let unanswered = self.claim(&claims).await;
        for block in lost.into_iter().filter(|block| unanswered.contains(&block.spec.cidr)) {
            self.addresses.lost(block);
        }
    }

    /// Returns a block.
    pub(super) async fn delete(&mut self, block: IpNet) -> bool {
        let api: Api<BlockObject> = Api::all(self.setup.client.clone());
        let (name, parameters) = (name_of(block), DeleteParams::default());
        let deleted = tokio::time::timeout(PATIENCE, api.delete(&name, &parameters)).await;
        match deleted {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if is_missing(&error) => {}
            Ok(Err(error)) => {
                tracing::warn!(name, error = %failed(&error), "a block was not returned");
                return false;
            }
            Err(_) => return false,
        }
        tracing::info!(cidr = %block, "block returned");
        self.blocks.remove(&name);
        self.is_stale = true;
        true
    }
}
