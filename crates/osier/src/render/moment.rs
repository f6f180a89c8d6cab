//! Moments as people say them: how long ago, or how far away.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const STEPS: [(i64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];

/// A moment of an answer (RFC 3339).
pub(crate) fn read(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

/// How long ago something was; the text itself if it is no moment.
pub(crate) fn ago(text: &str, now: OffsetDateTime) -> String {
    read(text).map_or_else(|| text.to_owned(), |then| length((now - then).whole_seconds()))
}

/// The time between a moment and now, with the direction.
pub(crate) fn relative(text: &str, now: OffsetDateTime) -> String {
    let Some(then) = read(text) else { return text.to_owned() };
    match (then - now).whole_seconds() {
        left if left > 0 => format!("in {}", length(left)),
        past => format!("{} ago", length(-past)),
    }
}

/// So many seconds, in the largest unit of which there are at least two.
fn length(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let step = STEPS.iter().find(|(step, _)| seconds >= 2 * step).unwrap_or(&STEPS[3]);
    format!("{} {}", seconds / step.0, step.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        for (seconds, text) in [
            (-5, "0 s"),
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_199, "119 min"),
            (7_200, "2 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(length(seconds), text);
        }
    }

    #[test]
    fn moments_have_a_direction() {
        let now = read("2026-01-01T12:00:00Z").unwrap();
        assert_eq!(relative("2026-01-01T15:00:00Z", now), "in 3 h");
        assert_eq!(relative("2026-01-01T11:59:00Z", now), "60 s ago");
        assert_eq!(ago("2026-01-01T11:55:00Z", now), "5 min");
        assert_eq!(ago("soon", now), "soon");
    }
}
