//! What a foreign switch says of its wires, beside what a view says of ports: whichever of them comes
//! first, changes, or goes.
//!
//! A line is a step; its words are separated by spaces, and one that is missing is not said:
//!
//! - `w N OFPORT IFACE-ID MAC ADDRESS`: interface N is on the bridge, and its `external_ids` say this
//! - `o N OFPORT IFACE-ID MAC ADDRESS`: the same, on no bridge
//! - `g N`: it is gone
//! - `b NAME`: the switch says that this is its bridge; there is `br-int`
//! - `p NAME NODE MAC ADDRESS`: the view has this port
//! - `d NAME`: it has it no more

use osier_model::{Change, Identity, Key, Limits, NodeName, Object, Port, PortKey};
use osier_ovsdb::cache::Cache;
use osier_ovsdb::monitor::View;
use osier_ovsdb::schema::Schema;
use osier_switches::trial::Trial;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// A target: its name, which is also that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets of the crate.
#[allow(dead_code, reason = "for the replay; a fuzz target calls its own body alone")]
pub const TARGETS: &[Target] = &[("sw_claim", claim)];

/// Steps, and interfaces: more find nothing that fewer do not.
const STEPS: usize = 64;
const INTERFACES: u8 = 8;
const TUNNEL: u32 = 65_000;

static SCHEMA: LazyLock<Arc<View>> = LazyLock::new(|| {
    let schema: Schema =
        include_str!("../../crates/ovsdb/schemas/vswitch.ovsschema").parse().unwrap();
    Arc::new(Trial::monitor().resolve(&schema))
});

/// A switch's database, and who follows it.
struct Switch {
    cache: Cache,
    trial: Trial,
    /// Interfaces that are there, and those of them that are on the bridge.
    there: BTreeSet<u8>,
    wired: BTreeSet<u8>,
}

// === impl Switch ===

impl Switch {
    fn new() -> Self {
        let trial = Trial::new(NodeName::new("n1").unwrap(), TUNNEL, "br-int");
        let (there, wired) = (BTreeSet::new(), BTreeSet::new());
        let mut switch = Self { cache: Cache::new(Arc::clone(&SCHEMA)), trial, there, wired };
        switch.update(&json!({"Open_vSwitch": {row(1, 0): {"initial": {}}}}));
        switch.update(&json!({"Bridge": {row(2, 0): {"initial": switch.bridge()}}}));
        switch
    }

    fn update(&mut self, updates: &Value) {
        let updates = SCHEMA.decode_updates(updates.to_string().as_bytes()).unwrap();
        let changes = self.cache.apply(updates).unwrap();
        self.trial.follow(&changes);
    }

    fn bridge(&self) -> Value {
        let ports: Vec<Value> = self.wired.iter().map(|n| json!(["uuid", row(3, *n)])).collect();
        json!({"name": "br-int", "controller": ["uuid", row(9, 0)], "ports": ["set", ports]})
    }

    /// One transaction of the switch.
    fn put(&mut self, n: u8, is_wired: bool, words: &[&str]) {
        let (ofport, ids) = words.split_first().unwrap_or((&"", &[]));
        let keys = ["iface-id", "attached-mac", "ip-address"];
        let ids: Vec<Value> = keys.iter().zip(ids).map(|(key, said)| json!([key, said])).collect();
        let mut interface = json!({"name": format!("veth{n}"), "external_ids": ["map", ids]});
        if let Ok(ofport) = ofport.parse::<i64>() {
            interface["ofport"] = ofport.into();
        }
        let port = json!({"name": format!("veth{n}"), "interfaces": ["uuid", row(4, n)]});
        self.there.insert(n);
        if is_wired {
            self.wired.insert(n)
        } else {
            self.wired.remove(&n)
        };
        // A row that is told anew replaces the one before.
        self.update(&json!({
            "Interface": {row(4, n): {"initial": interface}},
            "Port": {row(3, n): {"initial": port}},
            "Bridge": {row(2, 0): {"initial": self.bridge()}},
        }));
    }

    fn remove(&mut self, n: u8) {
        if !self.there.remove(&n) {
            return;
        }
        self.wired.remove(&n);
        self.update(&json!({
            "Interface": {row(4, n): {"delete": null}},
            "Port": {row(3, n): {"delete": null}},
            "Bridge": {row(2, 0): {"initial": self.bridge()}},
        }));
    }

    fn name_bridge(&mut self, name: &str) {
        let ids = json!(["map", [["br-name", name]]]);
        self.update(&json!({"Open_vSwitch": {row(1, 0): {"initial": {"external_ids": ids}}}}));
    }

    fn step(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = words.get(1).and_then(|n| n.parse().ok()).map(|n: u8| n % INTERFACES);
        match (words[0], number, &words[1..]) {
            ("w", Some(n), [_, said @ ..]) => self.put(n, true, said),
            ("o", Some(n), [_, said @ ..]) => self.put(n, false, said),
            ("g", Some(n), _) => self.remove(n),
            ("b", _, [name, ..]) => self.name_bridge(name),
            ("p", _, said) => {
                if let Some(port) = port(said) {
                    self.trial.hear(vec![Change::Put(Object::Port(port))]);
                }
            }
            ("d", _, [name, ..]) => {
                if let Some(key) = key(name) {
                    self.trial.hear(vec![Change::Delete(Key::Port(key))]);
                }
            }
            _ => {}
        }
    }
}

/// A row's identity: of a table, and of a number.
fn row(table: u8, n: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{table:x}{:x}", n & 0xf)
}

fn key(name: &str) -> Option<PortKey> {
    let (device, interface) = match name.rsplit_once(':') {
        Some((device, interface)) if device.contains(':') => (device, interface),
        _ => (name, "eth0"),
    };
    Some(PortKey { device: device.parse().ok()?, interface: interface.parse().ok()? })
}

fn port(words: &[&str]) -> Option<Port> {
    let [name, node, mac, addresses @ ..] = words else { return None };
    Some(Port {
        key: key(name)?,
        network: "net".parse().ok()?,
        node: node.parse().ok()?,
        mac: mac.parse().ok()?,
        addresses: addresses.iter().filter_map(|address| address.parse().ok()).collect(),
        identity: Identity::ANY,
        limits: Limits::default(),
    })
}

/// After every step each wire is what it would be if it had just come, no port is on two wires, and none
/// is another node's. In another order of the same steps only who came first may differ.
pub fn claim(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut switch = Switch::new();
    for line in text.lines().take(STEPS) {
        switch.step(line);
        if let Some(fault) = switch.trial.fault() {
            panic!("after {line:?}: {fault}");
        }
    }
}
