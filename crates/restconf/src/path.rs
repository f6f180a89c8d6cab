//! Paths: of draft-bierman-netconf-restconf-02 (`/restconf/config/pod:coe/pods/<uid>`) and of
//! RFC 8040 (`/rests/data/pod:coe/pods=<uid>`).

use crate::body::canonical_key;
use crate::error::{ErrorTag, Problem};
use crate::schema::{Node, Schema};
use std::fmt::Write;
use thiserror::Error;

/// Which RESTCONF a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// `/restconf`.
    Draft02,
    /// `/rests`.
    Rfc8040,
}

/// Which data is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// What clients write.
    Config,
    /// What is so.
    Operational,
    /// Both.
    All,
}

/// A node of the data: a node of the schema, and which entry of it.
#[derive(Debug, Clone)]
pub struct Step {
    /// What it is.
    pub node: &'static Node,
    /// The keys' values, in order; none for a whole list, or what has no keys.
    pub keys: Vec<String>,
}

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Path {
    /// Which RESTCONF.
    pub flavour: Flavour,
    /// Which data.
    pub content: Content,
    /// From the top; none is all data.
    pub steps: Vec<Step>,
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathError {
    /// It is none of ours.
    #[error("RESTCONF is at /restconf/config, /restconf/operational and /rests/data")]
    Elsewhere,
    /// It is too long.
    #[error("a path of {found} bytes is too long: at most {max}")]
    TooLong {
        /// Its size.
        found: usize,
        /// What fits.
        max: usize,
    },
    /// Something in it cannot be decoded.
    #[error("{0:?} cannot be decoded")]
    Encoding(String),
    /// The schema has no such node.
    #[error("{0} is not known here")]
    Unknown(String),
    /// The keys are too few or too many.
    #[error("{name} has {expected} keys, not {found}")]
    Keys {
        /// The list.
        name: String,
        /// As many as it has.
        expected: usize,
        /// As many as there are.
        found: usize,
    },
    /// A key that cannot be.
    #[error("{value:?} is no {name}: {said}")]
    Key {
        /// The key.
        name: String,
        /// Its value.
        value: String,
        /// Why.
        said: String,
    },
}

/// The longest path, in bytes.
const MAX: usize = 4096;

// === impl Path ===

impl Path {
    /// Reads a path as it stands in a request, still encoded, without the query.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        if path.len() > MAX {
            return Err(PathError::TooLong { found: path.len(), max: MAX });
        }
        let under = |base: &str| {
            let rest = path.strip_prefix(base)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let (flavour, content, rest) = if let Some(rest) = under("/restconf/config") {
            (Flavour::Draft02, Content::Config, rest)
        } else if let Some(rest) = under("/restconf/operational") {
            (Flavour::Draft02, Content::Operational, rest)
        } else if let Some(rest) = under("/rests/data") {
            (Flavour::Rfc8040, Content::All, rest)
        } else {
            return Err(PathError::Elsewhere);
        };
        // Clients put a slash at the end.
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        let steps = match flavour {
            Flavour::Draft02 => draft02(&parts)?,
            Flavour::Rfc8040 => rfc8040(&parts)?,
        };
        Ok(Self { flavour, content, steps })
    }

    /// The node that it leads to; none is all data.
    pub fn target(&self) -> Option<&Step> {
        self.steps.last()
    }

    /// As errors tell it: `/pod:coe/pods[uid='…']`.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (i, step) in self.steps.iter().enumerate() {
            text.push('/');
            if i == 0 {
                text.push_str(&step.node.module);
                text.push(':');
            }
            text.push_str(&step.node.name);
            for (key, value) in step.node.keys().iter().zip(&step.keys) {
                // Writing to a string cannot fail.
                let _ = write!(text, "[{key}='{value}']");
            }
        }
        text
    }
}

