//! The CNI plugin as it is released: static and small, `<target>/plugin/osier-cni`.
//!
//! It is built with musl. A static program of glibc asks the processor for all of its features
//! before it does anything; on a virtual machine each question goes to the hypervisor, and the plugin
//! would take twice as long to start.

use crate::cargo::{cargo, said_by, target_folder};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most that it may weigh, in bytes: runtimes start it for every pod.
const MOST: usize = 1_500_000;
/// The kind of a program header that names a loader (`PT_INTERP`).
const LOADER: u32 = 3;

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
    let program = std::fs::read(&built).with_context(|| built.display().to_string())?;
    fits(&program).with_context(|| built.display().to_string())?;
    std::fs::create_dir_all(folder.join("plugin"))?;
    // Tests run it while others build: it is never half there, and never open for writing.
    let new = plugin.with_extension(std::process::id().to_string());
    std::fs::copy(&built, &new).with_context(|| built.display().to_string())?;
    std::fs::rename(&new, &plugin)?;
    Ok(plugin)
}

/// Refuses what is not what we promise: small, and without a library that a node may not have.
fn fits(program: &[u8]) -> Result<()> {
    let size = program.len();
    ensure!(size <= MOST, "{size} bytes, where {MOST} are allowed");
    let loaded = needs_loader(program).context("no program of 64 bits, little-endian")?;
    ensure!(!loaded, "it needs a loader: it is not static");
    Ok(())
}

/// Whether an ELF program names a loader; `None` if it is none that we build.
fn needs_loader(program: &[u8]) -> Option<bool> {
    // 64 bits, little-endian; then where the program headers are, how large, and how many.
    program.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let first = usize::try_from(u64::from_le_bytes(bytes_at(program, 0x20)?)).ok()?;
    let size = usize::from(u16::from_le_bytes(bytes_at(program, 0x36)?));
    let count = u16::from_le_bytes(bytes_at(program, 0x38)?);
    for n in 0..usize::from(count) {
        let kind = bytes_at(program, first.checked_add(n * size)?)?;
        if u32::from_le_bytes(kind) == LOADER {
            return Some(true);
        }
    }
    Some(false)
}

fn bytes_at<const N: usize>(program: &[u8], at: usize) -> Option<[u8; N]> {
    program.get(at..at.checked_add(N)?)?.try_into().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with headers of these kinds.
    fn program(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.resize(64, 0);
        bytes[0x20] = 64;
        bytes[0x36] = 56;
        bytes[0x38] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            let at = bytes.len();
            bytes.extend(kind.to_le_bytes());
            bytes.resize(at + 56, 0);
        }
        bytes
    }

    #[test]
    fn what_is_large_or_needs_a_loader_is_refused() {
        let said = |bytes: &[u8]| fits(bytes).unwrap_err().to_string();
        assert!(fits(&program(&[1, 1, 2])).is_ok());
        assert_eq!(said(&program(&[1, 3])), "it needs a loader: it is not static");
        assert_eq!(said(b"#!/bin/sh"), "no program of 64 bits, little-endian");
        assert_eq!(needs_loader(&program(&[1, 1])[..100]), None, "cut short");
        let mut large = program(&[1]);
        large.resize(MOST + 1, 0);
        assert_eq!(said(&large), "1500001 bytes, where 1500000 are allowed");
        // One that was built as most are.
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(needs_loader(&own), Some(true));
    }
}
