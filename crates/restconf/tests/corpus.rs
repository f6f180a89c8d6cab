//! The fuzz target's corpus, through its body.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/restconf.rs"]
#[allow(unreachable_pub, reason = "public to the fuzz targets")]
mod target;

#[test]
fn the_corpus_is_survived() {
    replay::assert_complete("rc_", target::TARGETS);
    replay::assert_survived(target::TARGETS);
}
