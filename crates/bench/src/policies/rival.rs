//! The rival: OVN with the same rules as ACLs on port groups and address sets.
//!
//! It gets what costs it least, as in clusters where each node has databases of its own: logical ports
//! for this node's pods only, others' addresses in sets, one set for each selector, whoever uses it. It
//! is written to as a client of its database would, in one transaction, not by a command line.

use super::{App, Law, Member, OUTSIDE, OUTSIDE_PORTS, SHARED_PORTS, TEAMS};
use crate::flows::{self, FlowMonitor};
use crate::ovn::Ovn;
use anyhow::{Result, ensure};
use osier_testbed::{Fabric, Family, Lab, Ovs};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const BRIDGE: &str = "br-int";
const SWITCH: &str = "node";

/// OVN's node, with its pods and no policy at first.
pub(super) struct Rival<'a> {
    pub(super) monitor: FlowMonitor,
    ovn: Ovn<'a>,
    ovs: &'a Ovs,
}

/// Its own underlay: neither side hears of the other.
pub(super) fn fabric(lab: &Lab) -> Result<Fabric> {
    Ok(Fabric::new(lab, Family::Ipv4, 1)?)
}

impl<'a> Rival<'a> {
    pub(super) fn start(fabric: &'a Fabric) -> Result<Self> {
        let node = &fabric.nodes()[0];
        let (ovn, ovs) = (Ovn::start(node)?, node.ovs());
        let mut operations = Vec::new();
        let mut ports = Vec::new();
        for member in Member::local() {
            plug(ovs, member)?;
            ports.push(json!(["named-uuid", row(member)]));
            operations.push(logical_port(member));
        }
        operations.push(json!({
            "op": "insert",
            "table": "Logical_Switch",
            "row": {"name": SWITCH, "ports": ["set", ports]},
        }));
        ovn.transact(&operations)?;
        let named: Vec<String> = Member::local().map(Member::name).collect();
        ovn.bound(&named)?;
        let monitor = FlowMonitor::start(ovs.dir())?;
        Ok(Self { monitor, ovn, ovs })
    }

    pub(super) fn write_policies(&self) -> Result<()> {
        let ports = self.ports()?;
        let mut operations: Vec<Value> = App::all().map(|app| pods(&set(app), &[app])).collect();
        for team in 0..TEAMS {
            let of: Vec<App> = App::all().filter(|app| app.team() == team).collect();
            operations.push(pods(&team_set(team), &of));
        }
        for law in App::all().map(App::law) {
            let mut rows = Vec::new();
            for (number, (direction, priority, condition, action)) in acls(&law).iter().enumerate()
            {
                let name = format!("{}_{number}", group(law.subjects));
                rows.push(json!(["named-uuid", name]));
                operations.push(json!({
                    "op": "insert",
                    "table": "ACL",
                    "uuid-name": name,
                    "row": {"direction": direction, "priority": priority, "match": condition, "action": action},
                }));
            }
            let here = law.subjects.members().filter_map(|member| ports.get(&member.name()));
            let here: Vec<&Value> = here.collect();
            operations.push(json!({
                "op": "insert",
                "table": "Port_Group",
                "row": {"name": group(law.subjects), "acls": ["set", rows], "ports": ["set", here]},
            }));
        }
        self.ovn.transact(&operations).map(drop)
    }

    pub(super) fn delete_policies(&self) -> Result<()> {
        let delete = |table: &str| json!({"op": "delete", "table": table, "where": []});
        self.ovn.transact(&[delete("Port_Group"), delete("Address_Set")]).map(drop)
    }

    /// A pod comes to its node.
    pub(super) fn add(&self, member: Member) -> Result<()> {
        let port = json!(["named-uuid", row(member)]);
        let insert = |table: &str, name: &str, column: &str, value: &Value| {
            let mutation = json!([[column, "insert", ["set", [value]]]]);
            json!({"op": "mutate", "table": table, "where": [["name", "==", name]], "mutations": mutation})
        };
        self.ovn.transact(&[
            logical_port(member),
            insert("Logical_Switch", SWITCH, "ports", &port),
            insert("Port_Group", &group(member.of), "ports", &port),
            addresses(&[member], "insert", &set(member.of)),
            addresses(&[member], "insert", &team_set(member.of.team())),
        ])?;
        plug(self.ovs, member)
    }

    /// It goes again.
    pub(super) fn remove(&self, member: Member) -> Result<()> {
        let port = self.ports()?.remove(&member.name()).unwrap_or_default();
        let delete = |table: &str, name: &str| {
            let mutation = json!([["ports", "delete", ["set", [port]]]]);
            json!({"op": "mutate", "table": table, "where": [["name", "==", name]], "mutations": mutation})
        };
        self.ovs.vsctl(&["del-port", BRIDGE, &interface(member)])?;
        self.ovn.transact(&[
            delete("Logical_Switch", SWITCH),
            delete("Port_Group", &group(member.of)),
            addresses(&[member], "delete", &set(member.of)),
            addresses(&[member], "delete", &team_set(member.of.team())),
        ])?;
        Ok(())
    }

