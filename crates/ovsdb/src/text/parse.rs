//! Reads values in the notation of ovs-vsctl(8), "Database Values", for a known type.

use std::str::FromStr;

use crate::schema::{AtomicType, BaseType, ColumnType, Violation};
use crate::value::{Atom, Duplicate, Real, Value};

/// The text is not a value of the type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Something else was expected.
    #[error("expected {expected} at byte {offset}")]
    Expected {
        /// What.
        expected: &'static str,
        /// Where.
        offset: usize,
    },
    /// A word is not of the type.
    #[error("{word:?} is not a valid {ty}")]
    Word {
        /// The word.
        word: String,
        /// The type.
        ty: AtomicType,
    },
    /// An element or key comes twice.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// The value breaks a constraint of the column.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// A value of a column: `5`, `[a, b]`, `{k=v, "x y"=z}`, `a,b`.
pub fn parse_value(ty: &ColumnType, text: &str) -> Result<Value, TextError> {
    let mut cursor = Cursor { text, offset: 0 };
    cursor.skip_space();
    let (open, close, expected) = if ty.is_map() { ('{', '}', "'}'") } else { ('[', ']', "']'") };
    let bracketed = cursor.take(open);
    let mut atoms = Vec::new();
    let mut pairs = Vec::new();
    loop {
        cursor.skip_space();
        let done = if bracketed { cursor.peek() == Some(close) } else { cursor.peek().is_none() };
        if done {
            break;
        }
        let key = cursor.atom(&ty.key)?;
        match &ty.value {
            None => atoms.push(key),
            Some(value) => {
                cursor.skip_space();
                if !cursor.take('=') {
                    return Err(cursor.expected("'='"));
                }
                cursor.skip_space();
                pairs.push((key, cursor.atom(value)?));
            }
        }
        cursor.skip_space();
        cursor.take(',');
    }
    if bracketed && !cursor.take(close) {
        return Err(cursor.expected(expected));
    }
    cursor.skip_space();
    if cursor.peek().is_some() {
        return Err(cursor.expected("the end"));
    }
    let value = if ty.is_map() { Value::strict_map(pairs)? } else { Value::strict_set(atoms)? };
    ty.check(&value)?;
    Ok(value)
}

/// One atom, as in `ovs-vsctl get` output for a key.
pub fn parse_atom(base: &BaseType, text: &str) -> Result<Atom, TextError> {
    let mut cursor = Cursor { text, offset: 0 };
    let atom = cursor.atom(base)?;
    if cursor.peek().is_some() { Err(cursor.expected("the end")) } else { Ok(atom) }
}

struct Cursor<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.offset += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn skip_space(&mut self) {
        self.offset += self.rest().len() - self.rest().trim_start().len();
    }

    fn expected(&self, expected: &'static str) -> TextError {
        TextError::Expected { expected, offset: self.offset }
    }

    fn atom(&mut self, base: &BaseType) -> Result<Atom, TextError> {
        let (word, quoted) = self.word()?;
        let wrong = || TextError::Word { word: word.clone(), ty: base.atomic };
        match (base.atomic, quoted) {
            (AtomicType::String, _) => Ok(word.into()),
            (AtomicType::Integer, false) => parsed(&word).map(Atom::Integer).ok_or_else(wrong),
            (AtomicType::Real, false) => {
                parsed(&word).and_then(Real::new).map(Atom::Real).ok_or_else(wrong)
            }
            (AtomicType::Boolean, false) => match &*word {
                "true" | "yes" | "on" | "1" => Ok(Atom::Boolean(true)),
                "false" | "no" | "off" | "0" => Ok(Atom::Boolean(false)),
                _ => Err(wrong()),
            },
            (AtomicType::Uuid, false) => match word.strip_prefix('@') {
                Some(name) if !name.is_empty() => Ok(Atom::NamedUuid(name.into())),
                _ => parsed(&word).map(Atom::Uuid).ok_or_else(wrong),
            },
            (_, true) => Err(wrong()),
        }
    }

    /// A JSON string, or everything up to a character with a meaning.
    fn word(&mut self) -> Result<(String, bool), TextError> {
        let rest = self.rest();
        if rest.starts_with('"') {
            let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            let Some(Ok(word)) = strings.next() else {
                return Err(self.expected("a quoted string"));
            };
            self.offset += strings.byte_offset();
            return Ok((word, true));
        }
        let ends =
            |c: char| matches!(c, ',' | '=' | '[' | ']' | '{' | '}' | '"') || c.is_whitespace();
        let length = rest.find(ends).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.expected("a value"));
        }
        self.offset += length;
        Ok((rest[..length].to_owned(), false))
    }
}

fn parsed<T: FromStr>(word: &str) -> Option<T> {
    word.parse().ok()
}
