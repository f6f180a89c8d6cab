//! What a round of writes will store, before it is stored.

use bytes::Bytes;
use osier_model::{Change, Fabric, NetworkName, Object, PoolName, Saying};
use osier_store::{Condition, Key, Revision, Transaction};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// What a write, or a round of them, comes to.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    documents: HashMap<Key, Document>,
    /// Of the model.
    pub(crate) changes: Vec<Change>,
    /// Of what policies are made of.
    pub(crate) sayings: Vec<Saying>,
    /// What holds for the whole cluster then, if that changes.
    pub(crate) fabric: Option<Fabric>,
    /// Pools that are others then.
    pub(crate) pools: Vec<PoolName>,
    /// Addresses of the Services in it.
    services: HashSet<IpAddr>,
    /// Addresses of the ports in it, by network.
    addresses: HashSet<(NetworkName, IpAddr)>,
    bytes: usize,
}

#[derive(Debug)]
struct Document {
    /// The revision that it was read at; nothing if it was not there.
    base: Option<Revision>,
    /// What is stored; nothing if it is deleted.
    value: Option<Bytes>,
}

// === impl Staging ===

impl Staging {
    pub(crate) fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// How many documents and bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.documents.len(), self.bytes)
    }

    /// Whether a document is changed here.
    pub(crate) fn touches(&self, key: &str) -> bool {
        self.documents.contains_key(key)
    }

    /// Stores a document, or deletes it.
    pub(crate) fn document(&mut self, key: Key, base: Option<Revision>, value: Option<Bytes>) {
        self.bytes += value.as_ref().map_or(0, Bytes::len);
        self.documents.insert(key, Document { base, value });
    }

    /// Changes the model.
    pub(crate) fn change(&mut self, change: Change) {
        if let Change::Put(Object::Port(port)) = &change {
            let of = |address: &IpAddr| (port.network.clone(), *address);
            self.addresses.extend(port.addresses.iter().map(of));
        }
        if let Change::Put(Object::Service(service)) = &change {
            self.services.extend(&service.addresses);
        }
        self.changes.push(change);
    }

    /// Whether a port in it has an address.
    pub(crate) fn has_address(&self, network: &NetworkName, address: IpAddr) -> bool {
        !self.addresses.is_empty() && self.addresses.contains(&(network.clone(), address))
    }

    /// Whether a Service in it has an address.
    pub(crate) fn has_service_address(&self, address: IpAddr) -> bool {
        self.services.contains(&address)
    }

    /// Takes another in, which touches nothing of this one.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.documents.extend(other.documents);
        self.changes.extend(other.changes);
        self.sayings.extend(other.sayings);
        self.fabric = other.fabric.or(self.fabric.take());
        self.addresses.extend(other.addresses);
        self.services.extend(other.services);
        self.bytes += other.bytes;
    }

    /// One transaction that does it, if nothing has changed meanwhile.
    pub(crate) fn transaction(&self) -> Transaction {
        let mut transaction = Transaction::new();
        for (key, document) in &self.documents {
            transaction = transaction.when(match document.base {
                Some(revision) => Condition::Unchanged(key.clone(), revision),
                None => Condition::Absent(key.clone()),
            });
            transaction = match &document.value {
                Some(value) => transaction.put(key.clone(), value.clone()),
                None => transaction.delete(key.clone()),
            };
        }
        transaction
    }

    /// A document by which one can see whether the transaction was made, and what it is then.
    pub(crate) fn witness(&self) -> Option<(&Key, Option<&Bytes>, Option<Revision>)> {
        let (key, document) = self.documents.iter().next()?;
        Some((key, document.value.as_ref(), document.base))
    }
}
