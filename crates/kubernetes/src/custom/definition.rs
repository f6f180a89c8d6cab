//! The definitions of our own resources, as the API server gets them.

use super::schema::{rule_of, structural};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use osier_resource::Kind;
use serde_json::{Value, json};

/// The group of our resources.
pub const GROUP: &str = "osier.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";

/// The network of pods and its router are made from the configuration.
pub(crate) const PODS: &str = "pods";
/// The router of the network of pods.
pub(crate) const DEFAULT_ROUTER: &str = "default";

/// Kinds that users write with `kubectl`.
pub(crate) const KINDS: [Kind; 4] = [Kind::Pool, Kind::Router, Kind::Network, Kind::Port];

/// The definitions of all our own resources.
///
/// # Panics
///
/// Never: they are the same each time, and tests read them.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut all: Vec<Value> = KINDS.into_iter().map(of_kind).collect();
    all.push(address_block());
    all.push(identity());
    let read = |definition| serde_json::from_value(definition).expect("tests read all of them");
    all.into_iter().map(read).collect()
}

/// How a definition is called, and what of it is shown.
struct Shown {
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    columns: Vec<Value>,
    rules: Vec<Value>,
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

fn wide(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path, "priority": 1})
}

fn of_kind(kind: Kind) -> Value {
    let schema = osier_resource::inlined(kind);
    let mut spec = structural(&schema["properties"]["spec"]);
    let status = structural(&schema["properties"]["status"]);
    if let Some(rules) = spec_rules(kind) {
        spec["x-kubernetes-validations"] = rules;
    }
    let needs_spec = matches!(kind, Kind::Pool | Kind::Port);
    if !needs_spec {
        spec["default"] = json!({});
    }
    let (short, columns) = columns(kind);
    let shown =
        Shown { kind: kind.name(), plural: kind.plural(), short, columns, rules: root_rules(kind) };
    definition(shown, &spec, &status)
}

fn columns(kind: Kind) -> (&'static str, Vec<Value>) {
    let ready = column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status");
    let age = column("Age", "date", ".metadata.creationTimestamp");
    let why = wide("Message", "string", ".status.conditions[?(@.type==\"Ready\")].message");
    let (short, own) = match kind {
        Kind::Pool => ("opool", vec![column("CIDR", "string", ".spec.cidr")]),
        Kind::Router => ("ort", vec![column("VRF", "integer", ".status.vrf")]),
        Kind::Network => (
            "onet",
            vec![
                column("VNI", "integer", ".status.vni"),
                column("Router", "string", ".spec.router"),
                column("Reach", "string", ".spec.reach"),
            ],
        ),
        Kind::Port => (
            "oport",
            vec![
                column("Network", "string", ".spec.network"),
                column("Node", "string", ".spec.node"),
                column("Addresses", "string", ".status.addresses"),
                wide("MAC", "string", ".status.mac"),
            ],
        ),
        Kind::Fabric
        | Kind::Node
        | Kind::Service
        | Kind::Endpoints
        | Kind::Namespace
        | Kind::NetworkPolicy
        | Kind::Workload => ("", Vec::new()),
    };
    (short, own.into_iter().chain([ready, why, age]).collect())
}

/// What a spec has to be, beyond the types of its fields.
fn spec_rules(kind: Kind) -> Option<Value> {
    let rules = match kind {
        Kind::Pool => vec![rule_of(
            "!has(self.exclude) || self.exclude.all(e, isCIDR(e) && isCIDR(self.cidr) && \
             cidr(self.cidr).containsCIDR(e))",
            "what is excluded has to be inside of the pool's prefix",
        )],
        Kind::Router => {
            vec![rule_of("!has(self.vrf) || self.vrf != 0", "0 is the number of pods' own router")]
        }
        Kind::Network => vec![
            rule_of("!has(self.vni) || self.vni != 1", "1 is the number of pods' own network"),
            rule_of(
                "!has(self.subnets) || self.subnets.all(s, !has(s.gateway) || \
                 (isIP(s.gateway) && isCIDR(s.cidr) && cidr(s.cidr).containsIP(s.gateway)))",
                "a gateway has to be inside of its subnet",
            ),
        ],
        Kind::Port
        | Kind::Fabric
        | Kind::Node
        | Kind::Service
        | Kind::Endpoints
        | Kind::Namespace
        | Kind::NetworkPolicy
        | Kind::Workload => return None,
    };
    Some(rules.into())
}

