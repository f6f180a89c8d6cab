//! `osier get pods`: pods, and what the nodes' agents say of their ports.

use super::get::Form;
use crate::client::Client;
use crate::render::paint::{Paint, Tone};
use crate::render::table::{Cell, Table};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{self, Write};

/// Which pods are meant.
pub(super) struct Meant<'a> {
    pub(super) names: &'a [String],
    /// Of one namespace, or of all.
    pub(super) namespace: Option<&'a str>,
}

/// A pod, as the controller tells of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pod {
    namespace: String,
    name: String,
    node: Option<String>,
    #[serde(default)]
    addresses: Vec<String>,
    phase: Option<String>,
    port: String,
    #[serde(default)]
    host_network: bool,
}

#[derive(Deserialize)]
struct Pods {
    items: Vec<Pod>,
}

/// Prints those that are meant.
pub(super) async fn print(client: &Client, form: Form, meant: Meant<'_>) -> anyhow::Result<()> {
    let Pods { mut items } = client.get("/pods").await?;
    let is_meant = |pod: &Pod| {
        meant.namespace.is_none_or(|namespace| pod.namespace == namespace)
            && (meant.names.is_empty() || meant.names.contains(&pod.name))
    };
    items.retain(is_meant);
    let whole = || json!({"kind": "PodList", "items": items});
    let text = match form {
        Form::Json => serde_json::to_string_pretty(&whole())? + "\n",
        Form::Yaml => serde_saphyr::to_string(&whole())?,
        Form::Name => {
            let line = |pod: &Pod| format!("pod/{}/{}\n", pod.namespace, pod.name);
            items.iter().map(line).collect()
        }
        Form::Table | Form::Wide if items.is_empty() => {
            let among = meant.namespace.map(|namespace| format!(" in namespace {namespace}"));
            writeln!(io::stderr(), "there are no pods{}", among.unwrap_or_default())?;
            return Ok(());
        }
        Form::Table | Form::Wide => draw(&items).draw("", Paint::for_output()),
    };
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

fn draw(items: &[Pod]) -> Table {
    let mut table = Table::new(["NAMESPACE", "NAME", "NODE", "ADDRESSES", "PHASE", "PORT"]);
    let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    for pod in items {
        let tone = if pod.port == "Missing" { Tone::Bad } else { Tone::Plain };
        table.push([
            Cell::from(pod.namespace.as_str()),
            pod.name.as_str().into(),
            or_none(pod.node.as_deref().unwrap_or_default()).into(),
            or_none(&pod.addresses.join(",")).into(),
            or_none(pod.phase.as_deref().unwrap_or_default()).into(),
            Cell::toned(tone, pod.port.as_str()),
        ]);
    }
    table
}

/// What `pods` alone cannot do.
pub(super) fn refuse(watch: bool, selector: Option<&String>) -> anyhow::Result<()> {
    match (watch, selector) {
        (true, _) => anyhow::bail!("pods cannot be watched here: kubectl get pods -w does"),
        (_, Some(_)) => anyhow::bail!("pods cannot be selected by labels here: kubectl does"),
        _ => Ok(()),
    }
}
