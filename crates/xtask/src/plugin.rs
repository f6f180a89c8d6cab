//! The CNI plugin as it is released: static and small, `<target>/plugin/osier-cni`.
//!
//! It is built with musl. A static program of glibc asks the processor for all of its features
//! before it does anything; on a virtual machine each question goes to the hypervisor, and the plugin
//! would take twice as long to start.

use crate::cargo::{cargo, said_by, target_folder};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds it: where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let musl = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let (target, flags) = if can_build_for(&musl)? {
        (musl, "")
    } else {
        eprintln!("no Rust target {musl} here, and rustup cannot add it: built with glibc");
        (host()?, "-C target-feature=+crt-static")
    };
    let build = ["build", "--quiet", "--profile", "cni", "--locked", "-p", "osier-cni", "--target"];
    cargo(&[&build[..], &[&target]].concat(), flags)?;
    let folder = target_folder();
    let (built, plugin) =
        (folder.join(target).join("cni/osier-cni"), folder.join("plugin/osier-cni"));
    std::fs::create_dir_all(folder.join("plugin"))?;
    // Tests run it while others build: it is never half there, and never open for writing.
    let new = plugin.with_extension(std::process::id().to_string());
    std::fs::copy(&built, &new).with_context(|| built.display().to_string())?;
    std::fs::rename(&new, &plugin)?;
    Ok(plugin)
}

/// Whether there is a standard library for a target. One that is missing is fetched.
fn can_build_for(target: &str) -> Result<bool> {
    let sysroot = said_by("rustc", &["--print", "sysroot"])?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib").is_dir() {
        return Ok(true);
    }
    let added = Command::new("rustup").args(["target", "add", target]).status();
    Ok(added.is_ok_and(|status| status.success()))
}

fn host() -> Result<String> {
    let said = said_by("rustc", &["-vV"])?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}
