//! `osier support-bundle`: what helps to find a fault, in one file, without secrets.
//!
//! Whatever cannot be had is noted and left out: the bundle is made when things do not work.

use super::asking;
use crate::client::answers::{Diagnostics, Status};
use crate::client::{Client, ClientError, Connection, escaped};
use crate::progress::Progress;
use crate::redact;
use crate::render::paint::Paint;
use crate::render::status;
use anyhow::Context;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use osier_resource::Kind;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use time::OffsetDateTime;
use time::macros::format_description;

/// The folder that all files of a bundle are in.
const FOLDER: &str = "osier-support";
const README: &str = "\
What Osier knew when this was made, without credentials, tokens and private keys.

versions.txt         of the command line and the controller
status.txt, .json    how the cluster was, as `osier status` shows it
check.json           what `osier check` found
metrics.txt          the controller's
resources/*.json     the model
nodes/*/             flows, groups, the switch's database, log, view, interfaces of each node
errors.txt           what could not be had, and why
";

#[derive(Debug, Args)]
#[command(after_help = "\
Credentials, tokens and private keys are removed; names and addresses of pods and nodes are not. \
Look through it before you give it away.

Examples:
  osier support-bundle                      # osier-support-DATE.tar.gz
  osier support-bundle -o - | tar tzf -")]
pub(crate) struct Arguments {
    /// The file; - for standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let now = OffsetDateTime::now_utc();
    let date = now.format(format_description!("[year]-[month]-[day]-[hour][minute][second]"))?;
    let default = || PathBuf::from(format!("osier-support-{date}.tar.gz"));
    let path = arguments.file.clone().unwrap_or_else(default);
    asking(&arguments.connection, async |client| {
        let mut bundle = Bundle::new(client, now);
        bundle.collect().await;
        let count = bundle.files.len();
        let bytes = bundle.pack()?;
        if path.as_os_str() == "-" {
            std::io::stdout().write_all(&bytes)?;
            return Ok(ExitCode::SUCCESS);
        }
        let unwritten = || format!("{} cannot be written", path.display());
        create(&path).and_then(|mut f| f.write_all(&bytes)).with_context(unwritten)?;
        writeln!(std::io::stdout(), "{}: {count} files, {} bytes", path.display(), bytes.len())?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Names and addresses are not for everybody on this machine.
fn create(path: &std::path::Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

struct Bundle<'a> {
    client: &'a Client,
    now: OffsetDateTime,
    files: Vec<(String, String)>,
    errors: Vec<String>,
}

impl<'a> Bundle<'a> {
    fn new(client: &'a Client, now: OffsetDateTime) -> Self {
        Self { client, now, files: Vec::new(), errors: Vec::new() }
    }

    async fn collect(&mut self) {
        let progress = Progress::new();
        self.add("README.txt", README);
        progress.step("the controller", 1, 1);
        let nodes = self.controller().await;
        let total = u16::try_from(nodes.len()).unwrap_or(u16::MAX);
        for (number, node) in (1..).zip(&nodes) {
            progress.step(&format!("node {node}"), number, total);
            self.node(node).await;
        }
        let errors = std::mem::take(&mut self.errors).join("\n");
        self.add(
            "errors.txt",
            &if errors.is_empty() { "none\n".to_owned() } else { errors + "\n" },
        );
    }

    /// All that is not of a node: the nodes' names.
    async fn controller(&mut self) -> Vec<String> {
        let ours = env!("CARGO_PKG_VERSION");
        let theirs = self.client.read::<Value>("/version").await;
        let theirs = self.had("versions", theirs).unwrap_or_default();
        self.add("versions.txt", &format!("osier {ours}\ncontroller {theirs}\n"));
        let metrics = self.client.read_bytes("/metrics").await;
        if let Some(metrics) = self.had("metrics", metrics) {
            self.add("metrics.txt", &String::from_utf8_lossy(&metrics));
        }
        let checks = self.client.get("/check").await;
        if let Some(checks) = self.had("check", checks) {
            self.add_value("check.json", checks);
        }
        for kind in Kind::ALL {
            let listing = self.client.list(kind, None).await;
            if let Some(listing) = self.had(kind.plural(), listing) {
                let list = serde_json::json!({"kind": "List", "items": listing.items});
                self.add_value(&format!("resources/{}.json", kind.plural()), list);
            }
        }
        let status = self.client.get::<Value>("/status").await;
        let status = self.had("status", status).unwrap_or_default();
        let read: Status = serde_json::from_value(status.clone()).unwrap_or_default();
        self.add("status.txt", &status::draw(&read, true, self.now, Paint::OFF));
        self.add_value("status.json", status);
        read.nodes.into_iter().map(|node| node.name).collect()
    }

    async fn node(&mut self, node: &str) {
        let answer = self.client.get(&format!("/nodes/{}/diagnostics", escaped(node))).await;
        let Some(answer) = self.had(&format!("node {node}"), answer) else { return };
        let Diagnostics { flows, groups, ovsdb, log, view, metrics, machine } = answer;
        let texts = [
            ("flows", flows),
            ("groups", groups),
            ("ovsdb", ovsdb),
            ("log", log),
            ("metrics", metrics),
            ("machine", machine),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            self.add(&format!("nodes/{node}/{name}.txt"), &text);
        }
        self.add_value(&format!("nodes/{node}/view.json"), view);
    }

    /// What was had; if it was not, why is noted.
    fn had<T>(&mut self, what: &str, outcome: Result<T, ClientError>) -> Option<T> {
        match outcome {
            Ok(had) => Some(had),
            Err(error) => {
                self.errors.push(format!("{what}: {:#}", anyhow::Error::new(error)));
                None
            }
        }
    }

    fn add(&mut self, name: &str, text: &str) {
        let text = redact::text(text, &[self.client.secret()]);
        self.files.push((name.to_owned(), text));
    }

    fn add_value(&mut self, name: &str, mut value: Value) {
        redact::value(&mut value, &[self.client.secret()]);
        self.files.push((name.to_owned(), format!("{value:#}")));
    }

    fn pack(self) -> anyhow::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        for (name, text) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(self.now.unix_timestamp().unsigned_abs());
            archive.append_data(&mut header, format!("{FOLDER}/{name}"), text.as_bytes())?;
        }
        Ok(archive.into_inner()?.finish()?)
    }
}
