//! The way of a packet: a box of tables for each switch, the wire between them, and the end.

use super::paint::{Paint, Tone};
use super::table::{Cell, Table};
use crate::client::answers::{Hop, TableVisit, Trace};
use std::fmt::Write as _;

/// The owner of flows that are nobody's in particular.
const NOBODY: &str = "pipeline";

/// How much of it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// Tables in words.
    Words,
    /// And the flows that matched.
    Flows,
    /// And what the switch itself said.
    Raw,
}

/// The picture; `question` says what was asked.
pub(crate) fn draw(question: &str, trace: &Trace, depth: Depth, paint: Paint) -> String {
    let mut text = format!("{question}\n\n");
    let last = trace.hops.len().saturating_sub(1);
    for (index, hop) in trace.hops.iter().enumerate() {
        draw_hop(&mut text, hop, depth, paint);
        let wire = if index < last {
            format!("  ╰─▶ {}\n  │\n", hop.output)
        } else {
            String::new()
        };
        text.push_str(&wire);
    }
    text.push_str(&end(trace, paint));
    text
}

/// Whether the packet came where it should: to a port that was asked for by name, or anywhere but
/// into nothing.
pub(crate) fn has_arrived(trace: &Trace, is_to_port: bool) -> bool {
    match trace.verdict.as_str() {
        "delivered" => true,
        "routed" | "answered" | "flooded" => !is_to_port,
        _ => false,
    }
}

fn draw_hop(text: &mut String, hop: &Hop, depth: Depth, paint: Paint) {
    let head = paint.tone(Tone::Strong, &hop.node);
    // With its tables, a summary says nothing new.
    let summary = match hop.tables.is_empty() && !hop.summary.is_empty() {
        true => format!(": {}", hop.summary),
        false => String::new(),
    };
    let _ = writeln!(text, "● {head}{summary}");
    let mut table = Table::bare();
    for visit in &hop.tables {
        let number = Cell::toned(Tone::Faint, format!("{:>3}", visit.table));
        table.push([number, visit.name.as_str().into(), words(visit).into()]);
    }
    for (line, visit) in table.draw("  │ ", paint).lines().zip(&hop.tables) {
        let _ = writeln!(text, "{line}");
        if let Some(flow) = visit.flow.as_ref().filter(|_| depth >= Depth::Flows) {
            let _ = writeln!(text, "  │        {}", paint.tone(Tone::Faint, flow));
        }
    }
    if depth == Depth::Raw {
        for line in hop.raw.lines() {
            let _ = writeln!(text, "  ┊ {}", paint.tone(Tone::Faint, line));
        }
    }
}

/// What a table did, and whose flow that was, if it is somebody's.
fn words(visit: &TableVisit) -> String {
    let flow = visit.flow.as_deref().unwrap_or("no flow matches");
    let note = if visit.note.is_empty() { flow } else { &visit.note };
    match visit.owner.as_deref() {
        None | Some("" | NOBODY) => note.to_owned(),
        Some(owner) => format!("{note} ({owner})"),
    }
}

/// The last line: the verdict, and why.
fn end(trace: &Trace, paint: Paint) -> String {
    let Trace { verdict, reason, hops } = trace;
    let line = match (hops.last(), reason.as_str()) {
        (_, reason) if reason.starts_with(verdict.as_str()) => reason.to_owned(),
        (Some(hop), "") => format!("{verdict} on {}: {}", hop.node, hop.output),
        (None, "") => verdict.clone(),
        (_, reason) => format!("{verdict}: {reason}"),
    };
    let (tone, mark) = match verdict.as_str() {
        "delivered" => (Tone::Good, "╰─▶ ✓"),
        "routed" | "answered" | "flooded" => (Tone::Plain, "╰─▶"),
        _ => (Tone::Bad, "╳ ✗"),
    };
    format!("  {}\n", paint.tone(tone, &format!("{mark} {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn visit(table: u8, name: &str, note: &str, owner: &str) -> Value {
        json!({"table": table, "name": name, "note": note, "owner": owner, "flow": format!("ip,reg1={table}")})
    }

    fn first_hop() -> Value {
        json!({"node": "n1", "summary": "2 tables, then the tunnel", "tables": [
            visit(0, "ingress", "comes in", "port shop:web"),
            visit(17, "dispatch", "a packet to forward", "pipeline"),
            visit(21, "route", "to node n2 (192.0.2.2)", "port shop:db"),
        ], "output": "through the tunnel to node n2", "raw": "bridge(\"br-int\")\n 0. ip"})
    }

    #[test]
    fn a_packet_arrives() {
        let trace: Trace = serde_json::from_value(json!({
            "verdict": "delivered", "reason": "it reaches port shop:db on node n2", "hops": [
            first_hop(),
            {"node": "n2", "tables": [
                visit(36, "tunnel-in", "", "network blue"),
                {"table": 99, "name": "newer", "flow": null, "owner": null, "note": ""},
            ], "output": "to port shop:db"},
        ]}))
        .unwrap();
        let said = "\
shop:web → shop:db, tcp 5432

● n1
  │   0  ingress   comes in (port shop:web)
  │  17  dispatch  a packet to forward
  │  21  route     to node n2 (192.0.2.2) (port shop:db)
  ╰─▶ through the tunnel to node n2
  │
● n2
  │  36  tunnel-in  ip,reg1=36 (network blue)
  │  99  newer      no flow matches
  ╰─▶ ✓ delivered: it reaches port shop:db on node n2
";
        assert_eq!(draw("shop:web → shop:db, tcp 5432", &trace, Depth::Words, Paint::OFF), said);
        assert!(has_arrived(&trace, true));
    }

    #[test]
    fn a_packet_is_dropped_and_the_switch_may_say_why_itself() {
        let trace: Trace = serde_json::from_value(json!({
            "verdict": "dropped", "reason": "dropped on node n1 in table 20 (route): no way there",
            "hops": [first_hop()]
        }))
        .unwrap();
        let said = "\
a → b, icmp

● n1
  │   0  ingress   comes in (port shop:web)
  │        ip,reg1=0
  │  17  dispatch  a packet to forward
  │        ip,reg1=17
  │  21  route     to node n2 (192.0.2.2) (port shop:db)
  │        ip,reg1=21
  ┊ bridge(\"br-int\")
  ┊  0. ip
  ╳ ✗ dropped on node n1 in table 20 (route): no way there
";
        assert_eq!(draw("a → b, icmp", &trace, Depth::Raw, Paint::OFF), said);
        assert!(!has_arrived(&trace, false));
    }

    #[test]
    fn leaving_is_arriving_for_those_who_are_outside() {
        let trace: Trace = serde_json::from_value(json!({
            "verdict": "routed", "reason": "it leaves to the machine of node n1", "hops": []
        }))
        .unwrap();
        assert!(has_arrived(&trace, false) && !has_arrived(&trace, true));
        let said = "a → 1.1.1.1, icmp\n\n  ╰─▶ routed: it leaves to the machine of node n1\n";
        assert_eq!(draw("a → 1.1.1.1, icmp", &trace, Depth::Words, Paint::OFF), said);
    }
}
