//! Lies and honest frames, played together: each carries a token of its own, so that nothing but
//! itself can be taken for it. All that is honest must arrive, or the test shows nothing; no lie may.

use crate::lab::PATIENCE;
use osier_testbed::traffic::PacketSocket;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long after the last honest frame a lie would still come.
const SETTLED: Duration = Duration::from_millis(300);
const BREATH: Duration = Duration::from_millis(40);
const MAGIC: [u8; 4] = [0x9e, 0x05, 0x1e, 0xaf];

/// What a frame carries for its receiver to know it by.
pub(crate) type Token = [u8; 6];

#[derive(Default)]
pub(crate) struct Deck {
    frames: Vec<Frame>,
}

struct Frame {
    name: String,
    honest: bool,
    /// As they are sent, one after the other.
    parts: Vec<Vec<u8>>,
}

// === impl Deck ===

impl Deck {
    /// A frame that nobody may receive.
    pub(crate) fn lie(&mut self, name: impl Into<String>, make: impl FnOnce(&Token) -> Vec<u8>) {
        self.add(name.into(), false, |token| vec![make(token)]);
    }

    /// Several that belong together, of which nobody may receive one that has the token.
    pub(crate) fn lies(
        &mut self,
        name: impl Into<String>,
        make: impl FnOnce(&Token) -> Vec<Vec<u8>>,
    ) {
        self.add(name.into(), false, make);
    }

    /// A frame that somebody must receive.
    pub(crate) fn honest(&mut self, name: impl Into<String>, make: impl FnOnce(&Token) -> Vec<u8>) {
        self.add(name.into(), true, |token| vec![make(token)]);
    }

    /// Several that belong together, of which somebody must receive one that has the token.
    pub(crate) fn all_honest(
        &mut self,
        name: impl Into<String>,
        make: impl FnOnce(&Token) -> Vec<Vec<u8>>,
    ) {
        self.add(name.into(), true, make);
    }

    fn add(&mut self, name: String, honest: bool, make: impl FnOnce(&Token) -> Vec<Vec<u8>>) {
        let [high, low] = u16::try_from(self.frames.len()).unwrap().to_be_bytes();
        let [a, b, c, d] = MAGIC;
        let parts = make(&[a, b, c, d, high, low]);
        self.frames.push(Frame { name, honest, parts });
    }

    /// Sends all, again and again until all that is honest has arrived at one of the receivers.
    pub(crate) fn play(&self, from: &PacketSocket, receivers: &[&PacketSocket]) {
        self.play_to(from, |time| receivers.iter().flat_map(|at| frames(at, time)).collect());
    }

    /// The same to whoever tells what arrives in a time.
    pub(crate) fn play_to(&self, from: &PacketSocket, receive: impl Fn(Duration) -> Vec<Vec<u8>>) {
        let honest: BTreeSet<usize> = self.numbers(|frame| frame.honest);
        let mut seen = BTreeSet::new();
        let end = Instant::now() + PATIENCE;
        while !honest.is_subset(&seen) && Instant::now() < end {
            self.send(from);
            seen.extend(receive(BREATH).iter().flat_map(|frame| tokens(frame)));
        }
        self.send(from);
        seen.extend(receive(SETTLED).iter().flat_map(|frame| tokens(frame)));
        let names = |numbers: BTreeSet<usize>| -> Vec<&str> {
            numbers.into_iter().map(|n| self.frames[n].name.as_str()).collect()
        };
        let lost = names(honest.difference(&seen).copied().collect());
        let lies: BTreeSet<usize> = self.numbers(|frame| !frame.honest);
        let passed = names(lies.intersection(&seen).copied().collect());
        assert!(passed.is_empty() && lost.is_empty(), "passed: {passed:#?}\nlost: {lost:#?}");
    }

    fn numbers(&self, wanted: impl Fn(&Frame) -> bool) -> BTreeSet<usize> {
        self.frames.iter().enumerate().filter(|(_, frame)| wanted(frame)).map(|(n, _)| n).collect()
    }

    fn send(&self, from: &PacketSocket) {
        // The kernel refuses what is larger than the interface; none is.
        let parts = self.frames.iter().flat_map(|frame| &frame.parts);
        parts.for_each(|part| from.send(part).unwrap());
    }
}

/// The frames that come in this time, if they are ours.
fn frames(at: &PacketSocket, time: Duration) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let none = at.receive(time, |frame| {
        frames.extend(tokens(frame).next().map(|_| frame.to_vec()));
        false
    });
    assert_eq!(none.unwrap(), None);
    frames
}

/// The numbers of the tokens in what arrived: a reassembled packet may have several.
fn tokens(frame: &[u8]) -> impl Iterator<Item = usize> {
    let tokens = frame.windows(6).filter(|window| window[..4] == MAGIC);
    tokens.map(|token| usize::from(u16::from_be_bytes([token[4], token[5]])))
}
