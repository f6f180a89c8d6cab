//! What the switch has counted and the view holds, asked for when metrics are read.

use osier_fleet::ask::RuleHits;
use osier_model::Direction;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More rules are not told apart: the rest is one.
const MOST_RULES: usize = 1000;
const OTHERS: &str = "(others)";

/// What was told last; a cheap handle.
#[derive(Debug, Clone, Default)]
pub(super) struct Told(Arc<Mutex<Option<SwitchCounts>>>);

/// What is known of the switch at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct SwitchCounts {
    /// Policies and Services of the view, and endpoints of these.
    pub(crate) policies: usize,
    pub(crate) services: usize,
    pub(crate) endpoints: usize,
    /// How often rules granted.
    pub(crate) rules: Vec<RuleHits>,
    /// Packets that no rule granted.
    pub(crate) denied: BTreeMap<Direction, u64>,
    /// Packets that began connections to Services.
    pub(crate) begun: u64,
    /// Connections that are tracked.
    pub(crate) tracked: Option<u64>,
}

// === impl Told ===

impl Told {
    pub(super) fn set(&self, counts: Option<SwitchCounts>) {
        *self.lock() = counts;
    }

    fn lock(&self) -> MutexGuard<'_, Option<SwitchCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let told = self.lock();
        let mut gauge = |name, help, value: usize| {
            let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        gauge("switch_answers", "Whether the switch told what it counted", told.is_some().into())?;
        let Some(counts) = told.as_ref() else { return Ok(()) };
        gauge("policies", "Policies that this node knows", counts.policies)?;
        gauge("services", "Services that this node knows", counts.services)?;
        gauge("service_endpoints", "Endpoints of Services", counts.endpoints)?;
        if let Some(tracked) = counts.tracked {
            let tracked = usize::try_from(tracked).unwrap_or(usize::MAX);
            gauge("tracked_connections", "Connections that the switch tracks", tracked)?;
        }
        let (name, help) = ("service_packets", "Packets that began connections to Services");
        let begun = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(counts.begun).encode(begun)?;
        let rules = rules(&counts.rules);
        let rules = rules.iter().map(|(policy, rule, hits)| {
            ([("policy", policy.as_str()), ("rule", rule.as_str())], *hits)
        });
        family(
            &mut encoder,
            ("policy_rule_connections", "Connections that a rule of a policy let through"),
            rules,
        )?;
        let denied = counts.denied.iter();
        let names = denied.map(|(direction, packets)| (direction.to_string(), *packets));
        let names: Vec<(String, u64)> = names.collect();
        family(
            &mut encoder,
            ("policy_denied_packets", "Packets that no rule let through"),
            names.iter().map(|(name, packets)| ([("direction", name.as_str())], *packets)),
        )
    }
}

/// Counters that labels tell apart.
fn family<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder,
    (name, help): (&str, &str),
    members: impl Iterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in members {
        ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// As many rules as are told apart, by policy, rule and hits.
fn rules(hits: &[RuleHits]) -> Vec<(String, String, u64)> {
    let (apart, rest) = hits.split_at(hits.len().min(MOST_RULES));
    let told = |RuleHits { rule, connections }: &RuleHits| {
        (rule.policy.to_string(), format!("{}[{}]", rule.direction, rule.index), *connections)
    };
    let mut rules: Vec<_> = apart.iter().map(told).collect();
    if !rest.is_empty() {
        let sum = rest.iter().map(|rule| rule.connections).sum();
        rules.push((OTHERS.to_owned(), OTHERS.to_owned(), sum));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_model::RuleRef;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn rules_are_told_apart_up_to_a_bound() {
        let told = Told::default();
        let mut registry = Registry::with_prefix("osier_agent");
        registry.register_collector(Box::new(told.clone()));
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        assert!(text().contains("osier_agent_switch_answers 0\n"), "{}", text());
        let rule = |index| RuleHits {
            rule: RuleRef {
                policy: "shop:db".parse().unwrap(),
                direction: Direction::Ingress,
                index,
            },
            connections: 2,
        };
        told.set(Some(SwitchCounts {
            rules: (0..MOST_RULES + 5).map(rule).collect(),
            denied: BTreeMap::from([(Direction::Egress, 7)]),
            tracked: Some(3),
            ..SwitchCounts::default()
        }));
        let text = text();
        for line in [
            "osier_agent_policy_rule_connections_total{policy=\"shop:db\",rule=\"ingress[999]\"} 2\n",
            "osier_agent_policy_rule_connections_total{policy=\"(others)\",rule=\"(others)\"} 10\n",
            "osier_agent_policy_denied_packets_total{direction=\"egress\"} 7\n",
            "osier_agent_tracked_connections 3\n",
            "osier_agent_service_packets_total 0\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert!(!text.contains("ingress[1000]"), "{text}");
    }
}
