//! Why a plan is not accepted, or not on the switch.

use super::owner::Owner;
use super::ownership::CookieClass;
use osier_openflow::message::ErrorMessage;
use osier_openflow::wire::EncodeError;
use std::ops::RangeInclusive;
use std::sync::Arc;
use thiserror::Error;

/// Why plans were not accepted. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PutError {
    /// We would not know it as ours.
    #[error("{owner} wants a flow whose cookie {cookie:#x} is not of {class}: {text}")]
    ForeignCookie {
        /// Who wants it.
        owner: Owner,
        /// The flow.
        text: String,
        /// Its cookie.
        cookie: u64,
        /// Where it should be.
        class: CookieClass,
    },
    /// We would not know it as ours.
    #[error("{owner} wants {what} {id}, which is not in {}..={}", .range.start(), .range.end())]
    OutOfRange {
        /// Who wants it.
        owner: Owner,
        /// A group, meter or `tun_metadata` field.
        what: &'static str,
        /// Its number.
        id: u32,
        /// Where it should be.
        range: RangeInclusive<u32>,
    },
    /// Two want different things in one place.
    #[error("{owner} wants {wanted}, but {other} wants {found}")]
    Clash {
        /// Who wants it.
        owner: Owner,
        /// What it wants.
        wanted: String,
        /// Who else wants something there; may be the same.
        other: Owner,
        /// What that one wants.
        found: String,
    },
}

/// Why something wanted is not on the switch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Trouble {
    /// Somebody else's flow is in its place, and would be lost. It is sent when that one goes.
    #[error(
        "{owner} wants {wanted}, but a flow of cookie {cookie:#x}, not ours, has its place: {found}"
    )]
    Conflict {
        /// Who wants it.
        owner: Owner,
        /// The flow.
        wanted: String,
        /// The other's cookie.
        cookie: u64,
        /// The other's flow.
        found: String,
    },
    /// The switch refused it. All of its owner's change is kept back until its next plan, or
    /// until the switch is read again.
    #[error("the switch refused the {what} of {owner}: {text}")]
    Refused {
        /// Who wants it.
        owner: Owner,
        /// A flow, group, meter or TLV map.
        what: &'static str,
        /// The item.
        text: String,
        /// What the switch said.
        #[source]
        error: ErrorMessage,
    },
    /// It has no form on the wire. Kept back as if refused.
    #[error("the {what} of {owner} cannot be sent: {text}")]
    Unsendable {
        /// Who wants it.
        owner: Owner,
        /// A flow, group, meter or TLV map.
        what: &'static str,
        /// The item.
        text: String,
        /// Why not.
        #[source]
        error: EncodeError,
    },
}

/// What became of a change that is not on the switch.
#[derive(Debug, Clone, Error)]
pub enum ChangeError {
    /// It was not accepted.
    #[error(transparent)]
    Rejected(#[from] PutError),
    /// It was accepted, and some of it could not be done.
    #[error(transparent)]
    Trouble(#[from] Arc<Trouble>),
    /// The reconciler has ended.
    #[error(transparent)]
    Closed(#[from] Closed),
}

/// The reconciler has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the reconciler has ended")]
pub struct Closed;
