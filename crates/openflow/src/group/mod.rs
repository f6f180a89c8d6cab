//! Groups: one destination that stands for several, in the form in which switches read them back.
//!
//! A bucket's weight is written for select groups alone and is 1 elsewhere; a bucket that watches
//! nothing says so by `None`. So equal groups are equal values.

mod bucket;
mod selection;
mod stats;

pub use bucket::Bucket;
pub use selection::{SelectField, Selection};
pub use stats::{BucketStats, GroupCapabilities, GroupFeatures, GroupStats};

use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// "All groups", in requests that delete or read.
pub const ALL_GROUPS: u32 = 0xffff_fffc;
/// The first bucket, in [`GroupMod::bucket`].
pub const BUCKET_FIRST: u32 = 0xffff_fffd;
/// The last bucket, in [`GroupMod::bucket`].
pub const BUCKET_LAST: u32 = 0xffff_fffe;
/// All buckets, in [`GroupMod::bucket`].
pub const BUCKET_ALL: u32 = 0xffff_ffff;
/// The largest id of a bucket.
pub const BUCKET_MAX: u32 = 0xffff_ff00;

/// Which buckets of a group see a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum GroupType {
    /// Each one.
    #[default]
    All,
    /// One, by hash and weight.
    Select,
    /// The only one.
    Indirect,
    /// The first one whose port or group is live.
    FastFailover,
}

/// A group as it is wanted, and as a switch describes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Group {
    /// Its number.
    pub id: u32,
    /// Which of its buckets see a packet.
    pub kind: GroupType,
    /// How a select group selects; the switch's own way if `None`.
    pub selection: Option<Selection>,
    /// What is done with the packets.
    pub buckets: Vec<Bucket>,
}

/// What to do with the groups of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupCommand {
    /// Add it; an error if it is there.
    Add,
    /// Replace it; an error if it is not there.
    Modify,
    /// Add or replace it (Open vSwitch's).
    AddOrModify,
    /// Delete it, or all of [`ALL_GROUPS`].
    Delete,
    /// Insert the buckets at a place.
    InsertBucket,
    /// Remove one bucket, or all.
    RemoveBucket,
}

/// A change of a group.
///
/// ```text
///  8         10     11   12         16             18   20
/// +---------+------+----+----------+--------------+----+---------------+
/// | command | type | 0  | group id | buckets' len | 0  | place: bucket |   struct ofp_group_mod,
/// +---------+------+----+----------+--------------+----+---------------+   7.3.4.3
/// | buckets … | properties …
/// +-----------+-------------
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupCommand,
    /// The group. For [`GroupCommand::InsertBucket`] its buckets are those to insert, and its
    /// type must be the switch's: buckets for another type come without a weight, which Open
    /// vSwitch takes as 0.
    pub group: Group,
    /// Insert behind this bucket, or [`BUCKET_FIRST`] or [`BUCKET_LAST`]; remove this bucket, or
    /// [`BUCKET_ALL`]. Other commands do not look at it.
    pub bucket: u32,
}

// === impl GroupType ===

impl GroupType {
    fn read(what: &'static str, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        Ok(match r.u8(what)? {
            0 => Self::All,
            1 => Self::Select,
            2 => Self::Indirect,
            3 => Self::FastFailover,
            other => return Err(start.error(what, Problem::Unknown(other.into()))),
        })
    }
}

// === impl GroupCommand ===

const COMMANDS: [(GroupCommand, u16); 6] = [
    (GroupCommand::Add, 0),
    (GroupCommand::Modify, 1),
    (GroupCommand::Delete, 2),
    (GroupCommand::InsertBucket, 3),
    (GroupCommand::RemoveBucket, 5),
    (GroupCommand::AddOrModify, 0x8000),
];

impl GroupCommand {
    fn code(self) -> u16 {
        COMMANDS.iter().find(|(command, _)| *command == self).map_or(0, |(_, code)| *code)
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "group_mod command";
        let start = r.clone();
        let code = r.u16(WHAT)?;
        let command = COMMANDS.iter().find(|(_, c)| *c == code).map(|(command, _)| *command);
        command.ok_or_else(|| start.error(WHAT, Problem::Unknown(code.into())))
    }
}

// === impl Group ===

impl Group {
    /// The part that a change and a description share.
    fn put_buckets(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.buckets.iter().try_for_each(|bucket| bucket.encode(self.kind, w))
    }

    fn put_properties(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.selection.as_ref().map_or(Ok(()), |selection| selection.encode(w))
    }

