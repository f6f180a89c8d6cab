//! What policies denied lately, for who asks. So much is remembered, and for a minute.

use osier_fleet::ask::{Denied, Grounds, TrackedConnection};
use osier_model::{Direction, PolicyName};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::directory::Directory;

/// As many are remembered.
const MOST: usize = 512;
/// For so long.
const LATELY: Duration = Duration::from_mins(1);

/// A connection that was tried, from whatever port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    /// Where it would be tracked.
    pub(crate) zone: u16,
    pub(crate) protocol: u8,
    pub(crate) source: IpAddr,
    pub(crate) target: IpAddr,
    pub(crate) port: Option<u16>,
    /// Of which side it was denied.
    pub(crate) direction: Direction,
}

/// A cheap handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeniedLately(Arc<Mutex<HashMap<Attempt, Known>>>);

#[derive(Debug)]
struct Known {
    times: u64,
    last: Instant,
    /// The policies that are about it.
    policies: Vec<PolicyName>,
}

// === impl DeniedLately ===

impl DeniedLately {
    /// It was denied, once more perhaps; which policies are about it is asked when they may have
    /// changed.
    pub(crate) fn add(&self, attempt: Attempt, policies: impl FnOnce() -> Vec<PolicyName>) {
        let now = Instant::now();
        let mut known = self.lock();
        if let Some(known) = known.get_mut(&attempt).filter(|known| known.is_late(now)) {
            known.times += 1;
            known.last = now;
            return;
        }
        if known.len() >= MOST {
            known.retain(|_, known| known.is_late(now));
        }
        // Who tries everything at once is told of by what it tried first.
        if known.len() < MOST {
            known.insert(attempt, Known { times: 1, last: now, policies: policies() });
        }
    }

    /// What it comes to.
    pub(crate) fn tell(&self, directory: &Directory) -> Vec<TrackedConnection> {
        let now = Instant::now();
        let known = self.lock();
        let late = known.iter().filter(|(_, known)| known.is_late(now));
        late.map(|(attempt, known)| tell(attempt, known, now, directory)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Attempt, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Known ===

impl Known {
    fn is_late(&self, now: Instant) -> bool {
        now.duration_since(self.last) < LATELY
    }
}

fn tell(
    attempt: &Attempt,
    known: &Known,
    now: Instant,
    directory: &Directory,
) -> TrackedConnection {
    let Attempt { zone, protocol, source, target, port, direction } = *attempt;
    let target = directory.side((zone, protocol), (target, port), true);
    let denied = Grounds::Denied(known.policies.clone());
    let (egress, ingress) = match direction {
        Direction::Egress => (denied, Grounds::Open),
        Direction::Ingress => (Grounds::Open, denied),
    };
    let seconds_ago = now.duration_since(known.last).as_secs();
    TrackedConnection {
        zone,
        protocol,
        source: directory.side((zone, protocol), (source, None), false),
        answering: target.clone(),
        target,
        state: None,
        egress,
        ingress,
        counted: None,
        denied: Some(Denied { times: known.times, seconds_ago }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(port: u16) -> Attempt {
        let (source, target) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let direction = Direction::Ingress;
        Attempt { zone: 2, protocol: 6, source, target, port: Some(port), direction }
    }

    #[test]
    fn attempts_are_counted_and_bounded() {
        let lately = DeniedLately::default();
        for _ in 0..3 {
            lately.add(attempt(80), || vec!["shop:db".parse().unwrap()]);
        }
        let told = lately.tell(&Directory::default());
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].denied.map(|denied| denied.times), Some(3));
        assert_eq!(told[0].ingress, Grounds::Denied(vec!["shop:db".parse().unwrap()]));
        for port in 0..2000 {
            lately.add(attempt(port), Vec::new);
        }
        assert_eq!(lately.tell(&Directory::default()).len(), MOST);
    }
}
