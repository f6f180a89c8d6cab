//! The whole store as YAML, to read, to keep and to move.
//!
//! One document that says what this is, then one for each key, in order; so a store of any size is
//! written and read a document at a time. Values have to be JSON. Each is read back before it is
//! written out: what cannot be imported again is an error now, not then.

use crate::error::{ListError, ReplaceError, Unavailable};
use crate::key::{Key, KeyError};
use crate::position::Position;
use crate::store::{Query, Store};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Read, Write};
use thiserror::Error;

/// What an export says that it is.
const FORMAT: &str = "osier-export/1";
/// The most bytes that are read.
const MAX_BYTES: usize = 4 << 30;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    /// Where the store stood; for people, an import begins anew.
    position: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    key: String,
    value: Value,
}

/// Why there is no export.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The store cannot be read.
    #[error("the store could not be listed")]
    List(#[from] ListError),
    /// A value is not JSON.
    #[error("the value of {key} is not JSON")]
    NotJson {
        /// Whose.
        key: Key,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A value that YAML does not give back as it was.
    #[error("the value of {key} does not survive as YAML")]
    NotYaml {
        /// Whose.
        key: Key,
    },
    /// It could not be written.
    #[error("the export could not be written")]
    Write(#[from] io::Error),
}

/// Why an export was not imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// It is not an export.
    #[error("this is not an export of Osier ({FORMAT}), but {found:?}")]
    NotAnExport {
        /// What it says that it is.
        found: String,
    },
    /// It cannot be parsed.
    #[error("the export cannot be read at document {document}")]
    Parse {
        /// Which document, counted from 1.
        document: usize,
        /// What is wrong, and where.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// A key that cannot be.
    #[error("document {document} has no good key")]
    Key {
        /// Which document, counted from 1.
        document: usize,
        /// What is wrong.
        #[source]
        source: KeyError,
    },
    /// The store did not take it.
    #[error("the store did not take the documents")]
    Replace(#[from] ReplaceError),
    /// The store cannot answer.
    #[error("the store cannot answer")]
    Unavailable(#[from] Unavailable),
}

/// What was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// How many documents.
    pub documents: usize,
    /// Where the store stands now.
    pub position: Position,
}

/// Writes all documents, as they are at one moment.
pub async fn export(store: &dyn Store, mut to: impl Write) -> Result<Position, ExportError> {
    let mut query = Query::under("");
    let mut page = store.list(query.clone()).await?;
    let position = page.position;
    let header = Header { format: FORMAT.to_owned(), position: position.to_string() };
    write_document(&mut to, &header)?;
    loop {
        for (key, entry) in &page.entries {
            let value = serde_json::from_slice(&entry.value);
            let value =
                value.map_err(|source| ExportError::NotJson { key: key.clone(), source })?;
            let document = Document { key: key.to_string(), value };
            let text = write_document(&mut to, &document)?;
            let back = serde_saphyr::from_str_with_options::<Document>(&text, options());
            if !back.is_ok_and(|back| back.value == document.value && back.key == document.key) {
                return Err(ExportError::NotYaml { key: key.clone() });
            }
        }
        if !page.more {
            to.flush()?;
            return Ok(position);
        }
        query = query.behind(&page);
        page = store.list(query.clone()).await?;
    }
}

/// Replaces all documents by those of an export. Unless `over` is set, refuses to do it when there
/// are any. On an error nothing was changed.
pub async fn import(
    store: &dyn Store,
    mut from: impl Read,
    over: bool,
) -> Result<Imported, ImportError> {
    let documents = parse(&mut from)?;
    let count = documents.len();
    let position = store.replace(documents, over).await?;
    Ok(Imported { documents: count, position })
}

fn parse(from: &mut impl Read) -> Result<Vec<(Key, Bytes)>, ImportError> {
    let mut values = serde_saphyr::read_with_options::<_, Value>(from, options()).zip(1..);
    let bad = |document, source| ImportError::Parse { document, source: Box::new(source) };
    let first = match values.next() {
        Some((value, document)) => value.map_err(|e| bad(document, e))?,
        None => Value::Null,
    };
    let header = serde_json::from_value::<Header>(first.clone()).ok();
    if header.is_none_or(|header| header.format != FORMAT) {
        let said = first.get("format").and_then(Value::as_str).unwrap_or("something else");
        return Err(ImportError::NotAnExport { found: said.to_owned() });
    }
    let mut documents = Vec::new();
    for (value, document) in values {
        let value = value.map_err(|e| bad(document, e))?;
        let custom = |e: serde_json::Error| bad(document, serde::de::Error::custom(e));
        let Document { key, value } = serde_json::from_value(value).map_err(custom)?;
        let key = Key::new(&key).map_err(|source| ImportError::Key { document, source })?;
        documents.push((key, Bytes::from(value.to_string())));
    }
    Ok(documents)
}

fn write_document(to: &mut impl Write, document: &impl Serialize) -> Result<String, io::Error> {
    let text = serde_saphyr::to_string(document).map_err(io::Error::other)?;
    to.write_all(b"---\n")?;
    to.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        to.write_all(b"\n")?;
    }
    Ok(text)
}

/// An export comes from an administrator, and may be large; it has no anchors.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(MAX_BYTES),
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: MAX_BYTES,
            max_depth: 128,
            max_anchors: 0,
            max_aliases: 0,
        },
    }
}
