//! The operations for a port and all that hangs on it: interfaces, QoS and queues.

use super::{Build, Obstacle, foreign};
use crate::rows::item::{Key, PortItem, QosItem};
use crate::rows::mirror::{has, references};
use crate::rows::ownership::string;
use crate::rows::wants::Wants;
use osier_ovsdb::{Atom, Row, Uuid, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Build<'_> {
    /// Makes a port as wanted. What is in the way is found before anything is done.
    pub(super) fn put_port(&mut self, name: &Arc<str>, port: &PortItem) -> Result<(), Obstacle> {
        let mirror = self.mirror;
        let row = mirror.ports.named(name);
        if let Some(row) = row.filter(|row| !mirror.is_ours(row)) {
            return Err(foreign("Port", name, row));
        }
        for (interface, _) in &port.interfaces {
            if let Some(held) = mirror.interfaces.named(interface)
                && !mirror.is_ours(mirror.holder(held.uuid()).unwrap_or(held))
            {
                return Err(foreign("Interface", interface, held));
            }
        }
        if !self.has_bridge(&port.bridge) {
            return Err(Obstacle::NoBridge(port.bridge.to_string()));
        }
        let interfaces = port.interfaces.iter().map(|(interface, wants)| {
            self.put_interface(interface, wants, row.map(|row| row.uuid()))
        });
        let interfaces = Value::set(interfaces.collect::<Vec<_>>());
        let qos = self.put_qos(name, row.map(|row| &**row), port.qos.as_ref());
        if let Some(row) = row {
            self.update_port(row, port, interfaces, qos);
            return Ok(());
        }
        let mut fields = port.wants.fields();
        fields.push(("name".into(), (&**name).into()));
        fields.push(("interfaces".into(), interfaces));
        fields.extend(qos.map(|qos| ("qos".into(), qos)));
        let inserted = self.insert("Port", fields);
        self.attach(&port.bridge, inserted);
        Ok(())
    }

    fn update_port(&mut self, row: &Row, port: &PortItem, interfaces: Value, qos: Option<Value>) {
        let mut diff = port.wants.diff(row, self.ownership);
        if row.get("interfaces") != Some(&interfaces) {
            diff.update.push(("interfaces".into(), interfaces));
        }
        if let Some(qos) = qos.filter(|qos| row.get("qos") != Some(qos)) {
            diff.update.push(("qos".into(), qos));
        }
        self.update(row, diff);
        self.detach(row.uuid(), Some(&port.bridge));
        let uuid = Atom::Uuid(row.uuid());
        let bridge = self.mirror.bridges.named(&port.bridge);
        if !bridge.is_some_and(|bridge| has(bridge, "ports", &uuid)) {
            self.attach(&port.bridge, uuid);
        }
    }

    /// Makes an interface as wanted, and takes it from another port of ours that has it.
    fn put_interface(&mut self, name: &Arc<str>, wants: &Wants, port: Option<Uuid>) -> Atom {
        let mirror = self.mirror;
        let Some(row) = mirror.interfaces.named(name) else {
            let mut fields = wants.fields();
            fields.push(("name".into(), (&**name).into()));
            return self.insert("Interface", fields);
        };
        self.update(row, wants.diff(row, self.ownership));
        // A wanted port lets go of it by itself; a port that nobody wants goes now, as a whole.
        if let Some(holder) = mirror.holder(row.uuid()).filter(|held| Some(held.uuid()) != port)
            && !string(holder, "name").is_some_and(|name| self.is_wanted(&Key::Port(name.into())))
        {
            self.detach(holder.uuid(), None);
        }
        Atom::Uuid(row.uuid())
    }

    /// Takes a port away, with its QoS and queues. Interfaces go by themselves.
    pub(super) fn remove_port(&mut self, name: &Arc<str>) {
        let mirror = self.mirror;
        if let Some(row) = mirror.ports.named(name).filter(|row| mirror.is_ours(row)) {
            self.detach(row.uuid(), None);
        }
        self.delete_tagged(name, &BTreeSet::new());
    }

    /// Makes a port's QoS as wanted; gives what the port's column must be, if that is ours to say.
    fn put_qos(&mut self, name: &str, port: Option<&Row>, qos: Option<&QosItem>) -> Option<Value> {
        let mirror = self.mirror;
        let tagged = mirror.tagged(name);
        let held = port.and_then(|port| references(port, "qos").next());
        let ours = held.filter(|held| tagged.qos.contains(held));
        let Some(qos) = qos else {
            self.delete_tagged(name, &BTreeSet::new());
            return ours.map(|_| Value::empty_set());
        };
        let row = ours.or(tagged.qos.first().copied()).and_then(|row| mirror.qos.get(row));
        let held = row.and_then(|row| row.get("queues"));
        let mut kept: BTreeSet<Uuid> = row.iter().map(|row| row.uuid()).collect();
        let mut queues = Vec::with_capacity(qos.queues.len());
        for (number, wants) in &qos.queues {
            let queue = match held.and_then(|held| held.get(&Atom::Integer(*number))) {
                Some(Atom::Uuid(queue)) if tagged.queues.contains(queue) => {
                    mirror.queues.get(*queue)
                }
                _ => None,
            };
            let queue = match queue {
                Some(queue) => {
                    kept.insert(queue.uuid());
                    self.update(queue, wants.diff(queue, self.ownership));
                    Atom::Uuid(queue.uuid())
                }
                None => self.insert("Queue", wants.fields()),
            };
            queues.push((Atom::Integer(*number), queue));
        }
        let queues = Value::map(queues);
        self.delete_tagged(name, &kept);
        let Some(row) = row else {
            let mut fields = qos.wants.fields();
            fields.push(("queues".into(), queues));
            return Some(self.insert("QoS", fields).into());
        };
        let mut diff = qos.wants.diff(row, self.ownership);
        if held != Some(&queues) {
            diff.update.push(("queues".into(), queues));
        }
        self.update(row, diff);
        Some(row.uuid().into())
    }

    /// Deletes QoS and queues that are for a port.
    fn delete_tagged(&mut self, port: &str, except: &BTreeSet<Uuid>) {
        let tagged = self.mirror.tagged(port);
        let rows = [("QoS", tagged.qos), ("Queue", tagged.queues)];
        for (table, rows) in rows {
            for row in rows.into_iter().filter(|row| !except.contains(row)) {
                self.delete(table, row);
            }
        }
    }
}
