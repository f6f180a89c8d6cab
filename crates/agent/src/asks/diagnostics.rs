//! What people look at when something is wrong, as text. Tools that are not there are said not to
//! be, and nothing fails for that.

use crate::config::Config;
use crate::metrics::Metrics;
use crate::ports::Ports;
use osier_fleet::ask::Diagnostics;
use osier_model::{Object, View};
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long a tool may take, and how much may come of it.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST: usize = 8 << 20;

pub(super) async fn gather(config: &Config, ports: &Ports, metrics: &Metrics) -> Diagnostics {
    ports.count_switch().await;
    let bridge = config.bridge.as_str();
    let management =
        format!("unix:{}", config.ovs_run_dir.join(format!("{bridge}.mgmt")).display());
    let database = format!("--db=unix:{}", config.ovsdb.display());
    let flows = async {
        match super::control(config) {
            Ok(control) => match control.call("bridge/dump-flows", &[bridge]).await {
                Ok(text) => cut(text),
                Err(error) => error.to_string(),
            },
            Err(why) => why,
        }
    };
    let of13 = ["-O", "OpenFlow15"];
    let groups_of =
        |what: &'static str| tool("ovs-ofctl", vec![of13[0], of13[1], what, &management]);
    let groups =
        async { [groups_of("dump-groups").await, groups_of("dump-meters").await].join("\n") };
    let rows = async {
        let show = tool("ovs-vsctl", vec![&database, "--timeout=5", "show"]).await;
        let list = tool("ovs-vsctl", vec![&database, "--timeout=5", "list", "interface"]).await;
        [show, list].join("\n")
    };
    let machine = async {
        let mut text = String::new();
        for arguments in [&["-d", "address"][..], &["route"], &["-6", "route"], &["neighbour"]] {
            text.extend(["# ip ", &arguments.join(" "), "\n"]);
            text.push_str(&tool("ip", arguments.to_vec()).await);
        }
        text.push_str("# nft list table inet osier\n");
        text + &tool("nft", vec!["list", "table", "inet", "osier"]).await
    };
    let view = ports.switch().with_said(|said| objects(said.view()));
    let (flows, groups, ovsdb, machine, view) = tokio::join!(flows, groups, rows, machine, view);
    let (log, metrics) = (crate::log::recent(), metrics.render());
    Diagnostics { flows, groups, ovsdb, log, view, metrics, machine }
}

fn objects(view: &View) -> serde_json::Value {
    let all: Vec<Object> = view.objects().collect();
    json!({"fabric": view.fabric(), "objects": all})
}

async fn tool(name: &str, arguments: Vec<&str>) -> String {
    let mut command = Command::new(name);
    command.args(&arguments).stdin(Stdio::null()).kill_on_drop(true);
    match timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) => {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            cut(text)
        }
        Ok(Err(error)) => format!("{name}: {error}\n"),
        Err(_) => format!("{name} took too long\n"),
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = text.floor_char_boundary(LONGEST);
        text.truncate(end);
        text.push_str("\n… and more\n");
    }
    text
}
