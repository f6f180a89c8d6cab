//! Replays corpora through the bodies of their targets, without libFuzzer: for the tests of crates
//! that have targets, which include this file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of a target, and its body.
type Target = (&'static str, fn(&[u8]));

pub(crate) fn fuzz(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(part)
}

/// Names in a directory that begin so, without their extension.
fn names(directory: &str, prefix: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fuzz(directory)).unwrap_or_else(|e| panic!("{directory}: {e}"));
    let stem = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    entries.map(|e| stem(&e.unwrap().path())).filter(|name| name.starts_with(prefix)).collect()
}

/// The targets with a prefix are those that are listed, and each has a corpus.
pub(crate) fn assert_complete(prefix: &str, targets: &[Target]) {
    let listed: BTreeSet<String> = targets.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets", prefix), listed);
    assert_eq!(names("corpus", prefix), listed);
}

/// No input of a corpus makes its body panic, and there are some.
pub(crate) fn assert_survived(targets: &[Target]) {
    for (name, body) in targets {
        for (path, input) in inputs(name) {
            // Shown if the body panics.
            println!("{}", path.display());
            body(&input);
        }
    }
}

/// A target's inputs, in the order of their names.
pub(crate) fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = fuzz("corpus").join(target);
    let entries = fs::read_dir(&directory).unwrap_or_else(|e| panic!("{target}: {e}"));
    let read = |path: PathBuf| (path.clone(), fs::read(&path).unwrap());
    let mut inputs: Vec<_> = entries.map(|entry| read(entry.unwrap().path())).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{target} has no inputs in {}", directory.display());
    inputs
}
