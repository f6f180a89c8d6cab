//! Clusters whose owner is dead and whose janitor was killed, too: they go when the next one starts.
//!
//! A cluster's owner holds a lock in its folder for as long as it lives. Who gets that lock may remove
//! the rest.

use crate::error::{ClusterError, file};
use osier_testbed::Lab;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

const LOCK: &str = "kubelab.lock";
const PATIENCE: Duration = Duration::from_secs(20);

/// Marks a lab as a cluster's, for as long as the file lives.
pub(crate) fn claim(lab: &Lab) -> Result<File, ClusterError> {
    let path = lab.dir().join(LOCK);
    // Locked before it has its name: at no time does a living cluster look dead.
    let unnamed = path.with_extension("new");
    let lock = File::create(&unnamed).map_err(file("make", &unnamed))?;
    lock.lock().map_err(file("lock", &unnamed))?;
    fs::rename(&unnamed, &path).map_err(file("make", &path))?;
    Ok(lock)
}

/// Removes all dead clusters. What cannot be removed is told, and stops nobody.
pub(crate) fn sweep() {
    let labs = [std::env::temp_dir(), "/tmp".into()];
    let entries = labs.iter().flat_map(fs::read_dir).flatten().flatten();
    for dir in entries.map(|entry| entry.path()).filter(|dir| is_dead(dir)) {
        match Lab::remove_remains(&dir, PATIENCE) {
            Ok(left) if left.is_empty() => {}
            Ok(left) => eprintln!("kubelab: of a dead cluster stays: {left}"),
            Err(e) => eprintln!("kubelab: {} stays: {e}", dir.display()),
        }
    }
}

fn is_dead(dir: &Path) -> bool {
    File::open(dir.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cluster_without_an_owner_is_dead() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_dead(dir.path()), "no cluster at all");
        let lock = File::create(dir.path().join(LOCK)).unwrap();
        lock.lock().unwrap();
        assert!(!is_dead(dir.path()), "its owner lives");
        drop(lock);
        assert!(is_dead(dir.path()));
    }
}
