//! Our own small renderer against the real Helm: the same chart, the same values, the same objects.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Values as both understand them.
const SETS: &[&[&str]] = &[
    &[],
    &["ovs.install=true", "datapath=netdev", "mtu=1400"],
    &["podMonitor.enabled=true", "agent.metricsAddress=0.0.0.0", "agent.maxUnavailable=10%"],
    &[
        "apiServer.host=192.0.2.1",
        "image.repository=r.example/o",
        "image.tag=x",
        "controller.replicas=3",
    ],
    &["createNamespace=false", "tunnel=vxlan", "addressSource=blocks", "blockMasks.v4=26"],
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Where `scripts/install-tools helm` put it.
fn helm() -> Command {
    let tools = said(Command::new(root().join("scripts/install-tools")).arg("helm"));
    Command::new(Path::new(tools.trim()).join("helm"))
}

fn objects(manifest: &str) -> BTreeMap<String, Value> {
    let documents = manifest.split("\n---").filter_map(|text| {
        let object: Value = serde_saphyr::from_str(text.trim_start_matches("---")).ok()?;
        let name = format!("{} {}", object["kind"].as_str()?, object["metadata"]["name"].as_str()?);
        Some((name, object))
    });
    documents.collect()
}

#[test]
#[ignore = "builds Helm: make chart"]
fn helm_makes_the_same_of_the_chart() {
    let chart = root().join("deploy/helm/osier");
    said(helm().arg("lint").arg("--strict").arg(&chart));
    for set in SETS {
        let sets = || set.iter().flat_map(|value| ["--set", value]);
        let mut theirs = helm();
        theirs.args([
            "template",
            "osier",
            "--namespace",
            "osier-system",
            "--kube-version",
            "1.34.0",
        ]);
        theirs.args(["--set", "createNamespace=true"]).args(sets()).arg(&chart);
        let mut ours = Command::new(env!("CARGO_BIN_EXE_xtask"));
        ours.args(["deploy", "--print"]).args(sets());
        let (theirs, ours) = (objects(&said(&mut theirs)), objects(&said(&mut ours)));
        assert!(theirs.len() > 15, "{set:?}: {:?}", theirs.keys());
        assert!(theirs.keys().eq(ours.keys()), "{set:?}: {:?} {:?}", theirs.keys(), ours.keys());
        for (name, object) in &theirs {
            assert_eq!(object, &ours[name], "{set:?}: {name}");
        }
    }
}

#[test]
#[ignore = "builds Helm: make chart"]
fn helm_refuses_values_that_the_schema_does_not_know() {
    for value in ["tunnel=gre", "mtu=100", "nonsense=1", "agent.bridge=a/b", "blockMasks.v4=31"] {
        let mut helm = helm();
        helm.args(["template", "osier", "--kube-version", "1.34.0", "--set", value]);
        let output = helm.arg(root().join("deploy/helm/osier")).output().unwrap();
        assert!(!output.status.success(), "{value}");
    }
}
