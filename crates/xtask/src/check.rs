//! Checks that the compiler cannot make: the map in ARCHITECTURE.md is the workspace, links in the
//! documents lead somewhere, and crates use one another only downwards.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which of our crates each may use, outside of its tests. What is not named may use none.
const MAY_USE: &[(&str, &[&str])] = &[
    (
        "osier",
        &[
            "osier-agent",
            "osier-controller",
            "osier-etcd",
            "osier-kubernetes",
            "osier-lab",
            "osier-resource",
            "osier-store",
        ],
    ),
    (
        "osier-kubernetes",
        &["osier-controller", "osier-fleet", "osier-model", "osier-resource", "osier-store"],
    ),
    ("osier-answers", &["osier-compiler", "osier-model", "osier-openflow"]),
    (
        "osier-agent",
        &[
            "osier-answers",
            "osier-cni",
            "osier-compiler",
            "osier-fleet",
            "osier-model",
            "osier-openflow",
            "osier-ovsdb",
            "osier-southbound",
        ],
    ),
    ("osier-kubelab", &["osier-oci", "osier-testbed"]),
    ("osier-lab", &["osier-testbed"]),
    ("osier-compiler", &["osier-model", "osier-openflow"]),
    ("osier-resource", &["osier-model"]),
    ("osier-restconf", &["osier-model", "osier-resource"]),
    ("osier-span", &["osier-model"]),
    ("osier-etcd", &["osier-store"]),
    ("osier-fleet", &["osier-model", "osier-span"]),
    (
        "osier-controller",
        &[
            "osier-fleet",
            "osier-model",
            "osier-resource",
            "osier-restconf",
            "osier-span",
            "osier-store",
            "osier-switches",
        ],
    ),
    (
        "osier-switches",
        &[
            "osier-answers",
            "osier-compiler",
            "osier-fleet",
            "osier-model",
            "osier-openflow",
            "osier-ovsdb",
            "osier-southbound",
            "osier-span",
        ],
    ),
    ("osier-southbound", &["osier-openflow", "osier-ovsdb"]),
    (
        "osier-bench",
        &[
            "osier-agent",
            "osier-fleet",
            "osier-kubelab",
            "osier-model",
            "osier-openflow",
            "osier-ovsdb",
            "osier-southbound",
            "osier-testbed",
        ],
    ),
    ("xtask", &["osier-compiler", "osier-kubernetes", "osier-oci", "osier-ovsdb"]),
];

/// Crates that must do without a runtime, less their sessions.
const SANS_IO: &[&str] = &[
    "osier-answers",
    "osier-compiler",
    "osier-model",
    "osier-openflow",
    "osier-ovsdb",
    "osier-resource",
    "osier-restconf",
    "osier-span",
];

/// Runs all checks and reports every failure.
pub(crate) fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let crates = crates(&root)?;
    let mut failures = Vec::new();
    failures.extend(unmapped(&root, &crates)?);
    failures.extend(dead_links(&root)?);
    failures.extend(upward_uses(&crates));
    failures.extend(runtimes(&root)?);
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{} crates mapped, links lead somewhere, uses go down", crates.len());
    Ok(())
}

/// A crate of the workspace.
struct Crate {
    folder: String,
    uses: BTreeSet<String>,
}

fn crates(root: &Path) -> Result<BTreeMap<String, Crate>> {
    let metadata = output(root, &["metadata", "--no-deps", "--format-version=1", "--locked"])?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let mut crates = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().context("a manifest lies in a folder")?;
        let folder = folder.strip_prefix(root)?.display().to_string();
        let normal = |d: &Value| d["kind"].is_null() && !d["path"].is_null();
        let uses = list(&package["dependencies"])
            .iter()
            .filter(|d| normal(d))
            .map(|d| text(&d["name"]))
            .collect();
        crates.insert(text(&package["name"]), Crate { folder, uses });
    }
    Ok(crates)
}

/// Crates that the code map lacks, and lines of it that are no crate.
fn unmapped(root: &Path, crates: &BTreeMap<String, Crate>) -> Result<Vec<String>> {
    let text = read(&root.join("ARCHITECTURE.md"))?;
    let map = section(&text, "## Code map")?;
    let is_row = |line: &&str| line.starts_with("| [`");
    let name = |line: &str| line.split('`').nth(1).map(|n| format!("crates/{n}"));
    let mapped: BTreeSet<String> = map.lines().filter(is_row).filter_map(name).collect();
    let folders: BTreeSet<String> = crates.values().map(|c| c.folder.clone()).collect();
    let lacks =
        folders.difference(&mapped).map(|f| format!("ARCHITECTURE.md: {f} is not in the code map"));
    let extra = mapped.difference(&folders).map(|f| format!("ARCHITECTURE.md: {f} is no crate"));
    Ok(lacks.chain(extra).collect())
}

/// What stands under a heading, up to the next one.
fn section<'a>(text: &'a str, heading: &str) -> Result<&'a str> {
    let at = text.find(heading).with_context(|| format!("ARCHITECTURE.md has no {heading:?}"))?;
    let body = &text[at + heading.len()..];
    Ok(body.find("\n## ").map_or(body, |end| &body[..end]))
}

/// Links to files that are not there.
fn dead_links(root: &Path) -> Result<Vec<String>> {
    let mut dead = Vec::new();
    for document in output_of(root, "git", &["ls-files", "*.md"])?.lines() {
        let path = root.join(document);
        if !path.exists() {
            continue;
        }
        let text = read(&path)?;
        let base = path.parent().unwrap_or(root);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = file.is_empty() || file.contains("://") || file.contains(' ');
            if !elsewhere && !base.join(file).exists() {
                dead.push(format!("{document}: {target} leads nowhere"));
            }
        }
    }
    Ok(dead)
}

fn upward_uses(crates: &BTreeMap<String, Crate>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, Crate { uses, .. }) in crates {
        let allowed = MAY_USE.iter().find(|(n, _)| n == name).map_or(&[][..], |(_, uses)| uses);
        for used in uses.iter().filter(|u| !allowed.contains(&u.as_str())) {
            wrong.push(format!(
                "{name} may not use {used} (see MAY_USE in crates/xtask/src/check.rs)"
            ));
        }
    }
    wrong
}

/// Codecs that bring a runtime along.
fn runtimes(root: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for package in SANS_IO {
        let args = [
            "tree",
            "--locked",
            "--no-default-features",
            "--edges=normal",
            "--prefix=none",
            "-p",
            package,
        ];
        let tree = output(root, &args)?;
        if let Some(line) = tree.lines().find(|line| line.starts_with("tokio ")) {
            wrong.push(format!("{package} without its session uses {line}"));
        }
    }
    Ok(wrong)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn output(root: &Path, args: &[&str]) -> Result<String> {
    output_of(root, env!("CARGO"), args)
}

fn output_of(root: &Path, program: &str, args: &[&str]) -> Result<String> {
    let out = Command::new(program).args(args).current_dir(root).output()?;
    if !out.status.success() {
        bail!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8(out.stdout)?)
}
