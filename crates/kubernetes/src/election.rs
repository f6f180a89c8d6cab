//! Who of several controllers leads: a `Lease` that its holder renews.
//!
//! Only time that passes here is believed, never a clock of others: a lease is free when it has not
//! changed for as long as it says, seen from here. A leader that cannot renew stops before that, so
//! no two lead at once. Each acquisition counts a transition, also by the same process, and the count
//! is the leader's term.

use crate::error::{failed, is_conflict, is_missing};
use crate::scribe;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use osier_controller::config::LeaseConfig;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The lease.
pub(crate) const LEASE: &str = "osier-controller";
/// Terms count from here, in hours, so that they grow also when the lease was deleted.
const BEGIN: i64 = 1_767_225_600;

/// One who wants to lead.
pub(crate) struct Election {
    leases: Api<Lease>,
    identity: String,
    /// How identities of our own earlier lives begin, if they are known to be over.
    lives: Option<String>,
    times: Times,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    /// How long others wait.
    duration: Duration,
    /// How long we go on without having renewed.
    renew: Duration,
    /// How often we try.
    retry: Duration,
}

/// A lease that is ours.
#[derive(Debug)]
pub(crate) struct Held {
    lease: Lease,
    /// When we asked for what was granted last.
    since: Instant,
}

/// A lease of somebody, since it was first seen so.
struct Seen {
    version: Option<String>,
    since: Instant,
}

// === impl Election ===

impl Election {
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        identity: String,
        config: LeaseConfig,
    ) -> Self {
        let seconds = |n: u32| Duration::from_secs(n.into());
        let times = Times {
            duration: seconds(config.duration_seconds),
            renew: seconds(config.renew_seconds),
            retry: seconds(config.retry_seconds),
        };
        Self { leases: Api::namespaced(client, namespace), identity, lives: None, times }
    }

    /// Whose identity begins so was this very container: it is started again only when it has ended.
    pub(crate) fn reborn(self, prefix: String) -> Self {
        Self { lives: Some(prefix), ..self }
    }

    /// Whether nobody leads by a lease any more, because we did, and know that we have stopped.
    fn is_our_past(&self, holder: &str) -> bool {
        let is_earlier = self.lives.as_ref().is_some_and(|prefix| holder.starts_with(prefix));
        holder == self.identity || is_earlier
    }

    /// Waits until we lead.
    pub(crate) async fn acquire(&self) -> Held {
        let (mut seen, mut said) = (None, String::new());
        loop {
            match timeout(self.times.renew, self.attempt(&mut seen)).await {
                Ok(Ok(Some(held))) => return held,
                Ok(Ok(None)) => said.clear(),
                Ok(Err(error)) => {
                    // Once for each outage.
                    let text = failed(&error);
                    if text != said {
                        tracing::warn!(error = %text, "the lease cannot be read");
                        said = text;
                    }
                }
                Err(_) => tracing::debug!("the API server does not answer"),
            }
            sleep(self.times.retry).await;
        }
    }

    async fn attempt(&self, seen: &mut Option<Seen>) -> Result<Option<Held>, kube::Error> {
        let since = Instant::now();
        let Some(lease) = self.leases.get_opt(LEASE).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() },
                spec: Some(self.spec(0)),
            };
            let made = self.leases.create(&scribe::ours(), &lease).await;
            return granted(made, since);
        };
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        let before = spec.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let version = &lease.metadata.resource_version;
        if !holder.is_empty() && !self.is_our_past(holder) {
            let first = seen.take().filter(|seen| seen.version == *version);
            let first = first.unwrap_or(Seen { version: version.clone(), since });
            let theirs = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
            let theirs = Duration::from_secs(u64::try_from(theirs).unwrap_or(0));
            let is_over = first.since.elapsed() > theirs.max(self.times.duration);
            *seen = Some(first);
            if !is_over {
                return Ok(None);
            }
        }
        // Whoever else does the same meets our version of it.
        let lease = Lease { metadata: lease.metadata, spec: Some(self.spec(before)) };
        granted(self.leases.replace(LEASE, &scribe::ours(), &lease).await, since)
    }

    fn spec(&self, before: i32) -> LeaseSpec {
        let now = Timestamp::now();
        let hours = i32::try_from((now.as_second() - BEGIN) / 3600).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.times.duration.as_secs()).ok(),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(before.saturating_add(1).max(hours)),
            ..LeaseSpec::default()
        }
    }

    /// Renews a lease for as long as that can be done; says why it no longer can.
    pub(crate) async fn keep(&self, held: &mut Held) -> String {
        loop {
            sleep(self.times.retry).await;
            let end = held.since + self.times.renew;
            let began = Instant::now();
            // One that hangs leaves time for another.
            let patience = timeout(self.times.renew / 2, self.renew(held));
            match timeout_at(end, patience).await {
                Ok(Ok(Ok(true))) => held.since = began,
                Ok(Ok(Ok(false))) => return "another controller has taken it".to_owned(),
                Ok(Ok(Err(error))) => {
                    tracing::warn!(error = %failed(&error), "the lease could not be renewed");
                }
                Ok(Err(_)) => tracing::warn!("the lease could not be renewed: no answer"),
                Err(_) => {}
            }
            if Instant::now() >= held.since + self.times.renew {
                let seconds = self.times.renew.as_secs();
                return format!("it could not be renewed for {seconds} s");
            }
        }
    }

    /// Renews it once; false if it is another's.
    async fn renew(&self, held: &mut Held) -> Result<bool, kube::Error> {
        let mut lease = held.lease.clone();
        if let Some(spec) = lease.spec.as_mut() {
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        match self.leases.replace(LEASE, &scribe::ours(), &lease).await {
            Ok(lease) => {
                held.lease = lease;
                Ok(true)
            }
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) if is_conflict(&error) => {
                let now = self.leases.get(LEASE).await?;
                let holder = now.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
                let same = now.spec.as_ref().and_then(|spec| spec.lease_transitions)
                    == held.lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
                if holder != Some(&self.identity) || !same {
                    return Ok(false);
                }
                // Somebody has changed a label, or our answer was lost: it is ours still.
                held.lease = now;
                Box::pin(self.renew(held)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a lease back, so that nobody has to wait. We must have stopped leading.
    pub(crate) async fn release(&self, held: Held) {
        let mut lease = held.lease;
        if let Some(spec) = lease.spec.as_mut() {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        let parameters = scribe::ours();
        let given = self.leases.replace(LEASE, &parameters, &lease);
        if !matches!(timeout(self.times.retry, given).await, Ok(Ok(_))) {
            tracing::warn!("the lease could not be given back: others wait for its end");
        }
    }
}

// === impl Held ===

impl Held {
    /// How many leaders there were, this one counted.
    pub(crate) fn term(&self) -> u64 {
        let transitions = self.lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        transitions.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
    }

    /// Which lease it is.
    pub(crate) fn uid(&self) -> &str {
        self.lease.metadata.uid.as_deref().unwrap_or_default()
    }
}

fn granted(
    answer: Result<Lease, kube::Error>,
    since: Instant,
) -> Result<Option<Held>, kube::Error> {
    match answer {
        Ok(lease) => Ok(Some(Held { lease, since })),
        // Somebody was faster.
        Err(error) if is_conflict(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