fn root_rules(kind: Kind) -> Vec<Value> {
    let reserved = |name: &str| {
        let message = format!("{name} is made from the controller's configuration");
        vec![rule_of(&format!("self.metadata.name != '{name}'"), &message)]
    };
    match kind {
        Kind::Network => reserved(PODS),
        Kind::Router => reserved(DEFAULT_ROUTER),
        _ => Vec::new(),
    }
}

/// A block of pods' addresses and the node that has it. Made is claimed: its name is its prefix.
fn address_block() -> Value {
    let prefix = structural(&json!({"type": "string", "pattern": "^[0-9a-f.:]+/[0-9]+$",
        "description": "The addresses."}));
    let spec = json!({
        "type": "object",
        "required": ["cidr", "node"],
        "properties": {
            "cidr": prefix,
            "node": {"type": "string", "minLength": 1, "maxLength": 253,
                "description": "The node whose pods get them."},
            "nodeUID": {"type": "string", "maxLength": 64,
                "description": "Which of all nodes that had this name."},
        },
        "x-kubernetes-validations": [
            rule_of("self == oldSelf", "a block stays what it is: delete it and make another"),
        ],
    });
    let status = json!({
        "type": "object",
        "properties": {
            "used": {"type": "integer", "format": "int64", "minimum": 0,
                "description": "Addresses in use, when it was last counted."},
        },
    });
    let shown = Shown {
        kind: "AddressBlock",
        plural: "addressblocks",
        short: "oblock",
        columns: vec![
            column("CIDR", "string", ".spec.cidr"),
            column("Node", "string", ".spec.node"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        rules: Vec::new(),
    };
    definition(shown, &spec, &status)
}

/// What policies take a set of labels for: its name is the number that packets carry.
fn identity() -> Value {
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"},
        "description": "Labels that some policy looks at."});
    let port = json!({
        "type": "object",
        "required": ["name", "port"],
        "properties": {
            "name": {"type": "string"},
            "transport": {"type": "string", "enum": ["tcp", "udp", "sctp"]},
            "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
        },
    });
    let spec = json!({
        "type": "object",
        "required": ["namespace"],
        "properties": {
            "namespace": {"type": "string", "description": "The namespace of those who have it."},
            "labels": labels,
            "ports": {"type": "array", "items": port,
                "description": "Named ports that some policy names."},
        },
        "x-kubernetes-validations": [
            rule_of("self == oldSelf", "a number never stands for something else"),
        ],
    });
    let shown = Shown {
        kind: "Identity",
        plural: "identities",
        short: "oid",
        columns: vec![
            column("Namespace", "string", ".spec.namespace"),
            column("Labels", "string", ".spec.labels"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        rules: Vec::new(),
    };
    definition(shown, &spec, &json!({"type": "object"}))
}

fn definition(shown: Shown, spec: &Value, status: &Value) -> Value {
    let Shown { kind, plural, short, columns, rules } = shown;
    let mut schema = json!({
        "type": "object",
        "properties": {"spec": spec, "status": status},
    });
    if spec.get("default").is_none() {
        schema["required"] = json!(["spec"]);
    }
    if !rules.is_empty() {
        schema["x-kubernetes-validations"] = rules.into();
    }
    let singular = kind.to_ascii_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": singular,
                "shortNames": [short],
                "categories": ["osier"],
            },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_structural() {
        fn check(path: &str, schema: &Value) {
            let Some(object) = schema.as_object() else { return };
            assert!(object.contains_key("type"), "{path} has no type: {schema}");
            assert!(!object.contains_key("$ref"), "{path}");
            for (name, inner) in
                object.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                check(&format!("{path}.{name}"), inner);
            }
            if let Some(items) = object.get("items") {
                check(&format!("{path}[]"), items);
            }
        }
        let all = crds();
        assert_eq!(all.len(), 6);
        for definition in all {
            let value = serde_json::to_value(&definition).unwrap();
            let schema = &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            check(&definition.spec.names.kind, schema);
        }
    }
}
