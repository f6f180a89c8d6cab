//! How the API server serves us: watches that broke, requests that it was too busy for.
//!
//! That happens, and mends itself; so it is counted, and told only when it lasts.

use super::Leader;
use crate::plan::Problem;
use crate::world::watch::Broken;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long a watch may be broken before that is told, and how long it goes on before that is over.
const LATE: Duration = Duration::from_secs(3);
/// How long after the last refusal the API server counts as busy.
const BUSY: Duration = Duration::from_secs(10);

const BROKEN: &str = "WatchBroken";
const REFUSED: &str = "APIServerBusy";

/// What is remembered of it.
#[derive(Default)]
pub(super) struct Watches {
    broken: BTreeMap<&'static str, Since>,
    /// Errors that nobody counts yet: there is no controller.
    errors: BTreeMap<&'static str, u64>,
    /// Refusals that were counted.
    counted: BTreeMap<u16, u64>,
}

/// Since when a watch is broken, and why at first.
struct Since {
    path: String,
    first: Instant,
    last: Instant,
    why: String,
}

// === impl Leader ===

impl Leader {
    pub(super) fn hear_broken(&mut self, Broken { plural, path, why }: Broken) {
        let now = Instant::now();
        *self.watches.errors.entry(plural).or_default() += 1;
        let since = self.watches.broken.entry(plural).or_insert_with(|| {
            tracing::warn!(plural, why, "the watch broke");
            Since { path, first: now, last: now, why }
        });
        since.last = now;
    }

    /// Counts what was new, and tells what lasts.
    pub(super) fn look_at_watches(&mut self) {
        let now = Instant::now();
        let refusals = self.setup.courtesy.refusals();
        if self.states.is_some() {
            let metrics = self.problems.metrics();
            for (plural, count) in std::mem::take(&mut self.watches.errors) {
                metrics.kubernetes_watch_errors(plural, count);
            }
            for (code, count) in &refusals.counts {
                let counted = self.watches.counted.insert(*code, *count).unwrap_or(0);
                metrics.kubernetes_refusals(*code, count - counted);
            }
        }
        let courtesy = &self.setup.courtesy;
        self.watches.broken.retain(|_, since| {
            let began = courtesy.began(&since.path).filter(|began| *began > since.last);
            began.is_none_or(|began| now - began < LATE)
        });
        let broken = &self.watches.broken;
        let first = broken.values().min_by_key(|since| since.first);
        let broken = first.filter(|first| now - first.first >= LATE).map(|first| {
            let kinds = broken.keys().copied().collect::<Vec<_>>().join(", ");
            let why = &first.why;
            let text = format!(
                "the API server cannot be watched, so {kinds} may be other than known: {why}"
            );
            Problem { reason: BROKEN, text }
        });
        let is_busy = refusals.last.is_some_and(|last| now - last < BUSY);
        let busy = is_busy.then(|| Problem {
            reason: REFUSED,
            text: "the API server has too much to do for this controller's requests: they wait for as \
                   long as it says"
                .to_owned(),
        });
        let lease = self.setup.lease.clone();
        self.problems.set(&lease, &[BROKEN], broken);
        self.problems.set(&lease, &[REFUSED], busy);
    }
}
