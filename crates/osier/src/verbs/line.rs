//! What is said behind a verb, for tests of verbs.

use clap::{Args, Parser};

#[derive(Debug, Parser)]
struct Line<A: Args> {
    #[command(flatten)]
    arguments: A,
}

/// These words, taken for a verb's arguments.
pub(super) fn parsed<'a, A: Args>(words: impl IntoIterator<Item = &'a str>) -> A {
    Line::parse_from(std::iter::once("verb").chain(words)).arguments
}
