//! Replays the corpus of the fuzz targets through their bodies, without libFuzzer; and inputs made
//! from it by chance.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

#[path = "../../../fuzz/src/agent.rs"]
#[allow(unreachable_pub, reason = "public to the fuzz targets")]
mod bodies;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use bodies::TARGETS;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

type Inputs = Vec<(PathBuf, Vec<u8>)>;

#[test]
fn every_target_has_a_body_and_a_corpus() {
    replay::assert_complete("agent_", TARGETS);
}

#[test]
fn no_input_of_the_corpus_fails() {
    replay::assert_survived(TARGETS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nor_does_one_that_is_cut_and_changed(
        pick: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: prop::sample::Index,
        whole: bool,
    ) {
        for (target, body) in TARGETS {
            static INPUTS: LazyLock<BTreeMap<&str, Inputs>> =
                LazyLock::new(|| TARGETS.iter().map(|(name, _)| (*name, replay::inputs(name))).collect());
            let inputs = &INPUTS[target];
            let mut input = inputs[pick.index(inputs.len())].1.clone();
            for (at, byte) in &changes {
                let at = at.index(input.len());
                input[at] = *byte;
            }
            if !whole {
                input.truncate(cut.index(input.len()));
            }
            body(&input);
        }
    }
}
