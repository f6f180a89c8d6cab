//! One value beside the store's documents, which all controllers of a cluster share, whether they lead
//! or not.

use crate::client::{Client, EtcdError, Guard, Step};
use bytes::Bytes;

/// See the module.
#[derive(Debug, Clone)]
pub struct Register {
    client: Client,
    key: Bytes,
}

/// A value, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registered {
    /// Nothing if there is none.
    pub value: Option<Bytes>,
    /// The revision of etcd that wrote it; 0 if none did.
    revision: i64,
}

// === impl Register ===

impl Register {
    /// The value of a cluster with this name.
    pub fn new(client: Client, cluster: &str, name: &str) -> Self {
        Self { client, key: Bytes::from(format!("/osier/{cluster}/{name}")) }
    }

    /// What it is now.
    pub async fn read(&self) -> Result<Registered, EtcdError> {
        let found = self.client.get(&self.key).await?;
        Ok(found.map_or_else(Registered::default, |found| Registered {
            value: Some(found.value),
            revision: found.mod_revision,
        }))
    }

    /// Replaces what was read; whether it was still that.
    pub async fn replace(&self, read: &Registered, value: Bytes) -> Result<bool, EtcdError> {
        let same = Guard::Modified(self.key.clone(), read.revision);
        let put = Step::Put(self.key.clone(), value.clone());
        if self.client.transact(&[same], &[put]).await?.is_some() {
            return Ok(true);
        }
        // It may have been made by a first try whose answer was lost.
        Ok(self.read().await?.value == Some(value))
    }
}
