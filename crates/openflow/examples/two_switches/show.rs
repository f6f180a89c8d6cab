//! What a person sees: the plan, what was measured, and the flows under their tables' names.
//!
//! Nobody listening any more is no failure, so nothing here can fail.

use osier_openflow::flow::FlowDesc;
use osier_openflow::text::TableNames;
use osier_testbed::traffic::Ping;
use std::cmp::Reverse;
use std::time::Duration;

/// Lists of actions that are wider are broken.
const WIDTH: usize = 80;

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}
pub(crate) use say;

/// A headline.
pub(crate) fn title(text: &str) {
    say!("\n{text}\n{}\n", "-".repeat(text.len()));
}

/// Two nodes side by side, and the tunnel between them.
pub(crate) fn picture(nodes: [&str; 2], pods: [&[String]; 2], tunnel: [&str; 2]) {
    let width = pods.iter().flat_map(|pods| pods.iter()).map(String::len).max().unwrap_or(0);
    let gap = tunnel.iter().map(|text| text.len()).max().unwrap_or(0) + 2;
    let border = "-".repeat(width + 2);
    let row = |left: &str, between: &str, right: &str| {
        say!("  | {left:width$} |{between:^gap$}| {right:width$} |");
    };
    say!("    {:width$}   {:gap$}  {}", nodes[0], "", nodes[1]);
    say!("  +{border}+{:gap$}+{border}+", "");
    let rows = pods[0].len().max(pods[1].len()).max(3);
    let cable = "=".repeat(gap);
    for i in 0..rows {
        let [left, right] = pods.map(|pods| pods.get(i).map_or("", String::as_str));
        row(left, [tunnel[0], &cable, tunnel[1]].get(i).copied().unwrap_or(""), right);
    }
    say!("  +{border}+{:gap$}+{border}+", "");
}

/// What became of pings.
pub(crate) fn pings(from: &str, to: &str, address: &str, ping: &Ping) {
    let mut rtts = ping.rtts.clone();
    rtts.sort_unstable();
    let median = match rtts.get(rtts.len() / 2) {
        Some(rtt) => format!(", median {}", milliseconds(*rtt)),
        None => String::new(),
    };
    let Ping { sent, received, .. } = ping;
    say!("  {from:>7} -> {to:7} {address:12} {received:>2} of {sent:>2} answered{median}");
}

/// Flows with the packets that each has seen, under the names of their tables.
pub(crate) fn flows(mut flows: Vec<FlowDesc>, names: &TableNames) {
    flows.sort_by_cached_key(|FlowDesc { flow, .. }| {
        (flow.table, Reverse(flow.priority), flow.matching.to_string())
    });
    say!("  packets  priority  match, and what is done");
    for table in flows.chunk_by(|a, b| a.flow.table == b.flow.table) {
        let number = table[0].flow.table;
        say!("\n  {} (table {number})", names.name(number).unwrap_or("without a name"));
        for FlowDesc { flow, stats } in table {
            let (packets, priority) = (stats.packets.unwrap_or(0), flow.priority);
            let all = flow.matching.is_any();
            let matching = if all { "any packet".to_owned() } else { flow.matching.to_string() };
            say!("  {packets:>7}  {priority:>8}  {matching}");
            for (i, line) in wrapped(&names.show(&flow.instructions).to_string()).iter().enumerate()
            {
                say!("  {:>17}  {line}", if i == 0 { "->" } else { "" });
            }
        }
    }
}

/// A duration as a person says it.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// Breaks a list of actions behind commas.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for item in text.split_inclusive(',') {
        match lines.last_mut() {
            Some(line) if line.is_empty() || line.len() + item.len() <= WIDTH => {
                line.push_str(item);
            }
            _ => lines.push(item.to_owned()),
        }
    }
    lines
}
