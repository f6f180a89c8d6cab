//! Who wants what.

use osier_openflow::flow::Flow;
use osier_openflow::group::Group;
use osier_openflow::message::TlvMap;
use osier_openflow::meter::Meter;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Somebody who wants something, by the name that errors show. Equal names are one owner.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(Arc<str>);

/// All that one owner wants of the switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Which Geneve option is which `tun_metadata` field.
    pub tlvs: Vec<TlvMap>,
    /// Meters.
    pub meters: Vec<Meter>,
    /// Groups.
    pub groups: Vec<Group>,
    /// Flows.
    pub flows: Vec<Flow>,
}

/// New plans of some owners, accepted or rejected together.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    pub(super) plans: Vec<(Owner, Plan)>,
}

// === impl Owner ===

impl Owner {
    /// An owner of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<S: Into<Arc<str>>> From<S> for Owner {
    fn from(name: S) -> Self {
        Self(name.into())
    }
}

impl Borrow<str> for Owner {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

// === impl Plan ===

impl Plan {
    /// Only flows.
    pub fn flows(flows: impl IntoIterator<Item = Flow>) -> Self {
        Self { flows: flows.into_iter().collect(), ..Self::default() }
    }
}

// === impl Transaction ===

impl Transaction {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The owner wants this from now on, and nothing else.
    #[must_use]
    pub fn put(mut self, owner: impl Into<Owner>, plan: Plan) -> Self {
        self.plans.push((owner.into(), plan));
        self
    }

    /// The owner wants nothing any more.
    #[must_use]
    pub fn remove(self, owner: impl Into<Owner>) -> Self {
        self.put(owner, Plan::default())
    }
}
