//! Versions of the specification, and which commands and shapes each has.

use super::{Code, Error};
use serde::Serialize;
use std::fmt;

/// A version of the CNI specification that we speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// What a configuration without `cniVersion` means: one address a family, no interfaces.
    V0_1_0,
    /// As 0.1.0, with VERSION.
    V0_2_0,
    /// Interfaces, several addresses, chains.
    V0_3_0,
    /// As 0.3.0: a correction of its text.
    V0_3_1,
    /// CHECK, and the previous result on DEL.
    V0_4_0,
    /// Addresses without their IP version.
    V1_0_0,
    /// GC, STATUS, MTU of interfaces, attributes of routes.
    V1_1_0,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Self; 7] = [
        Self::V0_1_0,
        Self::V0_2_0,
        Self::V0_3_0,
        Self::V0_3_1,
        Self::V0_4_0,
        Self::V1_0_0,
        Self::V1_1_0,
    ];

    /// The newest one.
    pub const NEWEST: Self = Self::V1_1_0;

    /// As it is written in `cniVersion`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// Reads a `cniVersion`. Absent and empty mean 0.1.0, as for every plugin of the reference
    /// library; one that we do not speak is code 1.
    pub fn parse(text: Option<&str>) -> Result<Self, Error> {
        let text = text.unwrap_or_default();
        if text.is_empty() {
            return Ok(Self::V0_1_0);
        }
        Self::ALL.into_iter().find(|v| v.as_str() == text).ok_or_else(|| {
            let msg = format!("cniVersion {text:?} is not supported: use one of {}", Self::list());
            Error::new(Code::INCOMPATIBLE_VERSION, msg)
        })
    }

    /// All versions in words, for messages.
    pub fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to VERSION. It echoes the version that was asked in.
pub fn version_document(asked: Version) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document {
        cni_version: &'static str,
        supported_versions: [&'static str; Version::ALL.len()],
    }
    let document = Document {
        cni_version: asked.as_str(),
        supported_versions: Version::ALL.map(Version::as_str),
    };
    serde_json::to_string(&document).expect("strings are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_by_their_exact_text() {
        for version in Version::ALL {
            assert_eq!(Version::parse(Some(version.as_str())), Ok(version));
        }
        assert_eq!(Version::parse(None), Ok(Version::V0_1_0));
        assert_eq!(Version::parse(Some("")), Ok(Version::V0_1_0));
        for text in ["1.2.0", "1.0", "v1.0.0", " 1.0.0", "2.0.0"] {
            let error = Version::parse(Some(text)).unwrap_err();
            assert_eq!(error.code, Code::INCOMPATIBLE_VERSION, "{text}");
            assert!(error.msg.contains("0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"), "{}", error.msg);
        }
        assert!(Version::ALL.is_sorted());
    }

    #[test]
    fn the_version_document_is_the_specifications() {
        assert_eq!(
            version_document(Version::V1_0_0),
            r#"{"cniVersion":"1.0.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}"#
        );
    }
}
