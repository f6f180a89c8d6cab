//! Who is used most, as a table.

use super::paint::Paint;
use super::table::Table;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const HEADINGS: [&str; 6] = ["NAME", "OPEN", "BEGUN", "REFUSED", "PACKETS", "BYTES"];
const RATES: [&str; 2] = ["BEGUN/S", "BYTES/S"];

/// What came to a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Traffic {
    pub(crate) service: String,
    pub(crate) open: u64,
    pub(crate) begun: u64,
    pub(crate) refused: u64,
    pub(crate) packets: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) nodes: u64,
}

/// How it was before, and how long ago.
type Before<'a> = (Duration, &'a BTreeMap<String, Traffic>);

/// All of them; beside what was before, with what came in a second since.
pub(crate) fn draw(items: &[Traffic], before: Option<Before<'_>>, paint: Paint) -> String {
    if items.is_empty() {
        return "nothing came to a Service yet\n".to_owned();
    }
    let rates: &[&str] = if before.is_some() { &RATES } else { &[] };
    let mut table = Table::new(HEADINGS.iter().chain(rates).copied());
    for item in items {
        let told = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
        let mut row = vec![
            item.service.clone(),
            item.open.to_string(),
            item.begun.to_string(),
            item.refused.to_string(),
            told(item.packets),
            told(item.bytes),
        ];
        if let Some((passed, before)) = before {
            let was = before.get(&item.service);
            row.push(rate(was.map(|was| was.begun), Some(item.begun), passed));
            row.push(rate(was.and_then(|was| was.bytes), item.bytes, passed));
        }
        table.push(row);
    }
    table.draw("", paint)
}

/// In a second, rounded.
fn rate(was: Option<u64>, now: Option<u64>, passed: Duration) -> String {
    // A switch that restarted counts anew.
    let more = was.zip(now).and_then(|(was, now)| now.checked_sub(was));
    let millis = passed.as_millis().max(1);
    let rate = more.map(|more| (u128::from(more) * 1000 + millis / 2) / millis);
    rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_stand_beside_what_came() {
        let db = |begun, bytes| Traffic {
            service: "shop:db".to_owned(),
            open: 2,
            begun,
            bytes: Some(bytes),
            packets: Some(9),
            ..Traffic::default()
        };
        let uncounted = Traffic { service: "shop:web".to_owned(), begun: 1, ..Traffic::default() };
        let once = draw(&[db(10, 4000), uncounted.clone()], None, Paint::OFF);
        let said = "\
NAME      OPEN  BEGUN  REFUSED  PACKETS  BYTES
shop:db   2     10     0        9        4000
shop:web  0     1      0        -        -
";
        assert_eq!(once, said);
        let before = BTreeMap::from([("shop:db".to_owned(), db(10, 4000))]);
        let since = Some((Duration::from_secs(2), &before));
        let said = "\
NAME      OPEN  BEGUN  REFUSED  PACKETS  BYTES  BEGUN/S  BYTES/S
shop:db   2     14     0        9        9000   2        2500
shop:web  0     1      0        -        -      -        -
";
        assert_eq!(draw(&[db(14, 9000), uncounted], since, Paint::OFF), said);
    }
}
