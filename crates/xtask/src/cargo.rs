//! The programs that build.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs cargo, with these flags for the compiler besides.
pub(crate) fn cargo(arguments: &[&str], flags: &str) -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments);
    // What cargo says of this package: `ring`, for one, is built anew when that differs.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    if !flags.is_empty() {
        cargo.env("RUSTFLAGS", flags);
    }
    ensure!(cargo.status()?.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}

/// What a program says when it is run so.
pub(crate) fn said_by(program: &str, arguments: &[&str]) -> Result<String> {
    let said = Command::new(program).args(arguments).output().context(program.to_owned())?;
    ensure!(said.status.success(), "{program} {} failed", arguments.join(" "));
    Ok(String::from_utf8(said.stdout)?)
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from)
}
