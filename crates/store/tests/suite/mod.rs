//! What every store must do, tried against a plain model. Whoever includes it says which stores:
//! `stores_with(history)`, and `reopen` for those that can be.

use super::{Opened, stores_with};

use bytes::Bytes;
use osier_store::{
    Changes, CommitError, Condition, Entry, History, Key, ListError, Operation, Position, Query,
    Revision, Store, Transaction, TransactionError, Watch, WatchError, list_all,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const KEEP: u64 = 20;
const PATIENCE: Duration = Duration::from_mins(1);

fn key(key: &str) -> Key {
    Key::new(key).unwrap()
}

pub(crate) fn history() -> History {
    History { revisions: KEEP, bytes: u64::MAX }
}

/// One of each kind.
async fn stores() -> Vec<Opened> {
    stores_with(history()).await
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("in time") })
}

async fn put(store: &dyn Store, name: &str, value: &str) -> Position {
    store.commit(Transaction::new().put(key(name), value.to_owned())).await.unwrap()
}

/// The next changes that have events.
async fn next(watch: &mut Box<dyn Watch>) -> Result<Changes, WatchError> {
    loop {
        match watch.next().await? {
            changes if changes.events.is_empty() => {}
            changes => return Ok(changes),
        }
    }
}

#[test]
fn a_transaction_is_made_whole_or_not_at_all() {
    run(async {
        for Opened { name, store, .. } in stores().await {
            let start = store.position().await.unwrap();
            let first = put(&*store, "a", "1").await;
            assert_eq!(first, start.at(start.revision.next()), "{name}");
            let transaction = Transaction::new()
                .when(Condition::Unchanged(key("a"), first.revision))
                .when(Condition::Absent(key("b")))
                .put(key("a"), "2")
                .put(key("b"), "2");
            let second = store.commit(transaction.clone()).await.unwrap();
            let a = store.get(&key("a")).await.unwrap().unwrap();
            assert_eq!((a.created, a.modified), (first.revision, second.revision));

            let error = store.commit(transaction).await.unwrap_err();
            let CommitError::Conflict(conflict) = error else { panic!("{name}: {error}") };
            assert_eq!((conflict.index, conflict.current), (0, Some(a)));
            assert_eq!(store.position().await.unwrap(), second);

            let lost = Transaction::new()
                .delete(key("a"))
                .when(Condition::Exists(key("b")))
                .when(Condition::Exists(key("c")));
            let error = store.commit(lost).await.unwrap_err();
            assert_eq!(error.to_string(), "c does not exist");
            assert!(store.get(&key("a")).await.unwrap().is_some(), "{name}");
        }
    });
}

#[test]
fn what_changes_nothing_uses_no_revision() {
    run(async {
        for Opened { name, store, .. } in stores().await {
            let position = put(&*store, "a", "1").await;
            for nothing in [Transaction::new(), Transaction::new().delete(key("b"))] {
                assert_eq!(store.commit(nothing).await.unwrap(), position, "{name}");
            }
        }
    });
}

#[test]
fn what_is_too_large_is_refused() {
    run(async {
        for Opened { name, store, .. } in stores().await {
            let position = store.position().await.unwrap();
            let large = vec![0; Transaction::MAX_VALUE + 1];
            let many = (0..=Transaction::MAX_STEPS).map(|i| Operation::Delete(key(&i.to_string())));
            let many = Transaction { conditions: Vec::new(), operations: many.collect() };
            let heavy = (0..9).fold(Transaction::new(), |t, i| {
                t.put(key(&i.to_string()), vec![0; Transaction::MAX_VALUE])
            });
            let twice = Transaction::new().put(key("a"), "").delete(key("a"));
            for wrong in [Transaction::new().put(key("a"), large), many, heavy, twice] {
                let error = store.commit(wrong).await.unwrap_err();
                assert!(matches!(error, CommitError::Invalid(_)), "{name}: {error}");
            }
            assert_eq!(store.position().await.unwrap(), position);
        }
    });
}

#[test]
fn pages_fit_together_whatever_happens_between_them() {
    run(async {
        for Opened { name, store, .. } in stores().await {
            for i in 0..5 {
                put(&*store, &format!("k/{i}"), "old").await;
            }
            let query = Query::under("k/").limit(2);
            let first = store.list(query.clone()).await.unwrap();
            store.commit(Transaction::new().delete(key("k/2"))).await.unwrap();
            put(&*store, "k/3", "new").await;
            put(&*store, "k/35", "new").await;
            put(&*store, "k/9", "new").await;
            let second = store.list(query.clone().behind(&first)).await.unwrap();
            let third = store.list(query.clone().behind(&second)).await.unwrap();
            assert!(first.more && second.more && !third.more, "{name}");
            let pages = [first, second, third];
            let all: Vec<String> =
                pages.iter().flat_map(|p| &p.entries).map(|(k, _)| k.to_string()).collect();
            assert_eq!(all, ["k/0", "k/1", "k/2", "k/3", "k/4"], "{name}");
            assert!(pages.iter().flat_map(|p| &p.entries).all(|(_, e)| e.value == "old"));
        }
    });
}

