//! `osier lab`: a playground on this machine.

use crate::output::{Form, Output, width};
use crate::progress::Progress;
use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use nix::sys::signal::{SigSet, Signal};
use osier_lab::client::{self, Canceller};
use osier_lab::{Entry, LabError, LabName, LabSpec, Layout, Registry, Report, State};
use osier_lab::{PodFamily, TunnelKind, enter, keeper, picture, ping_all};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// What the hidden verb of the keeper is called with.
const KEEP: [&str; 2] = ["lab", "keep"];
/// What a shell says of a program that was interrupted, not found, or may not run.
const INTERRUPTED: u8 = 130;
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
A lab is a small cluster on this machine. Each node is a network namespace with an Open vSwitch \
and an osier agent of its own; pods are namespaces that the plugin osier-cni attached, called as a \
container runtime calls it. Nothing of it touches the machine's own network. Labs need root and \
stay until `down`.

Examples:
  osier lab up --nodes 3 --pods 4        # make one, and show it
  osier lab ping-all                     # does everybody reach everybody?
  osier lab exec pod1 -- ip address      # what a pod sees
  osier lab exec n1 -- ovs-vsctl show    # what a node's switch has
  osier lab down                         # remove it"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a lab
    Up(Up),
    /// Show a lab, and whether its parts are well
    Status {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        output: Output,
    },
    /// Run a command in a pod or a node
    Exec(Exec),
    /// Ping from every pod to every other, and fail if one does not answer
    PingAll(PingAll),
    /// Remove a lab, in whatever state it is
    Down(Which),
    /// Show which labs there are
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Keep a lab (started by `up`)
    #[command(hide = true)]
    Keep {
        /// What it shall be, as JSON
        spec: String,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// The lab's name; if there is only one lab, that one is meant
    #[arg(long)]
    name: Option<LabName>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osier lab up                                  # three nodes, four pods, both families
  osier lab up --nodes 1 --pods 2 --name small  # another one beside it
  osier lab up --family ipv6 --tunnel vxlan
  osier lab up --controller                     # then: osier lab exec controller -- osier status")]
struct Up {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = nodes)]
    nodes: u8,
    /// How many pods in all; they are spread over the nodes
    #[arg(long, default_value_t = 4)]
    pods: u16,
    /// Which addresses pods get
    #[arg(long, default_value = "dual", value_parser = words::<PodFamily>(&PodFamily::WORDS))]
    family: PodFamily,
    /// How packets travel between nodes
    #[arg(long, default_value = "geneve", value_parser = words::<TunnelKind>(&TunnelKind::WORDS))]
    tunnel: TunnelKind,
    /// Run a controller as well: nodes join it, and hear of the cluster from it
    #[arg(long)]
    controller: bool,
    /// Tell the controller of this file, and make a pod of each port in it
    #[arg(long, value_name = "FILE")]
    apply: Option<std::path::PathBuf>,
    /// The lab's name
    #[arg(long, default_value_t = LabName::default_name())]
    name: LabName,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The command's exit code is ours. In a node, Open vSwitch's tools find the node's switch.

Examples:
  osier lab exec pod1 -- ping -c3 10.1.2.2
  osier lab exec pod1 -- bash
  osier lab exec n1 -- ovs-ofctl dump-flows br-int
  osier lab exec n1 -- ovs-appctl dpctl/dump-flows")]
