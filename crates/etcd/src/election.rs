//! Who leads: one key, under a lease that its holder renews.
//!
//! The lease says only when others may try. That a leader whose time is over writes nothing more is
//! [`Etcd`](crate::Etcd)'s doing, so nobody's clock has to be right.

use crate::client::{Client, EtcdError, Guard, Step};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// How often who waits looks whether anybody leads: for so long nobody may.
const LOOK: Duration = Duration::from_millis(100);

/// A place to lead.
#[derive(Debug, Clone)]
pub struct Election {
    client: Client,
    key: Bytes,
    ttl: Duration,
}

/// That one leads, until the lease is lost or dropped.
#[derive(Debug)]
pub struct Leadership {
    client: Client,
    lease: i64,
    ttl: Duration,
}

// === impl Election ===

impl Election {
    /// In a cluster of a name; a leader that is not heard for so long is over.
    pub fn new(client: Client, cluster: &str, ttl: Duration) -> Self {
        let key = Bytes::from(format!("/osier/{cluster}/leader"));
        Self { client, key, ttl: ttl.max(Duration::from_secs(2)) }
    }

    /// Waits until one leads. The name is for people.
    pub async fn campaign(&self, name: &str) -> Leadership {
        loop {
            match self.try_once(name).await {
                Ok(Some(leadership)) => return leadership,
                Ok(None) => {}
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "no election now");
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn try_once(&self, name: &str) -> Result<Option<Leadership>, EtcdError> {
        // A lease is worth its price only where nobody leads.
        if self.client.get(&self.key).await?.is_some() {
            return Ok(None);
        }
        let seconds = i64::try_from(self.ttl.as_secs()).unwrap_or(i64::MAX);
        let lease = self.client.grant(seconds).await?;
        let absent = Guard::Modified(self.key.clone(), 0);
        let take = Step::PutFor(self.key.clone(), Bytes::from(name.to_owned()), lease);
        let leadership = Leadership { client: self.client.clone(), lease, ttl: self.ttl };
        if self.client.transact(&[absent], &[take]).await?.is_some() {
            return Ok(Some(leadership));
        }
        leadership.resign().await;
        Ok(None)
    }

    /// Who leads, if anybody does.
    pub async fn leader(&self) -> Result<Option<String>, EtcdError> {
        let found = self.client.get(&self.key).await?;
        Ok(found.map(|found| String::from_utf8_lossy(&found.value).into_owned()))
    }
}

// === impl Leadership ===

impl Leadership {
    /// Renews the lease for as long as that works; ends when one leads no more.
    pub async fn keep(&self) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < self.ttl {
            tokio::time::sleep(self.ttl / 5).await;
            let asked = Instant::now();
            match self.client.renew(self.lease).await {
                Ok(true) => renewed = asked,
                Ok(false) => return tracing::warn!("the lease is over: another may lead"),
                Err(error) => tracing::warn!(%error, "the lease is not renewed"),
            }
        }
        tracing::warn!("the lease could not be renewed in time: another may lead");
    }

    /// Lets others lead at once.
    pub async fn resign(self) {
        if let Err(error) = self.client.revoke(self.lease).await {
            tracing::debug!(%error, "the lease ends by itself");
        }
    }
}
