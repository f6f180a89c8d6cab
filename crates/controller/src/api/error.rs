//! How requests fail: one form for all, with a status, a word for programs, a sentence for people,
//! and what of the request is wrong.

use crate::engine::WriteError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use osier_span::Refused;
use osier_store::{ListError, Unavailable, WatchError};
use serde::Serialize;
use std::error::Error;

/// What went wrong.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Vec<Detail>,
    retry_after: Option<u64>,
}

/// What of the request is wrong.
#[derive(Debug, Clone, Serialize)]
struct Detail {
    object: String,
    field: String,
    problem: String,
}

/// For the audit log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code(pub(crate) &'static str);

// === impl ApiError ===

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: Vec::new(), retry_after: None }
    }

    fn with(
        mut self,
        object: impl Into<String>,
        field: impl Into<String>,
        problem: String,
    ) -> Self {
        self.details.push(Detail { object: object.into(), field: field.into(), problem });
        self
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Malformed", message)
    }

    pub(crate) fn unauthorized() -> Self {
        let said = "a credential is needed: send it as Authorization: Bearer CREDENTIAL";
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", said)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(crate) fn method(allowed: &str) -> Self {
        let said = format!("this method cannot be used here, but {allowed}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", said)
    }

    pub(crate) fn read_only(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "ReadOnly", message)
    }

    pub(crate) fn too_large(most: usize) -> Self {
        let said = format!("the body is too large: at most {most} bytes; send it in parts");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", said)
    }

    pub(crate) fn too_many(message: impl Into<String>, seconds: u64) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooMany", message);
        Self { retry_after: Some(seconds), ..error }
    }

    pub(crate) fn timeout(seconds: u64) -> Self {
        let said = format!("the request took more than {seconds} seconds");
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", said)
    }

    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Gone", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", message);
        Self { retry_after: Some(1), ..error }
    }

    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    pub(crate) fn invalid(object: &str, field: &str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        let said = match field {
            "" => format!("{object}: {problem}"),
            field => format!("{object}: {field}: {problem}"),
        };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", said).with(object, field, problem)
    }

    fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The sentence for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// As it stands in a body.
    pub(crate) fn to_value(&self) -> serde_json::Value {
        let Self { code, message, details, .. } = self;
        serde_json::json!({"error": {"code": code, "message": message, "details": details}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.to_value())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response.extensions_mut().insert(Code(self.code));
        // For who tells it in another form.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        let mut causes = Vec::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        let cause = causes.join(": ");
        let said = match cause.as_str() {
            "" => error.to_string(),
            cause => format!("{error}: {cause}"),
        };
        match error {
            WriteError::Exists { .. } => {
                Self::conflict(format!("{said}: change it with PUT, PATCH or apply"))
            }
            WriteError::NotFound { .. } => Self::not_found(said),
            WriteError::Stale { resource, .. } => {
                Self::conflict(said).with(resource, "metadata.resourceVersion", cause)
            }
            WriteError::Invalid { resource, fault } => {
                Self::invalid(&resource, &fault.field, fault.said)
            }
            WriteError::NotYours { resource, .. } => Self::invalid(&resource, "", cause),
            WriteError::Twice(_) => Self::malformed(said),
            WriteError::Refused(refused) => Self::from(refused),
            WriteError::PoolInUse { .. } | WriteError::PortElsewhere { .. } => {
                Self::new(StatusCode::CONFLICT, "InUse", said)
            }
            WriteError::Exhausted { resource, .. } => {
                Self::new(StatusCode::CONFLICT, "Exhausted", said).with(resource, "", cause)
            }
            WriteError::Join(_) => Self::forbidden(said),
            WriteError::TooLarge(_) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", said),
            WriteError::Damaged { .. } => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Damaged", said)
            }
            WriteError::Store(_) | WriteError::Stopping | WriteError::Settling { .. } => {
                Self::unavailable(said)
            }
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match &refused {
            Refused::Invalid(invalid) => {
                let object = capitalised(&invalid.object);
                Self::invalid(
                    &object,
                    &format!("spec.{}", invalid.field),
                    invalid.problem.to_string(),
                )
            }
            Refused::InUse { object, .. } | Refused::ReachInUse { object, .. } => {
                let object = capitalised(&object.to_string());
                let said = refused.to_string();
                Self::new(StatusCode::CONFLICT, "InUse", said.clone()).with(object, "", said)
            }
        }
    }
}

/// The model says `network blue`, users `Network blue`.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

impl From<Unavailable> for ApiError {
    fn from(error: Unavailable) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<ListError> for ApiError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Unavailable(error) => error.into(),
            gone => Self::gone(format!("{gone}: list anew, without continue")),
        }
    }
}

impl From<WatchError> for ApiError {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Unavailable(error) => error.into(),
            gone => Self::gone(format!("{gone}: list anew, and watch from there")),
        }
    }
}
