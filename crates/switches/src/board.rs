//! What one switch shall carry, as values: the node's view, the wires that are ports of it, and what
//! that compiles to. Nothing here talks to anybody; a change costs what it is about.

use crate::claim::{self, Names, Refusal};
use crate::wires::{Wire, Wires};
use osier_compiler::{Attachment, CompileError, Compiled, Compiler, LocalPorts};
use osier_model::{
    Change, Fabric, Identity, Key, Mac, NamespaceName, NodeName, Object, Port, PortKey, View,
};
use osier_openflow::port_no::PortNo;
use osier_ovsdb::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers from here on are no ports that somebody added: the bridge itself has one of them.
const RESERVED: u32 = 0xff00;

/// See the module.
#[derive(Debug)]
pub(crate) struct Board {
    compiler: Compiler,
    local: LocalPorts,
    names: Names,
    /// Wires that are ports, both ways.
    ports: BTreeMap<Uuid, Held>,
    wires: BTreeMap<PortKey, Uuid>,
    refused: BTreeMap<Uuid, (String, Refusal)>,
}

/// A port that is on a wire.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    key: PortKey,
    /// As it was when it became the port.
    wire: Wire,
    at: Attachment,
}

/// What a change came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Plans that may differ now; the last of an owner counts.
    pub(crate) compiled: Vec<Compiled>,
    /// What could not be.
    pub(crate) faults: Vec<String>,
    /// Ports that are on a wire now, or with another Ethernet address.
    pub(crate) attached: Vec<(PortKey, Option<Mac>)>,
    /// Ports that are on none any more.
    pub(crate) detached: Vec<PortKey>,
    /// Wires that are refused now, and were not for this reason.
    pub(crate) refused: Vec<(String, Refusal)>,
}

// === impl Outcome ===

impl Outcome {
    fn add(&mut self, compiled: Result<Vec<Compiled>, CompileError>) {
        match compiled {
            Ok(compiled) => self.compiled.extend(compiled),
            Err(error) => self.faults.push(match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            }),
        }
    }
}

// === impl Board ===

impl Board {
    /// A node that knows nothing yet.
    pub(crate) fn new(node: NodeName, fabric: Fabric, local: LocalPorts) -> Self {
        Self {
            compiler: Compiler::new(node, fabric, local),
            local,
            names: Names::default(),
            ports: BTreeMap::new(),
            wires: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    pub(crate) fn view(&self) -> &View {
        self.compiler.view()
    }

    pub(crate) fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// All, from nothing.
    pub(crate) fn all(&self) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.add(self.compiler.all());
        outcome
    }

    /// The ports that are on wires.
    pub(crate) fn attached(&self) -> impl Iterator<Item = &Port> {
        self.wires.keys().filter_map(|key| self.view().ports().get(key))
    }

    /// Wires that are refused, and why.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (&str, &Refusal)> {
        self.refused.values().map(|(wire, why)| (wire.as_str(), why))
    }

    /// Steps of the view.
    pub(crate) fn hear(&mut self, changes: Vec<Change>, wires: &Wires) -> Outcome {
        let mut outcome = Outcome::default();
        let mut touched: BTreeSet<Uuid> = BTreeSet::new();
        for change in changes {
            let key = match &change {
                Change::Put(object) => object.key(),
                Change::Delete(key) => key.clone(),
            };
            let is_port = matches!(key, Key::Port(_));
            if let Key::Port(key) = &key {
                match &change {
                    Change::Put(_) => self.names.add(key),
                    Change::Delete(_) => self.names.remove(key),
                }
                touched.extend(self.wires.get(key));
                // Who is a port by its pod's name alone may be another's now.
                touched.extend(self.names.namesakes(key).filter_map(|key| self.wires.get(key)));
            }
            outcome.add(self.compiler.apply(self.as_it_is(change)));
            match &key {
                Key::Workload(device) => {
                    self.decide_again(|port| port.device == *device, &mut outcome);
                }
                Key::Guard(namespace) => {
                    self.decide_again(|port| is_of(port, namespace), &mut outcome);
                }
                _ => {}
            }
            if is_port {
                // Who was refused may be this one.
                touched.extend(self.refused.keys());
            }
        }
        self.look(touched, wires, &mut outcome);
        outcome
    }