#[test]
fn large_documents_make_short_pages() {
    run(async {
        for Opened { name, store, .. } in stores().await {
            for i in 0..18 {
                let large = vec![b'x'; Transaction::MAX_VALUE];
                store.commit(Transaction::new().put(key(&format!("{i:02}")), large)).await.unwrap();
            }
            let query = Query::under("");
            let first = store.list(query.clone()).await.unwrap();
            assert!(first.more && first.entries.len() == 16, "{name}");
            let second = store.list(query.behind(&first)).await.unwrap();
            assert!(!second.more && second.entries.len() == 2, "{name}");
            let all = list_all(&*store, "").await.unwrap();
            let pages = [first.entries, second.entries].concat();
            assert!(!all.more && all.entries == pages && all.position == first.position, "{name}");
        }
    });
}

#[test]
fn a_slow_watch_is_cut_off_by_name_and_holds_up_nobody() {
    run(async {
        for Opened { name, store, .. } in stores().await {
            let start = store.position().await.unwrap();
            let mut watch = store.watch("node n1", "", start).await.unwrap();
            for i in 0..=KEEP {
                put(&*store, "a", &i.to_string()).await;
            }
            let error = watch.next().await.unwrap_err();
            let WatchError::Lagged { watcher, at, oldest } = error else {
                panic!("{name}: {error}")
            };
            assert_eq!((watcher.as_str(), at, oldest), ("node n1", Revision(0), Revision(1)));
            let error = store.watch("late", "", start).await.err().unwrap();
            assert!(matches!(error, WatchError::Compacted { oldest: Revision(1), .. }), "{error}");
            store.watch("in time", "", start.at(Revision(1))).await.unwrap();
        }
    });
}

#[test]
fn a_quiet_watch_says_how_far_it_is() {
    run(async {
        for Opened { name, store, .. } in stores_with(History::default()).await {
            let start = store.position().await.unwrap();
            let mut watch = store.watch("quiet", "b", start).await.unwrap();
            for _ in 0..100 {
                put(&*store, "a", "").await;
            }
            let told = watch.next().await.unwrap();
            assert!(told.events.is_empty() && told.position.revision > start.revision, "{name}");
            put(&*store, "b", "").await;
            assert_eq!(next(&mut watch).await.unwrap().events.len(), 1, "{name}");
        }
    });
}

#[test]
fn a_new_epoch_ends_watches_and_leaps() {
    run(async {
        for Opened { name, store, .. } in stores().await {
            let old = put(&*store, "a", "1").await;
            let mut watch = store.watch("w", "", old).await.unwrap();
            let ahead = old.at(Revision(5_000_000_000));
            let error = store.watch("w", "", ahead).await.err().unwrap();
            assert!(matches!(error, WatchError::Ahead { .. }), "{name}: {error}");

            let new = store.begin_epoch(ahead.revision).await.unwrap();
            assert!(new.epoch != old.epoch && new.revision > ahead.revision, "{name}");
            let error = watch.next().await.unwrap_err();
            assert!(matches!(error, WatchError::Restored { .. }), "{name}: {error}");
            let error = store.list(Query { at: Some(old), ..Query::under("") }).await.unwrap_err();
            assert!(matches!(error, ListError::Unknown { .. }), "{name}: {error}");
            assert_eq!(store.get(&key("a")).await.unwrap().unwrap().modified, old.revision);
            // A client that forgot its epoch is told that its revision is gone.
            let error = store.watch("w", "", new.at(old.revision)).await.err().unwrap();
            assert!(matches!(error, WatchError::Compacted { .. }), "{name}: {error}");
            assert_eq!(put(&*store, "a", "2").await, new.at(new.revision.next()));
        }
    });
}

