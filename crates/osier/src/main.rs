//! The `osier` binary.
fn main() {}
