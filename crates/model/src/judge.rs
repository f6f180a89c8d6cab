//! What policies say of a connection, from the model alone: no packet is sent, no flow is read.
//!
//! Written rule by rule, as policies are, so that it can be compared with what the switch does,
//! which has them taken apart and shared.

use crate::id::Identity;
use crate::name::PolicyName;
use crate::policy::{
    Direction, Peer, Policy, PolicyRule, RulePort, RuleRef, Selection, SelectionId,
};
use crate::service::Transport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// One side of a connection, as policies see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// What it is; [`Identity::ANY`] for what is no pod.
    pub identity: Identity,
    /// Its address; of a Service's, that of the pod behind it.
    pub address: IpAddr,
}

/// A connection, or a packet that begins none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Talk {
    /// Who begins.
    pub from: Party,
    /// With whom.
    pub to: Party,
    /// At which port; nothing for what has none, such as ICMP.
    pub port: Option<(Transport, u16)>,
}

/// What the policies of one direction say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No policy of that direction is about that side.
    Open,
    /// These rules let it through; one is enough.
    Allowed(Vec<RuleRef>),
    /// These policies are about it, and no rule of them lets it through.
    Denied(Vec<PolicyName>),
}

/// What policies say of both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Of the sender's side.
    pub egress: Verdict,
    /// Of the receiver's.
    pub ingress: Verdict,
}

/// What is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Law<'a> {
    /// The policies.
    pub policies: &'a BTreeMap<PolicyName, Policy>,
    /// What they select.
    pub selections: &'a BTreeMap<SelectionId, Selection>,
}

// === impl Judgement ===

impl Judgement {
    /// Whether it passes.
    pub fn passes(&self) -> bool {
        [&self.egress, &self.ingress].into_iter().all(|v| !matches!(v, Verdict::Denied(_)))
    }
}

// === impl Law ===

impl Law<'_> {
    /// Judges a talk that is neither an answer nor between a node and its own pod: those always pass.
    pub fn judge(&self, talk: &Talk) -> Judgement {
        let judge = |direction| self.judge_side(talk, direction);
        Judgement { egress: judge(Direction::Egress), ingress: judge(Direction::Ingress) }
    }

    /// Policies that are about an identity, in a direction.
    pub fn about(&self, identity: Identity, direction: Direction) -> impl Iterator<Item = &Policy> {
        self.policies.values().filter(move |policy| {
            let subjects = self.selections.get(&policy.subjects);
            policy.rules(direction).is_some()
                && subjects.is_some_and(|subjects| subjects.members.contains(&identity))
        })
    }

    fn judge_side(&self, talk: &Talk, direction: Direction) -> Verdict {
        let (subject, peer) = match direction {
            Direction::Ingress => (talk.to, talk.from),
            Direction::Egress => (talk.from, talk.to),
        };
        let (mut allowed, mut about) = (Vec::new(), Vec::new());
        for policy in self.policies.values().filter(|p| self.has(p.subjects, subject)) {
            let Some(rules) = policy.rules(direction) else { continue };
            about.push(policy.name.clone());
            let letting = |(_, rule): &(usize, &PolicyRule)| {
                self.is_peer(rule, peer) && self.is_port(rule, talk)
            };
            let refer = |(index, _)| RuleRef { policy: policy.name.clone(), direction, index };
            allowed.extend(rules.iter().enumerate().filter(letting).map(refer));
        }
        match (about.is_empty(), allowed.is_empty()) {
            (true, _) => Verdict::Open,
            (false, false) => Verdict::Allowed(allowed),
            (false, true) => Verdict::Denied(about),
        }
    }

    fn has(&self, selection: SelectionId, party: Party) -> bool {
        self.selections.get(&selection).is_some_and(|s| s.members.contains(&party.identity))
    }

    fn is_peer(&self, rule: &PolicyRule, party: Party) -> bool {
        let is = |peer: &Peer| match peer {
            Peer::Selection(id) => self.has(*id, party),
            Peer::Block(block) => block.contains(party.address),
        };
        rule.peers.as_ref().is_none_or(|peers| peers.iter().any(is))
    }

    fn is_port(&self, rule: &PolicyRule, talk: &Talk) -> bool {
        let is = |port: &RulePort| {
            talk.port.is_some_and(|(transport, number)| {
                port.transport == transport
                    && port.range.is_none_or(|range| range.contains(number))
                    && port.of.is_none_or(|of| self.has(of, talk.to))
            })
        };
        rule.ports.as_ref().is_none_or(|ports| ports.iter().any(is))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_add_up_and_silence_denies() {
        let policies: Vec<Policy> = serde_json::from_str(
            r#"[{"name":"shop:deny","subjects":1,"ingress":[],"egress":[]},
                {"name":"shop:web","subjects":1,"ingress":[
                  {"peers":[{"selection":2}],"ports":[{"range":{"first":80,"last":90}}]},
                  {"peers":[{"block":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}]},
                  {"ports":[{"transport":"udp","range":{"first":53,"last":53},"of":9}]}]}]"#,
        )
        .unwrap();
        let selections: Vec<Selection> =
            serde_json::from_str(r#"[{"id":1,"members":[300]},{"id":2,"members":[301]}]"#).unwrap();
        let law = Law {
            policies: &policies.into_iter().map(|p| (p.name.clone(), p)).collect(),
            selections: &selections.into_iter().map(|s| (s.id, s)).collect(),
        };
        let party = |identity, address: &str| Party {
            identity: Identity(identity),
            address: address.parse().unwrap(),
        };
        let web = party(300, "10.1.0.5");
        let to_web = |from, port| law.judge(&Talk { from, to: web, port }).ingress;
        let denied =
            |names: &[&str]| Verdict::Denied(names.iter().map(|n| n.parse().unwrap()).collect());
        let allowed = |index| {
            let policy = "shop:web".parse().unwrap();
            Verdict::Allowed(vec![RuleRef { policy, direction: Direction::Ingress, index }])
        };
        let friend = party(301, "10.1.0.6");
        assert_eq!(to_web(friend, Some((Transport::Tcp, 85))), allowed(0));
        assert_eq!(to_web(friend, Some((Transport::Udp, 85))), denied(&["shop:deny", "shop:web"]));
        assert_eq!(to_web(friend, Some((Transport::Udp, 53))), denied(&["shop:deny", "shop:web"]));
        assert_eq!(to_web(friend, None), denied(&["shop:deny", "shop:web"]));
        assert_eq!(to_web(party(1, "10.2.0.1"), None), allowed(1));
        let out = law.judge(&Talk { from: web, to: friend, port: None });
        assert_eq!(
            (out.egress.clone(), out.ingress.clone()),
            (denied(&["shop:deny"]), Verdict::Open)
        );
        assert!(
            !out.passes() && law.judge(&Talk { from: friend, to: friend, port: None }).passes()
        );
    }
}
