//! Events as messages: large ones in parts.

use crate::views::Event;
use crate::wire::{PART, fabric_bytes, key_bytes, payload, proto};
use bytes::Bytes;
use osier_span::{Shared, Step};

/// An event's messages, made as they are asked for.
pub(crate) struct Parts {
    steps: std::iter::Peekable<Box<dyn Iterator<Item = proto::Step> + Send>>,
    revision: u64,
    /// With the first part of a snapshot.
    fabric: Option<Bytes>,
    digest: Bytes,
    done: bool,
}

// === impl Parts ===

impl Parts {
    pub(crate) fn new(event: Event) -> Self {
        type Steps = Box<dyn Iterator<Item = proto::Step> + Send>;
        let (revision, fabric, steps, digest): (_, _, Steps, _) = match event {
            Event::Snapshot { revision, fabric, objects, digest } => {
                let fabric = Some(fabric_bytes(&fabric));
                (revision, fabric, Box::new(objects.into_iter().map(|shared| put(&shared))), digest)
            }
            Event::Update { revision, steps, digest } => {
                (revision, None, Box::new(steps.into_iter().filter_map(step)), digest)
            }
        };
        let (steps, digest) = (steps.peekable(), digest.to_bytes());
        Self { steps, revision, fabric, digest, done: false }
    }
}

impl Iterator for Parts {
    type Item = proto::FromController;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let mut batch = proto::Batch { revision: self.revision, ..proto::Batch::default() };
        if let Some(fabric) = self.fabric.take() {
            batch.reset = true;
            batch.fabric = fabric;
        }
        let mut size = 0;
        while size < PART
            && let Some(step) = self.steps.next()
        {
            size += step.key.len() + step.put.as_ref().map_or(0, Bytes::len);
            batch.steps.push(step);
        }
        batch.more = self.steps.peek().is_some();
        if !batch.more {
            self.done = true;
            batch.digest = self.digest.clone();
        }
        let message = Some(proto::from_controller::Message::Batch(batch));
        Some(proto::FromController { message })
    }
}

fn put(shared: &Shared) -> proto::Step {
    let put = Some(payload(shared).bytes.clone());
    proto::Step { key: key_bytes(&shared.object().key()), put }
}

fn step(step: Step) -> Option<proto::Step> {
    match (step.was, step.now) {
        (_, Some(now)) => Some(put(&now)),
        (Some(was), None) => Some(proto::Step { key: key_bytes(&was.object().key()), put: None }),
        (None, None) => None,
    }
}
