//! Labs as text: nodes as boxes that hang on their underlay, matrices, lists. Values in, text out.

use crate::health::{Health, Report};
use crate::layout::{Layout, NodeLayout, PodLayout};
use crate::ping::{Matrix, Probe};
use std::fmt::Write as _;

/// Between two boxes.
const GAP: usize = 2;

/// The lab, with the health of its parts if it is known, at most `width` columns wide if a box fits.
pub fn draw(layout: &Layout, report: Option<&Report>, width: usize) -> String {
    let spec = &layout.spec;
    let mut text = format!(
        "lab {}: {}, {}, {}, {} between nodes\n",
        spec.name,
        count(layout.nodes.len(), "node"),
        count(layout.pods.len(), "pod"),
        spec.family,
        spec.tunnel
    );
    let boxes: Vec<NodeBox> = layout.nodes.iter().map(|n| NodeBox::of(layout, n, report)).collect();
    let each = boxes.iter().map(NodeBox::width).max().unwrap_or_default();
    let in_a_row = ((width + GAP) / (each + 4 + GAP)).max(1);
    for row in boxes.chunks(in_a_row) {
        draw_row(&mut text, row, each);
    }
    for problem in report.map(Report::problems).unwrap_or_default() {
        line(&mut text, &format!("✗ {problem}"));
    }
    if report.is_some_and(Report::is_ok) {
        line(&mut text, "all parts are well");
    }
    text
}

/// What one could do next.
pub fn hints(layout: &Layout) -> String {
    let name = &layout.spec.name;
    let named = match name.as_str() {
        "default" => String::new(),
        name => format!(" --name {name}"),
    };
    let mut tries = Vec::new();
    if layout.pods.len() > 1 {
        let ping_all = format!("osier lab ping-all{named}");
        tries.push((ping_all, "every pod to every other".to_owned()));
    }
    if let Some(first) = layout.pods.first() {
        let other = layout.pods.iter().find(|pod| pod.node != first.node);
        if let Some((to, address)) = other.and_then(|to| Some((to, to.addresses.first()?))) {
            let what = format!("to {}, on {}", to.name, to.node);
            let ping = format!("osier lab exec{named} {} -- ping -c3 {address}", first.name);
            tries.push((ping, what));
        }
        let shell = format!("osier lab exec{named} {} -- bash", first.name);
        tries.push((shell, format!("a shell in {}", first.name)));
    }
    if let Some(node) = layout.nodes.first() {
        let flows = format!("osier lab exec{named} {} -- ovs-ofctl dump-flows br-int", node.name);
        tries.push((flows, format!("what the switch of {} does", node.name)));
    }
    tries.push((format!("osier lab status{named}"), "this picture again, and health".into()));
    tries.push((format!("osier lab down{named}"), "remove everything".into()));
    let width = tries.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let lines = tries.iter().map(|(command, what)| format!("  {command:width$}   # {what}\n"));
    std::iter::once("Try:\n".to_owned()).chain(lines).collect()
}

/// A matrix, a table for each family.
pub fn matrix(matrix: &Matrix) -> String {
    let mut text = String::new();
    for (family, is_ipv6) in [("IPv4", false), ("IPv6", true)] {
        let probes: Vec<&Probe> =
            matrix.probes.iter().filter(|probe| probe.address.is_ipv6() == is_ipv6).collect();
        if !probes.is_empty() {
            line(&mut text, &format!("{family}, round trips in ms"));
            text.push_str(&family_table(&matrix.pods, &probes));
            text.push('\n');
        }
    }
    let answered = matrix.probes.iter().filter(|probe| probe.milliseconds.is_some()).count();
    line(&mut text, &format!("{answered} of {} answered", matrix.probes.len()));
    for lost in matrix.probes.iter().filter(|probe| probe.milliseconds.is_none()) {
        line(&mut text, &format!("✗ {} does not reach {} at {}", lost.from, lost.to, lost.address));
    }
    text
}

