//! A store of 50,000 objects, measured: numbers to read, not to assert.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_store::{Embedded, Key, Options, Query, Store, Transaction};
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;

const OBJECTS: u64 = 50_000;
const WRITERS: u64 = 64;

/// Memory of this process in KiB: now, and the part of it that is not the program's file.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = |name: &str| status.lines().find(|l| l.starts_with(name)).unwrap_or_default();
    format!("{}, {}", line("VmRSS:"), line("RssAnon:")).replace(['\t', ' '], "")
}

fn key(n: u64) -> Key {
    Key::new(&format!("ports/namespace-{}:pod-{n}", n % 1000)).unwrap()
}

#[test]
#[ignore = "takes a minute, prints numbers"]
fn soak_fifty_thousand_objects() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        eprintln!("empty: {}", memory());
        let store = Arc::new(Embedded::open(&path, Options::default()).unwrap());
        let begin = Instant::now();
        let writer = |id: u64| {
            let store = Arc::clone(&store);
            async move {
                for n in (id..OBJECTS).step_by(usize::try_from(WRITERS).unwrap()) {
                    let value = vec![b'x'; 500];
                    store.commit(Transaction::new().put(key(n), value)).await.unwrap();
                }
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|id| tokio::spawn(writer(id))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let rate = u128::from(OBJECTS) * 1000 / begin.elapsed().as_millis().max(1);
        eprintln!("{OBJECTS} transactions of {WRITERS} writers: {rate}/s; {}", memory());

        let begin = Instant::now();
        for n in 0..200 {
            store.commit(Transaction::new().put(key(n), vec![b'y'; 500])).await.unwrap();
        }
        eprintln!("one after another: {:.2} ms each", begin.elapsed().as_secs_f64() * 1e3 / 200.0);

        let (begin, mut query, mut count) = (Instant::now(), Query::under("ports/"), 0);
        loop {
            let page = store.list(query.clone()).await.unwrap();
            count += page.entries.len();
            if !page.more {
                break;
            }
            query = query.behind(&page);
        }
        eprintln!("{count} listed in pages of 1000 in {:?}; {}", begin.elapsed(), memory());

        let begin = Instant::now();
        store.backup(folder.path().join("copy")).await.unwrap();
        eprintln!("backup in {:?}; {}", begin.elapsed(), memory());
        drop(store);
        let begin = Instant::now();
        let store = Embedded::open(&path, Options::default()).unwrap();
        let size = path.metadata().unwrap().len() >> 20;
        eprintln!("{size} MiB opened in {:?}; {}", begin.elapsed(), memory());
        // Never closed: as after a crash.
        let lost = folder.path().join("lost");
        std::fs::copy(&path, &lost).unwrap();
        let begin = Instant::now();
        let repaired = Embedded::open(&lost, Options::default()).unwrap();
        eprintln!("repaired in {:?}", begin.elapsed());
        drop((store, repaired));
    });
}
