//! `cargo xtask deploy`: everything under `deploy/` that is made from something else.
//!
//! The chart's templates and `values.schema.json` are written by people. From them come
//! `Chart.yaml`, `values.yaml`, `deploy/osier.yaml` (the chart with its defaults and a namespace),
//! `deploy/osier-uninstall.yaml` and the table of values in `docs/install.md`; from the code the
//! definitions of our resources, one of the templates. `cargo xtask check` fails if one of those is
//! not as it would be written.

mod definitions;
mod template;
mod values;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const CHART: &str = "deploy/helm/osier";
/// The template that nobody writes by hand.
const DEFINITIONS: &str = "definitions.yaml";
const NAMESPACE: &str = "osier-system";
const MARKS: [&str; 2] = ["<!-- values: cargo xtask deploy -->\n", "<!-- end of values -->\n"];

/// The order in which objects are made: what others need comes first.
const KINDS: &[&str] = &[
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
    "DaemonSet",
    "PodMonitor",
];

/// Writes all of it, or prints the manifest with other values: `--print [--set name=value]…`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let sources = Sources::read()?;
    if let Some(("--print", assignments)) =
        arguments.split_first().map(|(first, rest)| (first.as_str(), rest))
    {
        let mut values = sources.plain_values()?;
        for pair in assignments.chunks(2) {
            match pair {
                [set, assignment] if set == "--set" => values::set(&mut values, assignment)?,
                _ => bail!("usage: cargo xtask deploy [--print [--set NAME=VALUE]...]"),
            }
        }
        print!("{}", sources.manifest(&values)?);
        return Ok(());
    }
    ensure!(arguments.is_empty(), "usage: cargo xtask deploy [--print [--set NAME=VALUE]...]");
    for (path, text) in sources.outcome()? {
        let failed = || format!("writing {path}");
        std::fs::write(root().join(&path), text).with_context(failed)?;
    }
    Ok(())
}

/// Whether all is as it would be written.
pub(crate) fn check() -> Result<()> {
    for (path, text) in Sources::read()?.outcome()? {
        let found = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
        ensure!(found == text, "{path} is stale: run `cargo xtask deploy`");
    }
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What people write.
struct Sources {
    schema: Value,
    /// By name, sorted.
    templates: Vec<(String, String)>,
    install: String,
}

impl Sources {
    fn read() -> Result<Self> {
        let chart = root().join(CHART);
        let schema = serde_json::from_str(&read(&chart.join("values.schema.json"))?)?;
        let mut templates = Vec::new();
        for entry in std::fs::read_dir(chart.join("templates"))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_some_and(|end| end == "yaml") && name != DEFINITIONS {
                templates.push((name, read(&path)?));
            }
        }
        templates.push((DEFINITIONS.to_owned(), definitions::template()?));
        templates.sort();
        Ok(Self { schema, templates, install: read(&root().join("docs/install.md"))? })
    }

    /// The values of `deploy/osier.yaml`.
    fn plain_values(&self) -> Result<Value> {
        let mut values = values::defaults(&self.schema)?;
        values["createNamespace"] = json!(true);
        Ok(values)
    }

    /// Every file that is written, and what is in it.
    fn outcome(&self) -> Result<Vec<(String, String)>> {
        let plain = self.plain_values()?;
        let uninstall = template::render(include_str!("uninstall.yaml"), &scope(&plain))?;
        Ok(vec![
            (format!("{CHART}/Chart.yaml"), chart()),
            (format!("{CHART}/values.yaml"), values::yaml(&self.schema)?),
            (format!("{CHART}/templates/{DEFINITIONS}"), definitions::template()?),
            ("deploy/osier.yaml".to_owned(), self.manifest(&plain)?),
            ("deploy/osier-uninstall.yaml".to_owned(), uninstall),
            ("docs/install.md".to_owned(), self.install_page()?),
        ])
    }

    /// All objects, with these values.
    fn manifest(&self, values: &Value) -> Result<String> {
        let mut objects = Vec::new();
        for (name, template) in &self.templates {
            let text = template::render(template, &scope(values)).with_context(|| name.clone())?;
            for document in text.split("\n---\n").filter(|text| !text.trim().is_empty()) {
                let object: Value =
                    serde_saphyr::from_str(document).with_context(|| name.clone())?;
                let kind = object["kind"].as_str().with_context(|| format!("{name}: no kind"))?;
                let rank = KINDS.iter().position(|known| *known == kind);
                let rank = rank.with_context(|| format!("{name}: {kind} is not in KINDS"))?;
                objects.push((rank, document.trim().to_owned()));
            }
        }
        // Stable: inside of a kind as the templates have it.
        objects.sort_by_key(|(rank, _)| *rank);
        let mut manifest = String::from(
            "# Osier, for `kubectl apply -f`. Written by `cargo xtask deploy` from deploy/helm/osier: change it\n\
             # there. docs/install.md tells more.\n",
        );
        for (_, document) in objects {
            manifest.push_str("---\n");
            manifest.push_str(&document);
            manifest.push('\n');
        }
        Ok(manifest)
    }

    fn install_page(&self) -> Result<String> {
        let page = self.install.as_str();
        let (before, rest) = page.split_once(MARKS[0]).context("docs/install.md lost its marks")?;
        let (_, after) = rest.split_once(MARKS[1]).context("docs/install.md lost its marks")?;
        let table = values::table(&self.schema)?;
        Ok(format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]))
    }
}

/// What templates may name.
fn scope(values: &Value) -> Value {
    json!({
        "Values": values,
        "Release": {"Namespace": NAMESPACE},
        "Chart": {"AppVersion": env!("CARGO_PKG_VERSION")},
    })
}

fn chart() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "# Written by `cargo xtask deploy`.\n\
         apiVersion: v2\n\
         name: osier\n\
         description: A Kubernetes network on Open vSwitch\n\
         type: application\n\
         version: {version}\n\
         appVersion: \"{version}\"\n\
         kubeVersion: \">=1.31.0-0\"\n\
         keywords: [cni, networking, openvswitch]\n"
    )
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
