//! Splitting of text into `key`, `key=value`, `key:value` and `key(value)`.

use thiserror::Error;

/// Why text is not a flow, a group or an action. Says what and, if it can, what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ParseError(String);

/// One item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// What stands before the delimiter.
    pub(super) key: &'a str,
    /// What stands behind it; empty if there is none.
    pub(super) value: &'a str,
    /// What stands behind `->` after a parenthesis.
    pub(super) target: Option<&'a str>,
}

/// Text nests (`clone(ct(…))`); deeper than this nobody means it.
pub(super) const MAX_DEPTH: usize = 16;

// === impl ParseError ===

impl ParseError {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// The same error, inside of something.
    pub(super) fn within(self, what: &str) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

/// Items of a list that commas or blanks separate.
#[derive(Debug, Clone)]
pub(super) struct Items<'a> {
    rest: &'a str,
}

fn is_separator(c: char) -> bool {
    matches!(c, ',' | ' ' | '\t' | '\r' | '\n')
}

// === impl Items ===

impl<'a> Items<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// What was not split yet.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// The next item.
    pub(super) fn next(&mut self) -> Result<Option<Item<'a>>, ParseError> {
        let text = self.rest.trim_start_matches(is_separator);
        if text.is_empty() {
            self.rest = text;
            return Ok(None);
        }
        let end = text
            .find(|c| matches!(c, ':' | '=' | '(' | ')') || is_separator(c))
            .unwrap_or(text.len());
        let (key, behind) = text.split_at(end);
        let (value, target, rest) = match behind.chars().next() {
            Some(':' | '=') => {
                let behind = &behind[1..];
                let end = value_end(behind)?;
                (&behind[..end], None, &behind[end..])
            }
            Some('(') => {
                let end = closing(behind)?;
                let (value, rest) = (&behind[1..end], &behind[end + 1..]);
                match rest.strip_prefix("->") {
                    Some(target) => {
                        let end = value_end(target)?;
                        (value, Some(&target[..end]), &target[end..])
                    }
                    None => (value, None, rest),
                }
            }
            Some(')') => {
                return Err(ParseError::new(format!("a parenthesis too many at {text:?}")));
            }
            _ => ("", None, behind),
        };
        self.rest = rest;
        Ok(Some(Item { key, value, target }))
    }

    /// All items.
    pub(super) fn all(mut self) -> Result<Vec<Item<'a>>, ParseError> {
        let mut items = Vec::new();
        while let Some(item) = self.next()? {
            items.push(item);
        }
        Ok(items)
    }
}

/// Where a value ends: at a separator outside of parentheses.
fn value_end(text: &str) -> Result<usize, ParseError> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            ')' => return Err(ParseError::new(format!("a parenthesis too many in {text:?}"))),
            c if depth == 0 && is_separator(c) => return Ok(at),
            _ => {}
        }
    }
    if depth > 0 { Err(unclosed(text)) } else { Ok(text.len()) }
}

/// Where the parenthesis at the start closes.
fn closing(text: &str) -> Result<usize, ParseError> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(at);
        }
    }
    Err(unclosed(text))
}

fn unclosed(text: &str) -> ParseError {
    ParseError::new(format!("a parenthesis is not closed in {text:?}"))
}
