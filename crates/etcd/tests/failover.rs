//! What happens when leaders and members of etcd go: nothing that was acknowledged is lost, and what
//! a deposed leader writes has no effect.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod members;

use bytes::Bytes;
use members::Members;
use nix::sys::signal::Signal;
use osier_etcd::{Access, Client, Election, Etcd};
use osier_store::{
    CommitError, Condition, History, Key, Query, Store, Transaction, Unavailable, list_all,
};
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(2);

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("in time") })
}

fn key(key: &str) -> Key {
    Key::new(key).unwrap()
}

async fn open(members: &Members, cluster: &str) -> Etcd {
    let client = Client::new(&Access::open(&members.addresses())).unwrap();
    Etcd::open(client, cluster, History::default()).await.unwrap()
}

async fn put(store: &dyn Store, name: &str, value: &str) -> Result<(), CommitError> {
    store.commit(Transaction::new().put(key(name), value.to_owned())).await.map(drop)
}

fn is_closed(error: &CommitError) -> bool {
    matches!(error, CommitError::Unavailable(Unavailable::Closed))
}

#[test]
fn a_deposed_leaders_writes_have_no_effect() {
    run(async {
        let members = Members::start();
        let old = open(&members, "c").await;
        put(&old, "a", "1").await.unwrap();
        let position = old.position().await.unwrap();
        let new = open(&members, "c").await;
        assert_eq!(new.position().await.unwrap(), position, "it goes on where the other was");
        assert_eq!(new.get(&key("a")).await.unwrap().unwrap().value, "1");
        // The old one does not know yet. Whatever it sends, small or in pieces, comes to nothing.
        let large = (0..300).fold(Transaction::new(), |t, i| t.put(key(&format!("b/{i}")), "x"));
        let refused = old.commit(large).await.unwrap_err();
        assert!(is_closed(&refused), "{refused}");
        assert!(is_closed(&put(&old, "a", "2").await.unwrap_err()));
        assert!(old.position().await.is_err(), "it knows that it is over");
        put(&new, "a", "3").await.unwrap();
        drop(new);
        let third = open(&members, "c").await;
        let all = list_all(&third, "").await.unwrap();
        assert_eq!(all.entries.len(), 1);
        assert_eq!(all.entries[0].1.value, "3");
    });
}

/// A leader that dies in the middle of a large transaction leaves all of it, or nothing.
#[test]
fn a_large_transaction_is_made_whole_or_not_at_all_whoever_dies() {
    run(async {
        let members = Members::start();
        let (mut made, mut not) = (0, 0);
        for round in 0..12_u64 {
            let cluster = format!("c{round}");
            let store = Arc::new(open(&members, &cluster).await);
            put(&*store, "k/0", "old").await.unwrap();
            let value = Bytes::from(vec![b'x'; 20_000]);
            let large = (0..300)
                .fold(Transaction::new(), |t, i| t.put(key(&format!("k/{i}")), value.clone()));
            let dying = {
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.commit(large).await.is_ok() })
            };
            tokio::time::sleep(Duration::from_millis(round * 15)).await;
            dying.abort();
            let is_acknowledged = dying.await.unwrap_or(false);
            let next = open(&members, &cluster).await;
            let found = list_all(&next, "k/").await.unwrap().entries;
            let are_new = found.iter().filter(|(_, entry)| entry.value == value).count();
            match are_new {
                300 => made += 1,
                0 => not += 1,
                some => panic!("{some} of 300 were made"),
            }
            assert!(!is_acknowledged || are_new == 300, "an acknowledged one is kept");
            assert_eq!(found.len(), if are_new == 0 { 1 } else { 300 });
            // And it can be gone on with.
            put(&next, "k/0", "new").await.unwrap();
            let page = next.list(Query::under("k/0").limit(1)).await.unwrap();
            assert_eq!(page.entries[0].1.value, "new");
        }
        println!("made {made}, not made {not}");
    });
}

#[test]
fn nothing_acknowledged_is_lost_while_members_die_stop_and_compact() {
    run(async {
        let mut members = Members::start();
        let store = Arc::new(open(&members, "c").await);
        let writer = {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let (mut count, mut last) = (0_u64, None);
                loop {
                    let mut up = Transaction::new().put(key("count"), (count + 1).to_string());
                    if let Some(last) = last {
                        up = up.when(Condition::Unchanged(key("count"), last));
                    }
                    match store.commit(up).await {
                        Ok(position) => (count, last) = (count + 1, Some(position.revision)),
                        Err(error) => panic!("{error}"),
                    }
                    if store.get(&key("stop")).await.unwrap().is_some() {
                        return count;
                    }
                }
            })
        };
        let wait = |least: u64| {
            let store = Arc::clone(&store);
            async move {
                loop {
                    let found = store.get(&key("count")).await.unwrap();
                    let count =
                        found.and_then(|e| std::str::from_utf8(&e.value).unwrap().parse().ok());
                    if count.is_some_and(|count: u64| count >= least) {
                        return count.unwrap();
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        let mut at = wait(10).await;
        for member in 0..3 {
            members.kill(member);
            at = wait(at + 10).await;
            members.revive(member);
            at = wait(at + 10).await;
        }
        for member in 0..3 {
            members.signal(member, Signal::SIGSTOP);
            at = wait(at + 5).await;
            members.signal(member, Signal::SIGCONT);
            at = wait(at + 5).await;
        }
        let header = members.post(0, "kv/range", r#"{"key":"AA=="}"#).unwrap();
        let revision: String = header
            .split("\"revision\":\"")
            .nth(1)
            .unwrap()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        members.post(0, "kv/compaction", &format!(r#"{{"revision":"{revision}"}}"#)).unwrap();
        wait(at + 10).await;
        put(&*store, "stop", "").await.unwrap();
        let count = writer.await.unwrap();
        let next = open(&members, "c").await;
        assert_eq!(next.get(&key("count")).await.unwrap().unwrap().value, count.to_string());
        assert_eq!(next.position().await.unwrap().revision.0, count + 1, "no more and no less");
    });
}

#[test]
fn one_leads_until_it_resigns_or_is_silent() {
    run(async {
        let members = Members::start();
        let election = |ttl| {
            let client = Client::new(&Access::open(&members.addresses())).unwrap();
            Election::new(client, "c", Duration::from_secs(ttl))
        };
        let one = election(2).campaign("one").await;
        assert_eq!(election(2).leader().await.unwrap().as_deref(), Some("one"));
        let waiting = tokio::spawn({
            let election = election(2);
            async move { election.campaign("two").await }
        });
        let keeping = tokio::time::timeout(Duration::from_secs(4), one.keep());
        assert!(keeping.await.is_err(), "it leads for as long as it is heard");
        assert!(!waiting.is_finished(), "only one leads");
        one.resign().await;
        let two = waiting.await.unwrap();
        assert_eq!(election(2).leader().await.unwrap().as_deref(), Some("two"));
        // One that is silent is over, and notices when it wakes.
        let three = election(2).campaign("three").await;
        tokio::time::timeout(Duration::from_secs(30), two.keep()).await.expect("it notices");
        three.resign().await;
    });
}
