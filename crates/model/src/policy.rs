//! Policies: who may talk to whom.
//!
//! A node knows no labels. A selector's result is a [`Selection`], a set of identities that all
//! policies with that selector share; who computes it knows the labels. So a pod that comes or goes
//! with an identity that is known changes no policy and no selection.
//!
//! What a rule does not say matches everything (`None`); an empty list matches nothing. A reference
//! to a selection that is not there yet is one to nobody: what is unknown is never let through.

use crate::error::{Invalid, Problem};
use crate::id::Identity;
use crate::name::{NamespaceName, PolicyName};
use crate::network::check_prefix;
use crate::service::Transport;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// Which selection. A number for what selects: the same for the same selector, whoever uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SelectionId(pub u64);

/// What a selector selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Which one.
    pub id: SelectionId,
    /// The identities that are in it.
    #[serde(default)]
    pub members: BTreeSet<Identity>,
    /// Addresses of those who have them, for tunnels that carry no identities.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub addresses: BTreeSet<IpAddr>,
}

/// A namespace that has policies: whose labels are not known yet is let through to nobody there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// Which namespace.
    pub namespace: NamespaceName,
}

/// Who may talk to its subjects, and to whom they may talk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Its name: `namespace:policy`.
    pub name: PolicyName,
    /// Whom it is about.
    pub subjects: SelectionId,
    /// What may come to them, and nothing else; everything, as far as this policy goes, if it is not
    /// said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Vec<PolicyRule>>,
    /// What they may send, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<PolicyRule>>,
}

/// What is let through: one of these peers, at one of these ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct PolicyRule {
    /// Who: the sender of what comes in, the receiver of what goes out. Everyone if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Vec<Peer>>,
    /// At which ports of the receiver; whatever it is if it is not said, also what has no ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<RulePort>>,
}

/// One of those that a rule names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// Who is selected.
    Selection(SelectionId),
    /// Who has such an address.
    Block(Block),
}

/// Addresses: a prefix, and what of it does not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// The prefix.
    pub cidr: IpNet,
    /// Parts of it that are not meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<IpNet>,
}

/// Ports of a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulePort {
    /// What carries it.
    #[serde(default)]
    pub transport: Transport,
    /// Which numbers; all if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<PortRange>,
    /// Only at receivers that are in this selection. A named port is one of these for each number
    /// that receivers have by that name, with the selection of those who have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<SelectionId>,
}

/// Numbers of ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// Which way a rule judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// What comes to the policy's subjects.
    Ingress,
    /// What they send.
    Egress,
}

/// Which rule of which policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleRef {
    /// The policy.
    pub policy: PolicyName,
    /// Which of its lists.
    pub direction: Direction,
    /// Its place in the list.
    pub index: usize,
}

// === impl Policy ===

impl Policy {
    /// More than any real policy has. A controller takes fewer from users; this bounds a node.
    const MAX_RULES: usize = 10_000;

    /// The rules of a direction; nothing if the policy does not speak of it.
    pub fn rules(&self, direction: Direction) -> Option<&[PolicyRule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    /// The selections that it refers to.
    pub fn selections(&self) -> BTreeSet<SelectionId> {
        let rules = self.ingress.iter().chain(&self.egress).flatten();
        std::iter::once(self.subjects).chain(rules.flat_map(PolicyRule::selections)).collect()
    }

    /// Checks what can be checked without other objects.
    pub fn validate(&self) -> Result<(), Invalid> {
        let object = format!("policy {}", self.name);
        for direction in [Direction::Ingress, Direction::Egress] {
            let rules = self.rules(direction).unwrap_or_default();
            check_rules(&object, direction, rules, Self::MAX_RULES, PolicyRule::check)?;
        }
        Ok(())
    }
}

/// Checks the rules of a direction, of which there may be so many.
pub(crate) fn check_rules<R>(
    object: &str,
    direction: Direction,
    rules: &[R],
    most: usize,
    check: impl Fn(&R) -> Result<(), (String, Problem)>,
) -> Result<(), Invalid> {
    if rules.len() > most {
        let (found, max) = (rules.len() as u64, most as u64);
        let problem = Problem::Range { found, min: 0, max };
        return Err(Invalid::new(object, direction.to_string(), problem));
    }
    for (i, rule) in rules.iter().enumerate() {
        check(rule).map_err(|(field, problem)| {
            Invalid::new(object, format!("{direction}[{i}].{field}"), problem)
        })?;
    }
    Ok(())
}

// === impl PolicyRule ===

impl PolicyRule {
    /// The selections that it refers to.
    pub fn selections(&self) -> impl Iterator<Item = SelectionId> {
        let peers = self.peers.iter().flatten().filter_map(|peer| match peer {
            Peer::Selection(id) => Some(*id),
            Peer::Block(_) => None,
        });
        peers.chain(self.ports.iter().flatten().filter_map(|port| port.of))
    }

