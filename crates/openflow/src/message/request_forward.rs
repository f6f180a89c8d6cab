//! What another controller asked of groups and meters, passed on (7.4.6).

use super::{HEADER, Message, header, kind};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// Another controller's request, which the switch has done.
///
/// ```text
///  8
/// +------------------------------------+
/// | a group-mod or meter-mod, own xid  |   struct ofp_requestforward_header, 7.4.6
/// +------------------------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestForward {
    /// The request's transaction, on the other's connection.
    pub xid: u32,
    /// The request.
    pub request: Box<Message>,
}

impl RequestForward {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        if !is_forwarded(self.request.kind()) {
            let why = "only group-mods and meter-mods are forwarded";
            return Err(EncodeError::Inexpressible { what: "request-forward", why });
        }
        self.request.encode(self.xid, w)
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "request-forward";
        let mut inner = r.sized(WHAT, 2, HEADER)?;
        let header = header::Header::decode(&inner.array(WHAT)?)?;
        header.check_version()?;
        if !is_forwarded(header.kind) {
            let expected = "a group-mod or a meter-mod";
            let problem = Problem::Value { found: header.kind.into(), expected };
            return Err(r.error(WHAT, problem));
        }
        let request = Box::new(Message::decode_body(header, &mut inner)?);
        Ok(Self { xid: header.xid, request })
    }
}

fn is_forwarded(kind: u8) -> bool {
    matches!(kind, kind::GROUP_MOD | kind::METER_MOD)
}
