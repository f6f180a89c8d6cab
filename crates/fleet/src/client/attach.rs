//! Asking the controller for ports.

use super::ControllerClient;
use crate::attach::{AttachError, AttachRequest};
use crate::wire::proto;
use crate::wire::proto::fleet_client::FleetClient;
use osier_model::{Port, PortKey};
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// How long a connection may take to come, and then an answer.
const CONNECTION: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(10);

impl ControllerClient {
    /// Asks for a port. Whoever stops waiting does not know whether it was given.
    pub async fn attach(&self, request: &AttachRequest) -> Result<Port, AttachError> {
        let mut client = self.connection().await?;
        let request = serde_json::to_vec(request).unwrap_or_default().into();
        let answer = client.attach(timed(proto::AttachRequest { request })).await;
        let answer = answer.map_err(|status| refused(&status))?.into_inner();
        serde_json::from_slice(&answer.port)
            .map_err(|error| AttachError::Refused(format!("the answer cannot be read: {error}")))
    }

    /// Gives a port of a generation back: the revision from which on no view has it.
    pub async fn detach(&self, key: &PortKey, generation: u64) -> Result<u64, AttachError> {
        let mut client = self.connection().await?;
        let key = serde_json::to_vec(key).unwrap_or_default().into();
        let answer = client.detach(timed(proto::DetachRequest { key, generation })).await;
        Ok(answer.map_err(|status| refused(&status))?.into_inner().revision)
    }

    async fn connection(&self) -> Result<FleetClient<Channel>, AttachError> {
        let mut current = self.current.clone();
        let there = tokio::time::timeout(CONNECTION, current.wait_for(Option::is_some)).await;
        if let Ok(Ok(client)) = there
            && let Some(client) = &*client
        {
            return Ok(client.clone());
        }
        let problem = self.state.borrow().problem.clone();
        let why = problem.map_or_else(String::new, |problem| format!(": {problem}"));
        Err(AttachError::Later(format!("the controller is away{why}")))
    }
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(ANSWER);
    request
}

fn refused(status: &Status) -> AttachError {
    let text = status.message().to_owned();
    match status.code() {
        Code::FailedPrecondition
        | Code::InvalidArgument
        | Code::NotFound
        | Code::PermissionDenied
        | Code::Unimplemented => AttachError::Refused(text),
        _ => AttachError::Later(text),
    }
}
