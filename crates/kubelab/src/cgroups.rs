//! Control groups of the machines, by both versions: each kubelet has a root of its own below the host's.
//!
//! Beside the pods' group is one with the machine's own daemons, as systemd has it. Without that each of
//! their threads would weigh as much as all pods of a node together.

use crate::error::{ClusterError, file};
use std::fs;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";
/// Says that a folder is of version 2.
const VERSION_2: &str = "cgroup.controllers";

/// The group of a machine's own daemons, below the machine's.
const DAEMONS: &str = "system";

/// Makes a group in each hierarchy.
pub(crate) fn create(name: &str) -> Result<(), ClusterError> {
    for hierarchy in hierarchies(Path::new(MOUNT)) {
        if hierarchy.join(VERSION_2).exists() {
            let controllers = fs::read_to_string(hierarchy.join(VERSION_2)).unwrap_or_default();
            for controller in controllers.split_whitespace() {
                // One that cannot be had is missed by kubelet, which says so.
                let _ =
                    fs::write(hierarchy.join("cgroup.subtree_control"), format!("+{controller}"));
            }
        }
        let group = hierarchy.join(name);
        fs::create_dir_all(&group).map_err(file("make", &group))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            // Version 1: a new group may use none of them, and so nothing can run there.
            if let Ok(all) = fs::read(hierarchy.join(file)) {
                let _ = fs::write(group.join(file), all);
            }
        }
    }
    Ok(())
}

/// Makes the group for a machine's own daemons, where processors are shared. The file that takes
/// processes in; nothing if the host shares them by no group.
pub(crate) fn for_daemons(name: &str) -> Option<PathBuf> {
    let all = hierarchies(Path::new(MOUNT));
    let shares = |path: &PathBuf| {
        ["cpu.weight", "cpu.shares"].iter().any(|file| path.join(name).join(file).exists())
    };
    let group = all.into_iter().find(shares)?.join(name).join(DAEMONS);
    fs::create_dir_all(&group).ok()?;
    Some(group.join("cgroup.procs"))
}

/// Removes them with all below; nothing may run there any more.
pub(crate) fn remove(name: &str) {
    for hierarchy in hierarchies(Path::new(MOUNT)) {
        remove_tree(&hierarchy.join(name));
    }
}

/// The folder itself if all is version 2; else those below it that are hierarchies of version 1.
fn hierarchies(mount: &Path) -> Vec<PathBuf> {
    if mount.join(VERSION_2).exists() {
        return vec![mount.to_owned()];
    }
    let folders = fs::read_dir(mount).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    // Beside version 1, version 2 has no controllers to give.
    folders.map(|entry| entry.path()).filter(|path| !path.join(VERSION_2).exists()).collect()
}

/// Groups are removed from below; their files go with them.
fn remove_tree(group: &Path) {
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_tree(&entry.path());
    }
    // One in use stays: the lab's janitor tries once more.
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_either_version_are_found() {
        let mount = tempfile::tempdir().unwrap();
        for name in ["cpu", "memory", "unified"] {
            fs::create_dir(mount.path().join(name)).unwrap();
        }
        fs::write(mount.path().join("unified").join(VERSION_2), "").unwrap();
        let mut found = hierarchies(mount.path());
        found.sort();
        assert_eq!(found, [mount.path().join("cpu"), mount.path().join("memory")]);
        fs::write(mount.path().join(VERSION_2), "cpu memory").unwrap();
        assert_eq!(hierarchies(mount.path()), [mount.path()]);
    }
}
