//! What a table is for, and what a flow of it decided, in words: the bookkeeping of registers is
//! left out.

use osier_compiler::pipeline::Table;

/// The owner of flows that are nobody's in particular.
const NOBODY: &str = "pipeline";

/// What a table is for, in one clause; nothing of tables that this version does not have.
pub(super) fn purpose(table: &str) -> String {
    let known = Table::ALL.iter().find(|known| known.name() == table);
    let told = known.map_or("", |known| known.describe());
    let clause = told.split([':', ';', '.']).next().unwrap_or_default();
    let is_word = clause.chars().nth(1).is_some_and(char::is_lowercase);
    match clause.chars().next() {
        Some(first) if is_word => first.to_lowercase().to_string() + &clause[first.len_utf8()..],
        _ => clause.to_owned(),
    }
}

/// What a flow decided: for whom, and what it does beyond bookkeeping. Actions are in the words of
/// `ofproto/trace`, with `; ` between.
pub(super) fn decision(owner: Option<&str>, actions: &str) -> String {
    let owner = owner.filter(|owner| !owner.is_empty() && *owner != NOBODY);
    let mut words: Vec<String> = Vec::new();
    let mut next = None;
    for action in actions.split("; ") {
        match told(action) {
            Told::Word(word) if !words.contains(&word) => words.push(word),
            Told::Next(table) => next = Some(table),
            Told::Word(_) | Told::Bookkeeping => {}
        }
    }
    let next = next.map(|table| format!("on to {table}"));
    match (owner, words.is_empty()) {
        (Some(owner), true) => owner.to_owned(),
        (Some(owner), false) => format!("{owner}: {}", words.join(", ")),
        (None, true) => next.unwrap_or_default(),
        (None, false) => words.join(", "),
    }
}

/// An action in words.
enum Told {
    Word(String),
    Next(String),
    Bookkeeping,
}

fn told(action: &str) -> Told {
    let word = |text: &str| Told::Word(text.to_owned());
    if let Some((value, field)) = action.strip_prefix("set_field:").and_then(|a| a.split_once("->"))
    {
        return match field {
            "tun_dst" | "tun_ipv6_dst" => Told::Word(format!("through the tunnel to {value}")),
            "eth_dst" => Told::Word(format!("to {value}")),
            "icmp_type" if value == "0" => word("answers the ping"),
            "icmpv6_type" if value == "129" => word("answers the ping"),
            _ => Told::Bookkeeping,
        };
    }
    let target = action
        .strip_prefix("goto_table:")
        .or_else(|| action.strip_prefix("resubmit(,")?.strip_suffix(')'));
    if let Some(number) = target.and_then(|number| number.parse::<u8>().ok()) {
        let table = Table::ALL.iter().find(|table| table.number() == number);
        return Told::Next(
            table.map_or_else(|| number.to_string(), |table| table.name().to_owned()),
        );
    }
    match action.split([':', '(']).next().unwrap_or_default() {
        "drop" => word("dropped"),
        "dec_ttl" => word("one hop less to live"),
        "output" => word("out"),
        "controller" => word("to the agent"),
        "group" => word("to each of a group"),
        "meter" => word("limited"),
        _ => Told::Bookkeeping,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_a_short_purpose() {
        for table in Table::ALL {
            let purpose = purpose(table.name());
            assert!((3..=60).contains(&purpose.len()), "{}: {purpose:?}", table.name());
        }
        assert_eq!(purpose("ingress"), "where a packet comes from");
        assert_eq!(purpose("arp"), "ARP");
        assert_eq!(purpose("unheard-of"), "");
    }

    #[test]
    fn decisions_are_told_and_bookkeeping_is_not() {
        for (owner, actions, said) in [
            (Some("port a:b"), "set_field:0x1/0xf->reg0; goto_table:210", "port a:b"),
            (Some("pipeline"), "goto_table:19", "on to gateway-mac"),
            (None, "resubmit(,21)", "on to route"),
            (
                Some("port shop:db"),
                "set_field:192.0.2.2->tun_dst; set_field:0x7->tun_id; goto_table:220",
                "port shop:db: through the tunnel to 192.0.2.2",
            ),
            (Some("pipeline"), "dec_ttl; goto_table:220", "one hop less to live"),
            (Some("pipeline"), "drop", "dropped"),
            (Some("pipeline"), "output:NXM_NX_REG2[]; output:3", "out"),
            (
                Some("network n"),
                "move:A[]->B[]; set_field:0->icmp_type",
                "network n: answers the ping",
            ),
            (None, "", ""),
            (None, "goto_table:250", "on to 250"),
        ] {
            assert_eq!(decision(owner, actions), said);
        }
    }
}
