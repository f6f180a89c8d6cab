//! Errors as the specification prints them: a code, a sentence, details.

use super::Version;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of an error. Below 100 they are the specification's, from 100 on ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(pub u32);

impl Code {
    /// The configuration's `cniVersion` is not supported, or lacks the command.
    pub const INCOMPATIBLE_VERSION: Self = Self(1);
    /// A member of the configuration is not supported; the message names it and its value.
    pub const UNSUPPORTED_FIELD: Self = Self(2);
    /// The container is unknown; the runtime need not clean up.
    pub const UNKNOWN_CONTAINER: Self = Self(3);
    /// A `CNI_` variable is missing or wrong; the message names it.
    pub const INVALID_ENVIRONMENT: Self = Self(4);
    /// Reading or writing failed.
    pub const IO_FAILURE: Self = Self(5);
    /// What was read is not JSON, or has a member of the wrong type.
    pub const DECODING_FAILURE: Self = Self(6);
    /// The configuration is readable, and wrong.
    pub const INVALID_CONFIG: Self = Self(7);
    /// The same call may succeed later.
    pub const TRY_AGAIN_LATER: Self = Self(11);
    /// STATUS: no ADD can be served.
    pub const NOT_AVAILABLE: Self = Self(50);
    /// STATUS: no ADD can be served, and containers there may have limited connectivity.
    pub const LIMITED_CONNECTIVITY: Self = Self(51);
    /// Ours: the agent could not do it, for a reason that has no other code.
    pub const AGENT_FAILED: Self = Self(100);
    /// Ours: no address is left, or the requested one is taken.
    pub const NO_ADDRESS: Self = Self(101);
    /// Ours: the plugin that address management is delegated to failed.
    pub const DELEGATE_FAILED: Self = Self(102);
    /// Ours: CHECK found something missing or changed.
    pub const ATTACHMENT_DAMAGED: Self = Self(103);
    /// Ours: what is at the agent's socket is no agent that this plugin can trust or understand.
    pub const BAD_AGENT: Self = Self(104);
}

/// An error as it is printed for the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    /// The version of the configuration; filled in where it is printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cni_version: String,
    /// What kind of error.
    pub code: Code,
    /// What happened and what to do, in a sentence.
    #[serde(default)]
    pub msg: String,
    /// More, where there is more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl Error {
    /// An error without details.
    pub fn new(code: Code, msg: impl Into<String>) -> Self {
        Self { cni_version: String::new(), code, msg: msg.into(), details: String::new() }
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(mut self, details: impl fmt::Display) -> Self {
        self.details = details.to_string();
        self
    }

    /// The same with the causes of another error as its details.
    #[must_use]
    pub fn with_causes_of(self, error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        self.with_details(causes.join(": "))
    }

    /// An error of the environment: code 4.
    pub fn environment(msg: impl Into<String>) -> Self {
        Self::new(Code::INVALID_ENVIRONMENT, msg)
    }

    /// An error of the configuration's content: code 7.
    pub fn config(msg: impl Into<String>) -> Self {
        Self::new(Code::INVALID_CONFIG, msg)
    }

    /// The error as the specification's JSON, in a version.
    pub fn render(&self, version: Version) -> String {
        let printed = Self { cni_version: version.as_str().to_owned(), ..self.clone() };
        serde_json::to_string(&printed).expect("strings and numbers are JSON")
    }

    /// Reads what a plugin printed when it failed.
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (CNI code {})", self.msg, self.code.0)?;
        if !self.details.is_empty() {
            write!(f, ": {}", self.details)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specifications_example_reads_and_prints() {
        let text = r#"{"cniVersion":"1.0.0","code":7,"msg":"Invalid Configuration","details":"Network 192.168.0.0/31 too small to allocate from."}"#;
        let error = Error::decode(text.as_bytes()).unwrap();
        assert_eq!(error.code, Code::INVALID_CONFIG);
        assert_eq!(error.details, "Network 192.168.0.0/31 too small to allocate from.");
        assert_eq!(error.render(Version::V1_0_0), text);
    }

    #[test]
    fn empty_details_are_not_printed() {
        let error = Error::new(Code::TRY_AGAIN_LATER, "later");
        assert_eq!(
            error.render(Version::V0_4_0),
            r#"{"cniVersion":"0.4.0","code":11,"msg":"later"}"#
        );
    }

    #[test]
    fn an_error_without_a_code_is_none() {
        assert!(Error::decode(br#"{"msg":"x"}"#).is_err());
        assert!(Error::decode(br#"{"code":-1}"#).is_err());
    }
}
