//! Who waits for which change, and what is told to them.

use super::desired::Desired;
use super::error::{ChangeError, Trouble};
use super::item::{Item, Key};
use super::mirror::integer;
use super::ownership::string;
use super::plan::Wait;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where to say what became of a change.
pub(super) type Reply = oneshot::Sender<Result<Applied, ChangeError>>;

/// What became of a change that is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Its interfaces, as the switch has them.
    pub interfaces: Vec<InterfaceState>,
}

/// An interface, as the switch has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceState {
    /// Its name.
    pub name: String,
    /// The name of its port.
    pub port: String,
    /// Its OpenFlow port number; -1 if the switch could not make it, `None` if it did not try yet.
    pub ofport: Option<i64>,
    /// What the switch could not do.
    pub error: Option<String>,
}

/// Changes that are accepted and not done yet.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    waiting: Vec<Ticket>,
}

#[derive(Debug)]
struct Ticket {
    places: Vec<Key>,
    /// Those before have been done.
    next: usize,
    wait: Wait,
    /// The configuration that the switch must have acted on.
    target: Option<i64>,
    reply: Reply,
}

impl Applied {
    /// The OpenFlow port number of an interface.
    pub fn ofport(&self, interface: &str) -> Option<i64> {
        self.interfaces.iter().find(|held| held.name == interface)?.ofport
    }
}

impl Tickets {
    pub(super) fn add(&mut self, places: Vec<Key>, wait: Wait, reply: Reply) {
        self.waiting.push(Ticket { places, next: 0, wait, target: None, reply });
    }

    /// The database was compared anew: what was done may not be so any more.
    pub(super) fn start_over(&mut self) {
        for ticket in &mut self.waiting {
            ticket.next = 0;
            ticket.target = None;
        }
    }

    /// Tells those whose changes are done, or in trouble.
    pub(super) fn settle(&mut self, desired: &Desired, flying: &BTreeSet<Key>) {
        let mut index = 0;
        while index < self.waiting.len() {
            let ticket = &mut self.waiting[index];
            match ticket.outcome(desired, flying) {
                // Who dropped it does not care.
                Some(outcome) => drop(self.waiting.swap_remove(index).reply.send(outcome)),
                None if ticket.reply.is_closed() => drop(self.waiting.swap_remove(index)),
                None => index += 1,
            }
        }
    }
}

impl Ticket {
    fn outcome(
        &mut self,
        desired: &Desired,
        flying: &BTreeSet<Key>,
    ) -> Option<Result<Applied, ChangeError>> {
        while let Some(key) = self.places.get(self.next) {
            if desired.marked.contains_key(key) || flying.contains(key) {
                return None;
            }
            self.next += 1;
        }
        if let Some(trouble) = self.places.iter().find_map(|key| desired.troubles.get(key)) {
            return Some(Err(Arc::clone(trouble).into()));
        }
        if self.wait == Wait::Switch {
            let (asked, acted) = desired.mirror.configurations()?;
            if acted < *self.target.get_or_insert(asked) {
                return None;
            }
        }
        let mut applied = Applied::default();
        for key in &self.places {
            for state in desired.interfaces_of(key) {
                match self.wait {
                    Wait::Database => {}
                    Wait::Switch => {
                        if let Some(trouble) = desired.failed(key, &state) {
                            return Some(Err(Arc::new(trouble).into()));
                        }
                    }
                    Wait::Attached if state.ofport.is_some_and(|number| number >= 0) => {}
                    Wait::Attached => return None,
                }
                applied.interfaces.push(state);
            }
        }
        Some(Ok(applied))
    }
}

// === impl Desired ===

impl Desired {
    /// The interfaces wanted in a port, as the switch has them.
    fn interfaces_of(&self, key: &Key) -> impl Iterator<Item = InterfaceState> {
        let port = match self.entries.get(key).map(|entry| &entry.item) {
            Some(Item::Port(port)) => Some(port),
            _ => None,
        };
        let names = port.into_iter().flat_map(|port| &port.interfaces).map(|(name, _)| name);
        names.filter_map(|name| self.interface(name))
    }

    /// An interface of any port, as the switch has it.
    pub(super) fn interface(&self, name: &str) -> Option<InterfaceState> {
        let row = self.mirror.interfaces.named(name)?;
        let port = self.mirror.holder(row.uuid()).and_then(|port| string(port, "name"));
        Some(InterfaceState {
            name: name.to_owned(),
            port: port.unwrap_or_default().to_owned(),
            ofport: integer(row, "ofport"),
            error: string(row, "error").map(str::to_owned),
        })
    }

    fn failed(&self, key: &Key, state: &InterfaceState) -> Option<Trouble> {
        let works = match state.ofport {
            Some(ofport) => ofport >= 0,
            None => state.error.is_none(),
        };
        (!works).then(|| Trouble::Interface {
            owner: self.owner(key),
            interface: state.name.clone(),
            error: state.error.clone().unwrap_or_else(|| "it gave no reason".to_owned()),
        })
    }
}
