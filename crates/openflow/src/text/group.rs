//! Groups and changes of groups as text.

use super::action_parse::parse_list;
use super::action_print::write_list;
use super::token::{Item, Items, ParseError};
use super::value::{self, bounded, parse_port};
use super::{Commas, TableNames, WriteText};
use crate::field::{Field, Value};
use crate::group::{
    ALL_GROUPS, BUCKET_ALL, BUCKET_FIRST, BUCKET_LAST, Bucket, Group, GroupCommand, GroupMod,
    GroupType, SelectField, Selection,
};
use std::fmt;

super::display_as_text!(Group, GroupMod);

const TYPES: [(GroupType, &str); 4] = [
    (GroupType::All, "all"),
    (GroupType::Select, "select"),
    (GroupType::Indirect, "indirect"),
    (GroupType::FastFailover, "ff"),
];
const COMMANDS: [(GroupCommand, &str); 6] = [
    (GroupCommand::Add, "ADD"),
    (GroupCommand::Modify, "MOD"),
    (GroupCommand::AddOrModify, "ADD_OR_MOD"),
    (GroupCommand::Delete, "DEL"),
    (GroupCommand::InsertBucket, "INSERT_BUCKET"),
    (GroupCommand::RemoveBucket, "REMOVE_BUCKET"),
];
const PLACES: [(u32, &str); 3] =
    [(BUCKET_FIRST, "first"), (BUCKET_LAST, "last"), (BUCKET_ALL, "all")];

/// The second of the pair whose first is `key`.
fn name_of<K: PartialEq>(names: &[(K, &'static str)], key: &K) -> Option<&'static str> {
    names.iter().find(|(k, _)| k == key).map(|(_, name)| *name)
}

/// As `ovs-ofctl dump-groups` prints it.
impl WriteText for Group {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        write!(out, "group_id={}", self.id)?;
        write!(out, ",type={}", name_of(&TYPES, &self.kind).unwrap_or("all"))?;
        if let Some(selection) = &self.selection {
            write_selection(out, selection)?;
        }
        write_buckets(out, &self.buckets, names)
    }
}

/// As `ovs-ofctl ofp-print` prints it, behind the header.
impl WriteText for GroupMod {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        write!(out, "{} ", name_of(&COMMANDS, &self.command).unwrap_or("ADD"))?;
        if !matches!(self.command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket) {
            return self.group.write_text(out, names);
        }
        out.write_str("command_bucket_id:")?;
        match name_of(&PLACES, &self.bucket) {
            Some(place) => out.write_str(place)?,
            None => write!(out, "{}", self.bucket)?,
        }
        write!(out, ",group_id={}", self.group.id)?;
        write_buckets(out, &self.group.buckets, names)
    }
}

fn write_selection(out: &mut dyn fmt::Write, selection: &Selection) -> fmt::Result {
    write!(out, ",selection_method={}", selection.method)?;
    if selection.param != 0 {
        write!(out, ",selection_method_param={}", selection.param)?;
    }
    match selection.fields.as_slice() {
        [] => Ok(()),
        [one] => {
            out.write_str(",fields=")?;
            write_select_field(out, one)
        }
        several => {
            out.write_str(",fields(")?;
            let mut commas = Commas::new();
            for field in several {
                commas.next(out)?;
                write_select_field(out, field)?;
            }
            out.write_char(')')
        }
    }
}

fn write_select_field(out: &mut dyn fmt::Write, select: &SelectField) -> fmt::Result {
    out.write_str(select.field.name())?;
    if select.mask.to_u128() == select.field.valid_bits() {
        return Ok(());
    }
    out.write_char('=')?;
    value::write(out, select.field, select.mask.as_bytes(), None)
}

fn write_buckets(out: &mut dyn fmt::Write, buckets: &[Bucket], names: &TableNames) -> fmt::Result {
    for bucket in buckets {
        write!(out, ",bucket=bucket_id:{},", bucket.id)?;
        if bucket.weight != 1 {
            write!(out, "weight:{},", bucket.weight)?;
        }
        if let Some(port) = bucket.watch_port {
            write!(out, "watch_port:{port},")?;
        }
        if let Some(group) = bucket.watch_group {
            write!(out, "watch_group:{group},")?;
        }
        out.write_str("actions=")?;
        write_list(&bucket.actions, out, names)?;
    }
    Ok(())
}

// === reading ===

impl Group {
    /// Reads a group as `ovs-ofctl add-group` does.
    pub fn parse(text: &str, names: &TableNames) -> Result<Self, ParseError> {
        GroupMod::parse(GroupCommand::Add, text, names).map(|m| m.group)
    }
}

impl std::str::FromStr for Group {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text, TableNames::NONE)
    }
}

