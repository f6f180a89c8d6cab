//! Label selectors: what labels must be like to be meant, by the rules of Kubernetes.
//!
//! A [`Selector`] is kept in one form only: terms that must all hold, sorted, each once. So two
//! spellings of one selector are equal, and whoever keeps results by selector keeps them once.

use crate::error::Problem;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Labels: words of users, by key.
pub type Labels = BTreeMap<String, String>;

/// What labels must be like. The empty one takes everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Selector {
    terms: BTreeSet<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Term {
    key: String,
    must: Must,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Must {
    BeIn(BTreeSet<String>),
    NotBeIn(BTreeSet<String>),
    Exist,
    NotExist,
}

/// As users write it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Written {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    match_labels: Labels,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: Operator,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

// === impl Selector ===

impl Selector {
    /// Takes what has all of these labels.
    pub fn labels(labels: Labels) -> Self {
        let term = |(key, value)| Term { key, must: Must::BeIn(BTreeSet::from([value])) };
        Self { terms: labels.into_iter().map(term).collect() }
    }

    /// Takes what has one of these values at a key.
    pub fn one_of(key: &str, values: BTreeSet<String>) -> Self {
        let term = Term { key: key.to_owned(), must: Must::BeIn(values) };
        Self { terms: BTreeSet::from([term]) }
    }

    /// Whether it takes everything.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it takes something with such labels.
    pub fn takes(&self, labels: &Labels) -> bool {
        self.terms.iter().all(|term| term.holds(labels.get(&term.key)))
    }

    /// The keys that it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.key.as_str())
    }

    /// A key and the values of which one must be there, if there is such a term: whatever has none of
    /// these labels need not be looked at.
    pub fn anchor(&self) -> Option<(&str, &BTreeSet<String>)> {
        self.terms.iter().find_map(|term| match &term.must {
            Must::BeIn(values) => Some((term.key.as_str(), values)),
            _ => None,
        })
    }
}

// === impl Term ===

impl Term {
    fn holds(&self, value: Option<&String>) -> bool {
        match &self.must {
            Must::BeIn(values) => value.is_some_and(|value| values.contains(value)),
            // What is not there is none of them.
            Must::NotBeIn(values) => value.is_none_or(|value| !values.contains(value)),
            Must::Exist => value.is_some(),
            Must::NotExist => value.is_none(),
        }
    }
}

impl TryFrom<Written> for Selector {
    type Error = Problem;

    fn try_from(written: Written) -> Result<Self, Problem> {
        let mut terms = Self::labels(written.match_labels).terms;
        for Expression { key, operator, values } in written.match_expressions {
            let values: BTreeSet<String> = values.into_iter().collect();
            let must = match (operator, values.is_empty()) {
                (Operator::In, false) => Must::BeIn(values),
                (Operator::NotIn, false) => Must::NotBeIn(values),
                (Operator::Exists, true) => Must::Exist,
                (Operator::DoesNotExist, true) => Must::NotExist,
                (Operator::In | Operator::NotIn, true) => {
                    return Err(Problem::Missing("values (of In and NotIn)"));
                }
                (Operator::Exists | Operator::DoesNotExist, false) => {
                    return Err(Problem::Idle("values", "Exists and DoesNotExist"));
                }
            };
            terms.insert(Term { key, must });
        }
        Ok(Self { terms })
    }
}

impl From<Selector> for Written {
    fn from(selector: Selector) -> Self {
        let mut written = Self::default();
        for Term { key, must } in selector.terms {
            let (operator, values) = match must {
                Must::BeIn(values) => (Operator::In, values),
                Must::NotBeIn(values) => (Operator::NotIn, values),
                Must::Exist => (Operator::Exists, BTreeSet::new()),
                Must::NotExist => (Operator::DoesNotExist, BTreeSet::new()),
            };
            let is_plain = operator == Operator::In && values.len() == 1;
            let mut values = values.into_iter();
            if is_plain
                && !written.match_labels.contains_key(&key)
                && let Some(value) = values.next()
            {
                written.match_labels.insert(key, value);
            } else {
                let values = values.collect();
                written.match_expressions.push(Expression { key, operator, values });
            }
        }
        written
    }
}

impl std::fmt::Display for Selector {
    /// As `kubectl --selector` takes it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, Term { key, must }) in self.terms.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            let all = |values: &BTreeSet<String>| {
                values.iter().map(String::as_str).collect::<Vec<_>>().join(",")
            };
            match must {
                Must::BeIn(values) if values.len() == 1 => write!(f, "{key}={}", all(values))?,
                Must::BeIn(values) => write!(f, "{key} in ({})", all(values))?,
                Must::NotBeIn(values) => write!(f, "{key} notin ({})", all(values))?,
                Must::Exist => f.write_str(key)?,
                Must::NotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn selector(value: Value) -> Selector {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn terms_hold_as_kubernetes_says() {
        let labels: Labels = serde_json::from_value(json!({"app": "web", "tier": ""})).unwrap();
        let expression = |key: &str, operator: &str, values: Value| {
            selector(json!({"matchExpressions": [
                {"key": key, "operator": operator, "values": values}]}))
        };
        for (selector, takes) in [
            (selector(json!({})), true),
            (selector(json!({"matchLabels": {"app": "web"}})), true),
            (selector(json!({"matchLabels": {"app": "web", "tier": "x"}})), false),
            (selector(json!({"matchLabels": {"tier": ""}})), true),
            (selector(json!({"matchLabels": {"none": ""}})), false),
            (expression("app", "In", json!(["db", "web"])), true),
            (expression("app", "In", json!(["db"])), false),
            (expression("none", "In", json!(["db"])), false),
            (expression("app", "NotIn", json!(["db"])), true),
            (expression("app", "NotIn", json!(["web"])), false),
            (expression("none", "NotIn", json!(["db"])), true),
            (expression("tier", "Exists", json!([])), true),
            (expression("none", "Exists", json!([])), false),
            (expression("none", "DoesNotExist", json!([])), true),
            (expression("app", "DoesNotExist", json!([])), false),
            // All must hold, also two of one key.
            (
                selector(json!({"matchLabels": {"app": "web"}, "matchExpressions": [
                    {"key": "app", "operator": "NotIn", "values": ["web"]}]})),
                false,
            ),
        ] {
            assert_eq!(selector.takes(&labels), takes, "{selector}");
        }
    }

    #[test]
    fn one_selector_has_one_form() {
        let one = selector(json!({"matchExpressions": [
            {"key": "b", "operator": "In", "values": ["y", "x", "y"]},
            {"key": "a", "operator": "In", "values": ["1"]},
            {"key": "a", "operator": "In", "values": ["2"]}]}));
        let other = selector(json!({"matchLabels": {"a": "1"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["2"]},
            {"key": "b", "operator": "In", "values": ["x", "y"]}]}));
        assert_eq!(one, other);
        assert_eq!(one.to_string(), "a=1,a=2,b in (x,y)");
        assert_eq!(one.anchor().unwrap().0, "a");
        let again: Selector = serde_json::from_value(serde_json::to_value(&one).unwrap()).unwrap();
        assert_eq!(again, one);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (expression, said) in [
            (json!({"key": "a", "operator": "In"}), "values (of In and NotIn) is missing"),
            (
                json!({"key": "a", "operator": "Exists", "values": ["x"]}),
                "values means nothing with Exists and DoesNotExist",
            ),
            (json!({"key": "a", "operator": "Like"}), "unknown variant `Like`"),
        ] {
            let value = json!({"matchExpressions": [expression]});
            let error = serde_json::from_value::<Selector>(value).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
