//! Ports that agents ask for: recorded before the answer, the same for the same question.

use crate::engine::{Effect, Engine, Operation, Write, WriteError};
use crate::northbound::Northbound;
use futures_util::future::BoxFuture;
use osier_fleet::{AttachError, AttachRequest, Attachments};
use osier_model::{Limits, NodeName, Object, Port, PortKey};
use osier_resource::{Document, Metadata, Modelled, PortSpec, PortStatus, Resource};
use std::error::Error;
use std::sync::Arc;

/// Gives ports of shared networks their addresses.
pub(crate) struct Ports {
    pub(crate) engine: Engine,
    pub(crate) northbound: Option<Arc<dyn Northbound>>,
}

impl Ports {
    /// Records what was given where it is remembered; what cannot be is not given.
    async fn record(&self, node: &NodeName, port: &Resource) -> Result<(), AttachError> {
        let Some(northbound) = &self.northbound else { return Ok(()) };
        let Err(why) = northbound.record(port).await else { return Ok(()) };
        let undo = Operation::Detach { name: port.name().to_owned(), node: node.clone() };
        // It is taken back, or the engine has ended: either way nobody has it.
        let _ = self.engine.write(Write::one(undo)).await;
        Err(AttachError::Later(why))
    }
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
            let outcome = written.outcomes.into_iter().next();
            let is_new = outcome.as_ref().is_some_and(|o| o.effect != Effect::Unchanged);
            let port = outcome.and_then(|outcome| outcome.resource);
            if let Some(port) = port.as_ref().filter(|_| is_new) {
                self.record(node, port).await?;
            }
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
            let is_gone = written.outcomes.iter().any(|o| o.effect == Effect::Deleted);
            if let Some(northbound) = self.northbound.as_ref().filter(|_| is_gone) {
                let name = key.to_string();
                northbound.erase(&name).await.map_err(AttachError::Later)?;
            }
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