    /// What ports are to policies may be another.
    fn decide_again(&mut self, which: impl Fn(&PortKey) -> bool, outcome: &mut Outcome) {
        let keys: Vec<PortKey> = self.wires.keys().filter(|key| which(key)).cloned().collect();
        for key in keys {
            let Some(mut port) = self.view().ports().get(&key).cloned() else { continue };
            port.identity = Identity::ANY;
            outcome.add(self.compiler.apply(self.as_it_is(Change::Put(Object::Port(port)))));
        }
    }

    /// Wires that may be others now.
    pub(crate) fn rewire(&mut self, touched: BTreeSet<Uuid>, wires: &Wires) -> Outcome {
        let mut outcome = Outcome::default();
        self.look(touched, wires, &mut outcome);
        outcome
    }

    fn look(&mut self, mut touched: BTreeSet<Uuid>, wires: &Wires, outcome: &mut Outcome) {
        // What leaves a port comes first, also if it is for another one: somebody may wait for it.
        let mut freed = false;
        for uuid in &touched {
            let wanted = self.wanted(*uuid, wires).ok().map(|held| held.key);
            if self.ports.get(uuid).map(|held| &held.key) != wanted.as_ref() {
                freed |= self.detach(*uuid, outcome);
            }
        }
        if freed {
            touched.extend(self.refused.keys());
        }
        while !touched.is_empty() {
            let before = outcome.attached.len();
            for uuid in std::mem::take(&mut touched) {
                match self.wanted(uuid, wires) {
                    Ok(held) => self.attach(uuid, held, outcome),
                    Err(why) => self.refuse(uuid, why.zip(wires.get(uuid)), outcome),
                }
            }
            // Whose Ethernet address is known now is told apart from others.
            if outcome.attached.len() > before {
                let is_open = |why: &Refusal| matches!(why, Refusal::Ambiguous { .. });
                let open = self.refused.iter().filter(|(_, (_, why))| is_open(why));
                touched.extend(open.map(|(uuid, _)| *uuid));
            }
        }
    }

    /// The port that a wire shall be; why not, if it is one that the switch has.
    fn wanted(&self, uuid: Uuid, wires: &Wires) -> Result<Held, Option<Refusal>> {
        let wire = wires.get(uuid).ok_or(None)?;
        let ofport = PortNo(wire.ofport.ok_or(None)?.into());
        if ofport.0 >= RESERVED || ofport == self.local.tunnel {
            return Err(Some(Refusal::Own(wire.name.clone())));
        }
        let key = match claim::resolve(wire, self.view(), &self.names) {
            Err(Refusal::Ambiguous { id, ports }) => {
                // It was clear before a namesake came: who is a port stays it, and nobody is cut off.
                let before = self.ports.get(&uuid).filter(|held| held.wire == *wire);
                let before = before.filter(|held| ports.contains(&held.key));
                before.map(|held| held.key.clone()).ok_or(Refusal::Ambiguous { id, ports })
            }
            resolved => resolved,
        }?;
        let holder = self.wires.get(&key).filter(|holder| **holder != uuid);
        if let Some(other) = holder.and_then(|holder| self.ports.get(holder)) {
            return Err(Some(Refusal::Held { port: key, wire: other.wire.name.clone() }));
        }
        // The number is the tag: a controller that starts anew makes the same flows.
        let at = Attachment { ofport, tag: ofport.0, mtu: None };
        Ok(Held { key, wire: wire.clone(), at })
    }

