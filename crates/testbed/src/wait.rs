//! Waiting for a condition, with a deadline: the only way to wait in this crate and its tests.

use std::fmt::Display;
use std::thread::sleep;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A condition did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("waited {waited:.1?} for {what}; last seen: {last}")]
pub struct Timeout {
    /// What was waited for.
    pub what: String,
    /// How long.
    pub waited: Duration,
    /// The last value, as the probe gave it.
    pub last: String,
}

/// Probes until `Ok`, for at most `deadline`; an `Err` carries what was seen instead.
///
/// ```
/// # use std::time::Duration;
/// let mut n = 0;
/// let three = osier_testbed::wait_until("three", Duration::from_secs(1), || {
///     n += 1;
///     if n == 3 { Ok(n) } else { Err(n) }
/// });
/// assert_eq!(three.unwrap(), 3);
/// ```
pub fn wait_until<T, E: Display>(
    what: &str,
    deadline: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> Result<T, Timeout> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(last) if start.elapsed() >= deadline => {
                return Err(Timeout {
                    what: what.to_owned(),
                    waited: start.elapsed(),
                    last: last.to_string(),
                });
            }
            Err(_) => sleep(pause.min(deadline.saturating_sub(start.elapsed()))),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_says_what_how_long_and_the_last_value() {
        let mut n = 0;
        let timeout = wait_until("ten", Duration::from_millis(20), || -> Result<(), _> {
            n += 1;
            Err(format!("{n} of 10"))
        })
        .unwrap_err();
        assert!(timeout.waited >= Duration::from_millis(20));
        assert_eq!(timeout.last, format!("{n} of 10"));
        let text = timeout.to_string();
        assert!(text.contains("for ten; last seen: "), "{text}");
    }
}