#[test]
fn replacing_needs_an_empty_store_or_a_word() {
    run(async {
        for Opened { name, store, .. } in stores().await {
            let documents = vec![(key("b"), Bytes::from("2")), (key("c"), Bytes::from("3"))];
            put(&*store, "a", "1").await;
            let error = store.replace(documents.clone(), false).await.unwrap_err();
            assert_eq!(error.to_string(), "the store is not empty: it has a and perhaps more");
            let twice = vec![documents[0].clone(), documents[0].clone()];
            assert!(store.replace(twice, true).await.is_err());
            assert!(store.get(&key("a")).await.unwrap().is_some(), "{name}");
            let position = store.replace(documents, true).await.unwrap();
            let page = store.list(Query::under("")).await.unwrap();
            assert_eq!(page.position, position);
            let keys: Vec<&str> = page.entries.iter().map(|(k, _)| k.as_str()).collect();
            assert_eq!(keys, ["b", "c"], "{name}");
        }
    });
}

/// Many writers at once: each counts up by compare-and-swap, and a watch sees every step.
#[test]
fn many_writers_lose_no_update() {
    const WRITERS: u64 = 8;
    const STEPS: u64 = 25;
    run(async {
        for Opened { store, .. } in stores_with(History::default()).await {
            let start = put(&*store, "count", "0").await;
            let count = |store: Arc<dyn Store>| async move {
                let mut done = 0;
                while done < STEPS {
                    let entry = store.get(&key("count")).await.unwrap().unwrap();
                    let count: u64 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    let up = Transaction::new()
                        .when(Condition::Unchanged(key("count"), entry.modified))
                        .put(key("count"), (count + 1).to_string());
                    done += u64::from(store.commit(up).await.is_ok());
                }
            };
            let mut watch = store.watch("w", "count", start).await.unwrap();
            let writers: Vec<_> =
                (0..WRITERS).map(|_| tokio::spawn(count(Arc::clone(&store)))).collect();
            for expected in 1..=WRITERS * STEPS {
                let changes = next(&mut watch).await.unwrap();
                let now = changes.events[0].now.as_ref().unwrap();
                assert_eq!(now.value, expected.to_string());
                assert_eq!(changes.position.revision.0, start.revision.0 + expected);
            }
            for writer in writers {
                writer.await.unwrap();
            }
        }
    });
}

// === Against a model ===

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<(u8, Guess)>, Vec<(u8, Option<u8>)>),
    Watch { back: u8, prefix: u8 },
    List { back: u8, prefix: u8, limit: usize },
    Reopen,
}

#[derive(Debug, Clone)]
enum Guess {
    Exists,
    Absent,
    Right,
    Wrong,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let guess = prop_oneof![
        1 => Just(Guess::Exists),
        1 => Just(Guess::Absent),
        3 => Just(Guess::Right),
        1 => Just(Guess::Wrong),
    ];
    let conditions = prop::collection::vec((0..6_u8, guess), 0..2);
    let operations = prop::collection::vec((0..6_u8, any::<Option<u8>>()), 0..4);
    let step = prop_oneof![
        8 => (conditions, operations).prop_map(|(c, o)| Step::Commit(c, o)),
        2 => (0..30_u8, 0..4_u8).prop_map(|(back, prefix)| Step::Watch { back, prefix }),
        2 => (0..30_u8, 0..4_u8, 1..5_usize)
            .prop_map(|(back, prefix, limit)| Step::List { back, prefix, limit }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..60)
}

const KEYS: [&str; 6] = ["a/1", "a/2", "b", "b/1", "b/2", "c"];
const PREFIXES: [&str; 4] = ["", "a/", "b", "x"];

/// All states that there were, by revision, and what each transaction did.
struct Model {
    states: Vec<BTreeMap<Key, Entry>>,
    changes: Vec<Changes>,
    start: Position,
}

impl Model {
    fn head(&self) -> u64 {
        self.changes.len() as u64
    }

    fn at(&self, revision: u64) -> Position {
        self.start.at(Revision(self.start.revision.0 + revision))
    }

