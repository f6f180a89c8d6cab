//! How the cluster is: each node's state, what differs, and the tunnels between all of them.

use super::moment;
use super::paint::{Paint, Tone};
use super::table::{Cell, Table};
use crate::client::answers::{NodeStatus, Status, TunnelStatus};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use time::{Duration, OffsetDateTime};

/// The largest matrix that is drawn if nobody asks for a wide picture.
const MAX_MATRIX: usize = 12;
/// The most lines of one node's differences.
const MAX_LINES: usize = 5;
/// How long before its end a certificate of any length should have been renewed long since.
const ALARM: Duration = Duration::minutes(10);
const NONE: &str = "-";

/// What is not as it should be, each in a sentence.
pub(crate) fn problems(status: &Status, now: OffsetDateTime) -> Vec<String> {
    let mut problems = Vec::new();
    let expiring = |who: &str, expiry: &Option<String>| {
        let then = moment::read(expiry.as_deref()?)?;
        let when = moment::relative(expiry.as_deref()?, now);
        (then - now < ALARM).then(|| match then > now {
            true => format!("{who}: its certificate expires {when}, and was not renewed"),
            false => format!("{who}: its certificate expired {when}"),
        })
    };
    problems.extend(expiring("controller", &status.controller.certificate_expiry));
    for node in &status.nodes {
        let state = State::of(node);
        problems.extend(state.problem().map(|wrong| format!("{}: {wrong}", node.name)));
        // What differs is shown by itself; of a converged node it is all that is wrong.
        let differs = node.differs.iter().filter(|_| matches!(state, State::Converged));
        let faults = node.faults.iter().filter(|fault| !node.differs.contains(fault));
        problems.extend(differs.chain(faults).map(|said| format!("{}: {said}", node.name)));
        problems.extend(expiring(&node.name, &node.certificate_expiry));
        let broken = node.tunnels.iter().filter(|tunnel| tunnel.is_down());
        problems.extend(broken.map(|t| format!("{}: the tunnel to {} is down", node.name, t.peer)));
    }
    problems
}

/// The whole picture.
pub(crate) fn draw(status: &Status, wide: bool, now: OffsetDateTime, paint: Paint) -> String {
    let mut text = controller(status, now);
    if status.nodes.is_empty() {
        text.push_str("\nno nodes yet: `osier node token NAME --address IP` lets one join\n");
        return text;
    }
    text.push('\n');
    text.push_str(&nodes(status, wide, now).draw("", paint));
    text.push_str(&differences(status, wide));
    text.push_str(&tunnels(status, wide, paint));
    text.push('\n');
    let problems = problems(status, now);
    for problem in &problems {
        let _ = writeln!(text, "{}", paint.tone(Tone::Bad, &format!("✗ {problem}")));
    }
    if problems.is_empty() {
        let line = format!("✓ {} converged{}", all_nodes(status.nodes.len()), measured(status));
        let _ = writeln!(text, "{}", paint.tone(Tone::Good, &line));
    }
    text
}

fn all_nodes(count: usize) -> String {
    match count {
        1 => "the one node has".to_owned(),
        count => format!("all {count} nodes have"),
    }
}

/// What is known of tunnels when none is down.
fn measured(status: &Status) -> String {
    let (mut all, mut up) = (0, 0);
    for tunnel in status.nodes.iter().flat_map(|node| &node.tunnels) {
        all += 1;
        up += usize::from(tunnel.is_up());
    }
    match all - up {
        0 if all == 0 => String::new(),
        0 => ", all tunnels are up".to_owned(),
        unknown => format!(", {unknown} of {all} tunnels are not measured yet"),
    }
}

fn controller(status: &Status, now: OffsetDateTime) -> String {
    let controller = &status.controller;
    let mut text = format!("controller {}", controller.version);
    match controller.leader {
        Some(true) => text.push_str(", leader"),
        Some(false) => text.push_str(", not the leader"),
        None => {}
    }
    if let Some(term) = controller.term {
        let _ = write!(text, " of term {term}");
    }
    if let Some(expiry) = &controller.certificate_expiry {
        let _ = write!(text, ", certificate ends {}", moment::relative(expiry, now));
    }
    text.push('\n');
    text
}

/// What a node is doing.
enum State {
    Converged,
    Paused,
    Behind,
    Away,
}

impl State {
    fn of(node: &NodeStatus) -> Self {
        match node {
            NodeStatus { connected: false, .. } => Self::Away,
            NodeStatus { paused: true, .. } => Self::Paused,
            NodeStatus { converged: true, .. } => Self::Converged,
            _ => Self::Behind,
        }
    }

    fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Converged => None,
            Self::Paused => Some("paused: nothing is changed there until `osier node resume`"),
            Self::Behind => Some("its switch is not yet as wanted"),
            Self::Away => Some("not connected; it goes on with the last it heard"),
        }
    }

    fn cell(&self) -> Cell {
        match self {
            Self::Converged => Cell::toned(Tone::Good, "✓ converged"),
            Self::Paused => Cell::toned(Tone::Warning, "‖ paused"),
            Self::Behind => Cell::toned(Tone::Bad, "✗ behind"),
            Self::Away => Cell::toned(Tone::Bad, "✗ not connected"),
        }
    }
}

/// A table of all nodes.
pub(crate) fn nodes(status: &Status, wide: bool, now: OffsetDateTime) -> Table {
    let mut headings = vec!["NODE", "STATE", "SINCE", "REVISION", "PORTS", "VERSION"];
    if wide {
        headings.extend(["CONNECTED", "CERTIFICATE"]);
    }
    let mut table = Table::new(headings);
    let ago =
        |at: &Option<String>| at.as_deref().map_or(NONE.to_owned(), |at| moment::ago(at, now));
    for node in &status.nodes {
        let state = State::of(node);
        let since = match state {
            State::Converged | State::Paused => node.converged_since.clone().or(node.since.clone()),
            State::Behind | State::Away => node.since.clone(),
        };
        let mut row = vec![
            Cell::from(node.name.as_str()),
            state.cell(),
            ago(&since).into(),
            revision(node).into(),
            node.ports.map_or(NONE.to_owned(), |ports| ports.to_string()).into(),
            node.version.as_deref().filter(|v| !v.is_empty()).unwrap_or(NONE).into(),
        ];
        if wide {
            let expiry = node.certificate_expiry.as_deref();
            row.push(if node.connected { ago(&node.since) } else { "no".to_owned() }.into());
            row.push(expiry.map_or(NONE.to_owned(), |at| moment::relative(at, now)).into());
        }
        table.push(row);
    }
    table
}

fn revision(node: &NodeStatus) -> String {
    match (node.applied_revision, node.wanted_revision) {
        (Some(applied), Some(wanted)) if applied == wanted => applied.to_string(),
        (Some(applied), Some(wanted)) => format!("{applied} of {wanted}"),
        (None, Some(wanted)) => format!("none of {wanted}"),
        (Some(applied), None) => applied.to_string(),
        (None, None) => NONE.to_owned(),
    }
}

fn differences(status: &Status, wide: bool) -> String {
    let mut text = String::new();
    for node in status.nodes.iter().filter(|node| !node.differs.is_empty()) {
        let shown = if wide { node.differs.len() } else { MAX_LINES.min(node.differs.len()) };
        let _ = writeln!(text, "\n{} differs from what is wanted:", node.name);
        for line in &node.differs[..shown] {
            let _ = writeln!(text, "  {line}");
        }
        if shown < node.differs.len() {
            let _ = writeln!(text, "  and {} more (-o wide)", node.differs.len() - shown);
        }
    }
    text
}

/// Who hears whom, as a matrix; of many nodes, only how many tunnels there are.
fn tunnels(status: &Status, wide: bool, paint: Paint) -> String {
    let count: usize = status.nodes.iter().map(|node| node.tunnels.len()).sum();
    if count == 0 {
        return String::new();
    }
    if status.nodes.len() > MAX_MATRIX && !wide {
        let up = status.nodes.iter().flat_map(|n| &n.tunnels).filter(|t| !t.is_down()).count();
        return format!("\n{up} of {count} tunnels are not down (-o wide shows all)\n");
    }
    let mut table = Table::new(
        std::iter::once("FROM").chain(status.nodes.iter().map(|node| node.name.as_str())),
    );
    for from in &status.nodes {
        let known: BTreeMap<&str, &TunnelStatus> =
            from.tunnels.iter().map(|tunnel| (tunnel.peer.as_str(), tunnel)).collect();
        let mut row = vec![Cell::from(from.name.as_str())];
        row.extend(status.nodes.iter().map(|to| match known.get(to.name.as_str()) {
            _ if to.name == from.name => Cell::toned(Tone::Faint, "·"),
            None => Cell::toned(Tone::Faint, NONE),
            Some(tunnel) => tunnel.cell(),
        }));
        table.push(row);
    }
    format!("\ntunnels, round trips in ms where they are measured\n{}", table.draw("", paint))
}

// === impl TunnelStatus ===

impl TunnelStatus {
    fn is_up(&self) -> bool {
        self.state == "up"
    }

    fn is_down(&self) -> bool {
        self.state == "down"
    }

    fn cell(&self) -> Cell {
        match (self.state.as_str(), self.rtt_ms) {
            ("up", Some(rtt)) => Cell::toned(Tone::Good, format!("{rtt:.1}")),
            ("up", None) => Cell::toned(Tone::Good, "up"),
            ("down", _) => Cell::toned(Tone::Bad, "✗ down"),
            _ => Cell::toned(Tone::Faint, "?"),
        }
    }
}

#[cfg(test)]
mod tests;
