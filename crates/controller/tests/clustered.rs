//! Two controllers on three real members of etcd: one leads, and the other takes over.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[path = "../../etcd/tests/members/mod.rs"]
#[allow(dead_code, reason = "others stop them")]
mod members;

use members::Members;
use osier_controller::config::Config;
use osier_controller::{Controller, Engine, Operation, Write, WriteError};
use osier_etcd::{Access, Client, Election, Etcd, Leadership};
use osier_resource::Resource;
use osier_store::{History, Store, list_all};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(2);

fn config(folder: &TempDir) -> Config {
    let mut config = Config { state_dir: folder.path().to_owned(), ..Config::default() };
    config.api.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.fleet.listen = config.api.listen;
    config.allocation.cool_down_seconds = 0;
    config
}

fn resource(kind: &str, name: &str, spec: &Value) -> Operation {
    let value = json!({"apiVersion": "osier.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec});
    Operation::Create(Box::new(Resource::from_value(&value).unwrap()))
}

async fn port(engine: &Engine, name: &str) -> Result<String, WriteError> {
    let port = resource("Port", name, &json!({"network": "blue", "node": "n1"}));
    let written = engine.write(Write::one(port)).await?;
    let made = written.outcomes[0].resource.as_ref().unwrap().to_value();
    Ok(made["status"]["addresses"][0].as_str().unwrap().to_owned())
}

async fn lead(client: &Client, name: &str, folder: &TempDir) -> (Leadership, Controller) {
    let leadership = Election::new(client.clone(), "c", LEASE).campaign(name).await;
    let store = Etcd::open(client.clone(), "c", History::default()).await.unwrap();
    let controller = Controller::with_store(config(folder), Arc::new(store)).await.unwrap();
    (leadership, controller)
}

async fn term(client: &Client) -> u64 {
    let store = Etcd::open(client.clone(), "c", History::default()).await.unwrap();
    let started = osier_store::Key::new("controller/start").unwrap();
    store.get(&started).await.unwrap().unwrap().modified.0
}

async fn go() {
    let members = Members::start();
    let client = Client::new(&Access::open(&members.addresses())).unwrap();
    let (one_folder, two_folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (_silent, one) = lead(&client, "one", &one_folder).await;
    let (mut operations, subnets) = (Vec::new(), json!([{"cidr": "10.5.0.0/24"}]));
    operations.push(resource("Node", "n1", &json!({"tunnel": "192.0.2.1"})));
    operations.push(resource("Network", "blue", &json!({"subnets": subnets})));
    one.engine().write(Write { operations, dry_run: false }).await.unwrap();
    let mut addresses = BTreeSet::new();
    for i in 0..20 {
        assert!(addresses.insert(port(one.engine(), &format!("a:{i}")).await.unwrap()));
    }
    // The leader is not heard any more, as one that is paused or cut off; it does not know.
    let silent = Instant::now();
    let (leadership, two) = lead(&client, "two", &two_folder).await;
    assert_eq!(one.authority, two.authority, "agents trust both");
    assert!(addresses.insert(port(two.engine(), "b:0").await.unwrap()), "no address twice");
    println!("from the leader's silence to the next change: {:?}", silent.elapsed());
    // It wakes, and writes.
    let late = port(one.engine(), "late:0").await;
    assert!(matches!(late, Err(WriteError::Store(_) | WriteError::Stopping)), "{late:?}");
    for i in 1..20 {
        assert!(addresses.insert(port(two.engine(), &format!("b:{i}")).await.unwrap()));
    }
    let late = port(one.engine(), "late:1").await;
    assert!(matches!(late, Err(WriteError::Store(_) | WriteError::Stopping)), "{late:?}");
    let ended = one.run(std::future::pending()).await;
    assert!(ended.is_err(), "it ends by itself");
    let stored = list_all(two.engine().store().as_ref(), "ports/").await.unwrap();
    assert_eq!(stored.entries.len(), 40);
    leadership.resign().await;
    two.stop().await;
    // What etcd has is what was acknowledged, and nothing of the deposed one.
    let third = Etcd::open(client.clone(), "c", History::default()).await.unwrap();
    let stored = list_all(&third, "ports/").await.unwrap();
    let names: Vec<&str> = stored.entries.iter().map(|(key, _)| key.as_str()).collect();
    assert!(names.len() == 40 && !names.iter().any(|name| name.contains("late")), "{names:?}");
    assert!(term(&client).await > 1, "each start has a higher term");
}

#[test]
fn another_controller_takes_over_and_the_deposed_one_changes_nothing() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_mins(2), go()).await.expect("in time");
    });
}
