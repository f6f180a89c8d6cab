//! Firewalls that would stop what pods send, or what nodes send to each other.

use super::{failed, said, skipped, warning, well};
use crate::client::answers::Check;
use serde_json::Value;

const FORWARD: &str = "firewall: pods";
const INPUT: &str = "firewall: nodes";
const OPEN: &str =
    "open UDP 6081 (Geneve) or 4789 (VXLAN), and TCP 6645 and 6646, between the nodes";

pub(super) fn check() -> Vec<Check> {
    let chains = said("nft", &["-j", "list", "chains"]);
    let chains = chains.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let legacy = said("iptables-legacy", &["-S", "FORWARD"]).unwrap_or_default();
    let Some(chains) = chains else {
        return vec![skipped(FORWARD, "rules cannot be read: run this as root, with nft")];
    };
    let chains = dropping(&chains);
    vec![forward(&chains, &legacy), input(&chains)]
}

/// A chain that drops what no rule accepts.
#[derive(Debug, PartialEq, Eq)]
struct Chain {
    hook: String,
    family: String,
    table: String,
    name: String,
}

fn dropping(listed: &Value) -> Vec<Chain> {
    let list = listed["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let chains = list.iter().filter_map(|entry| entry.get("chain"));
    let text = |chain: &Value, key: &str| chain[key].as_str().unwrap_or_default().to_owned();
    chains
        .filter(|chain| chain["policy"] == "drop")
        .map(|chain| Chain {
            hook: text(chain, "hook"),
            family: text(chain, "family"),
            table: text(chain, "table"),
            name: text(chain, "name"),
        })
        .collect()
}

impl Chain {
    /// The chain that iptables' own tool lists, and the agent puts its rules in.
    fn is_iptables(&self) -> bool {
        matches!(self.family.as_str(), "ip" | "ip6") && self.table == "filter"
    }

    fn shown(&self) -> String {
        format!("{} {} {}", self.family, self.table, self.name)
    }
}

fn forward(chains: &[Chain], legacy: &str) -> Check {
    let of_hook = || chains.iter().filter(|chain| chain.hook == "forward");
    if let Some(chain) = of_hook().find(|chain| !chain.is_iptables()) {
        let detail = format!("nftables chain {} drops what is forwarded", chain.shown());
        let advice = "let it accept what goes over osier0: no rule of Osier's can overrule it \
                      (firewalld: put osier0 in the zone trusted)";
        return failed(FORWARD, detail, advice);
    }
    if legacy.lines().any(|line| line == "-P FORWARD DROP") {
        return failed(
            FORWARD,
            "iptables-legacy drops what is forwarded",
            "let it accept what goes over osier0; the image has the other iptables only",
        );
    }
    match of_hook().next() {
        Some(chain) => {
            well(FORWARD, format!("{} drops; the agent puts two rules before", chain.shown()))
        }
        None => well(FORWARD, "nothing stops what pods send"),
    }
}

fn input(chains: &[Chain]) -> Check {
    match chains.iter().find(|chain| chain.hook == "input") {
        Some(chain) => {
            warning(INPUT, format!("{} drops what it does not know", chain.shown()), OPEN)
        }
        None => well(INPUT, "nothing stops what nodes send to each other"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answers::CheckResult;
    use serde_json::json;

    fn chain(family: &str, table: &str, hook: &str, policy: &str) -> Value {
        json!({"chain": {"family": family, "table": table, "name": hook.to_uppercase(),
            "hook": hook, "type": "filter", "prio": 0, "policy": policy}})
    }

    #[test]
    fn only_what_the_agent_cannot_overrule_is_a_failure() {
        for (chains, legacy, result) in [
            (vec![], "", CheckResult::Ok),
            (vec![chain("ip", "filter", "forward", "accept")], "", CheckResult::Ok),
            (vec![chain("ip", "filter", "forward", "drop")], "", CheckResult::Ok),
            (vec![chain("inet", "firewalld", "forward", "drop")], "", CheckResult::Failed),
            (vec![], "-P FORWARD DROP\n", CheckResult::Failed),
        ] {
            let listed = json!({"nftables": chains});
            assert_eq!(forward(&dropping(&listed), legacy).result, result, "{listed}");
        }
        let listed = json!({"nftables": [{"metainfo": {}}, chain("inet", "f", "input", "drop")]});
        let check = input(&dropping(&listed));
        assert_eq!((check.result, check.advice.as_str()), (CheckResult::Warning, OPEN));
    }
}
