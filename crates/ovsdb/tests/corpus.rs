//! Replays the corpus of the fuzz targets through their bodies, without libFuzzer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report")]

#[path = "hostile/targets.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use targets::TARGETS;

fn fuzz(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(part)
}

/// Names in a directory of this crate's targets, without their extension.
fn names(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fuzz(directory)).unwrap_or_else(|e| panic!("{directory}: {e}"));
    let stem = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    entries.map(|e| stem(&e.unwrap().path())).filter(|name| name.starts_with("db_")).collect()
}

#[test]
fn every_target_has_a_body_and_a_corpus() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), listed);
    assert_eq!(names("corpus"), listed);
}

#[test]
fn no_input_of_the_corpus_fails() {
    for (name, body) in TARGETS {
        let directory = fuzz("corpus").join(name);
        let mut inputs = 0;
        for entry in fs::read_dir(&directory).unwrap_or_else(|e| panic!("{name}: {e}")) {
            let path = entry.unwrap().path();
            // Shown if the body panics.
            println!("{}", path.display());
            body(&fs::read(&path).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no inputs in {}", directory.display());
    }
}
