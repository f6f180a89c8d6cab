//! Ports that agents ask for: recorded before the answer, the same for the same question.

use crate::engine::{Engine, Operation, Write, WriteError};
use futures_util::future::BoxFuture;
use osier_fleet::{AttachError, AttachRequest, Attachments};
use osier_model::{Limits, NodeName, Object, Port, PortKey};
use osier_resource::{Document, Metadata, Modelled, PortSpec, PortStatus, Resource};
use std::error::Error;

/// Gives ports of shared networks their addresses.
pub(crate) struct Ports {
    pub(crate) engine: Engine,
}

impl Attachments for Ports {
    fn attach<'a>(
        &'a self,
        node: &'a NodeName,
        request: &'a AttachRequest,
    ) -> BoxFuture<'a, Result<Port, AttachError>> {
        let wanted = Resource::Port(Document {
            metadata: Metadata::named(request.key.to_string()),
            spec: PortSpec {
                network: request.network.clone(),
                node: node.clone(),
                mac: request.mac,
                addresses: request.addresses.clone(),
                limits: Limits::default(),
            },
            status: PortStatus::default(),
        });
        Box::pin(async move {
            let write = Write::one(Operation::Attach(Box::new(wanted)));
            let written = self.engine.write(write).await.map_err(|error| refused(&error))?;
            let port = written.outcomes.into_iter().find_map(|outcome| outcome.resource);
            match port.and_then(|resource| resource.to_model().ok()) {
                Some(Modelled::Object(Object::Port(port))) => Ok(port),
                _ => Err(AttachError::Refused(format!("{} is no port", request.key))),
            }
        })
    }

    fn detach<'a>(
        &'a self,
        node: &'a NodeName,
        key: &'a PortKey,
    ) -> BoxFuture<'a, Result<u64, AttachError>> {
        Box::pin(async move {
            let operation = Operation::Detach { name: key.to_string(), node: node.clone() };
            let written =
                self.engine.write(Write::one(operation)).await.map_err(|error| refused(&error))?;
            Ok(written.position.revision.0)
        })
    }
}

/// The reason, for people at the node.
fn refused(error: &WriteError) -> AttachError {
    let said = match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    match error {
        // An address may be free in a moment.
        WriteError::Store(_) | WriteError::Stopping | WriteError::Exhausted { .. } => {
            AttachError::Later(said)
        }
        _ => AttachError::Refused(said),
    }
}
