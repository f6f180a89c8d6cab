//! Schemas of all kinds, from the types themselves.

use crate::kind::Kind;
use crate::metadata::Metadata;
use crate::policy::{
    NamespaceSpec, NamespaceStatus, NetworkPolicySpec, NetworkPolicyStatus, WorkloadSpec,
    WorkloadStatus,
};
use crate::resource::API_VERSION;
use crate::service::{EndpointsSpec, EndpointsStatus, ServiceSpec, ServiceStatus};
use crate::spec::{FabricSpec, NetworkSpec, NodeSpec, PoolSpec, PortSpec, RouterSpec};
use crate::status::{
    FabricStatus, NetworkStatus, NodeStatus, PoolStatus, PortStatus, RouterStatus,
};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// Where the schemas of a document are.
const COMPONENTS: &str = "/components/schemas";

/// Schemas by name, for `components.schemas` of an OpenAPI 3.1 document: each kind, a list of each,
/// and what they are made of.
pub fn components() -> Map<String, Value> {
    let mut generator = generator(false);
    let mut schemas = Map::new();
    for kind in Kind::ALL {
        schemas.insert(kind.name().to_owned(), of_kind(kind, &mut generator));
        schemas.insert(format!("{}List", kind.name()), list_of(kind));
    }
    schemas.extend(generator.take_definitions(true));
    schemas
}

/// An OpenAPI 3.1 document with the schemas of all kinds and the paths of a server.
pub fn openapi(title: &str, version: &str, paths: &Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": components()},
    })
}

/// A kind's schema without references.
pub fn inlined(kind: Kind) -> Value {
    of_kind(kind, &mut generator(true))
}

fn generator(inline: bool) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = COMPONENTS.into();
        settings.meta_schema = None;
        settings.inline_subschemas = inline;
    });
    settings.into_generator()
}

fn of_kind(kind: Kind, generator: &mut SchemaGenerator) -> Value {
    let (spec, status) = match kind {
        Kind::Fabric => parts::<FabricSpec, FabricStatus>(generator),
        Kind::Node => parts::<NodeSpec, NodeStatus>(generator),
        Kind::Pool => parts::<PoolSpec, PoolStatus>(generator),
        Kind::Router => parts::<RouterSpec, RouterStatus>(generator),
        Kind::Network => parts::<NetworkSpec, NetworkStatus>(generator),
        Kind::Port => parts::<PortSpec, PortStatus>(generator),
        Kind::Service => parts::<ServiceSpec, ServiceStatus>(generator),
        Kind::Endpoints => parts::<EndpointsSpec, EndpointsStatus>(generator),
        Kind::Namespace => parts::<NamespaceSpec, NamespaceStatus>(generator),
        Kind::NetworkPolicy => parts::<NetworkPolicySpec, NetworkPolicyStatus>(generator),
        Kind::Workload => parts::<WorkloadSpec, WorkloadStatus>(generator),
    };
    let mut required = vec!["apiVersion", "kind", "metadata"];
    if matches!(kind, Kind::Node | Kind::Pool | Kind::Port | Kind::Endpoints) {
        required.push("spec");
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind.name()},
            "metadata": generator.subschema_for::<Metadata>(),
            "spec": spec,
            "status": status,
        },
    })
}

fn parts<S: JsonSchema, T: JsonSchema>(generator: &mut SchemaGenerator) -> (Schema, Schema) {
    (generator.subschema_for::<S>(), generator.subschema_for::<T>())
}

fn list_of(kind: Kind) -> Value {
    let item = format!("#{COMPONENTS}/{}", kind.name());
    json!({
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "items"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": format!("{}List", kind.name())},
            "metadata": {
                "type": "object",
                "properties": {
                    "resourceVersion": {
                        "type": "string",
                        "description": "Where to watch from.",
                    },
                    "continue": {
                        "type": "string",
                        "description": "Given back, it gets the next page.",
                    },
                },
            },
            "items": {"type": "array", "items": {"$ref": item}},
        },
    })
}
