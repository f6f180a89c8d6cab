//! Nothing that was acknowledged is lost, whenever the process dies.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_store::{Embedded, Key, Options, Query, Store, Transaction};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const STORE: &str = "OSIER_TEST_STORE";
const WRITERS: u64 = 4;

/// The victim: writers that say on standard output what was acknowledged.
#[test]
#[ignore = "run by the test that kills it"]
fn victim() {
    let Ok(path) = std::env::var(STORE) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = std::sync::Arc::new(Embedded::open(path, Options::default()).unwrap());
        println!("open");
        let writer = |id: u64| {
            let store = std::sync::Arc::clone(&store);
            async move {
                let key = |name: &str| Key::new(&format!("{name}/{id}")).unwrap();
                let last = store.get(&key("count")).await.unwrap();
                let last = last.map_or(0, |e| String::from_utf8_lossy(&e.value).parse().unwrap());
                for n in last + 1_u64.. {
                    // Both change together; the ballast makes pages split and the file grow.
                    let transaction = Transaction::new()
                        .put(key("count"), n.to_string())
                        .put(key("twin"), n.to_string())
                        .put(key(&format!("ballast/{}", n % 50)), vec![b'x'; 500]);
                    store.commit(transaction).await.unwrap();
                    let mut out = std::io::stdout().lock();
                    // The parent may be gone: then so are we.
                    if writeln!(out, "ack {id} {n}").and_then(|()| out.flush()).is_err() {
                        return;
                    }
                }
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|id| tokio::spawn(writer(id))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// Lets a victim work for some acknowledgements and a moment, kills it, and gives back the last
/// number that each writer was told.
fn life(path: &Path, acknowledgements: u64, moment: Duration) -> BTreeMap<u64, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored", "--nocapture", "--test-threads=1"])
        .env(STORE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut told = BTreeMap::new();
    let mut hear = |line: &str| {
        // The test harness writes to the same line: only what follows counts.
        let Some(at) = line.find("ack ") else { return false };
        let mut words = line[at + 4..].split(' ').map(str::parse::<u64>);
        if let (Some(Ok(id)), Some(Ok(n)), None) = (words.next(), words.next(), words.next()) {
            told.insert(id, n);
        }
        true
    };
    // No acknowledgement at all: it may be killed while it makes or opens the file.
    let mut heard = 0;
    while heard < acknowledgements {
        heard += u64::from(hear(&lines.next().expect("the victim lives")));
    }
    std::thread::sleep(moment);
    child.kill().unwrap();
    for line in lines {
        hear(&line);
    }
    child.wait().unwrap();
    told
}

fn check(path: &Path, told: &BTreeMap<u64, u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Embedded::open(path, Options::default()).unwrap();
        let page = store.list(Query::under("").limit(10_000)).await.unwrap();
        let documents: BTreeMap<&str, u64> = page
            .entries
            .iter()
            .filter(|(k, _)| !k.as_str().starts_with("ballast"))
            .map(|(k, e)| (k.as_str(), String::from_utf8_lossy(&e.value).parse().unwrap()))
            .collect();
        for (id, n) in told {
            let count = documents.get(format!("count/{id}").as_str()).copied().unwrap_or(0);
            assert!(count >= *n, "writer {id} was told {n}, and {count} is there");
            assert_eq!(Some(&count), documents.get(format!("twin/{id}").as_str()));
        }
        // History is whole as well: each count once, up to now.
        let position = store.position().await.unwrap();
        let from = position.revision.0.saturating_sub(500);
        let mut watch =
            store.watch("w", "", position.at(osier_store::Revision(from))).await.unwrap();
        for revision in from + 1..=position.revision.0 {
            assert_eq!(watch.next().await.unwrap().position.revision.0, revision);
        }
    });
}

fn lives(count: u64) {
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut random = seed.subsec_nanos().into();
    let mut next = |below: u64| {
        random = u64::wrapping_add(u64::wrapping_mul(random, 6_364_136_223_846_793_005), 1);
        (random >> 33) % below
    };
    let folder = TempDir::new().unwrap();
    let mut told = BTreeMap::new();
    for life_number in 0..count {
        // Every fourth life is that of a new file, and may end while it is made.
        if life_number % 4 == 0 {
            drop(std::fs::remove_file(folder.path().join("store")));
            told.clear();
        }
        let acknowledgements = if next(4) == 0 { 0 } else { next(40) };
        let moment = Duration::from_micros(next(20_000));
        let path = folder.path().join("store");
        told.extend(life(&path, acknowledgements, moment));
        check(&path, &told);
    }
}

#[test]
fn a_killed_store_keeps_what_it_acknowledged() {
    lives(32);
}

#[test]
#[ignore = "takes minutes"]
fn soak_a_killed_store_keeps_what_it_acknowledged() {
    lives(2000);
}
