//! Replays the corpus of the fuzz targets through their bodies, without libFuzzer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report")]

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "hostile/targets.rs"]
mod targets;

use targets::TARGETS;

#[test]
fn every_target_has_a_body_and_a_corpus() {
    replay::assert_complete("db_", TARGETS);
}

#[test]
fn no_input_of_the_corpus_fails() {
    replay::assert_survived(TARGETS);
}
