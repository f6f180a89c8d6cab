//! Counters of a daemon: what happened how often (`coverage/show`), what it holds in memory
//! (`memory/show`).

use super::TextError;

/// A counter of `coverage/show`.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// A second, over the last five seconds.
    pub per_second: f64,
    /// Since the daemon started.
    pub total: u64,
}

/// Reads `coverage/show`: `name  0.0/sec  0.000/sec  0.0000/sec  total: 1` on each line between a
/// title and a count of what never happened.
pub fn parse_coverage(text: &str) -> Result<Vec<Counter>, TextError> {
    let mut counters = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((rates, total)) = line.split_once("total:") else { continue };
        let wrong = |expected| TextError::new("coverage/show", number + 1, expected, line);
        let mut words = rates.split_whitespace();
        let name = words.next().ok_or_else(|| wrong("a name"))?;
        let rate = words.next().and_then(|word| word.strip_suffix("/sec")?.parse().ok());
        counters.push(Counter {
            name: name.to_owned(),
            per_second: rate.ok_or_else(|| wrong("a rate"))?,
            total: total.trim().parse().map_err(|_| wrong("a total"))?,
        });
    }
    Ok(counters)
}

/// Reads `memory/show`: `name:number` separated by spaces, which names may have too.
pub fn parse_memory(text: &str) -> Result<Vec<(String, u64)>, TextError> {
    let wrong = |found| TextError::new("memory/show", 1, "name:number", found);
    let mut amounts = Vec::new();
    let mut name = String::new();
    for word in text.split_whitespace() {
        let (last, amount) = word.split_once(':').unwrap_or((word, ""));
        let space = if name.is_empty() { "" } else { " " };
        name.extend([space, last]);
        if !amount.is_empty() {
            let amount = amount.parse().map_err(|_| wrong(word))?;
            amounts.push((std::mem::take(&mut name), amount));
        }
    }
    if name.is_empty() { Ok(amounts) } else { Err(wrong(&name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_daemon() {
        let text = "Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=0:\n\
            txn_success                0.2/sec     0.017/sec        0.0003/sec   total: 12\n\
            97 events never hit\n";
        let counter = Counter { name: "txn_success".to_owned(), per_second: 0.2, total: 12 };
        assert_eq!(parse_coverage(text).unwrap(), [counter]);
        assert_eq!(parse_coverage("x 1 total: 2").unwrap_err().expected, "a rate");
        assert_eq!(parse_coverage("x 1/sec total: y").unwrap_err().expected, "a total");
        assert_eq!(
            parse_memory("atoms:27 udpif keys:47\n").unwrap(),
            [("atoms".to_owned(), 27), ("udpif keys".to_owned(), 47)]
        );
        assert!(parse_memory("atoms").is_err());
    }
}
