//! Errors as RFC 8040, section 7.1, tells them.

use serde_json::{Value, json};
use std::fmt;

/// What kind of error it is; each has its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorTag {
    /// The path or the body is not what it should be.
    InvalidValue,
    /// The body cannot be read.
    MalformedMessage,
    /// A member that the schema does not have.
    UnknownElement,
    /// A member that must be there.
    MissingElement,
    /// The URL and the body disagree.
    BadElement,
    /// It is there already.
    DataExists,
    /// It is not there.
    DataMissing,
    /// No credential, or the wrong one.
    AccessDenied,
    /// Another needs it, or has it.
    InUse,
    /// More than is taken.
    TooBig,
    /// Nothing is left to give, or nobody is there to do it.
    ResourceDenied,
    /// The method cannot be used here.
    OperationNotSupported,
    /// A condition of the request does not hold.
    PreconditionFailed,
    /// Something else.
    OperationFailed,
}

/// An error, and where in the data it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub tag: ErrorTag,
    /// Where: `/pod:coe/pods[uid='…']/host-ip-address`; empty if nowhere.
    pub path: String,
    /// Why, for people.
    pub message: String,
}

// === impl ErrorTag ===

impl ErrorTag {
    /// As it stands in bodies.
    pub fn word(self) -> &'static str {
        match self {
            Self::InvalidValue => "invalid-value",
            Self::MalformedMessage => "malformed-message",
            Self::UnknownElement => "unknown-element",
            Self::MissingElement => "missing-element",
            Self::BadElement => "bad-element",
            Self::DataExists => "data-exists",
            Self::DataMissing => "data-missing",
            Self::AccessDenied => "access-denied",
            Self::InUse => "in-use",
            Self::TooBig => "too-big",
            Self::ResourceDenied => "resource-denied",
            Self::OperationNotSupported => "operation-not-supported",
            Self::PreconditionFailed | Self::OperationFailed => "operation-failed",
        }
    }

    /// Its status (RFC 8040, section 7).
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidValue
            | Self::MalformedMessage
            | Self::UnknownElement
            | Self::MissingElement
            | Self::BadElement => 400,
            Self::AccessDenied => 401,
            Self::DataMissing => 404,
            Self::OperationNotSupported => 405,
            Self::DataExists | Self::InUse | Self::ResourceDenied => 409,
            Self::PreconditionFailed => 412,
            Self::TooBig => 413,
            Self::OperationFailed => 500,
        }
    }

    /// Of which layer it is.
    fn layer(self) -> &'static str {
        match self {
            Self::MalformedMessage
            | Self::AccessDenied
            | Self::TooBig
            | Self::PreconditionFailed => "protocol",
            _ => "application",
        }
    }

    /// The tag that fits a status that others chose.
    pub fn of_status(status: u16) -> Self {
        match status {
            400 | 422 => Self::InvalidValue,
            401 | 403 => Self::AccessDenied,
            404 | 410 => Self::DataMissing,
            405 => Self::OperationNotSupported,
            409 => Self::InUse,
            412 => Self::PreconditionFailed,
            413 => Self::TooBig,
            429 | 503 => Self::ResourceDenied,
            _ => Self::OperationFailed,
        }
    }
}

// === impl Problem ===

impl Problem {
    /// An error somewhere.
    pub fn new(tag: ErrorTag, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { tag, path: path.into(), message: message.into() }
    }

    /// As a body.
    pub fn to_value(&self) -> Value {
        let mut error = json!({
            "error-type": self.tag.layer(),
            "error-tag": self.tag.word(),
            "error-message": self.message,
        });
        if !self.path.is_empty() {
            error["error-path"] = self.path.clone().into();
        }
        json!({"ietf-restconf:errors": {"error": [error]}})
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for Problem {}
