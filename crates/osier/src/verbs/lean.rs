//! `osier agent` as the smaller program beside this one.
//!
//! An agent is on every node. It uses a quarter of this program's code, but the kernel maps code in pieces of
//! 64 KiB, so that most of it would count as the agent's memory.

use super::agent;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The program, beside `osier`. Without it, as in a copy of that one file, `osier` does its work.
const PROGRAM: &str = "osier-agent";

pub(super) fn run(arguments: &agent::Arguments) -> anyhow::Result<ExitCode> {
    if let Some(program) = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM))
        && is_of_this_version(&program)
    {
        let error = Command::new(&program).arg("--config").arg(arguments.config()).exec();
        eprintln!("osier: {} does not start ({error}); its work is done here", program.display());
    }
    agent::run(arguments)
}

/// One that an upgrade has left or not brought yet is not used.
fn is_of_this_version(program: &Path) -> bool {
    let version = format!("{PROGRAM} {}\n", env!("CARGO_PKG_VERSION"));
    let said = Command::new(program).arg("--version").output();
    said.is_ok_and(|said| said.status.success() && said.stdout == version.as_bytes())
}
