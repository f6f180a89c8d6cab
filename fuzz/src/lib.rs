//! What the fuzz targets do with bytes and text from outside.
//!
//! A target in `fuzz_targets/` is one line; its body is a function here, which panics if a property
//! does not hold. The tests of each crate include that crate's module and replay the corpus through
//! the same functions, with the stable toolchain and without libFuzzer.

pub mod openflow;
