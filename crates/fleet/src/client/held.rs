//! The view as the agent holds it: bytes as they came, so that what cannot be read today can be
//! after an upgrade, and a digest that both sides compute alike.

use super::{ViewContent, ViewUpdate, newer};
use crate::report::Fault;
use crate::wire::{Digest, Position, proto};
use bytes::Bytes;
use osier_model::{Change, Fabric, Key, Object};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A view, and where in its history it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Held {
    /// The highest leader's term that was seen.
    pub(crate) term: u64,
    pub(crate) epoch: u64,
    pub(crate) revision: u64,
    /// Missing until the first view.
    pub(crate) fabric: Option<Bytes>,
    /// By key.
    pub(crate) objects: BTreeMap<Bytes, Bytes>,
    pub(crate) digest: Digest,
    /// Objects that this agent cannot read.
    pub(crate) unread: Unread,
    /// Keys of what changed since it was last written to disk.
    pub(crate) unwritten: BTreeSet<Bytes>,
}

/// What cannot be read, by key.
pub(crate) type Unread = BTreeMap<Bytes, Fault>;

/// A batch that is not all there yet.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    reset: bool,
    fabric: Bytes,
    steps: Vec<proto::Step>,
    bytes: usize,
}

/// The most that a batch may have in all, in bytes.
const MAX_BATCH: usize = 512 << 20;

/// Why a batch cannot be used. The view is as it was.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum BatchError {
    #[error("the view differs from the controller's after revision {revision}")]
    Diverged { revision: u64 },
    #[error("a batch has more than {MAX_BATCH} bytes")]
    TooLarge,
    #[error("changes came before the first whole view")]
    NoView,
    #[error("a batch has no digest")]
    NoDigest,
    #[error("what holds for the whole cluster cannot be read: {0}")]
    Fabric(String),
}

// === impl Gathered ===

impl Gathered {
    /// Adds a part. True if it was the last.
    pub(crate) fn add(&mut self, batch: &mut proto::Batch) -> Result<bool, BatchError> {
        if batch.reset {
            *self = Self { reset: true, fabric: batch.fabric.clone(), ..Self::default() };
        }
        for step in batch.steps.drain(..) {
            self.bytes += step.key.len() + step.put.as_ref().map_or(0, Bytes::len) + 64;
            self.steps.push(step);
        }
        match self.bytes > MAX_BATCH {
            true => Err(BatchError::TooLarge),
            false => Ok(!batch.more),
        }
    }
}

// === impl Held ===

impl Held {
    /// What the controller is told.
    pub(crate) fn position(&self) -> Option<Position> {
        let Self { epoch, revision, digest, .. } = *self;
        self.fabric.as_ref().map(|_| Position { epoch, revision, digest })
    }

    /// All of it, as the first update, with what cannot be read.
    pub(crate) fn snapshot(&self) -> Option<(ViewUpdate, Unread)> {
        let fabric: Fabric = serde_json::from_slice(self.fabric.as_ref()?).ok()?;
        let mut faults = Unread::new();
        let read = |(key, bytes): (&Bytes, &Bytes)| read(key, bytes, &mut faults);
        let objects = self.objects.iter().filter_map(read).collect();
        let content = ViewContent::Snapshot { fabric, objects };
        Some((ViewUpdate { epoch: self.epoch, revision: self.revision, content }, faults))
    }

    /// Makes a batch's steps, and tells what that changes and what cannot be read.
    pub(crate) fn advance(
        &mut self,
        gathered: Gathered,
        epoch: u64,
        last: &proto::Batch,
    ) -> Result<(ViewUpdate, Unread), BatchError> {
        let first = self.fabric.is_none();
        if first && !gathered.reset {
            return Err(BatchError::NoView);
        }
        let before = self.fabric.clone();
        let fabric = if gathered.reset { Some(gathered.fabric.clone()) } else { before.clone() };
        let (steps, digest) = self.net(gathered);
        let mut digest = digest;
        if fabric != before {
            for bytes in before.iter().chain(&fabric) {
                digest.toggle(Digest::of(bytes));
            }
        }
        let said = Digest::from_bytes(&last.digest).ok_or(BatchError::NoDigest)?;
        if said != digest {
            return Err(BatchError::Diverged { revision: last.revision });
        }
        let read_fabric = |bytes: &Bytes| {
            serde_json::from_slice::<Fabric>(bytes).map_err(|e| BatchError::Fabric(e.to_string()))
        };
        let new_fabric = match &fabric {
            Some(bytes) if fabric != before => Some(read_fabric(bytes)?),
            _ => None,
        };
        let mut faults = Unread::new();
        let changes = changes(&self.objects, &steps, &mut faults);
        for (key, put) in steps {
            self.unread.remove(&key);
            self.unwritten.insert(key.clone());
            match put {
                Some(put) => self.objects.insert(key, put),
                None => self.objects.remove(&key),
            };
        }
        self.unread.extend(faults.clone());
        (self.fabric, self.digest) = (fabric, digest);
        (self.epoch, self.revision) = (epoch, last.revision);
        let update = match first.then(|| self.snapshot()).flatten() {
            Some((snapshot, _)) => snapshot,
            None => ViewUpdate {
                epoch,
                revision: last.revision,
                content: ViewContent::Changes { fabric: new_fabric, changes },
            },
        };
        Ok((update, faults))
    }

    /// What steps come to: each object once, only what differs. And the digest of the objects and
    /// the fabric as it was.
    fn net(&self, gathered: Gathered) -> (BTreeMap<Bytes, Option<Bytes>>, Digest) {
        let mut last: BTreeMap<Bytes, Option<Bytes>> = BTreeMap::new();
        if gathered.reset {
            last.extend(self.objects.keys().map(|key| (key.clone(), None)));
        }
        last.extend(gathered.steps.into_iter().map(|step| (step.key, step.put)));
        last.retain(|key, put| self.objects.get(key) != put.as_ref());
        let mut digest = self.digest;
        for (key, put) in &last {
            for bytes in self.objects.get(key).iter().copied().chain(put) {
                digest.toggle(Digest::of(bytes));
            }
        }
        (last, digest)
    }
}

fn read(key: &Bytes, bytes: &Bytes, faults: &mut Unread) -> Option<Object> {
    match newer::read(bytes) {
        Ok(object) => Some(object),
        Err(error) => {
            let text = format!("this agent cannot read it: {error}");
            faults.insert(key.clone(), Fault { key: serde_json::from_slice(key).ok(), text });
            None
        }
    }
}

fn changes(
    objects: &BTreeMap<Bytes, Bytes>,
    steps: &BTreeMap<Bytes, Option<Bytes>>,
    faults: &mut Unread,
) -> Vec<Change> {
    let mut unread: Vec<Key> = Vec::new();
    let both = steps.iter().map(|(key, put)| {
        let was = objects.get(key).and_then(|bytes| newer::read(bytes).ok());
        let now = put.as_ref().and_then(|put| read(key, put, faults));
        if was.is_none() && now.is_none() {
            unread.extend(serde_json::from_slice::<Key>(key).ok());
        }
        (was, now)
    });
    let both: Vec<_> = both.collect();
    let mut changes = osier_span::changes(both.into_iter());
    // What could not be read before and is gone: the agent never had it, and a delete is harmless.
    changes.splice(0..0, unread.into_iter().map(Change::Delete));
    changes
}
