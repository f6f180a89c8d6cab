//! `ofproto/trace`: how a switch says what it would do with a packet.

use osier_compiler::pipeline::Table;

/// One packet's way.
#[derive(Debug)]
pub struct Trace {
    /// The tables that it goes through, as often as it does.
    pub tables: Vec<Table>,
    /// What the datapath does with it in the end.
    pub actions: String,
    /// How often the datapath begins anew.
    pub recirculations: usize,
}

impl Trace {
    /// Reads what `ofproto/trace --names` prints: a line `21. ip,…, priority 42` for each table,
    /// `Datapath actions: …` at the end, and a part of its own for each recirculation. What other
    /// bridges do behind a tunnel is left out.
    pub fn parse(text: &str, bridge: &str) -> Self {
        let mut tables = Vec::new();
        let mut ours = false;
        for line in text.lines() {
            if let Some(name) = line.trim_start().strip_prefix("bridge(\"") {
                ours = name.starts_with(bridge);
            }
            let number = line.trim_start().split_once(". ").map(|(number, _)| number.parse());
            if let Some(Ok(number)) = number
                && ours
            {
                let known = Table::ALL.iter().find(|table| table.number() == number);
                tables.push(*known.unwrap_or_else(|| panic!("no table {number}:\n{text}")));
            }
        }
        let parts: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("Datapath actions: ")).collect();
        let actions = parts.last().unwrap_or_else(|| panic!("no actions:\n{text}"));
        Self { tables, actions: (*actions).to_owned(), recirculations: parts.len() - 1 }
    }
}
