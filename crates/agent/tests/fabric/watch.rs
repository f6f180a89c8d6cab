//! Traffic that watches a fault: pings without pause, and connections that must not break.

use crate::lab::{PATIENCE, Pod};
use osier_testbed::traffic::{Conversation, Loss, Pinger, Talk, ping_until};
use osier_testbed::wait_until;
use std::net::IpAddr;
use std::time::Duration;

/// A pod and its addresses.
pub(crate) type Placed = (Pod, Vec<IpAddr>);

/// Pings and conversations between pods, by name.
pub(crate) struct Watch {
    pings: Vec<(String, Pinger)>,
    talks: Vec<(String, Conversation)>,
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) pings: Vec<(String, Loss)>,
    pub(crate) talks: Vec<(String, Talk)>,
}

impl Watch {
    /// Watches each of these pairs, over all their addresses.
    pub(crate) fn start(pairs: &[(&Placed, &Placed)]) -> Self {
        let mut watch = Self { pings: Vec::new(), talks: Vec::new() };
        for ((from, _), (to, addresses)) in pairs {
            for address in addresses {
                ping_until(&from.netns, *address, PATIENCE).unwrap();
                let name = format!("{} to {} at {address}", from.name, to.name);
                let pinger = Pinger::start(&from.netns, *address).unwrap();
                watch.pings.push((name.clone(), pinger));
                let talk = Conversation::start(&from.netns, &to.netns, *address).unwrap();
                watch.talks.push((name, talk));
            }
        }
        watch.wait_for_more(20);
        watch
    }

    /// Waits until each had so many more answers.
    pub(crate) fn wait_for_more(&self, more: usize) {
        let pings: Vec<usize> =
            self.pings.iter().map(|(_, pinger)| pinger.replies() + more).collect();
        let more = u64::try_from(more).unwrap();
        let talks: Vec<u64> = self.talks.iter().map(|(_, talk)| talk.exchanges() + more).collect();
        for ((name, pinger), at_least) in self.pings.iter().zip(pings) {
            wait_until(&format!("replies, {name}"), PATIENCE, || match pinger.replies() {
                n if n >= at_least => Ok(()),
                n => Err(n),
            })
            .unwrap();
        }
        for ((name, talk), at_least) in self.talks.iter().zip(talks) {
            wait_until(&format!("answers, {name}"), PATIENCE, || match talk.exchanges() {
                n if n >= at_least => Ok(()),
                n => Err(n),
            })
            .unwrap();
        }
    }

    /// Stops; a connection that broke is a failure.
    pub(crate) fn stop(self) -> Seen {
        let pings = self.pings.into_iter().map(|(name, pinger)| (name, pinger.stop().unwrap()));
        let pings = pings.collect();
        let talks = self.talks.into_iter().map(|(name, talk)| match talk.stop() {
            Ok(talk) => (name, talk),
            Err(error) => panic!("the connection {name} broke: {error}"),
        });
        Seen { pings, talks: talks.collect() }
    }
}

impl Seen {
    pub(crate) fn assert_nothing_lost(&self, what: &str) {
        let lost: u32 = self.pings.iter().map(|(_, loss)| loss.lost).sum();
        assert_eq!(lost, 0, "{what}: {self:#?}");
    }

    pub(crate) fn sent(&self) -> u32 {
        self.pings.iter().map(|(_, loss)| loss.sent).sum()
    }

    pub(crate) fn longest_gap(&self) -> Duration {
        self.pings.iter().map(|(_, loss)| loss.longest_gap).max().unwrap()
    }

    pub(crate) fn longest_pause(&self) -> Duration {
        self.talks.iter().map(|(_, talk)| talk.longest_pause).max().unwrap()
    }
}
