//! Processes on a cluster's machine, as its own `/proc` shows them.

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};
use osier_kubelab::Machine;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A process of a machine.
pub(super) struct Process {
    folder: PathBuf,
}

/// The processes of a program, and of one of its verbs.
pub(super) fn find(machine: &Machine, program: &str, verb: Option<&str>) -> Result<Vec<Process>> {
    let all = PathBuf::from(format!("/proc/{}/root/proc", machine.init()?));
    let found = fs::read_dir(all)?.flatten().map(|entry| Process { folder: entry.path() });
    // Processes come and go: one that cannot be read is another one.
    let is_it = |process: &Process| {
        let words = process.read("cmdline").unwrap_or_default();
        process.read("comm").is_ok_and(|name| name.trim() == program)
            && verb.is_none_or(|verb| words.split('\0').nth(1) == Some(verb))
    };
    Ok(found.filter(is_it).collect())
}

impl Process {
    fn read(&self, name: &str) -> Result<String> {
        Ok(fs::read_to_string(self.folder.join(name))?)
    }

    /// Resident memory, in bytes.
    pub(super) fn resident(&self) -> Result<u64> {
        let status = self.read("status")?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = kib.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(kib.context("a process has memory")? * 1024)
    }

    /// CPU time so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let stat = self.read("stat")?;
        // proc(5): fields 14 and 15, behind a name in parentheses.
        let fields = stat.rsplit_once(')').context("a process has a name")?.1;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks: u64 = ticks.collect::<Result<Vec<_>, _>>()?.iter().sum();
        let per_second = sysconf(SysconfVar::CLK_TCK)?.map_or(100, i64::cast_unsigned);
        Ok(Duration::from_millis(ticks * 1000 / per_second))
    }
}
