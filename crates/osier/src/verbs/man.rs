//! `osier man`: the manual's pages, from the same arguments that are parsed.

use anyhow::Context;
use clap::{Args, CommandFactory};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osier man /usr/local/share/man/man1   # then: man osier-get")]
pub(crate) struct Arguments {
    /// The folder that they are written to, a page for each verb
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let folder = &arguments.folder;
    let failed = || format!("pages cannot be written to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(crate::Osier::command(), folder).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}
