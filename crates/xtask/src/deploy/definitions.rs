//! The definitions of our resources, as a template of the chart.
//!
//! A template, not in Helm's folder `crds`: from there Helm never upgrades them. Helm is told to keep
//! them when a release is removed, for with them would go what users made.

use super::values::sorted;
use anyhow::{Result, ensure};
use serde_json::json;

pub(super) fn template() -> Result<String> {
    let mut documents = Vec::new();
    for definition in osier_kubernetes::crds() {
        let mut definition = serde_json::to_value(definition)?;
        let metadata = &mut definition["metadata"];
        metadata["labels"]["app.kubernetes.io/part-of"] = json!("osier");
        metadata["annotations"]["helm.sh/resource-policy"] = json!("keep");
        let text = serde_saphyr::to_string(&sorted(&definition))?;
        ensure!(!text.contains("{{"), "a definition has braces, which a template cannot have");
        documents.push(text.trim_end().to_owned());
    }
    let header = "# Written by `cargo xtask deploy` from crates/kubernetes.\n";
    Ok(format!("{header}{}\n", documents.join("\n---\n")))
}
