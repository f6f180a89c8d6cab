//! The embedded store's file: locked, versioned, backed up, moved.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_store::{
    Embedded, Epoch, History, ImportError, Key, Memory, OpenError, Options, Position, Query,
    ReplaceError, Revision, Store, Transaction, WatchError, export, import,
};
use proptest::prelude::*;
use redb::{Database, TableDefinition};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1.redb");

fn key(key: &str) -> Key {
    Key::new(key).unwrap()
}

fn open(path: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(path, Options::default())
}

async fn put(store: &dyn Store, name: &str, value: &Value) -> Position {
    store.commit(Transaction::new().put(key(name), value.to_string())).await.unwrap()
}

async fn documents(store: &dyn Store) -> Vec<(String, Value)> {
    let page = store.list(Query::under("").limit(usize::MAX - 1)).await.unwrap();
    let value = |v: &[u8]| serde_json::from_slice(v).unwrap();
    page.entries.iter().map(|(k, e)| (k.to_string(), value(&e.value))).collect()
}

/// What the fixture has: the file was made by [`write_the_fixture`] with the version that
/// introduced format 1, and is never made again.
async fn fill(store: &dyn Store) {
    put(store, "networks/blue", &json!({"vni": 7})).await;
    put(store, "ports/shop:web", &json!({"address": "10.0.0.5"})).await;
    put(store, "ports/shop:db", &json!({"address": "10.0.0.6"})).await;
    put(store, "ports/shop:web", &json!({"address": "10.0.0.7"})).await;
    store.commit(Transaction::new().delete(key("ports/shop:db"))).await.unwrap();
}

#[tokio::test]
#[ignore = "makes the fixture of a new format"]
async fn write_the_fixture() {
    assert!(!Path::new(FIXTURE).exists(), "what a released version wrote is kept");
    fill(&open(Path::new(FIXTURE)).unwrap()).await;
}

#[tokio::test]
async fn a_file_of_format_1_is_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    std::fs::copy(FIXTURE, &path).unwrap();
    let store = open(&path).unwrap();
    let found = documents(&store).await;
    let expected = [
        ("networks/blue".to_owned(), json!({"vni": 7})),
        ("ports/shop:web".to_owned(), json!({"address": "10.0.0.7"})),
    ];
    assert_eq!(found, expected);
    let web = store.get(&key("ports/shop:web")).await.unwrap().unwrap();
    assert_eq!((web.created, web.modified), (Revision(2), Revision(4)));
    // The copy is another file than the one that was written, so it begins another epoch.
    let position = store.position().await.unwrap();
    assert!(position.revision > Revision(5));
    assert_eq!(put(&store, "a", &json!(1)).await.revision, position.revision.next());
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    drop(open(&path).unwrap());
    let database = Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(META).unwrap().insert("format", 2).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = open(&path).err().unwrap().to_string();
    let said = "was made by a newer Osier: its format is 2, this version reads up to 1";
    assert!(error.ends_with(said), "{error}");
}

#[test]
fn what_is_no_store_is_refused_and_left_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    for bytes in [&b"#!/bin/sh\necho no\n"[..], b"", &[0; 9000]] {
        std::fs::write(&path, bytes).unwrap();
        let error = open(&path).err().unwrap();
        assert!(matches!(error, OpenError::NotAStore { .. }), "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    std::fs::remove_file(&path).unwrap();
    drop(Database::create(&path).unwrap());
    let error = open(&path).err().unwrap();
    assert!(matches!(error, OpenError::NotAStore { .. }), "{error:?}");
    let error = open(&folder.path().join("no/such/folder")).err().unwrap();
    assert!(matches!(error, OpenError::Failed { .. }), "{error:?}");
}

#[tokio::test]
async fn one_process_has_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let first = open(&path).unwrap();
    let error = open(&path).err().unwrap();
    assert_eq!(error.to_string(), format!("{} is in use by another process", path.display()));
    put(&first, "a", &json!(1)).await;
    drop(first);
    assert_eq!(documents(&open(&path).unwrap()).await.len(), 1);
    let names: Vec<_> = folder.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["store"], "nothing else is left");
    let mode = std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600, "only its owner reads it");
}

