//! Scenarios: a model in; flows, groups and meters out, as text that a reviewer can read. What a
//! scenario has none of has no file. The rows beside them are the agent's (`ports/golden.rs` there).
//!
//! `OSIER_GOLDEN=write cargo test -p osier-compiler --test golden` writes them anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]
#![allow(unreachable_pub, reason = "modules that tests share")]

mod scenario;

use osier_compiler::Compiler;
use osier_openflow::flow::Flow;
use scenario::Scenario;
use std::fmt::Write;
use std::path::Path;

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
    let mut count = 0;
    for folder in std::fs::read_dir(scenario::folder()).unwrap() {
        let folder = folder.unwrap().path();
        let scenario = Scenario::read(&folder);
        assert!(!scenario.attachments.is_empty(), "{} has no port", folder.display());
        let Rendered { flows, groups, meters } = render(&scenario.compiler());
        for (kind, text) in [("flows", flows), ("groups", groups), ("meters", meters)] {
            compare(&folder.join(format!("{}.{kind}", scenario.node)), &text);
        }
        count += 1;
    }
    assert!(count > 0);
}
