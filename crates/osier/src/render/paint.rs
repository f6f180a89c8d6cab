//! Colour, where there is a terminal that wants it. No meaning hangs on colour alone.

use std::ffi::OsStr;
use std::io::IsTerminal;

/// What a piece of text is to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Warning,
    Faint,
    Strong,
}

/// Who colours, or does not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// For standard output.
    pub(crate) fn for_output() -> Self {
        let variable = |name| std::env::var_os(name);
        let is_terminal = std::io::stdout().is_terminal();
        Self {
            is_on: wanted(
                is_terminal,
                variable("NO_COLOR").as_deref(),
                variable("TERM").as_deref(),
            ),
        }
    }

    /// Never.
    pub(crate) const OFF: Self = Self { is_on: false };

    /// The text in its tone.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warning => "33",
            Tone::Faint => "2",
            Tone::Strong => "1",
        };
        if self.is_on && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// By <https://no-color.org>: any value but an empty one says no.
fn wanted(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty) && term != Some(OsStr::new("dumb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let (one, none, dumb) = (OsStr::new("1"), OsStr::new(""), OsStr::new("dumb"));
        assert!(wanted(true, None, None) && wanted(true, Some(none), None));
        assert!(!wanted(false, None, None));
        assert!(!wanted(true, Some(one), None));
        assert!(!wanted(true, None, Some(dumb)));
        assert_eq!(Paint { is_on: true }.tone(Tone::Bad, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint::OFF.tone(Tone::Bad, "x"), "x");
    }
}
