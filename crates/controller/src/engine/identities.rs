//! What is said of labels and policies, resolved; and the numbers that are given for it, remembered.
//!
//! A number is stored before a node hears of it: two controllers that follow each other never use one
//! for two things.

use super::State;
use super::start::StartError;
use osier_model::{Change, Identity, Key as ModelKey, Object, Saying};
use osier_resource::Fault;
use osier_span::{Resolution, Traits};
use osier_store::{Key, Query, Transaction, Unavailable};

/// What identities are kept under.
pub const IDENTITIES: &str = "identities/";
/// How many are stored at once.
const AT_ONCE: usize = 200;

/// Where an identity is kept, and as what.
pub fn kept_identity(identity: u32, traits: &serde_json::Value) -> Option<(Key, Vec<u8>)> {
    let key = Key::new(&format!("{IDENTITIES}{identity}")).ok()?;
    Some((key, traits.to_string().into_bytes()))
}

/// What a change says of a node: policies name nodes by their addresses.
pub(super) fn said_of_node(change: &Change) -> Option<Saying> {
    match change {
        Change::Put(Object::Node(node)) => Some(Saying::Node(Box::new(node.clone()))),
        Change::Delete(ModelKey::Node(name)) => Some(Saying::NodeGone(name.clone())),
        Change::Put(_) | Change::Delete(_) => None,
    }
}

impl State {
    /// What sayings come to, as changes of the model; what they give is stored.
    pub(super) async fn resolve(&mut self, said: Vec<Saying>) -> Result<Vec<Change>, Unavailable> {
        if said.is_empty() {
            return Ok(Vec::new());
        }
        let Resolution { changes, given, retired } = self.roster.hear(said);
        let put = given.into_iter().filter_map(|(identity, traits)| {
            kept_identity(identity.0, &serde_json::to_value(&*traits).ok()?)
        });
        let put: Vec<(Key, Option<Vec<u8>>)> = put.map(|(key, value)| (key, Some(value))).collect();
        let gone = retired.into_iter().filter_map(|identity| {
            Some((Key::new(&format!("{IDENTITIES}{}", identity.0)).ok()?, None))
        });
        let all: Vec<(Key, Option<Vec<u8>>)> = put.into_iter().chain(gone).collect();
        for some in all.chunks(AT_ONCE) {
            let mut transaction = Transaction::new();
            for (key, value) in some {
                transaction = match value {
                    Some(value) => transaction.put(key.clone(), value.clone()),
                    None => transaction.delete(key.clone()),
                };
            }
            self.store.commit(transaction).await.map_err(|error| {
                tracing::error!(%error, "identities were not stored");
                match error {
                    osier_store::CommitError::Unavailable(error) => error,
                    _ => Unavailable::Closed,
                }
            })?;
        }
        Ok(changes)
    }

    /// Recalls all that were given.
    pub(super) async fn recall_identities(&mut self) -> Result<(), StartError> {
        let mut query = Query::under(IDENTITIES);
        loop {
            let page = self.store.list(query.clone()).await?;
            for (key, entry) in &page.entries {
                let number = key.as_str().strip_prefix(IDENTITIES).and_then(|n| n.parse().ok());
                let traits = serde_json::from_slice::<Traits>(&entry.value);
                let damaged = |said: String| {
                    let fault = Fault { field: String::new(), said };
                    StartError::Damaged { key: key.to_string(), fault }
                };
                let number = number.ok_or_else(|| damaged("its name is no number".to_owned()))?;
                let traits = traits.map_err(|error| damaged(error.to_string()))?;
                self.roster.recall(Identity(number), traits);
            }
            if !page.more {
                return Ok(());
            }
            query = query.behind(&page);
        }
    }
}
