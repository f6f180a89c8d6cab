//! `osier-cni`: the CNI plugin. See [`osier_cni::relay`].

use osier_cni::loopback;
use osier_cni::relay::{self, Outcome};
use std::io::{IsTerminal, Read, Write, empty, stdin, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    // As the reference plugins do: without a command there is a person, not a runtime.
    if std::env::var_os("CNI_COMMAND").is_none_or(|command| command.is_empty()) {
        eprintln!("{}", relay::about());
        return ExitCode::SUCCESS;
    }
    let mut input: Box<dyn Read> =
        if stdin().is_terminal() { Box::new(empty()) } else { Box::new(stdin().lock()) };
    let variable = |name: &str| std::env::var_os(name);
    let Outcome { output, success } =
        match loopback::is_asked_for(std::env::args_os().next().as_deref()) {
            true => loopback::serve(variable, &mut input),
            false => relay::serve(variable, &mut input),
        };
    let newline = if output.is_empty() { "" } else { "\n" };
    let printed = write!(stdout(), "{output}{newline}").and_then(|()| stdout().flush());
    if success && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