struct Exec {
    #[command(flatten)]
    which: Which,
    /// The pod, or the node
    #[arg(value_name = "POD")]
    place: String,
    /// What to run
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct PingAll {
    #[command(flatten)]
    which: Which,
    /// How long to wait for a first reply between two pods, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    timeout: u16,
    #[command(flatten)]
    output: Output,
}

fn words<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr + Clone + Send + Sync + 'static,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}

fn nodes(text: &str) -> Result<u8, String> {
    let nodes = text.parse().map_err(|_| "it is no number of nodes".to_owned())?;
    let (name, family) = (LabName::default_name(), PodFamily::Dual);
    let spec = LabSpec {
        name,
        nodes,
        pods: 0,
        family,
        tunnel: TunnelKind::Geneve,
        controller: false,
        apply: None,
    };
    spec.validate().map(|()| nodes).map_err(|error| error.to_string())
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let registry = Registry::system();
    match arguments.verb {
        Verb::Up(arguments) => up(arguments),
        Verb::Keep { spec } => {
            let spec = serde_json::from_str(&spec).context("this is for `osier lab up` only")?;
            keeper::run(&spec)?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Status { which, output } => {
            let layout = find(&registry, &which)?;
            let report = client::report(&registry, &layout.spec.name)?;
            let status = Status { layout: &layout, health: &report };
            output.print(&status, |_| picture::draw(&layout, Some(&report), width()))?;
            Ok(code(report.is_ok()))
        }
        Verb::Exec(arguments) => exec(&registry, &arguments),
        Verb::PingAll(arguments) => {
            let layout = find(&registry, &arguments.which)?;
            let patience = Duration::from_secs(arguments.timeout.into());
            let matrix = ping_all(&layout, patience)?;
            arguments.output.print(&matrix, |_| picture::matrix(&matrix))?;
            Ok(code(matrix.is_ok()))
        }
        Verb::Down(which) => {
            client::check_privilege()?;
            let name = registry.choose(which.name.as_ref())?;
            let was_there = client::down(&registry, &name)?;
            let said = if was_there { "is removed" } else { "is not there: nothing to remove" };
            writeln!(std::io::stderr(), "lab {name} {said}")?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::List { output } => list(&registry, output),
    }
}

/// A lab's facts and its health.
#[derive(Serialize)]
struct Status<'a> {
    #[serde(flatten)]
    layout: &'a Layout,
    health: &'a Report,
}

/// The facts of the lab that is meant.
fn find(registry: &Registry, which: &Which) -> Result<Layout, LabError> {
    client::check_privilege()?;
    registry.layout(&registry.choose(which.name.as_ref())?)
}

fn up(arguments: Up) -> anyhow::Result<ExitCode> {
    let Up { nodes, pods, family, tunnel, name, controller, apply } = arguments;
    // The keeper is elsewhere.
    let apply = apply.map(std::path::absolute).transpose()?;
    let controller = controller || apply.is_some();
    let spec = LabSpec { name, nodes, pods, family, tunnel, controller, apply };
    // Blocked before any thread is there: only the one that waits for them hears them.
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block()?;
    let starting = client::start(&spec, &KEEP)?;
    give_up_when_told(signals, starting.canceller());
    let progress = Progress::new();
    let finished = starting.finish(|text, number, total| progress.step(text, number, total));
    drop(progress);
    match finished {
        Ok(layout) => {
            let (drawn, hints) = (picture::draw(&layout, None, width()), picture::hints(&layout));
            write!(std::io::stdout(), "{drawn}\n{hints}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(LabError::Interrupted) => {
            writeln!(std::io::stderr(), "osier: interrupted; nothing is left of the lab")?;
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error.into()),
    }
}

/// Lets ctrl-C give the lab up in good order; a second one ends us at once, the keeper follows.
fn give_up_when_told(signals: SigSet, canceller: Canceller) {
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            if canceller.cancel() {
                std::process::exit(INTERRUPTED.into());
            }
        }
    });
}

fn exec(registry: &Registry, arguments: &Exec) -> anyhow::Result<ExitCode> {
    let layout = find(registry, &arguments.which)?;
    let error = enter::exec(&layout, &arguments.place, &arguments.command);
    let code = match &error {
        LabError::Exec { source, .. } if source.kind() == std::io::ErrorKind::NotFound => NOT_FOUND,
        LabError::Exec { .. } => NOT_EXECUTABLE,
        _ => return Err(error.into()),
    };
    writeln!(std::io::stderr(), "osier: {:#}", anyhow::Error::from(error))?;
    Ok(ExitCode::from(code))
}

/// A lab in a list.
#[derive(Serialize)]
struct Row {
    name: LabName,
    state: &'static str,
    nodes: Option<u8>,
    pods: Option<u16>,
    directory: Option<String>,
}

impl From<Entry> for Row {
    fn from(Entry { name, state, layout }: Entry) -> Self {
        let state = match state {
            State::Starting => "starting",
            State::Up => "up",
            State::Dead => "dead",
        };
        let spec = layout.as_ref().map(|layout| &layout.spec);
        let (nodes, pods) = (spec.map(|spec| spec.nodes), spec.map(|spec| spec.pods));
        let directory = layout.as_ref().map(|layout| layout.dir.display().to_string());
        Self { name, state, nodes, pods, directory }
    }
}

fn list(registry: &Registry, output: Output) -> anyhow::Result<ExitCode> {
    client::check_privilege()?;
    let rows: Vec<Row> = registry.entries().into_iter().map(Row::from).collect();
    output.print(&rows, |form| {
        if rows.is_empty() {
            return "no labs: `osier lab up` makes one\n".to_owned();
        }
        let mut lines = vec![["NAME", "STATE", "NODES", "PODS"].map(str::to_owned).to_vec()];
        let shown = |n: Option<u16>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        for row in &rows {
            let (nodes, pods) = (shown(row.nodes.map(u16::from)), shown(row.pods));
            lines.push(vec![row.name.to_string(), row.state.to_owned(), nodes, pods]);
        }
        if form == Form::Wide {
            lines[0].push("DIRECTORY".to_owned());
            for (line, row) in lines[1..].iter_mut().zip(&rows) {
                line.push(row.directory.clone().unwrap_or_default());
            }
        }
        picture::columns(&lines)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn code(is_ok: bool) -> ExitCode {
    if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