fn family_table(pods: &[String], probes: &[&Probe]) -> String {
    let cell = |from: &str, to: &str| {
        let found = probes.iter().find(|probe| probe.from == from && probe.to == to);
        match found.map(|probe| probe.milliseconds) {
            Some(Some(milliseconds)) => format!("{milliseconds:.2}"),
            Some(None) => "LOST".to_owned(),
            None => "-".to_owned(),
        }
    };
    let head = std::iter::once("FROM \\ TO".to_owned()).chain(pods.iter().cloned());
    let rows = pods.iter().map(|from| {
        std::iter::once(from.clone()).chain(pods.iter().map(|to| cell(from, to))).collect()
    });
    columns(&std::iter::once(head.collect()).chain(rows).collect::<Vec<_>>())
}

/// Lines of cells, each column as wide as it must be.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |i: usize| rows.iter().filter_map(|row| row.get(i)).map(|c| length(c)).max();
    let widths: Vec<usize> = (0..count).map(|i| width(i).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width));
        line(&mut text, cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// A node's lines: its own, then its pods'.
struct NodeBox {
    node: Vec<String>,
    pods: Vec<String>,
}

impl NodeBox {
    fn of(layout: &Layout, node: &NodeLayout, report: Option<&Report>) -> Self {
        let mut lines = vec![format!("{}  {}", node.name, node.address)];
        let health = report.and_then(|r| r.nodes.iter().find(|health| health.name == node.name));
        if let Some(health) = health {
            let switch = if health.database.is_ok() { &health.switch } else { &health.database };
            lines.push(format!("switch {}  agent {}", mark(switch), mark(&health.agent)));
        }
        let pod = |pod: &PodLayout| {
            let health = report.and_then(|r| r.pods.iter().find(|health| health.name == pod.name));
            let mark = health.map_or(String::new(), |h| format!(" {}", mark(&h.network)));
            let head = format!("{}{mark}  ", pod.name);
            let first = |i: usize| if i == 0 { head.clone() } else { " ".repeat(length(&head)) };
            let addresses = pod.addresses.iter().enumerate();
            addresses.map(|(i, address)| format!("{}{address}", first(i))).collect::<Vec<_>>()
        };
        let mut pods: Vec<String> = layout.pods_of(&node.name).flat_map(pod).collect();
        if pods.is_empty() {
            pods.push("no pods".to_owned());
        }
        Self { node: lines, pods }
    }

    fn width(&self) -> usize {
        self.node.iter().chain(&self.pods).map(|line| length(line)).max().unwrap_or_default()
    }

    /// Its lines with a frame, `pods` lines for pods.
    fn framed(&self, width: usize, pods: usize) -> Vec<String> {
        let bar = |left, right| format!("{left}{}{right}", "─".repeat(width + 2));
        let row = |text: &str| format!("│ {} │", pad(text, width));
        let stem = width / 2 + 1;
        let top = format!("┌{}┴{}┐", "─".repeat(stem), "─".repeat(width + 1 - stem));
        let mut lines = vec![top];
        lines.extend(self.node.iter().map(|text| row(text)));
        lines.push(bar("├", "┤"));
        lines.extend(self.pods.iter().map(|text| row(text)));
        lines.extend((self.pods.len()..pods).map(|_| row("")));
        lines.push(bar("└", "┘"));
        lines
    }
}

fn draw_row(text: &mut String, row: &[NodeBox], width: usize) {
    let pods = row.iter().map(|node| node.pods.len()).max().unwrap_or_default();
    let stem = width / 2 + 1 + 1;
    let cable = |i: usize| {
        let right = if i + 1 == row.len() { width + 3 - stem } else { width + 3 + GAP - stem };
        format!("{}╤{}", "═".repeat(stem), "═".repeat(right))
    };
    line(text, &(0..row.len()).map(cable).collect::<String>());
    let framed: Vec<Vec<String>> = row.iter().map(|node| node.framed(width, pods)).collect();
    let height = framed.first().map_or(0, Vec::len);
    for i in 0..height {
        let parts: Vec<&str> = framed.iter().map(|lines| lines[i].as_str()).collect();
        line(text, &parts.join(&" ".repeat(GAP)));
    }
}

fn mark(health: &Health) -> &'static str {
    if health.is_ok() { "✓" } else { "✗" }
}

fn count(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(length(text))))
}

/// In columns: all our characters are one wide.
fn length(text: &str) -> usize {
    text.chars().count()
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
