//! Members of a JSON object, by name, with errors that say where they are.
//!
//! Configurations are written by hand. `invalid type: string, expected u16 at line 1` does not
//! help there; "`ovs.vxlan` must be a number, not a list" does. As CNI demands, members that nobody
//! asks for are ignored; `null` is as good as absent.

use crate::spec::{Code, Error};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// An object that members are read of.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    /// What the members' names follow in messages: empty, or ending with a dot.
    prefix: String,
    members: &'a Map<String, Value>,
}

/// Reads a document.
pub(crate) fn document(bytes: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(bytes).map_err(|e| {
        let msg = "the network configuration is not JSON: correct the file that the runtime read";
        Error::new(Code::DECODING_FAILURE, msg).with_details(e)
    })
}

impl<'a> Fields<'a> {
    /// The members of a document.
    pub(crate) fn of(document: &'a Value) -> Result<Self, Error> {
        Self::inside(document, "the network configuration", String::new())
    }

    fn inside(value: &'a Value, what: &str, prefix: String) -> Result<Self, Error> {
        let members = value.as_object().ok_or_else(|| mistyped(what, "an object", value))?;
        Ok(Self { prefix, members })
    }

    /// The name of a member in messages.
    pub(crate) fn name(&self, member: &str) -> String {
        format!("`{}{member}`", self.prefix)
    }

    /// A complaint about a member's value: code 7.
    pub(crate) fn wrong(&self, member: &str, why: impl Display) -> Error {
        Error::config(format!("{} {why}", self.name(member)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A member, in whatever case its name is written: plugins in Go take all of them, so runtimes
    /// send `HostPort` where the conventions say `hostPort`, and nobody noticed.
    pub(crate) fn get(&self, member: &str) -> Option<&'a Value> {
        let exact = self.members.get(member);
        let alike = || {
            let mut members = self.members.iter();
            members.find(|(name, _)| name.eq_ignore_ascii_case(member)).map(|(_, value)| value)
        };
        exact.or_else(alike).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &self,
        member: &str,
        wants: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(member) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| mistyped(&self.name(member), wants, value))
    }

    /// A text; an empty one is none.
    pub(crate) fn text(&self, member: &str) -> Result<Option<&'a str>, Error> {
        Ok(self.typed(member, "a text", Value::as_str)?.filter(|text| !text.is_empty()))
    }

    pub(crate) fn flag(&self, member: &str) -> Result<Option<bool>, Error> {
        self.typed(member, "true or false", Value::as_bool)
    }

    /// A whole number within bounds.
    pub(crate) fn number(
        &self,
        member: &str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Error> {
        let Some(value) = self.typed(member, "a number", |v| v.is_number().then_some(v))? else {
            return Ok(None);
        };
        let number = value.as_u64().filter(|n| bounds.contains(n)).ok_or_else(|| {
            let (low, high) = (bounds.start(), bounds.end());
            self.wrong(
                member,
                format_args!("is {value}: write a whole number from {low} to {high}"),
            )
        })?;
        Ok(Some(number))
    }

    /// A text that is parsed; an empty one is none.
    pub(crate) fn parsed<T, E: Display>(
        &self,
        member: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Error> {
        let text = self.text(member)?;
        text.map(parse).transpose().map_err(|e| self.wrong(member, format_args!("is wrong: {e}")))
    }

    pub(crate) fn object(&self, member: &str) -> Result<Option<Self>, Error> {
        let Some(value) = self.get(member) else { return Ok(None) };
        let prefix = format!("{}{member}.", self.prefix);
        Self::inside(value, &self.name(member), prefix).map(Some)
    }

    /// The items of a list; none if it is absent.
    pub(crate) fn list(&self, member: &str) -> Result<&'a [Value], Error> {
        Ok(self.typed(member, "a list", |v| v.as_array().map(Vec::as_slice))?.unwrap_or_default())
    }

    /// The items of a list of objects.
    pub(crate) fn objects(&self, member: &str) -> Result<Vec<Self>, Error> {
        let item = |(i, value)| {
            let name = format!("{}{member}[{i}]", self.prefix);
            Self::inside(value, &format!("`{name}`"), format!("{name}."))
        };
        self.list(member)?.iter().enumerate().map(item).collect()
    }

    /// The items of a list of texts.
    pub(crate) fn texts(&self, member: &str) -> Result<Vec<&'a str>, Error> {
        let item = |(i, value): (usize, &'a Value)| {
            value.as_str().ok_or_else(|| {
                mistyped(&format!("`{}{member}[{i}]`", self.prefix), "a text", value)
            })
        };
        self.list(member)?.iter().enumerate().map(item).collect()
    }
}

fn mistyped(what: &str, wants: &str, found: &Value) -> Error {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Error::new(Code::DECODING_FAILURE, format!("{what} must be {wants}, not {found}"))
}
