//! Which requests Osier sends to the API server, by the server's own audit log.

use anyhow::{Result, ensure};
use osier_kubelab::{Cluster, Settings};
use osier_testbed::Lab;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// On the disk of the control plane's machine.
const LOG: &str = "var/log/audit.log";
const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ['system:serviceaccounts:osier-system']}
- {level: None}
";

/// Lets the API server tell of Osier's requests.
pub(super) fn enable(settings: &mut Settings, lab: &Lab) -> Result<()> {
    let policy = lab.dir().join("audit.yaml");
    fs::write(&policy, POLICY)?;
    settings.apiserver_args = vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path=/{LOG}"),
    ];
    Ok(())
}

/// Requests so far: verb and resource, how often. A watch counts once, however often it tells.
pub(super) fn requests(cluster: &Cluster) -> Result<BTreeMap<String, usize>> {
    let root = format!("/proc/{}/root", cluster.control_plane().init()?);
    let log = fs::read_to_string(Path::new(&root).join(LOG))?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        // The end of a watch is the second event of the same request.
        if event["verb"] == "watch" && event["stage"] == "ResponseComplete" {
            continue;
        }
        let object = &event["objectRef"];
        let what = format!("{} {}", text(&event["verb"]), text(&object["resource"]));
        *counts.entry(what).or_default() += 1;
    }
    ensure!(!counts.is_empty(), "the API server heard nothing of Osier: is it another's log?");
    Ok(counts)
}

/// What was asked between two counts.
pub(super) fn between(
    before: &BTreeMap<String, usize>,
    after: &BTreeMap<String, usize>,
) -> BTreeMap<String, usize> {
    let new = after.iter().map(|(what, count)| {
        (what.clone(), count - before.get(what).copied().unwrap_or_default().min(*count))
    });
    new.filter(|(_, count)| *count > 0).collect()
}
