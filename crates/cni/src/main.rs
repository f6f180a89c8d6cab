//! `osier-cni`: the CNI plugin. See [`osier_cni::relay`].

use osier_cni::relay::{self, Outcome};
use std::io::{IsTerminal, Write, empty, stdin, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    // As the reference plugins do: without a command there is a person, not a runtime.
    if std::env::var_os("CNI_COMMAND").is_none_or(|command| command.is_empty()) {
        eprintln!("{}", relay::about());
        return ExitCode::SUCCESS;
    }
    let Outcome { output, success } = if stdin().is_terminal() {
        relay::serve(|name| std::env::var_os(name), &mut empty())
    } else {
        relay::serve(|name| std::env::var_os(name), &mut stdin().lock())
    };
    let newline = if output.is_empty() { "" } else { "\n" };
    let printed = write!(stdout(), "{output}{newline}").and_then(|()| stdout().flush());
    if success && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
