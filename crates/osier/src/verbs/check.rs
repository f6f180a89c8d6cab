//! `osier check`: what commonly goes wrong, looked for from here, the controller and every node; with
//! `--pre`, on this machine alone, before there is anything of Osier.

use super::{asking, verdict};
use crate::client::answers::{Check, CheckResult, Checks};
use crate::client::{Client, ClientError, Connection};
use crate::output::Output;
use crate::preflight;
use crate::render::check::draw;
use crate::render::paint::Paint;
use clap::Args;
use ipnet::IpNet;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// From how many seconds on two clocks do not agree: certificates and tokens are short-lived.
const CLOCKS_APART: u64 = 5;

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 if nothing failed, 1 if something did, or nobody answers.

Examples:
  osier check          # everything, with advice
  osier check -o json  # for programs
  osier check --pre --pod-cidr 10.244.0.0/16   # may this machine become a node?")]
pub(crate) struct Arguments {
    /// Look at this machine before Osier is installed; no controller is asked
    #[arg(long)]
    pre: bool,
    #[command(flatten)]
    plan: PlanArguments,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// What is going to be installed.
#[derive(Debug, Args)]
#[group(requires = "pre")]
struct PlanArguments {
    /// With --pre: pods' addresses; unsaid, those that kubectl finds at the nodes
    #[arg(long = "pod-cidr", value_name = "PREFIX")]
    pods: Vec<IpNet>,
    /// With --pre: services' addresses
    #[arg(long = "service-cidr", value_name = "PREFIX")]
    services: Vec<IpNet>,
    /// With --pre: the switch's own datapath will be used (datapath=netdev)
    #[arg(long)]
    userspace: bool,
    /// With --pre: Osier will bring its own Open vSwitch along (ovs.install=true)
    #[arg(long)]
    with_ovs: bool,
    /// With --pre: where the runtime looks for CNI configurations
    #[arg(long, value_name = "FOLDER", default_value = "/etc/cni/net.d")]
    cni_folder: PathBuf,
    /// With --pre: the switch's database
    #[arg(long, value_name = "SOCKET", default_value = "/run/openvswitch/db.sock")]
    ovsdb: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.pre {
        return show(arguments, &preflight::look(&arguments.plan.plan()));
    }
    asking(&arguments.connection, async |client| {
        let mut checks = from_here(client).await?;
        let remote: Checks = client.get("/check").await?;
        checks.extend(remote.checks);
        show(arguments, &checks)
    })
}

fn show(arguments: &Arguments, checks: &[Check]) -> anyhow::Result<ExitCode> {
    let value = json!({"checks": checks});
    arguments.output.print(&value, |_| draw(checks, Paint::for_output()))?;
    Ok(verdict(!checks.iter().any(|check| check.result == CheckResult::Failed)))
}

impl PlanArguments {
    fn plan(&self) -> preflight::Plan {
        let pods = if self.pods.is_empty() { pods_of_nodes() } else { self.pods.clone() };
        preflight::Plan {
            pods,
            services: self.services.clone(),
            userspace: self.userspace,
            brings_switch: self.with_ovs,
            cni_folder: self.cni_folder.clone(),
            database: self.ovsdb.clone(),
        }
    }
}

/// What the nodes have, if there is a cluster and kubectl knows it.
fn pods_of_nodes() -> Vec<IpNet> {
    let mut kubectl = Command::new("kubectl");
    let path = "jsonpath={.items[*].spec.podCIDRs[*]}";
    kubectl.args(["get", "nodes", "--request-timeout=5s", "-o", path]);
    let output = kubectl.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    said.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// What only we can see: the way to the controller, and our own clock and version.
async fn from_here(client: &Client) -> Result<Vec<Check>, ClientError> {
    let asked = Instant::now();
    let date = client.clock().await?;
    let took = asked.elapsed().as_millis();
    let reach = Check {
        name: "controller".to_owned(),
        result: CheckResult::Ok,
        detail: format!("{} answers in {took} ms, with a trusted certificate", client.server()),
        ..Check::default()
    };
    let version: Value = client.read("/version").await?;
    let theirs = version.get("version").and_then(Value::as_str).unwrap_or_default();
    Ok(vec![reach, clocks(date.as_deref(), OffsetDateTime::now_utc()), versions(theirs)])
}

fn clocks(date: Option<&str>, now: OffsetDateTime) -> Check {
    let name = "clock here".to_owned();
    // HTTP's GMT is what the older form calls +0000.
    let theirs = date.map(|date| date.replace("GMT", "+0000"));
    let theirs = theirs.and_then(|date| OffsetDateTime::parse(&date, &Rfc2822).ok());
    let Some(theirs) = theirs else {
        let detail = "the controller does not say what time it is".to_owned();
        return Check { name, detail, ..Check::default() };
    };
    let apart = (now - theirs).whole_seconds().unsigned_abs();
    let detail = format!("{apart} s apart from the controller's");
    if apart < CLOCKS_APART {
        return Check { name, result: CheckResult::Ok, detail, ..Check::default() };
    }
    let advice = "let both machines follow the same time (chrony, systemd-timesyncd)".to_owned();
    Check { name, result: CheckResult::Warning, detail, advice, node: None }
}

fn versions(theirs: &str) -> Check {
    let (name, ours) = ("version here".to_owned(), env!("CARGO_PKG_VERSION"));
    if theirs == ours {
        let detail = format!("{ours}, as the controller");
        return Check { name, result: CheckResult::Ok, detail, ..Check::default() };
    }
    let detail = format!("{ours}, but the controller has {theirs}");
    let advice = "use the controller's version of osier".to_owned();
    Check { name, result: CheckResult::Warning, detail, advice, node: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn clocks_and_versions_are_compared() {
        let now = datetime!(2026-01-01 12:00:03 UTC);
        assert_eq!(clocks(Some("Thu, 01 Jan 2026 12:00:00 GMT"), now).result, CheckResult::Ok);
        let apart = clocks(Some("Thu, 01 Jan 2026 11:00:00 GMT"), now);
        assert_eq!(
            (apart.result, apart.detail.as_str()),
            (CheckResult::Warning, "3603 s apart from the controller's")
        );
        assert_eq!(clocks(None, now).result, CheckResult::Skipped);
        assert_eq!(versions(env!("CARGO_PKG_VERSION")).result, CheckResult::Ok);
        assert_eq!(versions("9.9.9").result, CheckResult::Warning);
    }
}
