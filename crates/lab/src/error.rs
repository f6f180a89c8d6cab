//! Why a lab could not be made, found or asked. Each says what to do where there is something.

use crate::spec::{LabName, SpecError};
use osier_testbed::{CommandError, FabricError, Timeout};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Something about a lab failed.
#[derive(Debug, Error)]
pub enum LabError {
    /// It cannot be asked for.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The caller is not root.
    #[error("labs are made of network namespaces and switches, which need root: try sudo")]
    NotRoot,
    /// Programs are missing.
    #[error("{} not found: on Debian, `apt-get install {packages}`", programs.join(", "))]
    ProgramsMissing {
        /// Which.
        programs: Vec<String>,
        /// The packages that have them.
        packages: String,
    },
    /// The plugin is missing.
    #[error(
        "the plugin osier-cni is neither beside {} nor in PATH: build it with `make cni`",
        beside.display()
    )]
    PluginMissing {
        /// This program.
        beside: PathBuf,
    },
    /// There is such a lab.
    #[error(
        "there is a lab {name} already: use it, remove it with `osier lab down --name {name}`, or choose another --name"
    )]
    Taken {
        /// Its name.
        name: LabName,
    },
    /// There is no such lab.
    #[error(
        "there is no lab {name}: `osier lab up --name {name}` makes it, `osier lab list` shows all"
    )]
    Unknown {
        /// The name.
        name: LabName,
    },
    /// Several labs, and none was named.
    #[error("there are several labs: choose one with --name ({})", names.join(", "))]
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// It is not complete.
    #[error("lab {name} is still being made: try again when `osier lab up` has ended")]
    Starting {
        /// Its name.
        name: LabName,
    },
    /// It lost its keeper.
    #[error(
        "lab {name} is dead (its keeper was killed): `osier lab down --name {name}` removes the rest"
    )]
    Dead {
        /// Its name.
        name: LabName,
    },
    /// No pod and no node has this name.
    #[error("lab {lab} has no {wanted:?}: it has {known}")]
    NoSuchPlace {
        /// The lab.
        lab: LabName,
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// A file or directory of the registry.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The keeper could not be started.
    #[error("the lab's keeper cannot be started")]
    KeeperStart(#[source] io::Error),
    /// The keeper could not make the lab; its own words.
    #[error("{0}")]
    Build(String),
    /// The keeper ended without a word.
    #[error("the lab's keeper ended without a word: {log}")]
    KeeperLost {
        /// The end of its log.
        log: String,
    },
    /// The keeper was not understood.
    #[error("the lab's keeper cannot be asked")]
    Ask(#[source] io::Error),
    /// The user wanted it so.
    #[error("interrupted: what was made is being removed")]
    Interrupted,
    /// The place for it could not be made.
    #[error("no place for the lab")]
    Place(#[from] osier_testbed::LabError),
    /// A node could not be made.
    #[error("a node cannot be made")]
    Fabric(#[from] FabricError),
    /// A command failed.
    #[error("a command failed")]
    Command(#[from] CommandError),
    /// An agent did not come up.
    #[error("the agent of {node} {problem}; it said:\n{log}")]
    Agent {
        /// Its node.
        node: String,
        /// What happened.
        problem: String,
        /// The end of its log.
        log: String,
    },
    /// The plugin refused.
    #[error("osier-cni {command} of {pod} failed: {said}")]
    Plugin {
        /// What it was called for.
        command: &'static str,
        /// The pod.
        pod: String,
        /// What it said.
        said: String,
    },
    /// `ping` could not be run.
    #[error("cannot ping")]
    Ping(#[source] io::Error),
    /// Something stays.
    #[error("not all of lab {name} could be removed:\n{left}")]
    Left {
        /// Its name.
        name: LabName,
        /// What.
        left: String,
    },
    /// Something did not happen in time.
    #[error("too late")]
    Late(#[from] Timeout),
    /// A command in the lab could not be started.
    #[error("cannot run {program}")]
    Exec {
        /// It.
        program: String,
        /// Why.
        source: io::Error,
    },
}
