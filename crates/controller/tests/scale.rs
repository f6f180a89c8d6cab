//! A large cluster: how long a start takes, and whether a change costs what it costs in a small one.
//! Not in CI: `make soak`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_controller::{AllocationRules, Engine, Metrics, Operation, Started, Write};
use osier_resource::Resource;
use osier_store::{Embedded, Options, Store};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn resource(kind: &str, name: &str, spec: &Value) -> Operation {
    let value = json!({
        "apiVersion": "osier.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    });
    Operation::Apply(Box::new(Resource::from_value(&value).unwrap()))
}

async fn start(path: &Path) -> Started {
    let store = Arc::new(Embedded::open(path, Options::default()).unwrap()) as Arc<dyn Store>;
    Engine::start(store, AllocationRules::default(), Metrics::default()).await.unwrap()
}

async fn fill(engine: &Engine, nodes: usize) {
    let write = async |operations: Vec<Operation>| {
        engine.write(Write { operations, dry_run: false }).await.unwrap();
    };
    write(vec![resource("Fabric", "default", &json!({"cluster": ["10.0.0.0/12"]}))]).await;
    let node = |n: usize| {
        let tunnel = format!("192.{}.{}.{}", 100 + n / 65536, n / 256 % 256, n % 256);
        resource("Node", &format!("n{n}"), &json!({"tunnel": tunnel}))
    };
    let network = |n: usize| {
        let subnets = json!([{"cidr": format!("10.{}.{}.0/24", 64 + n / 256, n % 256)}]);
        resource("Network", &format!("net{n}"), &json!({"subnets": subnets}))
    };
    for first in (0..nodes).step_by(500) {
        let last = (first + 500).min(nodes);
        write((first..last).map(node).collect()).await;
        write((first..last).map(network).collect()).await;
    }
    for first in (0..nodes * 50).step_by(1000) {
        let port = |n: usize| {
            let spec = json!({"network": format!("net{}", n / 50), "node": format!("n{}", n / 50)});
            resource("Port", &format!("ns:pod{n}"), &spec)
        };
        write((first..(first + 1000).min(nodes * 50)).map(port).collect()).await;
    }
}

/// The middle of many.
async fn change(engine: &Engine) -> Duration {
    let mut times = Vec::new();
    for n in 0..101 {
        let spec = json!({"network": "net7", "node": "n7"});
        let port = resource("Port", &format!("ns:extra{n}"), &spec);
        let begun = Instant::now();
        engine.write(Write::one(port)).await.unwrap();
        times.push(begun.elapsed());
    }
    times.sort();
    times[50]
}

/// The most memory that this process ever had.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
#[ignore = "long: make soak"]
fn soak_a_large_cluster() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for nodes in [100, 1000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.redb");
        runtime.block_on(async {
            let Started { engine, task, .. } = start(&path).await;
            let begun = Instant::now();
            fill(&engine, nodes).await;
            let filled = begun.elapsed();
            let changed = change(&engine).await;
            drop(engine);
            task.await.unwrap().unwrap();
            let Started { resources, took, .. } = start(&path).await;
            println!(
                "{nodes} nodes, {resources} resources: filled in {filled:.1?}, \
                 a change {changed:.2?}, a start {took:.2?}, {} in memory at most",
                memory()
            );
        });
    }
}
