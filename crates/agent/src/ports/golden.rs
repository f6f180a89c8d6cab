//! Scenarios: a model in; the rows of the node and of its pods' ports out, as text that a reviewer can
//! read. The models are the compiler's, and their flows, groups and meters stand beside the rows
//! (`crates/compiler/tests/scenarios`). `cni` of an attachment is what its runtime's configuration says.
//!
//! `OSIER_GOLDEN=write cargo test -p osier-agent --lib golden` writes them anew.

use super::give::{self, Machine};
use super::grant::{Addresses as Given, Grant, Target};
use super::state::State;
use crate::addresses::Addresses;
use crate::adopt::Adopted;
use crate::config::Config;
use crate::desired::{Giver, PodPort};
use crate::fixed::Fixed;
use crate::netlink::NamespaceId;
use osier_cni::config::{AttachRequest, Attachment, NetworkConfig};
use osier_model::{Change, Fabric, NodeName, Object, Port, PortKey, View};
use osier_ovsdb::rows::vswitch::BridgeFailMode;
use osier_southbound::rows::{Bridge, Interface, Plan, Port as Row, Strings};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Deserialize)]
struct Scenario {
    node: NodeName,
    fabric: Fabric,
    local: Local,
    objects: Vec<Object>,
    attachments: Vec<Attached>,
}

#[derive(Deserialize)]
struct Local {
    service_gateway: Option<u32>,
    tunnel_mtu: Option<u16>,
}

#[derive(Deserialize)]
struct Attached {
    #[serde(flatten)]
    key: PortKey,
    ofport: u16,
    tag: u32,
    mtu: Option<u16>,
    #[serde(default)]
    cni: Value,
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/tests/scenarios")
}

/// All rows of a node with this model: whose, and which.
fn rows(scenario: &Scenario) -> Vec<(String, Plan)> {
    let mut view = View::new(scenario.node.clone(), scenario.fabric.clone());
    for object in &scenario.objects {
        view.apply(Change::Put(object.clone())).unwrap();
    }
    let node = &view.nodes()[&scenario.node];
    let config = Config::parse("node = 'n1'", Path::new("agent.toml")).unwrap();
    let service_gateway = scenario.local.service_gateway.is_some();
    let fixed = Fixed::new(&config, &Adopted { service_gateway, ..Adopted::default() });
    let mut rows = vec![("node".to_owned(), fixed.plan(node, scenario.fabric.tunnel))];
    let mut state = State::new(Addresses::new(Duration::ZERO), Vec::new());
    state.set_blocks(&node.blocks);
    for attached in &scenario.attachments {
        let port = attach(&mut state, &view, scenario.local.tunnel_mtu, attached);
        // What it says of itself is what the next agent will know of it.
        let row = port.rows(config.bridge.as_str());
        let ids = &row.ports[0].interfaces[0].external_ids;
        let read = PodPort::from_external_ids(&port.host, port.ofport, ids);
        assert_eq!(read, Some(Ok((*port).clone())));
        rows.push((port.owner(), row));
    }
    rows
}

/// A port, as an ADD of its runtime makes it.
fn attach(
    state: &mut State,
    view: &View,
    tunnel_mtu: Option<u16>,
    attached: &Attached,
) -> Arc<PodPort> {
    let Attached { key, ofport, tag, mtu, cni } = attached;
    let mut config = json!({"cniVersion": "1.1.0", "name": "default", "type": "osier"});
    config.as_object_mut().unwrap().extend(cni.as_object().cloned().unwrap_or_default());
    let config = NetworkConfig::decode(config.to_string().as_bytes()).unwrap();
    let model = &view.ports()[key];
    let network = give::network(view, &config, Some(model)).unwrap();
    let target = Target { network: network.clone(), reaches: give::reaches(view, network) };
    let name = key.to_string().replace([':', '/'], "-");
    let call = AttachRequest {
        attachment: Attachment {
            container_id: format!("sandbox-of-{name}"),
            ifname: key.interface.to_string(),
        },
        netns: format!("/run/netns/{name}"),
        pod: None,
        config,
        prev_result: None,
    };
    let mtu = mtu.or(tunnel_mtu).unwrap_or(1500);
    let machine = Machine { boot_id: "this-boot", mtu, masquerade: true };
    let netns_id = NamespaceId { device: 4, inode: 4_026_531_840 + u64::from(*ofport) };
    let wish = give::wish(&call, key, &target, netns_id, &machine, grant(model, &target));
    let port = state.reserve(wish, Duration::ZERO).unwrap();
    // The numbers are those that the flows beside have.
    state.replace(PodPort { ofport: *ofport, tag: *tag, ..(*port).clone() })
}

