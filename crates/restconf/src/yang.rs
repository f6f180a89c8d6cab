//! YANG's statements (RFC 7950, section 6): a keyword, perhaps an argument, perhaps more statements.
//!
//! Only our own published files are read, so what they do not use is refused, not guessed.

use thiserror::Error;

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) keyword: String,
    pub(crate) argument: String,
    pub(crate) inner: Vec<Statement>,
}

/// Text that is no YANG.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no YANG at byte {at}: {expected} is missing")]
pub(crate) struct SyntaxError {
    at: usize,
    expected: &'static str,
}

/// How deep statements may stand in one another.
const MAX_DEPTH: usize = 64;

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// The one statement of a file: its module.
pub(crate) fn parse(text: &str) -> Result<Statement, SyntaxError> {
    let mut reader = Reader { text, at: 0 };
    let module = reader.statement(0)?;
    reader.blank();
    match reader.rest().is_empty() {
        true => Ok(module),
        false => Err(reader.missing("the end of the file")),
    }
}

// === impl Statement ===

impl Statement {
    /// The argument of the first statement with a keyword.
    pub(crate) fn argument_of(&self, keyword: &str) -> Option<&str> {
        self.inner.iter().find(|s| s.keyword == keyword).map(|s| s.argument.as_str())
    }

    /// All statements with a keyword.
    pub(crate) fn all<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a Statement> {
        self.inner.iter().filter(move |s| s.keyword == keyword)
    }
}

// === impl Reader ===

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn missing(&self, expected: &'static str) -> SyntaxError {
        SyntaxError { at: self.at, expected }
    }

    /// Passes over space and comments.
    fn blank(&mut self) {
        loop {
            let rest = self.rest();
            let skipped = rest.len() - rest.trim_start().len();
            self.at += skipped;
            let rest = self.rest();
            let comment = match rest {
                _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                _ if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
                _ => return,
            };
            self.at += comment;
        }
    }

    fn word(&mut self) -> Result<String, SyntaxError> {
        self.blank();
        let ends = |c: char| c.is_whitespace() || "{};\"".contains(c);
        let rest = self.rest();
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.missing("a word"));
        }
        let word = word.to_owned();
        self.at += word.len();
        Ok(word)
    }

    fn argument(&mut self) -> Result<String, SyntaxError> {
        self.blank();
        match self.rest().chars().next() {
            Some('{' | ';') => Ok(String::new()),
            Some('"') => {
                let end = self.rest()[1..].find('"').ok_or_else(|| self.missing("a quote"))?;
                let quoted = self.rest()[1..=end].to_owned();
                self.at += end + 2;
                Ok(quoted)
            }
            _ => self.word(),
        }
    }

    fn statement(&mut self, depth: usize) -> Result<Statement, SyntaxError> {
        if depth > MAX_DEPTH {
            return Err(self.missing("an end of what is in one another"));
        }
        let (keyword, argument) = (self.word()?, self.argument()?);
        self.blank();
        let mut inner = Vec::new();
        match self.rest().chars().next() {
            Some(';') => self.at += 1,
            Some('{') => {
                self.at += 1;
                loop {
                    self.blank();
                    if self.rest().starts_with('}') {
                        self.at += 1;
                        break;
                    }
                    inner.push(self.statement(depth + 1)?);
                }
            }
            _ => return Err(self.missing("; or {")),
        }
        Ok(Statement { keyword, argument, inner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_stand_in_one_another() {
        let module =
            parse("module m { // one\n leaf a { type \"x y\"; } /* two */ key; }").unwrap();
        assert_eq!(module.argument, "m");
        let leaf = &module.inner[0];
        assert_eq!(leaf.argument_of("type"), Some("x y"));
        assert_eq!(module.inner[1].keyword, "key");
    }

    #[test]
    fn what_is_no_yang_is_refused() {
        for wrong in ["", "module", "module m {", "module m { leaf }", "module m; x", "a \"b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&"a {".repeat(100)).is_err());
    }
}
