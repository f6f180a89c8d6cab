//! What policies did, beside what they say: nodes are asked for it.

use crate::client::{Client, ClientError};
use crate::render::table;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// What the controller heard of nodes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Hits {
    /// Part of each policy's status.
    policies: BTreeMap<String, BTreeMap<String, Value>>,
    unanswered: Vec<Unanswered>,
}

/// A node that was asked in vain.
#[derive(Debug, Deserialize)]
pub(super) struct Unanswered {
    pub(super) problem: String,
}

/// Says who did not answer.
pub(super) fn complain(unanswered: &[Unanswered]) -> io::Result<()> {
    unanswered.iter().try_for_each(|node| writeln!(io::stderr(), "osier: {}", node.problem))
}

/// Completes the status of policies. What nobody tells is left out: policies are shown all the same.
pub(super) async fn fill(client: &Client, policies: &mut [Value]) -> anyhow::Result<()> {
    if policies.is_empty() {
        return Ok(());
    }
    let hits: Hits = match client.get("/policy/hits").await {
        Ok(hits) => hits,
        // An older controller.
        Err(ClientError::Refused(refusal)) if refusal.status == 404 => return Ok(()),
        Err(error) => {
            writeln!(io::stderr(), "osier: hits are not known: {:#}", anyhow::Error::new(error))?;
            return Ok(());
        }
    };
    for policy in policies {
        put(policy, &hits);
    }
    Ok(complain(&hits.unanswered)?)
}

fn put(policy: &mut Value, hits: &Hits) {
    let nothing = BTreeMap::from([("hits".to_owned(), Value::from(0))]);
    let done = hits.policies.get(table::name(policy)).unwrap_or(&nothing);
    if let Some(policy) = policy.as_object_mut() {
        let status = policy.entry("status").or_insert_with(|| Value::Object(Map::default()));
        for (field, value) in done {
            status[field] = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_policy_without_rules_that_grant_has_no_hits() {
        let told = json!({"policies": {"shop:db": {"hits": 3, "rules": [{"rule": "ingress[0]", "hits": 3}]}}});
        let hits: Hits = serde_json::from_value(told).unwrap();
        let policy = |name: &str| json!({"metadata": {"name": name}, "status": {"subjects": 1}});
        let (mut db, mut other) = (policy("shop:db"), json!({"metadata": {"name": "shop:other"}}));
        put(&mut db, &hits);
        put(&mut other, &hits);
        assert_eq!(
            db["status"],
            json!({"subjects": 1, "hits": 3, "rules": [{"rule": "ingress[0]", "hits": 3}]})
        );
        assert_eq!(other["status"], json!({"hits": 0}));
    }
}
