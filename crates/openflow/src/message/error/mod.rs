//! Errors: what failed, in words, and which request.

mod codes;

use super::{HEADER, Header};
use crate::wire::{DecodeError, Reader, Writer};

/// A request failed.
///
/// ```text
///  8      10     12
/// +------+------+--------------------------------- ··
/// | type | code | data: the start of the request       struct ofp_error_msg, 7.5.4
/// +------+------+--------------------------------- ··
/// | 0xffff | type | experimenter 32 | data               struct ofp_error_experimenter_msg
/// +--------+------+-----------------+------------- ··
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorMessage {
    /// What failed.
    pub code: ErrorCode,
    /// At least the first 64 bytes of the request; of a failed hello, a text.
    pub data: Vec<u8>,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// One of the specification's.
    Standard {
        /// What kind of request.
        kind: u16,
        /// What about it.
        code: u16,
    },
    /// An extension's.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Which of theirs.
        kind: u16,
    },
}

const EXPERIMENTER: u16 = 0xffff;
const HELLO_FAILED: u16 = 0;

#[allow(missing_docs, reason = "named as in the specification")]
impl ErrorCode {
    pub const HELLO_INCOMPATIBLE: Self = Self::Standard { kind: HELLO_FAILED, code: 0 };
    pub const BAD_TYPE: Self = Self::Standard { kind: 1, code: 1 };
    pub const IS_SECONDARY: Self = Self::Standard { kind: 1, code: 10 };
    pub const TABLE_FULL: Self = Self::Standard { kind: 5, code: 1 };
    pub const OVERLAP: Self = Self::Standard { kind: 5, code: 3 };
    pub const GROUP_EXISTS: Self = Self::Standard { kind: 6, code: 0 };
    pub const UNKNOWN_GROUP: Self = Self::Standard { kind: 6, code: 8 };
    pub const ROLE_STALE: Self = Self::Standard { kind: 11, code: 0 };
    pub const METER_EXISTS: Self = Self::Standard { kind: 12, code: 1 };
    pub const UNKNOWN_METER: Self = Self::Standard { kind: 12, code: 3 };
    pub const BUNDLE_MESSAGE_FAILED: Self = Self::Standard { kind: 17, code: 13 };
}

// === impl ErrorCode ===

impl ErrorCode {
    /// The name that the specification and Open vSwitch use.
    pub fn name(self) -> Option<&'static str> {
        codes::find(self).map(|(name, _)| name)
    }

    /// What it means.
    pub fn meaning(self) -> Option<&'static str> {
        codes::find(self).map(|(_, meaning)| meaning)
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (codes::find(*self), *self) {
            (Some((name, meaning)), _) => write!(f, "{name}: {meaning}"),
            (None, Self::Standard { kind, code }) => write!(f, "error type {kind}, code {code}"),
            (None, Self::Experimenter { experimenter, kind }) => {
                write!(f, "error {kind} of experimenter {experimenter:#010x}")
            }
        }
    }
}

// === impl ErrorMessage ===

impl ErrorMessage {
    /// The header of the request that failed, if the switch sent it along.
    pub fn request(&self) -> Option<Header> {
        if matches!(self.code, ErrorCode::Standard { kind: HELLO_FAILED, .. }) {
            return None;
        }
        Header::decode(self.data.first_chunk::<HEADER>()?).ok()
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        match self.code {
            ErrorCode::Standard { kind, code } => {
                w.u16(kind);
                w.u16(code);
            }
            ErrorCode::Experimenter { experimenter, kind } => {
                w.u16(EXPERIMENTER);
                w.u16(kind);
                w.u32(experimenter);
            }
        }
        w.put(&self.data);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "error";
        let code = match (r.u16(WHAT)?, r.u16(WHAT)?) {
            (EXPERIMENTER, kind) => ErrorCode::Experimenter { experimenter: r.u32(WHAT)?, kind },
            (kind, code) => ErrorCode::Standard { kind, code },
        };
        Ok(Self { code, data: r.rest().to_vec() })
    }
}

impl std::fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.code.fmt(f)?;
        match self.request() {
            Some(request) => match request.name() {
                Some(name) => write!(f, " ({name}, xid {:#x})", request.xid),
                None => write!(f, " (message type {}, xid {:#x})", request.kind, request.xid),
            },
            None if matches!(self.code, ErrorCode::Standard { kind: HELLO_FAILED, .. }) => {
                let text = String::from_utf8_lossy(&self.data);
                write!(f, " ({})", text.trim_end_matches('\0').escape_debug())
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for ErrorMessage {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_what_and_which_request() {
        let data = vec![6, 14, 0, 56, 0, 0, 0, 0x2a, 0, 0];
        let e = ErrorMessage { code: ErrorCode::TABLE_FULL, data };
        let said = "OFPFMFC_TABLE_FULL: the table is full (flow-mod, xid 0x2a)";
        assert_eq!(e.to_string(), said);
        let code = ErrorCode::Experimenter { experimenter: 0x2320, kind: 37 };
        assert_eq!(code.name(), Some("NXFMFC_INVALID_TLV_FIELD"));
    }

    #[test]
    fn unknown_codes_and_short_data_stay_readable() {
        let code = ErrorCode::Standard { kind: 99, code: 3 };
        let e = ErrorMessage { code, data: vec![6, 14] };
        assert_eq!(e.to_string(), "error type 99, code 3");
        let code = ErrorCode::HELLO_INCOMPATIBLE;
        let e = ErrorMessage { code, data: b"We speak 1.0 only.\0".to_vec() };
        let said = "OFPHFC_INCOMPATIBLE: no common version (We speak 1.0 only.)";
        assert_eq!(e.to_string(), said);
    }
}
