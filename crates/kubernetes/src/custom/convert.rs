//! Our own resources, from objects of Kubernetes to the model's and back.
//!
//! A port's name has a colon, which Kubernetes' names have not: `shop:web` is the object
//! `shop.web`, and what cannot be said so stands in an annotation.

use super::definition::{GROUP, VERSION};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use osier_resource::{API_VERSION, Condition, Kind, Resource, Truth};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

/// The port that an object is, if its name cannot say it.
pub(crate) const PORT: &str = "osier.dev/port";
/// The longest name of an object.
const LONGEST: usize = 253;

/// One of our own resources, as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CustomSeen {
    /// The object's name.
    pub(crate) object: String,
    /// What it is to the model, or what is wrong with it.
    pub(crate) resource: Result<Resource, String>,
    /// What it says of itself.
    pub(crate) status: Value,
}

/// How objects of a kind are asked for.
pub(crate) fn api_resource(kind: Kind) -> ApiResource {
    let kind_name = GroupVersionKind::gvk(GROUP, VERSION, kind.name());
    ApiResource::from_gvk_with_plural(&kind_name, kind.plural())
}

/// What an object is to the model: its name there, and the rest.
pub(crate) fn read(kind: Kind, object: DynamicObject) -> (String, CustomSeen) {
    let metadata = object.metadata;
    let own = metadata.name.unwrap_or_default();
    let annotations = metadata.annotations.unwrap_or_default();
    let name = match (kind, annotations.get(PORT)) {
        (Kind::Port, Some(name)) => name.clone(),
        (Kind::Port, None) => own.replacen('.', ":", 1),
        _ => own.clone(),
    };
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    let mut document = json!({
        "apiVersion": API_VERSION,
        "kind": kind.name(),
        "metadata": {"name": name, "labels": metadata.labels.unwrap_or_default()},
        "spec": if spec.is_null() { json!({}) } else { spec.clone() },
    });
    if let Some(given) = given(status) {
        document["status"] = given;
    }
    let resource = Resource::from_value(&document).map_err(|fault| fault.to_string());
    (name, CustomSeen { object: own, resource, status: status.clone() })
}

/// What was allocated, of all that a status says.
fn given(status: &Value) -> Option<Value> {
    let said: Map<String, Value> = ["vni", "vrf", "mac", "addresses"]
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), status.get(field)?.clone())))
        .collect();
    (!said.is_empty()).then_some(said.into())
}

/// The status that an object should have: what was allocated, and whether it is so.
pub(crate) fn status_of(
    accepted: Option<&Resource>,
    seen: &CustomSeen,
    why: Option<&str>,
) -> Value {
    let mut status = match accepted.map(Resource::to_value) {
        Some(mut value) => given(&value["status"].take()).unwrap_or(json!({})),
        // What was given before is kept for when it is right again.
        None => given(&seen.status).unwrap_or(json!({})),
    };
    let (truth, reason) = match why {
        None => (Truth::True, "Accepted"),
        Some(_) => (Truth::False, "Refused"),
    };
    let mut condition = Condition {
        kind: "Ready".to_owned(),
        status: truth,
        reason: reason.to_owned(),
        message: why.unwrap_or_default().to_owned(),
        last_transition_time: None,
    };
    let before = &seen.status["conditions"][0];
    let same = before["status"] == json!(condition.status);
    let since = before["lastTransitionTime"].as_str().filter(|_| same).map(str::to_owned);
    condition.last_transition_time = since.or_else(|| Some(now()));
    status["conditions"] = json!([condition]);
    status
}

fn now() -> String {
    k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The object that a port is.
pub(crate) fn port_object(name: &str) -> String {
    let plain = name.replacen(':', ".", 1);
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    if plain.len() <= LONGEST && plain.chars().all(fits) {
        return plain;
    }
    let hash = digest(&SHA256, name.as_bytes());
    let first = hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let lower = plain.to_ascii_lowercase();
    let mut kept: String =
        lower.chars().map(|c| if fits(c) { c } else { '-' }).take(LONGEST - 18).collect();
    while kept.ends_with(['.', '-']) {
        kept.pop();
    }
    format!("{kept}-{first:016x}")
}

/// A port that an agent asked for, as an object.
pub(crate) fn port_of(port: &Resource) -> Value {
    let (name, value) = (port.name(), port.to_value());
    let object = port_object(name);
    let mut metadata = json!({"name": object, "labels": value["metadata"]["labels"]});
    if object.replacen('.', ":", 1) != name {
        metadata["annotations"] = json!({PORT: name});
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": Kind::Port.name(),
        "metadata": metadata,
        "spec": value["spec"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_objects_of_their_own() {
        for (port, object) in [
            ("shop:web", "shop.web"),
            ("shop:web.1", "shop.web.1"),
            ("shop:web:net1", "shop.web-net1-"),
            ("shop:Web", "shop.web-"),
        ] {
            let made = port_object(port);
            assert!(made.starts_with(object), "{made}");
            assert!(made.len() <= LONGEST);
        }
        assert_ne!(port_object("shop:web:net1"), port_object("shop:web:net2"));
        assert!(port_object(&format!("shop:{}", "x".repeat(300))).len() <= LONGEST);
    }

    #[test]
    fn what_was_given_survives_in_the_status() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "osier.dev/v1alpha1", "kind": "Network",
            "metadata": {"name": "blue", "labels": {"a": "b"}},
            "spec": {"subnets": [{"cidr": "10.5.0.0/24"}]},
            "status": {"vni": 4100, "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 4}]},
        }))
        .unwrap();
        let (name, seen) = read(Kind::Network, object);
        assert_eq!(name, "blue");
        let resource = seen.resource.clone().unwrap();
        let status = status_of(Some(&resource), &seen, None);
        assert_eq!(status["vni"], 4100);
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        let status = status_of(None, &seen, Some("10.5.0.0/24 is another's"));
        assert_eq!(
            (&status["vni"], &status["conditions"][0]["status"]),
            (&json!(4100), &json!("False"))
        );
    }
}