    fn attach(&mut self, uuid: Uuid, held: Held, outcome: &mut Outcome) {
        self.refused.remove(&uuid);
        let before = self.ports.get(&uuid);
        if before == Some(&held) {
            return;
        }
        let Some(port) = self.view().ports().get(&held.key).cloned() else { return };
        outcome.attached.push((held.key.clone(), held.wire.mac));
        self.wires.insert(held.key.clone(), uuid);
        let (key, at) = (held.key.clone(), held.at);
        self.ports.insert(uuid, held);
        outcome.add(self.compiler.apply(self.as_it_is(Change::Put(Object::Port(port)))));
        outcome.add(self.compiler.attach(key, at));
    }

    /// Whether it was a port.
    fn detach(&mut self, uuid: Uuid, outcome: &mut Outcome) -> bool {
        let Some(Held { key, .. }) = self.ports.remove(&uuid) else { return false };
        self.wires.remove(&key);
        outcome.add(self.compiler.detach(&key));
        outcome.detached.push(key);
        true
    }

    fn refuse(&mut self, uuid: Uuid, why: Option<(Refusal, &Wire)>, outcome: &mut Outcome) {
        let Some((why, Wire { name, .. })) = why else {
            self.refused.remove(&uuid);
            return;
        };
        let refused = (name.clone(), why);
        if self.refused.get(&uuid) != Some(&refused) {
            outcome.refused.push(refused.clone());
            self.refused.insert(uuid, refused);
        }
    }

    /// A port's Ethernet address is that of its wire, and what it is to policies is said by who knows
    /// its labels.
    fn as_it_is(&self, change: Change) -> Change {
        let Change::Put(Object::Port(mut port)) = change else { return change };
        let held = self.wires.get(&port.key).and_then(|uuid| self.ports.get(uuid));
        if let Some(mac) = held.and_then(|held| held.wire.mac).filter(|mac| mac.is_unicast()) {
            port.mac = mac;
        }
        if let Some(workload) = self.view().workloads().get(&port.key.device) {
            port.identity = workload.identity;
        } else if self.view().guards().iter().any(|namespace| is_of(&port.key, namespace)) {
            // Its labels may be such that nobody may reach it.
            port.identity = Identity::QUARANTINED;
        }
        Change::Put(Object::Port(port))
    }
}

/// What is wrong with what a board remembers, for who tries it.
impl Board {
    pub(crate) fn fault(&self, wires: &Wires) -> Option<String> {
        let all = wires.all();
        let strangers =
            self.ports.keys().chain(self.refused.keys()).find(|uuid| !all.contains(uuid));
        if let Some(uuid) = strangers {
            return Some(format!("{uuid} is remembered, and no wire"));
        }
        for (key, uuid) in &self.wires {
            if self.ports.get(uuid).is_none_or(|held| held.key != *key) {
                return Some(format!("{key} is on a wire that is not it"));
            }
        }
        all.into_iter().find_map(|uuid| self.fault_of(uuid, wires))
    }

    /// A wire is what it would become now.
    fn fault_of(&self, uuid: Uuid, wires: &Wires) -> Option<String> {
        let (held, refused) = (self.ports.get(&uuid), self.refused.get(&uuid).map(|(_, why)| why));
        let is_right = match &self.wanted(uuid, wires) {
            Ok(wanted) => {
                let port = self.view().ports().get(&wanted.key);
                let is_here = port.is_some_and(|port| port.node == *self.view().node());
                is_here && refused.is_none() && held == Some(wanted)
            }
            Err(why) => held.is_none() && refused.is_some() == why.is_some(),
        };
        let said = || format!("{:?} is {held:?}, refused: {refused:?}", wires.get(uuid));
        (!is_right).then(said)
    }
}

/// Whether a port is of a pod of a namespace.
fn is_of(port: &PortKey, namespace: &NamespaceName) -> bool {
    let pod = port.device.as_str().strip_prefix(namespace.as_str());
    pod.is_some_and(|pod| pod.starts_with(':'))
}
