//! What would not work on this machine, told before Osier is installed.
//!
//! Looked at from the machine itself, with nothing of Osier there and nothing changed: the kernel,
//! Open vSwitch, the uplink, addresses, other CNI plugins, the firewall, ports. Each module reads
//! the machine in one place and judges what it read in another, which knows no machine.

mod addresses;
mod firewall;
mod kernel;
mod plugins;
mod ports;
mod switch;

use crate::client::answers::{Check, CheckResult};
use ipnet::IpNet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What is going to be installed, as far as it makes a difference.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Pods' addresses; none: nobody says.
    pub(crate) pods: Vec<IpNet>,
    /// Services' addresses.
    pub(crate) services: Vec<IpNet>,
    /// Whether the switch's own datapath is used, not the kernel's.
    pub(crate) userspace: bool,
    /// Whether Osier brings its own Open vSwitch along.
    pub(crate) brings_switch: bool,
    /// Where runtimes look for CNI configurations.
    pub(crate) cni_folder: PathBuf,
    /// The switch's database.
    pub(crate) database: PathBuf,
}

/// Looks at everything.
pub(crate) fn look(plan: &Plan) -> Vec<Check> {
    let mut checks = kernel::check(plan);
    checks.push(switch::check(plan));
    checks.extend(addresses::check(plan));
    checks.push(plugins::check(plan));
    checks.extend(firewall::check());
    checks.extend(ports::check());
    checks
}

fn well(name: &str, detail: impl Into<String>) -> Check {
    judged(name, CheckResult::Ok, detail, "")
}

fn warning(name: &str, detail: impl Into<String>, advice: impl Into<String>) -> Check {
    judged(name, CheckResult::Warning, detail, advice)
}

fn failed(name: &str, detail: impl Into<String>, advice: impl Into<String>) -> Check {
    judged(name, CheckResult::Failed, detail, advice)
}

fn skipped(name: &str, detail: impl Into<String>) -> Check {
    judged(name, CheckResult::Skipped, detail, "")
}

fn judged(
    name: &str,
    result: CheckResult,
    detail: impl Into<String>,
    advice: impl Into<String>,
) -> Check {
    let (name, detail, advice) = (name.to_owned(), detail.into(), advice.into());
    Check { name, node: None, result, detail, advice }
}

/// What a tool prints; nothing if it is not there, or fails.
fn said(tool: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(tool);
    let output =
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}
