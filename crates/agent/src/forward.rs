//! A place for pods in a firewall that drops what it forwards.
//!
//! Docker, among others, sets the policy of iptables' `FORWARD` to DROP, and no rule of our own
//! nftables table can overrule that. So where the policy is DROP, and only there, rules are
//! put in front: they accept what goes over the gateways' interfaces. iptables' own tool puts them,
//! so that both of its backends, and those who list the rules, understand them.

use crate::gateway::{INTERFACE, SERVICES};
use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;
use tracing::{debug, info, warn};

const TOOLS: [&str; 2] = ["iptables", "ip6tables"];
/// How long a tool may take; it waits for others that hold iptables' lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// Puts the rules where they are needed and missing.
pub(crate) async fn accept_forwarding() {
    for tool in TOOLS {
        let listed = match run(tool, &["-S", "FORWARD"]).await {
            Ok(output) if output.status.success() => output.stdout,
            // No such tool, or no such table: nobody drops anything by it.
            _ => {
                debug!(tool, "is not used here");
                continue;
            }
        };
        for rule in missing(&String::from_utf8_lossy(&listed)) {
            let arguments: Vec<&str> = ["-I", "FORWARD", "1"].into_iter().chain(rule).collect();
            match run(tool, &arguments).await {
                Ok(output) if output.status.success() => {
                    info!(tool, rule = rule.join(" "), "the firewall lets pods through");
                }
                Ok(output) => {
                    let said = String::from_utf8_lossy(&output.stderr);
                    warn!(tool, said = said.trim(), "the firewall drops what pods send outside");
                }
                Err(error) => warn!(tool, %error, "the firewall drops what pods send outside"),
            }
        }
    }
}

/// Takes the rules away, where they are.
pub(crate) async fn refuse_forwarding() {
    for tool in TOOLS {
        for rule in RULES {
            let arguments: Vec<&str> = ["-D", "FORWARD"].into_iter().chain(rule).collect();
            // Until there is none: earlier agents may have put several. No tool, no rule.
            while run(tool, &arguments).await.is_ok_and(|output| output.status.success()) {
                info!(tool, rule = rule.join(" "), "removed from the firewall");
            }
        }
    }
}

type Rule = [&'static str; 8];

const RULES: [Rule; 4] = [
    ["-i", INTERFACE, "-m", "comment", "--comment", "osier", "-j", "ACCEPT"],
    ["-o", INTERFACE, "-m", "comment", "--comment", "osier", "-j", "ACCEPT"],
    ["-i", SERVICES, "-m", "comment", "--comment", "osier", "-j", "ACCEPT"],
    ["-o", SERVICES, "-m", "comment", "--comment", "osier", "-j", "ACCEPT"],
];

/// The rules that a chain needs, as it is listed.
fn missing(listed: &str) -> Vec<Rule> {
    if !listed.lines().any(|line| line == "-P FORWARD DROP") {
        return Vec::new();
    }
    let there = |rule: &Rule| {
        let rule = format!("-A FORWARD {}", rule.join(" "));
        listed.lines().any(|line| line == rule)
    };
    RULES.into_iter().filter(|rule| !there(rule)).collect()
}

async fn run(tool: &str, arguments: &[&str]) -> io::Result<Output> {
    let mut command = Command::new(tool);
    command.args(["-w", "5"]).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    timeout(PATIENCE, command.output()).await.map_err(io::Error::from)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_chain_that_drops_gets_rules_and_only_once() {
        assert!(missing("-P FORWARD ACCEPT\n").is_empty());
        assert_eq!(missing("-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n"), RULES);
        let one = "-P FORWARD DROP\n-A FORWARD -i osier0 -m comment --comment osier -j ACCEPT\n";
        assert_eq!(missing(one), RULES[1..]);
    }
}