    fn read_tail(
        what: &'static str,
        id: u32,
        kind: GroupType,
        buckets_len: usize,
        r: &mut Reader<'_>,
    ) -> Result<Self, DecodeError> {
        let mut list = r.sub(what, buckets_len)?;
        let mut buckets = Vec::new();
        while !list.is_empty() {
            buckets.push(Bucket::decode(kind, &mut list)?);
        }
        Ok(Self { id, kind, selection: Selection::decode_properties(r)?, buckets })
    }

    /// Writes one entry of a group description.
    ///
    /// ```text
    ///  0     2      3    4          8              10   16
    /// +-----+------+----+----------+--------------+----+-----------+--------------+
    /// | len | type | 0  | group id | buckets' len | 0  | buckets … | properties … |
    /// +-----+------+----+----------+--------------+----+-----------+--------------+
    ///                                                struct ofp_group_desc, 7.3.5.11
    /// ```
    pub fn encode_desc(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.u16(0);
        w.u8(self.kind as u8);
        w.zeros(1);
        w.u32(self.id);
        w.zeros(8);
        let buckets = w.len();
        self.put_buckets(w)?;
        w.patch_len("buckets", buckets, start + 8)?;
        self.put_properties(w)?;
        w.patch_len("group_desc", start, start)
    }

    /// Reads one entry of a group description.
    pub fn decode_desc(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "group_desc";
        let mut r = r.sized(WHAT, 0, 16)?;
        r.skip(WHAT, 2)?;
        let kind = GroupType::read(WHAT, &mut r)?;
        r.skip(WHAT, 1)?;
        let id = r.u32(WHAT)?;
        let buckets_len = usize::from(r.u16(WHAT)?);
        r.skip(WHAT, 6)?;
        Self::read_tail(WHAT, id, kind, buckets_len, &mut r)
    }
}

// === impl GroupMod ===

impl GroupMod {
    /// A change of the whole group.
    pub fn new(command: GroupCommand, group: Group) -> Self {
        Self { command, group, bucket: BUCKET_ALL }
    }

    /// Adds or replaces a group.
    pub fn set(group: Group) -> Self {
        Self::new(GroupCommand::AddOrModify, group)
    }

    /// Deletes a group.
    pub fn delete(id: u32) -> Self {
        Self::new(GroupCommand::Delete, Group { id, ..Group::default() })
    }

    /// Writes the body of the message.
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u16(self.command.code());
        w.u8(self.group.kind as u8);
        w.zeros(1);
        w.u32(self.group.id);
        let at = w.len();
        w.zeros(4);
        w.u32(self.bucket);
        let buckets = w.len();
        self.group.put_buckets(w)?;
        w.patch_len("buckets", buckets, at)?;
        self.group.put_properties(w)
    }

    /// Reads the body of the message.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "group_mod";
        let command = GroupCommand::read(r)?;
        let kind = GroupType::read(WHAT, r)?;
        r.skip(WHAT, 1)?;
        let id = r.u32(WHAT)?;
        let buckets_len = usize::from(r.u16(WHAT)?);
        r.skip(WHAT, 2)?;
        let bucket = r.u32(WHAT)?;
        let group = Group::read_tail(WHAT, id, kind, buckets_len, r)?;
        Ok(Self { command, group, bucket })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;

    #[test]
    fn a_group_past_64_kib_is_an_error_and_not_cut() {
        let bucket = |id| Bucket { id, ..Bucket::from(vec![Action::output(1)]) };
        let buckets = (0..3000).map(bucket).collect();
        let group = Group { id: 1, kind: GroupType::Select, buckets, ..Group::default() };
        let e = GroupMod::set(group).encode(&mut Writer::new()).unwrap_err();
        assert_eq!(
            e.to_string(),
            "buckets takes 96000 bytes, but its length field holds at most 65535"
        );
    }

    #[test]
    fn only_select_groups_weigh() {
        let buckets = vec![Bucket { weight: 5, ..Bucket::from(vec![Action::output(1)]) }];
        let group = Group { id: 1, buckets, ..Group::default() };
        assert!(GroupMod::set(group).encode(&mut Writer::new()).is_err());
    }

    #[test]
    fn an_id_that_no_bucket_can_have_is_refused() {
        let bucket = [0, 8, 0, 0, 0xff, 0xff, 0xff, 0xff];
        let e = Bucket::decode(GroupType::All, &mut Reader::new(&bucket)).unwrap_err();
        let said = "bucket at byte 0: value 0xffffffff, expected the id of one bucket";
        assert_eq!(e.to_string(), said);
    }
}
