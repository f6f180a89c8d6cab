//! Ports that agents ask for: recorded before the answer, the same for the same question.

use crate::engine::{ATTACHED, Effect, Engine, Operation, Write, WriteError};
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
    async fn record(
        &self,
        node: &NodeName,
        port: &Resource,
        effect: Effect,
        generation: u64,
    ) -> Result<(), AttachError> {
        let Some(northbound) = &self.northbound else { return Ok(()) };
        let Err(why) = northbound.record(port).await else { return Ok(()) };
        if effect == Effect::Created {
            let (name, node) = (port.name().to_owned(), node.clone());
            let undo = Operation::Detach { name, node, generation };
            // It is taken back, or the engine has ended: either way nobody has it.
            let _ = self.engine.write(Write::one(undo)).await;
        }
        Err(AttachError::Later(why))
    }
}

impl Attachments for Ports {
    fn attach<'a>(
        &'a self,
        node: &'a NodeName,
        request: &'a AttachRequest,
    ) -> BoxFuture<'a, Result<Port, AttachError>> {
        let mut metadata = Metadata::named(request.key.to_string());
        metadata.labels.insert(ATTACHED.to_owned(), request.generation.to_string());
        let wanted = Resource::Port(Document {
            metadata,
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
            let effect = outcome.as_ref().map_or(Effect::Unchanged, |outcome| outcome.effect);
            let port = outcome.and_then(|outcome| outcome.resource);
            if let Some(port) = port.as_ref().filter(|_| effect != Effect::Unchanged) {
                self.record(node, port, effect, request.generation).await?;
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
        generation: u64,
    ) -> BoxFuture<'a, Result<u64, AttachError>> {
        Box::pin(async move {
            let (name, node) = (key.to_string(), node.clone());
            let operation = Operation::Detach { name, node, generation };
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
        WriteError::Store(_)
        | WriteError::Stopping
        | WriteError::Settling { .. }
        | WriteError::Exhausted { .. } => AttachError::Later(said),
        _ => AttachError::Refused(said),
    }
}
