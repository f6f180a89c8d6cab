//! The switch's own row: settings in it, the bridges it holds, its counter of configurations.

use super::{Build, Obstacle};
use crate::rows::ownership::{external_id, text};
use crate::rows::plan::SettingColumn;
use crate::rows::wants::RowDiff;
use osier_ovsdb::op::Mutator;
use osier_ovsdb::{Atom, Condition, Fields, Mutation, Operation, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Changes of the switch's own row.
#[derive(Default)]
pub(super) struct Settings {
    new: BTreeMap<SettingColumn, Vec<(Atom, Atom)>>,
    gone: BTreeMap<SettingColumn, Vec<Atom>>,
    record: Option<BTreeSet<String>>,
}

impl Build<'_> {
    pub(super) fn put_setting(
        &mut self,
        column: SettingColumn,
        key: &Arc<str>,
        value: &Atom,
    ) -> Result<(), Obstacle> {
        let atom = Atom::from(&**key);
        let root = self.mirror.root.as_deref();
        let held = root.and_then(|root| root.get(column.as_str())?.get(&atom));
        if held == Some(value) {
            return Ok(());
        }
        if let (Some(root), Some(held)) = (root, held)
            && !self.record().contains(&record_name(column, key))
        {
            let found = text(held).unwrap_or_default().to_owned();
            return Err(Obstacle::Taken { found, row: root.uuid() });
        }
        if held.is_some() {
            self.settings.gone.entry(column).or_default().push(atom.clone());
        }
        self.settings.new.entry(column).or_default().push((atom, value.clone()));
        self.record().insert(record_name(column, key));
        self.effects.updated += 1;
        Ok(())
    }

    pub(super) fn remove_setting(&mut self, column: SettingColumn, key: &Arc<str>) {
        if self.record().remove(&record_name(column, key)) {
            self.settings.gone.entry(column).or_default().push(Atom::from(&**key));
            self.effects.updated += 1;
        }
    }

    /// The settings that are ours.
    fn record(&mut self) -> &mut BTreeSet<String> {
        let root = self.mirror.root.as_deref();
        let held = root.map(|root| self.ownership.recorded(root)).unwrap_or_default();
        let held = || held.split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        self.settings.record.get_or_insert_with(held)
    }

    /// Changes the switch's own row, always: its counter of configurations goes up.
    pub(super) fn change_root(&mut self, new_bridges: Vec<Atom>) {
        let settings = std::mem::take(&mut self.settings);
        let record_key = self.ownership.names.record.clone();
        let mut new = settings.new;
        let mut gone = settings.gone;
        let root = self.mirror.root.as_deref();
        if let Some(record) = settings.record {
            let held = root.and_then(|root| external_id(root, &record_key)).unwrap_or_default();
            let wanted = record.into_iter().collect::<Vec<_>>().join(" ");
            if wanted != held {
                gone.entry(SettingColumn::ExternalIds).or_default().push(record_key.clone());
                if !wanted.is_empty() {
                    let pair = (record_key, wanted.into());
                    new.entry(SettingColumn::ExternalIds).or_default().push(pair);
                }
            }
        }
        let Some(root) = root else {
            let mut row: Fields = vec![("next_cfg".into(), 1.into())];
            row.push(("bridges".into(), Value::set(new_bridges)));
            let maps = new.into_iter();
            row.extend(maps.map(|(column, pairs)| (column.as_str().into(), Value::map(pairs))));
            self.push(Operation::Insert {
                table: "Open_vSwitch".into(),
                row,
                name: None,
                uuid: None,
            });
            return;
        };
        let mut diff = RowDiff::default();
        if !new_bridges.is_empty() {
            diff.mutations.push(Mutation::insert("bridges", Value::set(new_bridges)));
        }
        if !self.gone_bridges.is_empty() {
            let gone = self.gone_bridges.iter().map(|bridge| Atom::Uuid(*bridge));
            diff.mutations.push(Mutation::delete("bridges", Value::set(gone)));
        }
        for column in [SettingColumn::OtherConfig, SettingColumn::ExternalIds] {
            let (new, gone) = (new.remove(&column), gone.remove(&column));
            let name = column.as_str();
            diff.change_map(
                name,
                root.get(name),
                gone.unwrap_or_default(),
                new.unwrap_or_default(),
            );
        }
        let (column, value) = ("next_cfg".into(), 1.into());
        diff.mutations.push(Mutation { column, mutator: Mutator::Add, value });
        let conditions = vec![Condition::uuid(root.uuid())];
        let mutations = diff.mutations;
        self.push(Operation::Mutate { table: "Open_vSwitch".into(), conditions, mutations });
    }
}

fn record_name(column: SettingColumn, key: &str) -> String {
    format!("{}:{key}", column.as_str())
}
