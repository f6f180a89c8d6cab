//! What the fuzz targets do with bytes and text from outside.
//!
//! A target in `fuzz_targets/` is one line; its body is a function here, which panics if a property
//! does not hold. The tests of each crate include that crate's module and replay the corpus through
//! the same functions, with the stable toolchain and without libFuzzer.

pub mod agent;
pub mod openflow;
pub mod restconf;
pub mod switches;

#[path = "../../crates/ovsdb/tests/hostile/targets.rs"]
mod ovsdb_targets;

/// Runs one of the targets of `osier-ovsdb`, whose bodies live with its tests.
pub fn ovsdb(target: &str, data: &[u8]) {
    let known = ovsdb_targets::TARGETS.iter().find(|(name, _)| *name == target);
    let (_, body) = known.unwrap_or_else(|| panic!("osier-ovsdb has no target {target}"));
    body(data);
}
