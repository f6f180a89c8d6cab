//! What the agent tells of its node: the ports that live, versions, and what is wrong.

use super::granting::Grants;
use super::probe::Probes;
use crate::config::Config;
use crate::ports::Ports;
use osier_fleet::client::ControllerClient;
use osier_fleet::{Report, TunnelHealth};
use osier_ovsdb::Value;
use osier_ovsdb::cache::Cache;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// How often it is looked whether something is new.
const LOOK: Duration = Duration::from_secs(1);
/// How often tunnels' times alone are news.
const TIMES: Duration = Duration::from_secs(20);

/// Tells of the node, for ever.
pub(super) async fn run(
    config: &Config,
    ports: &Ports,
    client: &ControllerClient,
    grants: &Grants,
    probes: watch::Receiver<Probes>,
) {
    let mut told: Option<(Report, Instant)> = None;
    let mut versions = BTreeMap::new();
    loop {
        if !versions.contains_key("ovs") {
            versions = versions_of(ports).await;
        }
        let state = client.state().borrow().clone();
        let expires = state.certificate_expires.and_then(seconds);
        let report = Report {
            ports: ports.living().iter().map(|port| ports.object(port)).collect(),
            affirmed: grants.affirmed(),
            tunnels: tunnels(&probes.borrow()),
            versions: versions.clone(),
            problems: problems(config, ports).await,
            paused: ports.is_paused(),
            certificate_expires: expires,
        };
        let news = told.as_ref().is_none_or(|(before, at)| {
            report != *before && (at.elapsed() >= TIMES || timeless(&report) != timeless(before))
        });
        if news {
            told = Some((report.clone(), Instant::now()));
            client.report(report);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Without the times that change all the time.
fn timeless(report: &Report) -> Report {
    let mut report = report.clone();
    for tunnel in &mut report.tunnels {
        (tunnel.round_trip_us, tunnel.last_seen) = (None, None);
    }
    report
}

fn tunnels(probes: &Probes) -> Vec<TunnelHealth> {
    let health = |(node, heard): (&osier_model::NodeName, &super::Heard)| TunnelHealth {
        node: node.clone(),
        up: heard.up(),
        round_trip_us: heard.round_trip.and_then(|time| u64::try_from(time.as_micros()).ok()),
        last_seen: heard.at.and_then(seconds),
    };
    probes.iter().map(health).collect()
}

fn seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

async fn problems(config: &Config, ports: &Ports) -> BTreeMap<String, String> {
    let mut problems = ports.problems();
    if let Err(error) = ports.status().await {
        problems.insert("switch".to_owned(), error.to_string());
    }
    let (flows, rows) = (ports.switch().flows().status(), ports.switch().rows().status());
    if flows.troubles > 0 {
        let text = format!("{} flows or their owners are refused by the switch", flows.troubles);
        problems.insert("flows".to_owned(), text);
    }
    if rows.troubles > 0 {
        let text = format!("{} rows of the database are not as wanted", rows.troubles);
        problems.insert("database".to_owned(), text);
    }
    let unwritten = config.cni_config.as_ref().filter(|path| !path.exists());
    if let Some(path) = unwritten {
        problems.insert("cni".to_owned(), format!("{} is not there", path.display()));
    }
    problems
}

async fn versions_of(ports: &Ports) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    versions.insert("agent".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    if let Ok(kernel) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        versions.insert("kernel".to_owned(), kernel.trim().to_owned());
    }
    let session = ports.switch().rows().session();
    let snapshot = session.query(Cache::snapshot).await;
    let ovs = snapshot.and_then(|snapshot| {
        let row = snapshot.rows("Open_vSwitch").first()?;
        let version = row.get("ovs_version").map(Value::atoms)?.first()?.to_string();
        Some(version.trim_matches('"').to_owned())
    });
    if let Some(ovs) = ovs {
        versions.insert("ovs".to_owned(), ovs);
    }
    versions
}
