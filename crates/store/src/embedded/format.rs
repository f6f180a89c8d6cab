//! The file's layout, format 1.
//!
//! Three tables of a redb file. Numbers in records are little endian.
//!
//! - `meta`: name → number: `format`, `epoch`, `revision`, `floor` (changes after it are kept),
//!   `history-bytes`, `inode` (of the file, to notice a copy), `backup` (1: a copy made by us).
//! - `objects`: key → created u64, modified u64, the value.
//! - `history`: revision → events, each: key length u16, key, entry before, entry now; an entry is
//!   0, or 1, created u64, modified u64, value length u32, the value.

use crate::change::{Changes, Entry, Event};
use crate::key::Key;
use crate::position::{Epoch, Position, Revision};
use bytes::Bytes;
use redb::{ReadableTable, TableDefinition};

/// The format that this version writes, and the newest that it reads.
pub(super) const FORMAT: u64 = 1;

pub(super) const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
pub(super) const OBJECTS: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("objects");
pub(super) const HISTORY: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("history");

/// What stands in `meta`, less the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) position: Position,
    pub(super) floor: Revision,
    pub(super) history_bytes: u64,
    pub(super) inode: u64,
    pub(super) backup: bool,
}

// === impl Meta ===

impl Meta {
    pub(super) fn read(
        table: &impl ReadableTable<&'static str, u64>,
    ) -> Result<Self, redb::StorageError> {
        let number = |name: &str| {
            let found = table.get(name)?.map(|guard| guard.value());
            found.ok_or_else(|| redb::StorageError::Corrupted(format!("meta lacks {name}")))
        };
        Ok(Self {
            position: Position {
                epoch: Epoch(number("epoch")?),
                revision: Revision(number("revision")?),
            },
            floor: Revision(number("floor")?),
            history_bytes: number("history-bytes")?,
            inode: number("inode")?,
            backup: number("backup")? != 0,
        })
    }

    pub(super) fn write(
        &self,
        table: &mut redb::Table<'_, &'static str, u64>,
    ) -> Result<(), redb::StorageError> {
        let numbers = [
            ("epoch", self.position.epoch.0),
            ("revision", self.position.revision.0),
            ("floor", self.floor.0),
            ("history-bytes", self.history_bytes),
            ("inode", self.inode),
            ("backup", self.backup.into()),
        ];
        for (name, number) in numbers {
            table.insert(name, number)?;
        }
        Ok(())
    }
}

pub(super) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut record = Vec::with_capacity(16 + entry.value.len());
    record.extend(entry.created.0.to_le_bytes());
    record.extend(entry.modified.0.to_le_bytes());
    record.extend(&entry.value);
    record
}

pub(super) fn decode_entry(record: &[u8]) -> Result<Entry, redb::StorageError> {
    let mut reader = Reader { rest: record };
    let (created, modified) = (Revision(reader.u64()?), Revision(reader.u64()?));
    Ok(Entry { value: Bytes::copy_from_slice(reader.rest), created, modified })
}

pub(super) fn decode_key(key: &str) -> Result<Key, redb::StorageError> {
    Key::new(key).map_err(|e| redb::StorageError::Corrupted(e.to_string()))
}

pub(super) fn encode_events(events: &[Event]) -> Vec<u8> {
    let mut record = Vec::with_capacity(events.iter().map(|e| e.size() + 32).sum());
    for event in events {
        let key = event.key.as_str();
        // A key has 1,024 bytes at most, a value 1 MiB.
        record.extend(u16::try_from(key.len()).unwrap_or(u16::MAX).to_le_bytes());
        record.extend(key.as_bytes());
        for entry in [&event.before, &event.now] {
            record.push(entry.is_some().into());
            let Some(entry) = entry else { continue };
            record.extend(entry.created.0.to_le_bytes());
            record.extend(entry.modified.0.to_le_bytes());
            record.extend(u32::try_from(entry.value.len()).unwrap_or(u32::MAX).to_le_bytes());
            record.extend(&entry.value);
        }
    }
    record
}

pub(super) fn decode_changes(
    position: Position,
    record: &[u8],
) -> Result<Changes, redb::StorageError> {
    let mut reader = Reader { rest: record };
    let mut events = Vec::new();
    while !reader.rest.is_empty() {
        let length = u16::from_le_bytes(reader.array()?);
        let key = std::str::from_utf8(reader.take(length.into())?)
            .map_err(|_| redb::StorageError::Corrupted("a key is not text".into()))?;
        let key = decode_key(key)?;
        let (before, now) = (reader.entry()?, reader.entry()?);
        events.push(Event { key, before, now });
    }
    Ok(Changes { position, events: events.into() })
}

struct Reader<'a> {
    rest: &'a [u8],
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], redb::StorageError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| {
            let found = self.rest.len();
            redb::StorageError::Corrupted(format!("a record ends {found} bytes into {length}"))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], redb::StorageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u64(&mut self) -> Result<u64, redb::StorageError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn entry(&mut self) -> Result<Option<Entry>, redb::StorageError> {
        if self.array()? == [0] {
            return Ok(None);
        }
        let (created, modified) = (Revision(self.u64()?), Revision(self.u64()?));
        let length = u32::from_le_bytes(self.array()?) as usize;
        let value = Bytes::copy_from_slice(self.take(length)?);
        Ok(Some(Entry { value, created, modified }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &'static [u8], created: u64, modified: u64) -> Entry {
        let (created, modified) = (Revision(created), Revision(modified));
        Entry { value: Bytes::from_static(value), created, modified }
    }

    #[test]
    fn records_are_what_they_were_and_cut_ones_are_refused() {
        let position = Position { epoch: Epoch(7), revision: Revision(9) };
        let events = [
            Event { key: Key::new("a").unwrap(), before: None, now: Some(entry(b"{}", 9, 9)) },
            Event { key: Key::new("é").unwrap(), before: Some(entry(b"", 1, 2)), now: None },
        ];
        let record = encode_events(&events);
        assert_eq!(&*decode_changes(position, &record).unwrap().events, events);
        let whole = [0, record.len() - (2 + 2 + 1 + 20 + 1), record.len()];
        for cut in 0..=record.len() {
            let decoded = decode_changes(position, &record[..cut]);
            assert_eq!(decoded.is_ok(), whole.contains(&cut), "{cut} bytes");
        }
        let one = entry(b"[1]", 3, 4);
        assert_eq!(decode_entry(&encode_entry(&one)).unwrap(), one);
        assert!(decode_entry(&[0; 15]).is_err());
    }
}
