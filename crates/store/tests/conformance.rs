//! The embedded store and the one in memory, through the suite that every store passes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod suite;

use osier_store::{Embedded, Epoch, History, Memory, Options, Store};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A store that is tried.
pub(crate) struct Opened {
    pub(crate) name: &'static str,
    pub(crate) store: Arc<dyn Store>,
    /// Opens it again with all that it knew, if it can be.
    pub(crate) reopen: Option<Box<dyn Fn() -> Arc<dyn Store>>>,
}

fn embedded(folder: &Path, history: History) -> Arc<dyn Store> {
    let options = Options { history, ..Options::default() };
    Arc::new(Embedded::open(folder.join("store"), options).unwrap())
}

pub(crate) async fn stores_with(history: History) -> Vec<Opened> {
    let folder = TempDir::new().unwrap();
    let store = embedded(folder.path(), history);
    let reopen = move || embedded(folder.path(), history);
    let memory = Arc::new(Memory::new(Epoch(1), history));
    vec![
        Opened { name: "embedded", store, reopen: Some(Box::new(reopen)) },
        Opened { name: "memory", store: memory, reopen: None },
    ]
}