    fn floor(&self) -> u64 {
        self.head().saturating_sub(KEEP)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Position, usize> {
        let state = self.states.last().unwrap();
        for (i, condition) in transaction.conditions.iter().enumerate() {
            let holds = match condition {
                Condition::Exists(key) => state.contains_key(key),
                Condition::Absent(key) => !state.contains_key(key),
                Condition::Unchanged(key, r) => state.get(key).is_some_and(|e| e.modified == *r),
            };
            if !holds {
                return Err(i);
            }
        }
        let (mut after, position) = (state.clone(), self.at(self.head() + 1));
        let mut events = Vec::new();
        for operation in &transaction.operations {
            let key = operation.key().clone();
            let before = after.remove(&key);
            let now = match operation {
                Operation::Delete(_) => None,
                Operation::Put(_, value) => Some(Entry {
                    value: value.clone(),
                    created: before.as_ref().map_or(position.revision, |e| e.created),
                    modified: position.revision,
                }),
            };
            if let Some(now) = &now {
                after.insert(key.clone(), now.clone());
            }
            if before.is_some() || now.is_some() {
                events.push(osier_store::Event { key, before, now });
            }
        }
        if events.is_empty() {
            return Ok(self.at(self.head()));
        }
        self.states.push(after);
        self.changes.push(Changes { position, events: events.into() });
        Ok(position)
    }

    fn transaction(&self, conditions: &[(u8, Guess)], puts: &[(u8, Option<u8>)]) -> Transaction {
        let state = self.states.last().unwrap();
        let mut transaction = Transaction::new();
        for (k, guess) in conditions {
            let key = key(KEYS[usize::from(*k)]);
            let current = state.get(&key).map_or(Revision(99), |e| e.modified);
            transaction = transaction.when(match guess {
                Guess::Exists => Condition::Exists(key),
                Guess::Absent => Condition::Absent(key),
                Guess::Right => Condition::Unchanged(key, current),
                Guess::Wrong => Condition::Unchanged(key, Revision(current.0 + 1)),
            });
        }
        for (k, value) in puts {
            let key = key(KEYS[usize::from(*k)]);
            transaction = match value {
                Some(value) => transaction.put(key, vec![*value; usize::from(*value)]),
                None => transaction.delete(key),
            };
        }
        transaction
    }
}

async fn check_watch(store: &dyn Store, model: &Model, back: u8, prefix: &str) {
    let from = model.head().saturating_sub(back.into());
    let watch = store.watch("w", prefix, model.at(from)).await;
    if from < model.floor() {
        assert!(matches!(watch.err().unwrap(), WatchError::Compacted { .. }));
        return;
    }
    let mut watch = watch.unwrap();
    for changes in &model.changes[usize::try_from(from).unwrap()..] {
        let expected: Vec<_> =
            changes.events.iter().filter(|e| e.key.as_str().starts_with(prefix)).cloned().collect();
        if !expected.is_empty() {
            let found = next(&mut watch).await.unwrap();
            assert_eq!((found.position, &*found.events), (changes.position, &expected[..]));
        }
    }
}

async fn check_list(store: &dyn Store, model: &Model, back: u8, prefix: &str, limit: usize) {
    let at = model.head().saturating_sub(back.into());
    let mut query = Query { at: Some(model.at(at)), limit, ..Query::under(prefix) };
    let mut found = Vec::new();
    loop {
        match store.list(query.clone()).await {
            Err(ListError::Compacted { .. }) => return assert!(at < model.floor()),
            Err(error) => panic!("{error}"),
            Ok(page) => {
                assert!(at >= model.floor() && page.entries.len() <= limit);
                found.extend(page.entries.clone());
                if !page.more {
                    break;
                }
                query = query.behind(&page);
            }
        }
    }
    let state = &model.states[usize::try_from(at).unwrap()];
    let expected: Vec<_> = state
        .iter()
        .filter(|(k, _)| k.as_str().starts_with(prefix))
        .map(|(k, e)| (k.clone(), e.clone()))
        .collect();
    assert_eq!(found, expected);
}

async fn follow(opened: Opened, steps: &[Step]) {
    let Opened { mut store, reopen, .. } = opened;
    let start = store.position().await.unwrap();
    let mut model = Model { states: vec![BTreeMap::new()], changes: Vec::new(), start };
    for step in steps {
        match step {
            Step::Commit(conditions, puts) => {
                let transaction = model.transaction(conditions, puts);
                match store.commit(transaction.clone()).await {
                    Err(CommitError::Invalid(TransactionError::Twice(_))) => {
                        assert!(transaction.validate().is_err());
                    }
                    Err(CommitError::Conflict(conflict)) => {
                        let state = model.states.last().unwrap();
                        assert_eq!(conflict.current.as_ref(), state.get(conflict.condition.key()));
                        assert_eq!(model.commit(&transaction), Err(conflict.index));
                    }
                    Err(error) => panic!("{error}"),
                    Ok(position) => assert_eq!(model.commit(&transaction), Ok(position)),
                }
            }
            Step::Watch { back, prefix } => {
                check_watch(&*store, &model, *back, PREFIXES[usize::from(*prefix)]).await;
            }
            Step::List { back, prefix, limit } => {
                let prefix = PREFIXES[usize::from(*prefix)];
                check_list(&*store, &model, *back, prefix, *limit).await;
            }
            Step::Reopen => {
                if let Some(reopen) = &reopen {
                    drop(store);
                    store = reopen();
                }
            }
        }
        assert_eq!(store.position().await.unwrap(), model.at(model.head()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_store_is_its_model(steps in steps()) {
        run(async {
            for opened in stores().await {
                follow(opened, &steps).await;
            }
        });
    }
}
