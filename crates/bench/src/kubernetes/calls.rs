//! What CNI plugins took on a node, by the notes of `cni-stopwatch` in their places.

use anyhow::{Context, Result};
use osier_kubelab::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PLUGINS: &str = "/opt/cni/bin";
/// As the stopwatch has them.
const TIMED: &str = "/opt/cni/timed";
const TIMES: &str = "run/cni-times";

/// Puts the stopwatch in the places of these plugins.
pub(super) fn time(machine: &Machine, stopwatch: &Path, plugins: &[&str]) -> Result<()> {
    machine.run(&["mkdir", "-p", TIMED])?;
    let stopwatch = stopwatch.to_str().context("the stopwatch's path is text")?;
    for plugin in plugins {
        let (place, aside) = (format!("{PLUGINS}/{plugin}"), format!("{TIMED}/{plugin}"));
        machine.run(&["cp", &place, &aside])?;
        // In one step: a pod may be made just now.
        let beside = format!("{TIMED}/.{plugin}");
        machine.run(&["cp", stopwatch, &beside])?;
        machine.run(&["mv", &beside, &place])?;
    }
    Ok(())
}

/// Forgets what was noted.
pub(super) fn forget(machine: &Machine) -> Result<()> {
    match fs::remove_file(notes(machine)?) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// How long the ADD of each pod took, all plugins of its network together.
pub(super) fn adds(machine: &Machine) -> Result<Vec<Duration>> {
    match fs::read_to_string(notes(machine)?) {
        Ok(text) => Ok(sums(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn notes(machine: &Machine) -> Result<PathBuf> {
    Ok(Path::new("/proc").join(machine.init()?.to_string()).join("root").join(TIMES))
}

fn sums(notes: &str) -> Vec<Duration> {
    let mut sums: BTreeMap<&str, Duration> = BTreeMap::new();
    for line in notes.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["ADD", container, _, nanoseconds] = words[..]
            && let Ok(nanoseconds) = nanoseconds.parse()
        {
            *sums.entry(container).or_default() += Duration::from_nanos(nanoseconds);
        }
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_of_a_chain_count_together() {
        let notes = "ADD a bridge 5000\nADD b bridge 7000\nADD a portmap 1000\nDEL a bridge 9\n";
        assert_eq!(sums(notes), [Duration::from_micros(6), Duration::from_micros(7)]);
    }
}
