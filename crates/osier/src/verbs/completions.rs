//! `osier completions`: a shell's completions, from the same arguments that are parsed.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osier completions bash > /etc/bash_completion.d/osier
  osier completions zsh  > /usr/local/share/zsh/site-functions/_osier
  osier completions fish > ~/.config/fish/completions/osier.fish")]
pub(crate) struct Arguments {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Osier::command(), "osier", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
