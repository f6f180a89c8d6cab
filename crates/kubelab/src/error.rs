//! What can go wrong, by operation.

use osier_testbed::{CommandError, LabError, NetnsError, Timeout};
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use thiserror::Error;

/// Something could not be done with a machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// Its folder could not be made.
    #[error("no folder for machine {machine}")]
    Folder {
        /// The machine.
        machine: String,
        /// Why.
        source: LabError,
    },
    /// Its PID 1 ended.
    #[error("machine {machine} did not boot ({status})\n{stderr}")]
    Boot {
        /// The machine.
        machine: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// It has no power.
    #[error("machine {machine} is off")]
    Off {
        /// The machine.
        machine: String,
    },
    /// There is no such daemon, or it was ended.
    #[error("{daemon} does not run on {machine}")]
    NotRunning {
        /// The machine.
        machine: String,
        /// The daemon.
        daemon: String,
    },
    /// A signal could not be sent.
    #[error("{daemon} on {machine} cannot be signalled")]
    Signal {
        /// The machine.
        machine: String,
        /// The daemon.
        daemon: String,
        /// Why.
        source: io::Error,
    },
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Its namespace could not be used.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Something did not come in time.
    #[error(transparent)]
    Timeout(#[from] Timeout),
}

/// A cluster, or a part of it, did not come up or did not do as told.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// Kubernetes is not installed.
    #[error(
        "{} has no {program}: run scripts/install-kubernetes, or say in OSIER_KUBERNETES_DIR where it is",
        dir.display()
    )]
    NotInstalled {
        /// Where it was looked for.
        dir: PathBuf,
        /// What is missing.
        program: &'static str,
    },
    /// A setting that cannot be.
    #[error("{what}")]
    Setting {
        /// What is wrong.
        what: String,
    },
    /// There is no lab for it.
    #[error("no place for the cluster")]
    Lab(#[from] LabError),
    /// A machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A command on the host.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Something did not come in time; what ended by itself meanwhile.
    #[error("{timeout}\n{obituaries}")]
    NotReady {
        /// What.
        timeout: Timeout,
        /// The ends of the logs of daemons that ended.
        obituaries: String,
    },
    /// A daemon that is needed ended instead.
    #[error("a daemon ended while it was waited for\n{obituaries}")]
    Ended {
        /// Which, how, and the end of its log.
        obituaries: String,
    },
    /// A certificate could not be made.
    #[error("a certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// A file.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Images could not be made.
    #[error("cannot make the images")]
    Images(#[from] crate::images::ImagesError),
    /// What kubectl said is no JSON, or not what was asked for.
    #[error("kubectl's answer is not understood")]
    Answer(#[from] serde_json::Error),
    /// There is no such node.
    #[error("there is no node {0}")]
    NoNode(String),
    /// It failed, and its logs were kept.
    #[error("see the logs in {}", logs.display())]
    Kept {
        /// Where they are.
        logs: PathBuf,
        /// What failed.
        source: Box<ClusterError>,
    },
}

/// For `map_err`: a file and what was tried with it.
pub(crate) fn file(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> ClusterError {
    let path = path.into();
    move |source| ClusterError::File { action, path, source }
}