/// The next node, by a name that may have its module's prefix.
fn next(above: Option<&'static Node>, name: &str) -> Result<&'static Node, PathError> {
    let unknown = || PathError::Unknown(name.to_owned());
    let (module, bare) = match name.split_once(':') {
        Some((module, bare)) => (Some(module), bare),
        None => (None, name),
    };
    match above {
        None => {
            let module = module.ok_or_else(unknown)?;
            Schema::get().root(module, bare).ok_or_else(unknown)
        }
        Some(above) => above
            .member(bare)
            .filter(|member| module.is_none_or(|module| module == member.module))
            .ok_or_else(unknown),
    }
}

/// Keys are segments of their own.
fn draft02(parts: &[&str]) -> Result<Vec<Step>, PathError> {
    let mut steps: Vec<Step> = Vec::new();
    let mut parts = parts.iter();
    while let Some(part) = parts.next() {
        let node = next(steps.last().map(|step| step.node), &decode(part)?)?;
        let mut keys = Vec::new();
        for key in node.keys() {
            let Some(value) = parts.next() else { break };
            keys.push(checked(node, key, decode(value)?)?);
        }
        push(&mut steps, node, keys)?;
    }
    Ok(steps)
}

/// Keys stand behind an equals sign, with commas between.
fn rfc8040(parts: &[&str]) -> Result<Vec<Step>, PathError> {
    let mut steps: Vec<Step> = Vec::new();
    for part in parts {
        let (name, values) = match part.split_once('=') {
            Some((name, values)) => (name, values.split(',').collect()),
            None => (*part, Vec::new()),
        };
        let node = next(steps.last().map(|step| step.node), &decode(name)?)?;
        if values.len() > node.keys().len() {
            return Err(wrong_count(node, values.len()));
        }
        let mut keys = Vec::new();
        for (key, value) in node.keys().iter().zip(values) {
            keys.push(checked(node, key, decode(value)?)?);
        }
        push(&mut steps, node, keys)?;
    }
    Ok(steps)
}

fn wrong_count(node: &Node, found: usize) -> PathError {
    PathError::Keys { name: node.name.clone(), expected: node.keys().len(), found }
}

/// A list may stand without keys only at the end.
fn push(steps: &mut Vec<Step>, node: &'static Node, keys: Vec<String>) -> Result<(), PathError> {
    if let Some(above) = steps.last()
        && above.node.is_list()
        && above.keys.is_empty()
    {
        return Err(wrong_count(above.node, 0));
    }
    if !keys.is_empty() && keys.len() != node.keys().len() {
        return Err(wrong_count(node, keys.len()));
    }
    steps.push(Step { node, keys });
    Ok(())
}

fn checked(node: &Node, key: &str, value: String) -> Result<String, PathError> {
    canonical_key(node, key, &value).map_err(|said| PathError::Key {
        name: key.to_owned(),
        value,
        said,
    })
}

/// `%2F` and the like.
fn decode(text: &str) -> Result<String, PathError> {
    let wrong = || PathError::Encoding(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next()), digit(rest.next()));
        let (high, low) = (high.ok_or_else(wrong)?, low.ok_or_else(wrong)?);
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| wrong())?);
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    match text.chars().any(char::is_control) {
        true => Err(wrong()),
        false => Ok(text),
    }
}

impl From<PathError> for Problem {
    fn from(error: PathError) -> Self {
        let tag = match &error {
            PathError::Elsewhere | PathError::Unknown(_) => ErrorTag::DataMissing,
            PathError::TooLong { .. } => ErrorTag::TooBig,
            _ => ErrorTag::InvalidValue,
        };
        Self::new(tag, "", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "ac092d9b-e9eb-bae2-eed8-74aca2b7fa9c";

    #[test]
    fn both_forms_lead_to_the_same() {
        let upper = UID.to_uppercase();
        for path in [
            format!("/restconf/config/pod:coe/pods/{upper}/"),
            format!("/restconf/operational/pod:coe/pod:pods/{UID}"),
            format!("/rests/data/pod:coe/pods={UID}"),
        ] {
            let path = Path::parse(&path).unwrap();
            assert_eq!(path.to_text(), format!("/pod:coe/pods[uid='{UID}']"));
        }
        let nested = format!(
            "/rests/data/service:service-information/services={UID}/service-ports=a%2Cb,80/port"
        );
        let nested = Path::parse(&nested).unwrap();
        assert_eq!(nested.steps[2].keys, ["a,b", "80"]);
        assert_eq!(Path::parse("/rests/data").unwrap().steps.len(), 0);
        assert_eq!(Path::parse("/restconf/config/pod:coe").unwrap().content, Content::Config);
    }

    #[test]
    fn what_leads_nowhere_says_why() {
        for (path, said) in [
            ("/apis", "RESTCONF is at /restconf/config, /restconf/operational and /rests/data"),
            (
                "/rests/database",
                "RESTCONF is at /restconf/config, /restconf/operational and /rests/data",
            ),
            ("/rests/data/coe", "coe is not known here"),
            ("/rests/data/pod:coe/service:pods", "service:pods is not known here"),
            ("/rests/data/pod:coe/pods/name", "pods has 1 keys, not 0"),
            ("/rests/data/pod:coe/pods=1,2", "pods has 1 keys, not 2"),
            ("/rests/data/pod:coe/pods=1", "\"1\" is no uid: it has to be a UUID"),
            ("/rests/data/pod%", "\"pod%\" cannot be decoded"),
            ("/rests/data/pod:coe/pods=%ff", "\"%ff\" cannot be decoded"),
        ] {
            assert_eq!(Path::parse(path).unwrap_err().to_string(), said, "{path}");
        }
        assert!(Path::parse(&format!("/rests/data/{}", "a".repeat(5000))).is_err());
    }
}