    /// Pods elsewhere come (`insert`) or go (`delete`), one after the other.
    pub(super) fn elsewhere(&self, members: &[Member], how: &str) -> Result<()> {
        for member in members {
            let sets = [set(member.of), team_set(member.of.team())];
            self.ovn.transact(&sets.map(|set| addresses(&[*member], how, &set)))?;
        }
        Ok(())
    }

    pub(super) fn converged(&self) -> Result<()> {
        self.ovn.sync()
    }

    pub(super) fn flows(&self) -> Result<usize> {
        flows::count(self.ovs, BRIDGE)
    }

    pub(super) fn cpu(&self) -> Result<Duration> {
        self.ovn.daemons_cpu()
    }

    /// Logical ports by name.
    fn ports(&self) -> Result<BTreeMap<String, Value>> {
        let select = json!({
            "op": "select",
            "table": "Logical_Switch_Port",
            "where": [],
            "columns": ["_uuid", "name"],
        });
        let found = self.ovn.transact(&[select])?;
        let rows = found[0]["rows"].as_array().cloned().unwrap_or_default();
        ensure!(!rows.is_empty(), "OVN has no ports: {found}");
        let named = |row: &Value| {
            (row["name"].as_str().unwrap_or_default().to_owned(), row["_uuid"].clone())
        };
        Ok(rows.iter().map(named).collect())
    }
}

/// What an ACL is: direction, priority, condition, action.
type Acl = (&'static str, u16, String, &'static str);

fn acls(law: &Law) -> [Acl; 6] {
    let (client, team) = (set(law.client), team_set(law.team));
    let (server, except) = (set(law.server), &law.except);
    let group = group(law.subjects);
    let (inward, outward) =
        (format!("outport == @{group} && ip4"), format!("inport == @{group} && ip4"));
    let ports = |ports: &[u16]| {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        format!("tcp.dst == {{{}}}", ports.join(", "))
    };
    let ingress = |condition: String| ("to-lport", 1001, condition, "allow-related");
    let egress = |condition: String| ("from-lport", 1001, condition, "allow-related");
    let (own, shared) = (ports(&[law.port]), ports(&SHARED_PORTS));
    let (asked, outside) = (ports(&[law.server_port]), ports(&OUTSIDE_PORTS));
    [
        ingress(format!("{inward} && ip4.src == ${client} && {own}")),
        ingress(format!("{inward} && ip4.src == ${team} && {shared}")),
        ("to-lport", 1000, inward, "drop"),
        egress(format!("{outward} && ip4.dst == ${server} && {asked}")),
        egress(format!("{outward} && ip4.dst == {OUTSIDE} && ip4.dst != {except} && {outside}")),
        ("from-lport", 1000, outward, "drop"),
    ]
}

fn group(app: App) -> String {
    format!("pg_{}_{}", app.namespace, app.app)
}

fn set(app: App) -> String {
    format!("as_{}_{}", app.namespace, app.app)
}

fn team_set(team: usize) -> String {
    format!("team_{team}")
}

fn row(member: Member) -> String {
    format!("port{}", member.number())
}

fn interface(member: Member) -> String {
    format!("if{}", member.number())
}

fn address(member: Member) -> String {
    let number = member.number();
    format!("10.64.{}.{}", number / 250, number % 250 + 1)
}

fn logical_port(member: Member) -> Value {
    let number = member.number();
    let both = format!("0a:58:0a:40:{:02x}:{:02x} {}", number >> 8, number & 255, address(member));
    json!({
        "op": "insert",
        "table": "Logical_Switch_Port",
        "uuid-name": row(member),
        "row": {"name": member.name(), "addresses": both, "port_security": both},
    })
}

/// An address set of applications' pods.
fn pods(name: &str, of: &[App]) -> Value {
    let addresses: Vec<String> = of.iter().flat_map(|app| app.members()).map(address).collect();
    json!({"op": "insert", "table": "Address_Set", "row": {"name": name, "addresses": ["set", addresses]}})
}

/// Addresses of a set come or go.
fn addresses(members: &[Member], how: &str, set: &str) -> Value {
    let addresses: Vec<String> = members.iter().copied().map(address).collect();
    let mutation = json!([["addresses", how, ["set", addresses]]]);
    json!({"op": "mutate", "table": "Address_Set", "where": [["name", "==", set]], "mutations": mutation})
}

/// Gives a pod's logical port an interface of the switch.
fn plug(ovs: &Ovs, member: Member) -> Result<()> {
    let (name, id) = (interface(member), format!("external_ids:iface-id={}", member.name()));
    let set = ["set", "Interface", &name, "type=internal", &id];
    ovs.vsctl(&[&["add-port", BRIDGE, &name, "--"], &set[..]].concat())?;
    Ok(())
}
