//! Scenarios: a model in; flows, groups and meters out, as text that a reviewer can read. What a
//! scenario has none of has no file.
//!
//! `OSIER_GOLDEN=write cargo test -p osier-compiler --test golden` writes them anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_compiler::{Attachment, Compiler, LocalPorts};
use osier_model::{Change, Fabric, NodeName, Object, PortKey};
use osier_openflow::flow::Flow;
use osier_openflow::port_no::PortNo;
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

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
    tunnel: u32,
    gateway: u32,
    tunnel_mtu: Option<u16>,
}

#[derive(Deserialize)]
struct Attached {
    #[serde(flatten)]
    key: PortKey,
    ofport: u32,
    tag: u32,
    mtu: Option<u16>,
}

fn compiler(scenario: Scenario) -> Compiler {
    let local = LocalPorts {
        gateway: PortNo(scenario.local.gateway),
        tunnel: PortNo(scenario.local.tunnel),
        tunnel_mtu: scenario.local.tunnel_mtu,
    };
    let mut compiler = Compiler::new(scenario.node, scenario.fabric, local);
    for object in scenario.objects {
        compiler.apply(Change::Put(object)).unwrap();
    }
    for Attached { key, ofport, tag, mtu } in scenario.attachments {
        compiler.attach(key, Attachment { ofport: PortNo(ofport), tag, mtu }).unwrap();
    }
    compiler
}

/// What becomes of a model, as text: flows by owner, tables by name.
#[derive(Default)]
struct Rendered {
    flows: String,
    groups: String,
    meters: String,
}

fn render(compiler: &Compiler) -> Rendered {
    let names = osier_compiler::pipeline::table_names();
    let Rendered { mut flows, mut groups, mut meters } = Rendered::default();
    for compiled in compiler.all().unwrap() {
        if !compiled.plan.flows.is_empty() {
            writeln!(flows, "# {}", compiled.owner).unwrap();
        }
        for flow in compiled.plan.flows {
            // The heading says whose it is.
            let flow = Flow { cookie: 0, ..flow };
            writeln!(flows, "{}", names.show(&flow)).unwrap();
        }
        for group in compiled.plan.groups {
            writeln!(groups, "{}", names.show(&group)).unwrap();
        }
        for meter in compiled.plan.meters {
            writeln!(meters, "# {}\n{meter}", compiled.owner).unwrap();
        }
    }
    Rendered { flows, groups, meters }
}

fn compare(file: &Path, now: &str) {
    if std::env::var("OSIER_GOLDEN").as_deref() == Ok("write") {
        match now.is_empty() {
            true => drop(std::fs::remove_file(file)),
            false => std::fs::write(file, now).unwrap(),
        }
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
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut count = 0;
    for scenario in std::fs::read_dir(folder).unwrap() {
        let scenario = scenario.unwrap().path();
        let text = std::fs::read_to_string(scenario.join("model.yaml")).unwrap();
        let parsed: Scenario =
            serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", scenario.display()));
        let node = parsed.node.clone();
        let Rendered { flows, groups, meters } = render(&compiler(parsed));
        for (kind, text) in [("flows", flows), ("groups", groups), ("meters", meters)] {
            compare(&scenario.join(format!("{node}.{kind}")), &text);
        }
        count += 1;
    }
    assert!(count > 0);
}
