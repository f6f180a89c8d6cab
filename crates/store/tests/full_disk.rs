//! A disk that is full: refused with the reason, nothing lost, and well again with space.
//!
//! On a small tmpfs in a mount namespace of its own, which goes with the thread. Needs root.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use osier_store::{
    CommitError, Embedded, Key, Options, Position, Query, Store, Transaction, Unavailable,
};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

fn key(n: u64) -> Key {
    Key::new(&format!("k/{n}")).unwrap()
}

/// Runs something where a folder is a disk of a few bytes, and nobody else sees it.
fn on_small_disk(size: &'static str, run: impl FnOnce(&Path) + Send + 'static) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_owned();
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).expect("this test needs root");
        let nothing = None::<&str>;
        let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
        mount(nothing, "/", nothing, private, nothing).unwrap();
        let options = format!("size={size}");
        mount(Some("tmpfs"), &path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
            .unwrap();
        run(&path);
    });
    thread.join().unwrap();
}

/// Takes all space that is left.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    while file.write(&[0; 4096]).is_ok_and(|n| n > 0) {}
}

async fn put(store: &dyn Store, n: u64) -> Result<Position, CommitError> {
    store.commit(Transaction::new().put(key(n), vec![b'x'; 10_000])).await
}

#[test]
fn a_full_disk_is_told_and_survived() {
    on_small_disk("16m", |folder| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (path, ballast) = (folder.join("store"), folder.join("ballast"));
            let store = Embedded::open(&path, Options::default()).unwrap();
            let start = store.position().await.unwrap();
            let mut watch = store.watch("w", "", start).await.unwrap();
            let mut made = 0;
            for _ in 0..3 {
                put(&store, made).await.unwrap();
                made += 1;
                fill(&ballast);
                // There may be room in the file itself, for a while.
                let error = loop {
                    match put(&store, made).await {
                        Ok(_) => made += 1,
                        Err(error) => break error,
                    }
                };
                let CommitError::Unavailable(Unavailable::Full { place }) = &error else {
                    panic!("{error:?}")
                };
                assert_eq!(*place, path.display().to_string());

                // Reading goes on, and so does saying no.
                for n in 0..made {
                    assert!(store.get(&key(n)).await.unwrap().is_some());
                }
                assert!(store.get(&key(made)).await.unwrap().is_none());
                assert!(put(&store, made).await.is_err());
                let position = store.position().await.unwrap();
                assert_eq!(position.revision.0, start.revision.0 + made);

                std::fs::remove_file(&ballast).unwrap();
                put(&store, made).await.unwrap();
                made += 1;
            }
            for revision in 1..=made {
                let changes = watch.next().await.unwrap();
                assert_eq!(changes.position.revision.0, start.revision.0 + revision);
            }
            drop(store);
            let store = Embedded::open(&path, Options::default()).unwrap();
            let page = store.list(Query::under("k/")).await.unwrap();
            assert_eq!(page.entries.len() as u64, made);
        });
    });
}

#[test]
fn without_space_no_half_of_a_store_is_made() {
    on_small_disk("4m", |folder| {
        let (path, ballast) = (folder.join("store"), folder.join("ballast"));
        fill(&ballast);
        assert!(Embedded::open(&path, Options::default()).is_err());
        assert_eq!(folder.read_dir().unwrap().count(), 1, "only the ballast is there");
        std::fs::remove_file(&ballast).unwrap();
        Embedded::open(&path, Options::default()).unwrap();
    });
}