#[tokio::test]
async fn a_store_goes_on_where_it_was() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).unwrap();
    let start = store.position().await.unwrap();
    fill(&store).await;
    let position = store.position().await.unwrap();
    drop(store);
    let store = open(&path).unwrap();
    assert_eq!(store.position().await.unwrap(), position);
    let mut watch = store.watch("w", "ports/", start).await.unwrap();
    for revision in 2..=5 {
        assert_eq!(watch.next().await.unwrap().position.revision, Revision(revision));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_of_one_moment_and_known_as_one() {
    let folder = TempDir::new().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = std::sync::Arc::new(open(&path).unwrap());
    // Both keys always change together.
    let pair = |n: u64| {
        let value = n.to_string();
        Transaction::new().put(key("a"), value.clone()).put(key("b"), value)
    };
    store.commit(pair(0)).await.unwrap();
    let writer = tokio::spawn({
        let store = std::sync::Arc::clone(&store);
        async move {
            for n in 1..100 {
                store.commit(pair(n)).await.unwrap();
            }
        }
    });
    let taken = store.backup(&copy).await.unwrap();
    assert!(store.backup(&copy).await.is_err(), "a backup is not written over");
    writer.await.unwrap();
    let seen = store.position().await.unwrap();
    drop(store);

    // Restored: the file of now is replaced by the copy.
    std::fs::rename(&copy, &path).unwrap();
    let store = open(&path).unwrap();
    let found = documents(&store).await;
    assert_eq!(found[0].1, found[1].1);
    let now = store.position().await.unwrap();
    assert!(
        now.epoch != seen.epoch && now.revision > seen.revision && seen.revision >= taken.revision
    );
    let error = store.watch("w", "", seen).await.err().unwrap();
    assert!(matches!(error, WatchError::Restored { .. }), "{error}");
    drop(store);
    assert_eq!(open(&path).unwrap().position().await.unwrap(), now, "and only once");
}

/// A copy made by other means, put back in place.
#[tokio::test]
async fn a_copied_file_is_noticed() {
    let folder = TempDir::new().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = open(&path).unwrap();
    let old = put(&store, "a", &json!(1)).await;
    drop(store);
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    let now = open(&path).unwrap().position().await.unwrap();
    assert!(now.epoch != old.epoch && now.revision > old.revision);
}

#[tokio::test]
async fn an_export_is_imported_elsewhere() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("one")).unwrap();
    fill(&store).await;
    let mut yaml = Vec::new();
    let position = export(&store, &mut yaml).await.unwrap();
    assert_eq!(position, store.position().await.unwrap());
    let text = String::from_utf8(yaml.clone()).unwrap();
    assert!(text.contains("key: networks/blue\nvalue:\n  vni: 7\n"), "{text}");

    let error = import(&store, &yaml[..], false).await.unwrap_err();
    let ImportError::Replace(error) = error else { panic!("{error}") };
    assert!(matches!(error, ReplaceError::NotEmpty { .. }));
    assert_eq!(store.position().await.unwrap(), position);
    let imported = import(&store, &yaml[..], true).await.unwrap();
    assert!(imported.position.epoch != position.epoch && imported.documents == 2);

    let other = open(&folder.path().join("other")).unwrap();
    import(&other, &yaml[..], false).await.unwrap();
    assert_eq!(documents(&other).await, documents(&store).await);

    let cut = &text[..text.len() - 3];
    let twice = format!("{text}{}", &text[text.find("---\nkey").unwrap()..]);
    for wrong in ["", "a: 1", "format: osier-export/2\nposition: ''\n", cut, &twice, "%"] {
        let before = other.position().await.unwrap();
        if let Err(error) = import(&other, wrong.as_bytes(), true).await {
            assert!(!error.to_string().is_empty());
            assert_eq!(other.position().await.unwrap(), before);
        } else {
            assert_eq!(wrong, cut, "only what is still a whole document may pass");
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[-yYnN0-9a-fox:.#{}\\[\\]&*!|>'\" \n~]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[-a-z0-9:. #]{0,6}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever JSON there is comes back, or the export says that it cannot.
    #[test]
    fn an_export_keeps_every_value(values in prop::collection::vec(json_value(), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let new = || Memory::new(Epoch(1), History::default());
            let (one, other) = (new(), new());
            for (i, value) in values.iter().enumerate() {
                put(&one, &format!("k/{i}"), value).await;
            }
            let mut yaml = Vec::new();
            if export(&one, &mut yaml).await.is_ok() {
                import(&other, &yaml[..], false).await.unwrap();
                assert_eq!(documents(&other).await, documents(&one).await);
            } else {
                eprintln!("not as YAML: {values:?}");
            }
        });
    }
}
