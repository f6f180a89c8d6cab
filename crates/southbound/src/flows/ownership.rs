//! What on a switch is ours. All of it is parameters: this crate has no opinion.

use super::error::PutError;
use super::owner::{Owner, Plan};
use std::fmt;
use std::ops::RangeInclusive;

/// Cookies that have this value where the mask has ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieClass {
    /// The value.
    pub value: u64,
    /// Which bits count.
    pub mask: u64,
}

/// What is ours. Whatever is not is left alone.
#[derive(Debug, Clone)]
pub struct Ownership {
    /// Our flows.
    pub cookies: CookieClass,
    /// Flows that our flows learned; they come and go by themselves. May be part of `cookies`.
    pub learned: Option<CookieClass>,
    /// Our groups.
    pub groups: RangeInclusive<u32>,
    /// Our meters.
    pub meters: RangeInclusive<u32>,
    /// Our `tun_metadata` fields.
    pub tun_metadata: RangeInclusive<u16>,
}

/// Whose a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Ours,
    Learned,
    Foreign,
}

// === impl CookieClass ===

impl CookieClass {
    /// Whether the cookie is in it.
    pub fn holds(self, cookie: u64) -> bool {
        cookie & self.mask == self.value & self.mask
    }
}

impl fmt::Display for CookieClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}/{:#x}", self.value, self.mask)
    }
}

// === impl Ownership ===

impl Ownership {
    /// Whose a flow of this cookie is.
    pub(super) fn origin(&self, cookie: u64) -> Origin {
        if self.learned.is_some_and(|class| class.holds(cookie)) {
            Origin::Learned
        } else if self.cookies.holds(cookie) {
            Origin::Ours
        } else {
            Origin::Foreign
        }
    }

    /// Whether all of a plan would be ours.
    pub fn check(&self, owner: &Owner, plan: &Plan) -> Result<(), PutError> {
        for flow in &plan.flows {
            if self.origin(flow.cookie) != Origin::Ours {
                let (owner, text) = (owner.clone(), flow.to_string());
                let (cookie, class) = (flow.cookie, self.cookies);
                return Err(PutError::ForeignCookie { owner, text, cookie, class });
            }
        }
        let groups = plan.groups.iter().map(|group| group.id);
        check_ids(owner, "group", groups, &self.groups)?;
        let meters = plan.meters.iter().map(|meter| meter.id);
        check_ids(owner, "meter", meters, &self.meters)?;
        let fields = plan.tlvs.iter().map(|map| map.index.into());
        let range = (*self.tun_metadata.start()).into()..=(*self.tun_metadata.end()).into();
        check_ids(owner, "tun_metadata", fields, &range)
    }
}

fn check_ids(
    owner: &Owner,
    what: &'static str,
    mut ids: impl Iterator<Item = u32>,
    range: &RangeInclusive<u32>,
) -> Result<(), PutError> {
    match ids.find(|id| !range.contains(id)) {
        None => Ok(()),
        Some(id) => {
            Err(PutError::OutOfRange { owner: owner.clone(), what, id, range: range.clone() })
        }
    }
}
