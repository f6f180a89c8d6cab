//! What there is in Kubernetes, as far as it matters: nodes, pods, Services with their endpoints, policies, our
//! own resources and blocks.
//!
//! Only the fields that are needed are kept, and only they are read.

pub(crate) mod block;
pub(crate) mod cidr;
pub(crate) mod held;
pub(crate) mod identity;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod policy;
pub(crate) mod service;
pub(crate) mod slice;
pub(crate) mod watch;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// What is kept of an object's metadata.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Slim {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// Metadata without who has managed which field: that alone is larger than all that we need.
pub(crate) fn slim<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let slim = Slim::deserialize(from)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        creation_timestamp: slim.creation_timestamp,
        labels: slim.labels,
        annotations: slim.annotations,
        ..ObjectMeta::default()
    })
}

/// An object of a namespace, as the model calls it: `namespace:name`.
pub(crate) fn called(metadata: &ObjectMeta) -> String {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}:{}", metadata.name.as_deref().unwrap_or_default())
}

/// An object of which only some fields are read.
macro_rules! partial {
    ($name:ident, $scope:ident, $group:expr, $version:expr, $kind:expr, $plural:expr) => {
        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = k8s_openapi::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use partial;