    fn check(&self) -> Result<(), (String, Problem)> {
        for (i, peer) in self.peers.iter().flatten().enumerate() {
            if let Peer::Block(block) = peer {
                block
                    .check()
                    .map_err(|(field, problem)| (format!("peers[{i}].{field}"), problem))?;
            }
        }
        for (i, port) in self.ports.iter().flatten().enumerate() {
            if let Some(range) = port.range {
                range.check().map_err(|problem| (format!("ports[{i}].range"), problem))?;
            }
        }
        Ok(())
    }
}

// === impl Block ===

impl Block {
    /// Whether it means an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.cidr.contains(&address) && !self.except.iter().any(|e| e.contains(&address))
    }

    pub(crate) fn check(&self) -> Result<(), (String, Problem)> {
        check_prefix(self.cidr).map_err(|problem| ("cidr".to_owned(), problem))?;
        for (i, except) in self.except.iter().enumerate() {
            let fail = |problem| Err((format!("except[{i}]"), problem));
            if let Err(problem) = check_prefix(*except) {
                return fail(problem);
            }
            if !self.cidr.contains(except) || self.cidr == *except {
                let (one, other) = (except.to_string(), self.cidr.to_string());
                return fail(Problem::NotPart { part: one, whole: other });
            }
        }
        Ok(())
    }
}

// === impl PortRange ===

impl PortRange {
    /// One port alone.
    pub fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }

    /// Whether it has this number.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    pub(crate) fn check(self) -> Result<(), Problem> {
        let bounds = |found: u16, min: u16| Problem::Range {
            found: found.into(),
            min: min.into(),
            max: u16::MAX.into(),
        };
        match (self.first, self.last) {
            (0, _) => Err(bounds(0, 1)),
            (first, last) if last < first => Err(bounds(last, first)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}[{}]", self.policy, self.direction, self.index)
    }
}

impl fmt::Display for SelectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_rule_and_its_field() {
        let policy = |rule: &str| -> Policy {
            let text = format!(r#"{{"name":"shop:web","subjects":7,"ingress":[{{}},{rule}]}}"#);
            serde_json::from_str(&text).unwrap()
        };
        policy("{}").validate().unwrap();
        for (rule, said) in [
            (
                r#"{"peers":[{"block":{"cidr":"10.0.0.5/8"}}]}"#,
                "policy shop:web: ingress[1].peers[0].cidr: 10.0.0.5/8 has bits behind its length: did you mean 10.0.0.0/8?",
            ),
            (
                r#"{"peers":[{"selection":1},{"block":{"cidr":"10.0.0.0/8","except":["11.0.0.0/24"]}}]}"#,
                "policy shop:web: ingress[1].peers[1].except[0]: 11.0.0.0/24 is not a part of 10.0.0.0/8",
            ),
            (
                r#"{"ports":[{"transport":"sctp"},{"range":{"first":80,"last":79}}]}"#,
                "policy shop:web: ingress[1].ports[1].range: 79 is not in 80 to 65535",
            ),
            (
                r#"{"ports":[{"range":{"first":0,"last":79}}]}"#,
                "policy shop:web: ingress[1].ports[0].range: 0 is not in 1 to 65535",
            ),
        ] {
            assert_eq!(policy(rule).validate().unwrap_err().to_string(), said);
        }
    }
}
