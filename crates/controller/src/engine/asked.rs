//! What agents ask for: ports, and to join.

use super::State;
use super::prepare::{outcome, token_key};
use super::staging::Staging;
use super::write::{Effect, Outcome, WriteError};
use osier_fleet::{JoinRefused, Redemption, TokenRecord};
use osier_model::{NodeName, Object};
use osier_resource::{Document, Kind, Metadata, Modelled, NodeSpec, NodeStatus, Resource};

/// The label of ports that agents asked for, with the generation of the last request: only those go
/// when an agent says so.
pub(crate) const ATTACHED: &str = "osier.dev/attached";

impl State {
    pub(super) async fn attach(
        &mut self,
        round: &Staging,
        draft: &mut Staging,
        wanted: Resource,
    ) -> Result<Outcome, WriteError> {
        let Some((resource, revision)) = self.current(Kind::Port, wanted.name()).await? else {
            return self.put(round, draft, None, wanted);
        };
        let (Resource::Port(is), Resource::Port(wants)) = (&resource, &wanted) else {
            return self.put(round, draft, Some((resource, revision)), wanted);
        };
        let elsewhere = |owner: String| {
            Err(WriteError::PortElsewhere { port: wanted.name().to_owned(), owner })
        };
        match () {
            () if is.spec.node != wants.spec.node => elsewhere(format!("node {}", is.spec.node)),
            () if is.spec.network != wants.spec.network => {
                elsewhere(format!("network {}", is.spec.network))
            }
            // It lives anew: what still says that it is gone is late.
            () if generation(&resource).is_some_and(|is| Some(is) < generation(&wanted)) => {
                let mut renewed = resource.clone();
                let label = wanted.metadata().labels.get(ATTACHED).cloned().unwrap_or_default();
                renewed.metadata_mut().labels.insert(ATTACHED.to_owned(), label);
                self.put(round, draft, Some((resource, revision)), renewed)
            }
            () => Ok(outcome(Effect::Unchanged, Some(resource))),
        }
    }

    pub(super) async fn detach(
        &mut self,
        draft: &mut Staging,
        name: &str,
        node: &NodeName,
        of: u64,
    ) -> Result<Outcome, WriteError> {
        let Some(current) = self.current(Kind::Port, name).await? else {
            return Ok(outcome(Effect::Unchanged, None));
        };
        // A port that a user made stays, and so do its addresses: they are the next pod's.
        let is_made = generation(&current.0).is_some_and(|generation| generation <= of);
        let is_there = matches!(&current.0, Resource::Port(port) if port.spec.node == *node);
        match (is_made, is_there) {
            (true, true) => self.delete(draft, current),
            (false, true) | (_, false) => Ok(outcome(Effect::Unchanged, Some(current.0))),
        }
    }

    pub(super) async fn redeem(
        &mut self,
        round: &Staging,
        draft: &mut Staging,
        by: &Redemption,
    ) -> Result<Outcome, WriteError> {
        let refused = WriteError::Join;
        let token = token_key(&by.node)?;
        let entry = self.store.get(&token).await.map_err(WriteError::Store)?;
        let entry = entry.ok_or_else(|| refused(JoinRefused::NoToken(by.node.clone())))?;
        let damaged = |e: serde_json::Error| JoinRefused::Store(by.node.clone(), e.to_string());
        let mut record: TokenRecord =
            serde_json::from_slice(&entry.value).map_err(|e| refused(damaged(e)))?;
        record.redeem(by).map_err(refused)?;
        let record = serde_json::to_vec(&record).map_err(|e| refused(damaged(e)))?;
        if entry.value != record.as_slice() {
            draft.document(token, Some(entry.modified), Some(record.into()));
        }
        let current = self.current(Kind::Node, by.node.as_str()).await?;
        let wanted = match &current {
            Some((resource, _)) => resource.clone(),
            None => Resource::Node(Document {
                metadata: Metadata::named(by.node.as_str()),
                spec: NodeSpec {
                    tunnel: by.address,
                    addresses: vec![by.address],
                    blocks: Vec::new(),
                    zone: None,
                },
                status: NodeStatus::default(),
            }),
        };
        let mut outcome = self.put(round, draft, current, wanted)?;
        let model = outcome.resource.as_ref().and_then(|resource| resource.to_model().ok());
        if let Some(Modelled::Object(Object::Node(node))) = model {
            outcome.joined = Some(node);
        }
        Ok(outcome)
    }
}

/// In which generation an agent asked for a port; nothing if it did not.
fn generation(port: &Resource) -> Option<u64> {
    let label = port.metadata().labels.get(ATTACHED)?;
    // Before there were generations it said only that.
    Some(label.parse().unwrap_or(0))
}