impl GroupMod {
    /// Reads a group, or what to do to one, as `ovs-ofctl`'s commands take it.
    pub fn parse(
        command: GroupCommand,
        text: &str,
        names: &TableNames,
    ) -> Result<Self, ParseError> {
        let (head, buckets) = split_buckets(text);
        let mut m = Self { command, group: Group::default(), bucket: BUCKET_ALL };
        let (mut id, mut kind) = (None, None);
        for item in Items::new(head).all()? {
            match item.key {
                "group_id" if item.value == "all" => id = Some(ALL_GROUPS),
                "group_id" => id = Some(bounded("group_id", item.value)?),
                "type" => kind = Some(parse_type(item.value)?),
                "command_bucket_id" => {
                    let place = PLACES.iter().find(|(_, name)| *name == item.value);
                    m.bucket = match place {
                        Some((place, _)) => *place,
                        None => bounded(item.key, item.value)?,
                    };
                }
                _ => take_selection(&mut m.group.selection, item)?,
            }
        }
        m.group.id = id.ok_or_else(|| ParseError::new("a group needs group_id="))?;
        let needs_type =
            matches!(command, GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify);
        m.group.kind = match kind {
            None if needs_type => return Err(ParseError::new("a group needs type=")),
            kind => kind.unwrap_or_default(),
        };
        for (i, text) in buckets.enumerate() {
            m.group.buckets.push(parse_bucket(i, text, names)?);
        }
        Ok(m)
    }
}

/// What stands before the first `bucket=`, and the buckets.
fn split_buckets(text: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = text.split(",bucket=").flat_map(|part| part.split(" bucket="));
    (parts.next().unwrap_or(""), parts)
}

fn parse_type(text: &str) -> Result<GroupType, ParseError> {
    let text = if text == "fast_failover" { "ff" } else { text };
    let found = TYPES.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind);
    found.ok_or_else(|| {
        ParseError::new(format!("type={text}: a group is all, select, indirect or ff"))
    })
}

fn take_selection(selection: &mut Option<Selection>, item: Item<'_>) -> Result<(), ParseError> {
    let s = selection.get_or_insert_default();
    match item.key {
        "selection_method" => item.value.clone_into(&mut s.method),
        "selection_method_param" => s.param = bounded(item.key, item.value)?,
        "fields" => {
            for field in Items::new(item.value).all()? {
                s.fields.push(parse_select_field(field)?);
            }
            s.fields.sort_by_key(|f| f.field);
        }
        key => return Err(ParseError::new(format!("a group has no {key:?}"))),
    }
    Ok(())
}

fn parse_select_field(item: Item<'_>) -> Result<SelectField, ParseError> {
    let field = Field::by_name(item.key)
        .ok_or_else(|| ParseError::new(format!("there is no field {:?}", item.key)))?;
    let mask = match item.value {
        "" => Value::from_u128(field.valid_bits(), field.bytes()),
        text => value::parse(field, text)?.0,
    };
    Ok(SelectField { field, mask })
}

fn parse_bucket(index: usize, text: &str, names: &TableNames) -> Result<Bucket, ParseError> {
    let index = u32::try_from(index).map_err(|_| ParseError::new("too many buckets"))?;
    let mut bucket = Bucket { id: index, ..Bucket::default() };
    let mut items = Items::new(text);
    loop {
        let rest = items.rest().trim_start_matches([',', ' ', '\t', '\r', '\n']);
        if let Some(actions) =
            rest.strip_prefix("actions=").or_else(|| rest.strip_prefix("action="))
        {
            bucket.actions = parse_list(actions, names, 0)?;
            break;
        }
        let before = items.clone();
        let Some(item) = items.next()? else { break };
        match item.key {
            "bucket_id" => bucket.id = bounded(item.key, item.value)?,
            "weight" => bucket.weight = bounded(item.key, item.value)?,
            "watch_port" => bucket.watch_port = Some(parse_port(item.value)?),
            "watch_group" => bucket.watch_group = Some(bounded(item.key, item.value)?),
            _ => {
                bucket.actions = parse_list(before.rest(), names, 0)?;
                break;
            }
        }
    }
    Ok(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_without_a_value_are_an_error() {
        // Found by fuzzing: panicked.
        for text in ["actions", "action", "actions()", "actionsactions=output:1"] {
            let group = format!("group_id=1,type=all,bucket={text}");
            assert!(group.parse::<Group>().is_err(), "{group}");
        }
        let empty: Group = "group_id=1,type=all,bucket=actions=".parse().unwrap();
        assert_eq!(empty.buckets.len(), 1);
    }
}
