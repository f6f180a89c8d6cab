//! Logs that outlive their cluster: what there is to read after a failure.

use osier_testbed::Lab;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Logs of pods, and of daemons that write their own, on a machine's disk.
const ON_DISK: &str = "disk/own/var/log";

/// Copies the logs of all machines; `None` if that fails, which is told.
pub(crate) fn keep(lab: &Lab) -> Option<PathBuf> {
    let kept = std::env::temp_dir().join("osier-kubelab-logs").join(lab.id());
    match copy_all(lab.dir(), &kept) {
        Ok(()) => Some(kept),
        Err(e) => {
            eprintln!("the logs cannot be kept in {}: {e}", kept.display());
            None
        }
    }
}

fn copy_all(lab: &Path, kept: &Path) -> io::Result<()> {
    for machine in fs::read_dir(lab)?.flatten() {
        let (from, to) = (machine.path(), kept.join(machine.file_name()));
        if from.join("log").is_dir() {
            copy(&from.join("log"), &to)?;
            copy(&from.join(ON_DISK), &to.join("var-log"))?;
        }
    }
    Ok(())
}

/// Copies files and folders; links and what goes meanwhile are left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    fs::create_dir_all(to)?;
    for entry in entries.flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy(&from, &to)?,
            Ok(kind) if kind.is_file() => match fs::copy(&from, &to) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            },
            _ => {}
        }
    }
    Ok(())
}
