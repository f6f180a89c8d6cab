//! Connections as tables, and as lines that follow one another.

use super::paint::{Paint, Tone};
use super::table::{Cell, Table};
use serde_json::Value;

const HEADINGS: [&str; 7] = ["PROTOCOL", "FROM", "TO", "STATE", "VERDICT", "BY", "BYTES"];
/// Room for rows that are not known yet.
const ROOM: [usize; 9] = [2, 8, 24, 32, 11, 8, 24, 8, 8];

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Begun,
    Changed,
    Ended,
}

// === impl Change ===

impl Change {
    /// For programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Changed => "changed",
            Self::Ended => "ended",
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Self::Begun => "+",
            Self::Changed => "~",
            Self::Ended => "-",
        }
    }
}

/// All of them.
pub(crate) fn draw(flows: &[Value], wide: bool, paint: Paint) -> String {
    if flows.is_empty() {
        return "no connection is tracked that fits\n".to_owned();
    }
    let mut table = Table::new(HEADINGS.into_iter().chain(wide.then_some("NODES")));
    for flow in flows {
        table.push(row(flow, wide));
    }
    table.draw("", paint)
}

/// What stands above those that follow.
pub(crate) fn headings(wide: bool, widths: &mut Vec<usize>, paint: Paint) -> String {
    let headings = [""].into_iter().chain(HEADINGS).chain(wide.then_some("NODES"));
    *widths = ROOM.to_vec();
    Table::new(headings).draw_at(widths, "", paint)
}

/// One that follows.
pub(crate) fn draw_change(
    change: Change,
    flow: &Value,
    wide: bool,
    widths: &mut Vec<usize>,
    paint: Paint,
) -> String {
    let mut table = Table::bare();
    table.push([Cell::from(change.mark())].into_iter().chain(row(flow, wide)));
    let fresh = table.widths();
    widths.resize(fresh.len().max(widths.len()), 0);
    for (width, fresh) in widths.iter_mut().zip(fresh) {
        *width = fresh.max(*width);
    }
    table.draw_at(widths, "", paint)
}

fn row(flow: &Value, wide: bool) -> Vec<Cell> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let list = |value: &Value, between: &str| {
        let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        match words.collect::<Vec<_>>().join(between) {
            none if none.is_empty() => "-".to_owned(),
            words => words,
        }
    };
    let verdict = text(&flow["verdict"]);
    let tone = if verdict == "denied" { Tone::Bad } else { Tone::Plain };
    let target = match flow["answering"].is_object() {
        true => format!("{} → {}", side(&flow["target"], wide), side(&flow["answering"], wide)),
        false => side(&flow["target"], wide),
    };
    let state = match flow["denied"]["times"].as_u64() {
        Some(times) => format!("tried {times}×"),
        None => text(&flow["state"]),
    };
    let bytes = flow["bytes"].as_u64().map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let mut cells = vec![
        text(&flow["protocol"]).into(),
        side(&flow["source"], wide).into(),
        target.into(),
        state.into(),
        Cell::toned(tone, verdict),
        list(&flow["by"], ", ").into(),
        bytes.into(),
    ];
    if wide {
        cells.push(list(&flow["nodes"], ",").into());
    }
    cells
}

/// By name if it has one; with its address for wide screens.
fn side(side: &Value, wide: bool) -> String {
    let address = side["address"].as_str().unwrap_or("-");
    let called = side["name"].as_str().map(|name| match side["kind"].as_str() {
        Some("service") => format!("svc/{name}"),
        Some("node") => format!("node {name}"),
        _ => name.to_owned(),
    });
    let port = side["port"].as_u64().map(|port| format!(":{port}")).unwrap_or_default();
    let bracketed = match address.contains(':') && !port.is_empty() {
        true => format!("[{address}]{port}"),
        false => format!("{address}{port}"),
    };
    match called {
        Some(name) if wide => format!("{name} ({bracketed})"),
        Some(name) => format!("{name}{port}"),
        None => bracketed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn connections_stand_below_one_another() {
        let led = json!({"protocol": "tcp", "state": "ESTABLISHED", "verdict": "allowed",
            "source": {"name": "shop:web", "kind": "pod", "address": "10.1.1.5", "port": 4000},
            "target": {"name": "shop:db", "kind": "service", "address": "10.96.0.1", "port": 80},
            "answering": {"name": "shop:db-0", "kind": "pod", "address": "10.1.2.5", "port": 5432},
            "by": ["shop:db ingress[0]"], "nodes": ["n1", "n2"], "bytes": 1234});
        let denied = json!({"protocol": "udp", "state": null, "verdict": "denied",
            "source": {"name": null, "kind": null, "address": "fd00::7", "port": null},
            "target": {"name": null, "kind": null, "address": "fd01::1", "port": 53},
            "by": [], "nodes": ["n1"], "bytes": null, "denied": {"times": 3, "seconds_ago": 1}});
        let said = "\
PROTOCOL  FROM           TO                               STATE        VERDICT  BY                  BYTES
tcp       shop:web:4000  svc/shop:db:80 → shop:db-0:5432  ESTABLISHED  allowed  shop:db ingress[0]  1234
udp       fd00::7        [fd01::1]:53                     tried 3×     denied   -                   -
";
        assert_eq!(draw(&[led.clone(), denied.clone()], false, Paint::OFF), said);
        let wide = draw(&[led], true, Paint::OFF);
        assert!(wide.contains("shop:web (10.1.1.5:4000)") && wide.contains("n1,n2"), "{wide}");
        let mut widths = Vec::new();
        let headings = headings(false, &mut widths, Paint::OFF);
        let line = draw_change(Change::Begun, &denied, false, &mut widths, Paint::OFF);
        assert!(line.starts_with("+   udp"), "{line}");
        assert_eq!(headings.find("FROM"), line.find("fd00"));
    }
}
