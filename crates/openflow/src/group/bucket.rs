//! Buckets of groups.

use super::{BUCKET_MAX, GroupType};
use crate::action::{Action, decode_list, encode_list};
use crate::flow::ANY_GROUP;
use crate::port_no::PortNo;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// One of the things that a group can do with a packet.
///
/// ```text
///  0     2             4           8
/// +-----+-------------+-----------+-----------+--------------+
/// | len | actions len | bucket id | actions … | properties … |   struct ofp_bucket, 7.3.4.3
/// +-----+-------------+-----------+-----------+--------------+
/// properties: 0 weight 16, pad 16;  1 watch port 32;  2 watch group 32
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Its number within the group.
    pub id: u32,
    /// Its share of the packets, in select groups; 1 elsewhere.
    pub weight: u16,
    /// It is live if this port is, in fast failover groups.
    pub watch_port: Option<PortNo>,
    /// It is live if this group has a live bucket, in fast failover groups.
    pub watch_group: Option<u32>,
    /// What it does.
    pub actions: Vec<Action>,
}

mod property {
    pub(super) const WEIGHT: u16 = 0;
    pub(super) const WATCH_PORT: u16 = 1;
    pub(super) const WATCH_GROUP: u16 = 2;
}

/// What a bucket of a select group weighs that does not say.
const DEFAULT_WEIGHT: u16 = 1;

impl Default for Bucket {
    fn default() -> Self {
        let actions = Vec::new();
        Self { id: 0, weight: DEFAULT_WEIGHT, watch_port: None, watch_group: None, actions }
    }
}

impl From<Vec<Action>> for Bucket {
    fn from(actions: Vec<Action>) -> Self {
        Self { actions, ..Self::default() }
    }
}

// === impl Bucket ===

impl Bucket {
    pub(super) fn encode(&self, group: GroupType, w: &mut Writer) -> Result<(), EncodeError> {
        if self.id > BUCKET_MAX {
            let (what, value, max) = ("bucket id", self.id.into(), BUCKET_MAX.into());
            return Err(EncodeError::Range { what, value, max });
        }
        let start = w.len();
        w.zeros(4);
        w.u32(self.id);
        let actions = w.len();
        encode_list(&self.actions, w)?;
        w.patch_len("bucket's actions", actions, start + 2)?;
        if group == GroupType::Select {
            w.u16(property::WEIGHT);
            w.u16(8);
            w.u16(self.weight);
            w.zeros(2);
        } else if self.weight != DEFAULT_WEIGHT {
            let why = "only select groups weigh their buckets";
            return Err(EncodeError::Inexpressible { what: "bucket", why });
        }
        let watched = [
            (property::WATCH_PORT, self.watch_port.map(|port| port.0)),
            (property::WATCH_GROUP, self.watch_group),
        ];
        for (kind, watched) in watched {
            if let Some(watched) = watched {
                w.u16(kind);
                w.u16(8);
                w.u32(watched);
            }
        }
        w.patch_len("bucket", start, start)
    }

    /// Properties that we do not know are left out.
    pub(super) fn decode(group: GroupType, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "bucket";
        let mut r = r.sized(WHAT, 0, 8)?;
        let start = r.clone();
        r.skip(WHAT, 2)?;
        let actions_len = usize::from(r.u16(WHAT)?);
        let id = r.u32(WHAT)?;
        if id > BUCKET_MAX {
            let problem = Problem::Value { found: id.into(), expected: "the id of one bucket" };
            return Err(start.error(WHAT, problem));
        }
        let actions = decode_list(r.sub(WHAT, actions_len)?)?;
        let mut bucket = Self { id, actions, ..Self::default() };
        while !r.is_empty() {
            let (kind, mut body) = r.tlv(WHAT)?;
            match kind {
                property::WEIGHT if group == GroupType::Select => bucket.weight = body.u16(WHAT)?,
                property::WATCH_PORT => {
                    let port = PortNo(body.u32(WHAT)?);
                    bucket.watch_port = Some(port).filter(|port| *port != PortNo::ANY);
                }
                property::WATCH_GROUP => {
                    let group = body.u32(WHAT)?;
                    bucket.watch_group = Some(group).filter(|group| *group != ANY_GROUP);
                }
                _ => {}
            }
        }
        Ok(bucket)
    }
}
