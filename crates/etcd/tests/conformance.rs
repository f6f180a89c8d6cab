//! The store on three real members of etcd, through the suite that every store passes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[allow(dead_code, reason = "others kill them")]
mod members;
#[path = "../../store/tests/suite/mod.rs"]
mod suite;

use members::Members;
use osier_etcd::{Access, Client, Etcd};
use osier_store::{History, Store};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A store that is tried.
pub(crate) struct Opened {
    pub(crate) name: &'static str,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) reopen: Option<Box<dyn Fn() -> Arc<dyn Store>>>,
}

/// One cluster for all: each store has a name of its own in it.
fn addresses() -> &'static [String] {
    static MEMBERS: OnceLock<(Members, Vec<String>)> = OnceLock::new();
    let started = || {
        let members = Members::start();
        let addresses = members.addresses();
        (members, addresses)
    };
    &MEMBERS.get_or_init(started).1
}

pub(crate) async fn stores_with(history: History) -> Vec<Opened> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let cluster = format!("suite-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let client = Client::new(&Access::open(addresses())).unwrap();
    let store = Etcd::open(client, &cluster, history).await.unwrap();
    vec![Opened { name: "etcd", store: Arc::new(store), reopen: None }]
}
