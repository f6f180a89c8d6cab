//! The way of a packet: a box of tables for each switch, the wire between them, and the end.

use super::paint::{Paint, Tone};
use super::table::{Cell, Table};
use crate::client::answers::{Hop, Trace};
use std::fmt::Write as _;

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

/// Whether the packet came where it should.
pub(crate) fn is_delivered(trace: &Trace) -> bool {
    trace.verdict == "delivered"
}

fn draw_hop(text: &mut String, hop: &Hop, depth: Depth, paint: Paint) {
    let head = paint.tone(Tone::Strong, &hop.node);
    let _ = match hop.summary.is_empty() {
        true => writeln!(text, "● {head}"),
        false => writeln!(text, "● {head}: {}", hop.summary),
    };
    let mut table = Table::bare();
    for visit in &hop.tables {
        let words = if visit.note.is_empty() { &visit.flow } else { &visit.note };
        let words = match visit.owner.is_empty() {
            true => words.clone(),
            false => format!("{words} ({})", visit.owner),
        };
        let number = Cell::toned(Tone::Faint, format!("{:>3}", visit.table));
        table.push([number, visit.name.as_str().into(), words.into()]);
        if depth >= Depth::Flows && !visit.note.is_empty() && !visit.flow.is_empty() {
            table.push([Cell::from(""), "".into(), Cell::toned(Tone::Faint, visit.flow.as_str())]);
        }
    }
    text.push_str(&table.draw("  │ ", paint));
    if depth == Depth::Raw {
        for line in hop.raw.lines() {
            let _ = writeln!(text, "  ┊ {}", paint.tone(Tone::Faint, line));
        }
    }
}

fn end(trace: &Trace, paint: Paint) -> String {
    let last = trace.hops.last();
    let place = last.map(|hop| format!(" on {}", hop.node)).unwrap_or_default();
    let reason = |text: &str| match text.is_empty() {
        true => String::new(),
        false => format!(": {text}"),
    };
    if is_delivered(trace) {
        let output = last.map_or("", |hop| hop.output.as_str());
        let said = if trace.reason.is_empty() { output } else { &trace.reason };
        let line = format!("✓ delivered{place}{}", reason(said));
        return format!("  ╰─▶ {}\n", paint.tone(Tone::Good, &line));
    }
    let line = format!("✗ {}{place}{}", trace.verdict, reason(&trace.reason));
    format!("  ╳ {}\n", paint.tone(Tone::Bad, &line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn visit(table: u8, name: &str, note: &str, owner: &str) -> Value {
        json!({"table": table, "name": name, "note": note, "owner": owner, "flow": format!("table={table},ip")})
    }

    fn first_hop() -> Value {
        json!({"node": "n1", "summary": "from shop:web (10.0.0.5)", "tables": [
            visit(0, "classify", "it comes from the port of shop:web", ""),
            visit(20, "route", "to 10.0.0.0/24 by router shop", "router shop"),
        ], "output": "tunnel to n2 (192.0.2.2), network blue", "raw": "bridge(\"br-int\")\n 0. ip"})
    }

    #[test]
    fn a_packet_arrives() {
        let trace: Trace = serde_json::from_value(json!({"verdict": "delivered", "hops": [
            first_hop(),
            {"node": "n2", "tables": [visit(30, "deliver", "", "")], "output": "port shop:db"},
        ]}))
        .unwrap();
        let said = "\
shop:web → shop:db, tcp 5432

● n1: from shop:web (10.0.0.5)
  │   0  classify  it comes from the port of shop:web
  │  20  route     to 10.0.0.0/24 by router shop (router shop)
  ╰─▶ tunnel to n2 (192.0.2.2), network blue
  │
● n2
  │  30  deliver  table=30,ip
  ╰─▶ ✓ delivered on n2: port shop:db
";
        assert_eq!(draw("shop:web → shop:db, tcp 5432", &trace, Depth::Words, Paint::OFF), said);
        assert!(is_delivered(&trace));
    }

    #[test]
    fn a_packet_is_dropped_and_the_switch_may_say_why_itself() {
        let trace: Trace = serde_json::from_value(json!({
            "verdict": "dropped", "reason": "networks blue and red have no router in common",
            "hops": [first_hop()]
        }))
        .unwrap();
        let said = "\
a → b, icmp

● n1: from shop:web (10.0.0.5)
  │   0  classify  it comes from the port of shop:web
  │                table=0,ip
  │  20  route     to 10.0.0.0/24 by router shop (router shop)
  │                table=20,ip
  ┊ bridge(\"br-int\")
  ┊  0. ip
  ╳ ✗ dropped on n1: networks blue and red have no router in common
";
        assert_eq!(draw("a → b, icmp", &trace, Depth::Raw, Paint::OFF), said);
        assert!(!is_delivered(&trace));
    }
}