/// What the view gives a port. A network without subnets leaves that to plugins.
fn grant(model: &Port, target: &Target) -> Grant {
    if !target.is_default() && target.network.subnets.is_empty() {
        let link = |address| target.link(address, Some((24, None))).unwrap();
        return Grant {
            giver: Giver::Plugin("static".to_owned()),
            mac: Some(model.mac),
            addresses: Given::These(model.addresses.iter().copied().map(link).collect()),
            ..Grant::default()
        };
    }
    give::of_port(Giver::View, model, target, &[]).unwrap()
}

fn render(rows: &[(String, Plan)]) -> String {
    let mut text = String::new();
    for (owner, plan) in rows {
        writeln!(text, "# {owner}").unwrap();
        plan.bridges.iter().for_each(|bridge| show_bridge(&mut text, bridge));
        plan.ports.iter().for_each(|port| show_port(&mut text, port));
        assert_eq!(plan.settings, []);
    }
    text
}

fn show_bridge(text: &mut String, bridge: &Bridge) {
    let Bridge { name, datapath_type, fail_mode, protocols, other_config, external_ids } = bridge;
    writeln!(text, "bridge {name}").unwrap();
    column(text, "datapath_type", datapath_type.as_ref());
    column(text, "fail_mode", fail_mode.as_ref().map(BridgeFailMode::as_str));
    assert!(protocols.is_empty(), "they would not be shown");
    columns(text, "other_config", other_config);
    columns(text, "external_ids", external_ids);
}

fn show_port(text: &mut String, port: &Row) {
    writeln!(text, "port {} of {}", port.name, port.bridge).unwrap();
    let Row { name, bridge, interfaces, external_ids, .. } = port.clone();
    let shown = Row { name, bridge, interfaces, external_ids, ..Row::default() };
    assert_eq!(*port, shown, "a column that would not be shown");
    columns(text, "external_ids", &port.external_ids);
    for interface in &port.interfaces {
        let Interface { name, kind, options, ofport_request, mtu_request, mac, .. } = interface;
        assert_eq!(*name, port.name, "no bonds");
        column(text, "type", Some(kind).filter(|kind| !kind.is_empty()));
        column(text, "ofport_request", ofport_request.as_ref());
        column(text, "mtu_request", mtu_request.as_ref());
        column(text, "mac", mac.as_ref());
        columns(text, "options", options);
        columns(text, "other_config", &interface.other_config);
        columns(text, "external_ids", &interface.external_ids);
    }
}

fn column(text: &mut String, name: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        writeln!(text, "  {name}={value}").unwrap();
    }
}

fn columns(text: &mut String, name: &str, values: &Strings) {
    for (key, value) in values {
        writeln!(text, "  {name}:{key}={value}").unwrap();
    }
}

fn compare(file: &Path, now: &str) {
    if std::env::var("OSIER_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(file, now).unwrap();
        return;
    }
    let before = std::fs::read_to_string(file).unwrap_or_default();
    let line = before.lines().zip(now.lines()).position(|(b, n)| b != n);
    let at = line.unwrap_or(before.lines().count().min(now.lines().count()));
    assert!(
        before == now,
        "{} differs from line {} on:\n  was {:?}\n  now {:?}",
        file.display(),
        at + 1,
        before.lines().nth(at),
        now.lines().nth(at),
    );
}

#[test]
fn rows_of_scenarios() {
    let mut count = 0;
    for folder in std::fs::read_dir(scenarios()).unwrap() {
        let folder = folder.unwrap().path();
        let text = std::fs::read_to_string(folder.join("model.yaml")).unwrap();
        let scenario: Scenario =
            serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        compare(&folder.join(format!("{}.rows", scenario.node)), &render(&rows(&scenario)));
        count += 1;
    }
    assert!(count > 0);
}
