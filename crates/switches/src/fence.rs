//! Who may write a switch's database: the controller of the highest term, which stands in the
//! database itself.
//!
//! OpenFlow has roles and generations for that; OVSDB has nothing but what a transaction may ask for.
//! So whoever takes a switch over writes its term first, and every transaction of ours begins with
//! the question whether that is still there. What a deposed controller sends comes to nothing, however
//! late it arrives.

use crate::wires::external_id;
use osier_ovsdb::op::Until;
use osier_ovsdb::{Atom, Condition, Mutation, Operation, Row, Transaction, Value};

/// The key of `external_ids` in `Open_vSwitch` that has the term.
pub(crate) const KEY: &str = "osier-term";
/// Whose a switch's database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Ours,
    /// An earlier controller's, of this term if it had one.
    Earlier(Option<u64>),
    /// A later controller's.
    Later(u64),
}

/// Whose the database is that has this row of the switch.
pub(crate) fn standing(root: &Row, term: u64) -> Standing {
    // What is no number is nobody's.
    match external_id(root, KEY).map(|text| text.parse().unwrap_or(0)) {
        Some(found) if found == term => Standing::Ours,
        Some(found) if found > term => Standing::Later(found),
        found => Standing::Earlier(found),
    }
}

/// Fails unless a term stands in the database.
pub(crate) fn guard(term: u64) -> Operation {
    has(&term.to_string())
}

/// Makes the database ours, if it is whose it was.
pub(crate) fn claim(root: &Row, term: u64) -> Transaction {
    let text = term.to_string();
    let mut claim = Transaction::new("take the switch's database over");
    let mut mutations = Vec::new();
    if let Some(before) = external_id(root, KEY) {
        claim.push(has(before));
        mutations.push(Mutation::delete("external_ids", Value::set([Atom::from(KEY)])));
    }
    mutations.push(Mutation::insert("external_ids", pair(&text)));
    claim.mutate("Open_vSwitch", root.uuid(), mutations);
    // Inserting changes nothing where another was faster.
    claim.push(guard(term));
    claim
}

fn has(term: &str) -> Operation {
    Operation::Wait {
        table: "Open_vSwitch".into(),
        timeout: Some(0),
        conditions: vec![Condition::includes("external_ids", pair(term))],
        columns: Some(vec!["_uuid".into()]),
        until: Until::NotEqual,
        rows: Vec::new(),
    }
}

fn pair(term: &str) -> Value {
    Value::map([(Atom::from(KEY), Atom::from(term))])
}
