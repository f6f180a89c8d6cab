//! Keeps two writers from spinning: a place that somebody else changes again and again is put right
//! ever more seldom.

use super::item::Key;
use rustc_hash::FxHashMap;
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;

/// Repairs in quick succession that are no fight yet.
const PATIENT: u32 = 5;
/// Who is left alone this long has stopped.
const CALM: Duration = Duration::from_secs(10);
const FIRST_HOLD: Duration = Duration::from_secs(1);
const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// The places that were put right lately.
#[derive(Debug, Default)]
pub(super) struct Fights {
    rounds: FxHashMap<Key, Round>,
}

#[derive(Debug)]
struct Round {
    repairs: u32,
    last: Instant,
    hold_until: Option<Instant>,
}

impl Fights {
    /// A place was put right. Whether that begins or goes on with a fight.
    pub(super) fn repaired(&mut self, key: &Key, now: Instant) -> bool {
        if self.rounds.len() > 1024 {
            self.forget(now);
        }
        let round = self.rounds.entry(key.clone()).or_insert(Round {
            repairs: 0,
            last: now,
            hold_until: None,
        });
        let calm = CALM + round.hold_until.map_or(Duration::ZERO, |until| until - round.last);
        if now.duration_since(round.last) > calm {
            round.repairs = 0;
        }
        round.repairs = round.repairs.saturating_add(1);
        round.last = now;
        round.hold_until = None;
        let Some(beyond) = round.repairs.checked_sub(PATIENT) else { return false };
        let hold = FIRST_HOLD.saturating_mul(1 << beyond.min(8)).min(LONGEST_HOLD);
        round.hold_until = Some(now + hold);
        warn!(place = %key, repairs = round.repairs, hold = ?hold, "somebody keeps changing it");
        true
    }

    /// Whether a place may be put right now.
    pub(super) fn allows(&self, key: &Key, now: Instant) -> bool {
        let hold = self.rounds.get(key).and_then(|round| round.hold_until);
        hold.is_none_or(|until| until <= now)
    }

    /// What is wanted there has changed: no need to wait.
    pub(super) fn forgive(&mut self, key: &Key) {
        self.rounds.remove(key);
    }

    /// When the next place may be put right that may not yet.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        self.rounds.values().filter_map(|round| round.hold_until).filter(|until| *until > now).min()
    }

    fn forget(&mut self, now: Instant) {
        self.rounds.retain(|_, round| now.duration_since(round.last) <= CALM + LONGEST_HOLD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fight_slows_down_and_peace_is_remembered() {
        let mut fights = Fights::default();
        let key = Key::Port("p".into());
        let start = Instant::now();
        for _ in 1..PATIENT {
            assert!(!fights.repaired(&key, start));
            assert!(fights.allows(&key, start));
        }
        assert!(fights.repaired(&key, start));
        assert!(!fights.allows(&key, start));
        assert_eq!(fights.next(start), Some(start + FIRST_HOLD));
        let later = start + FIRST_HOLD;
        assert!(fights.allows(&key, later));
        assert!(fights.repaired(&key, later));
        assert_eq!(fights.next(later), Some(later + FIRST_HOLD * 2));
        let calm = later + FIRST_HOLD * 2 + CALM + Duration::from_secs(1);
        assert!(!fights.repaired(&key, calm));
    }
}
