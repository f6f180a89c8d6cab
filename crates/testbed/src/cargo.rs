//! Programs that are built for a test, or a bench, where its own is.

use std::process::Command;

/// Cargo, to be run by a program that cargo runs.
///
/// It is not told what it said of the package that runs: `ring`, for one, is built anew whenever that
/// differs, and all that it is a part of.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}
