//! Runs of the Kubernetes end-to-end suite against a cluster.
//!
//! The suite runs on the control plane's machine, from where nodes and pods are reached.

use crate::layout::Layout;
use crate::report::{Report, ReportError};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use thiserror::Error;

/// The specs of networks that every cluster must pass.
pub const CONFORMANCE: &str = r"\[sig-network\].*\[Conformance\]";

/// The same, and those that only a dual-stack cluster can pass.
pub const CONFORMANCE_DUAL: &str = r"\[sig-network\].*(\[Conformance\]|\[Feature:IPv6DualStack\])";

/// The specs of Services that only some clusters pass: the reference network with kube-proxy says
/// which.
pub const BEYOND: &str = r"\[sig-network\] (Services|Networking|EndpointSlice|Conntrack|HostPort|Proxy|Traffic Distribution|Service CIDRs|Topology Hints)";

/// What of those is not run: what every cluster must pass, what takes daemons away, what needs sockets of
/// SCTP, what needs the internet, what measures, and what asks kube-proxy itself.
pub const NOT_BEYOND: &str = r"\[Conformance\]|\[Disruptive\]|\[Feature:SCTPConnectivity\]|IPerf2|Internet connection|kube-proxy urls";

const JSON: &str = "report.json";
const LOG: &str = "e2e.log";

/// What is run.
#[derive(Debug, Clone)]
pub struct Suite {
    /// A pattern that names of specs match.
    pub focus: String,
    /// A pattern that they do not; empty for none.
    pub skip: String,
    /// How many specs run at once.
    pub processes: u8,
    /// When the run is cut short.
    pub timeout: Duration,
    /// More arguments for `e2e.test`.
    pub arguments: Vec<String>,
}

impl Default for Suite {
    fn default() -> Self {
        Self {
            focus: CONFORMANCE.to_owned(),
            skip: String::new(),
            processes: 4,
            timeout: Duration::from_hours(1),
            arguments: Vec::new(),
        }
    }
}

/// Why there are no results.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// The cluster has no control plane.
    #[error("the cluster has no machine named cp")]
    NoControlPlane,
    /// A file could not be written or read.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not be run.
    #[error("ginkgo cannot be run")]
    Run(#[source] io::Error),
    /// It ended and left no report.
    #[error("ginkgo left no report ({status}); see {}", log.display())]
    NoReport {
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        log: PathBuf,
    },
    /// Its report is odd.
    #[error("the report is not understood")]
    Report(#[from] ReportError),
}

impl Suite {
    /// Runs it; logs and the report go to `dir`. That specs failed is in the report, and no error.
    pub fn run(&self, cluster: &Layout, dir: &Path) -> Result<Report, SuiteError> {
        let file = |path: &Path| {
            let path = path.to_owned();
            move |source| SuiteError::File { path, source }
        };
        fs::create_dir_all(dir).map_err(file(dir))?;
        let dir = dir.canonicalize().map_err(file(dir))?;
        let (log, json) = (dir.join(LOG), dir.join(JSON));
        let out = File::create(&log).map_err(file(&log))?;
        let err = out.try_clone().map_err(file(&log))?;
        let mut ginkgo = cluster.command("cp", "ginkgo").ok_or(SuiteError::NoControlPlane)?;
        ginkgo.args(["run", "--no-color", "--focus", &self.focus]);
        if !self.skip.is_empty() {
            ginkgo.args(["--skip", &self.skip]);
        }
        ginkgo
            .arg(format!("--procs={}", self.processes))
            .arg(format!("--timeout={}s", self.timeout.as_secs()))
            .arg(format!("--output-dir={}", dir.display()))
            .arg(format!("--json-report={JSON}"))
            .arg(cluster.programs.join("e2e.test"))
            .args(["--", "--provider=skeleton", "--disable-log-dump"])
            .arg(format!("--kubeconfig={}", cluster.kubeconfig_inside.display()))
            .arg(format!("--kubectl-path={}", cluster.programs.join("kubectl").display()))
            .arg(format!("--num-nodes={}", cluster.nodes()))
            .args(&self.arguments)
            // It keeps caches there.
            .env("HOME", &cluster.dir)
            .stdin(std::process::Stdio::null())
            .stdout(out)
            .stderr(err);
        let status = ginkgo.status().map_err(SuiteError::Run)?;
        match fs::read(&json) {
            Ok(report) => Ok(Report::from_ginkgo(&report)?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(SuiteError::NoReport { status, log })
            }
            Err(source) => Err(SuiteError::File { path: json, source }),
        }
    }
}
