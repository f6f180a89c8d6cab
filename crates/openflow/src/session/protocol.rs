//! What a session must know of the protocol: the types of messages, which answers which, and which
//! come unasked. Bodies are the business of [`crate::message`].

use crate::message::{Header, VERSION, kind};

/// `OFPT_TABLE_STATUS`, `OFPT_CONTROLLER_STATUS`: news without a type of ours.
const OTHER_NEWS: [u8; 2] = [31, 35];
/// Multipart type of flow monitors, whose updates come unasked as replies (7.3.5.20).
const FLOW_MONITOR: u16 = 16;
/// `OFPMPF_REPLY_MORE`.
const MORE: u16 = 1;
/// Nicira's experimenter id, and its messages that come unasked.
const NICIRA: [u8; 7] = [0, 0, 0x23, 0x20, 0, 0, 0];
const NICIRA_PACKET_IN2: u8 = 30;
const NICIRA_MONITOR_PAUSED: u8 = 22;
const NICIRA_MONITOR_RESUMED: u8 = 23;

/// What a message from a switch is to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Says that a request failed.
    Error,
    /// Wants an echo.
    EchoRequest,
    /// Part of an answer; `last` if no more follow.
    Part { multipart: u16, last: bool },
    /// An answer, if something was asked with its transaction id.
    Reply,
    /// A packet: comes unasked, in any number.
    Packet,
    /// News of the switch's state: comes unasked, and must not be lost.
    News,
    /// Means nothing by now, and harms nobody.
    Idle,
    /// A switch does not send it.
    Unexpected,
}

/// The name of a type of messages.
pub(super) fn name(kind: u8) -> &'static str {
    let header = Header { version: VERSION, kind, length: 0, xid: 0 };
    header.name().unwrap_or("message of an unknown type")
}

/// The type of the answer to a request; `None` if it has none.
pub(super) fn reply_to(kind: u8) -> Option<u8> {
    match kind {
        kind::ECHO_REQUEST
        | kind::FEATURES_REQUEST
        | kind::GET_CONFIG_REQUEST
        | kind::MULTIPART_REQUEST
        | kind::BARRIER_REQUEST
        | kind::ROLE_REQUEST
        | kind::GET_ASYNC_REQUEST => Some(kind + 1),
        kind::EXPERIMENTER | kind::BUNDLE_CONTROL => Some(kind),
        _ => None,
    }
}

/// What this whole message is to a session.
pub(super) fn role(header: Header, message: &[u8]) -> Role {
    match header.kind {
        kind::HELLO => Role::Idle,
        kind::ERROR => Role::Error,
        kind::ECHO_REQUEST => Role::EchoRequest,
        kind::PACKET_IN => Role::Packet,
        kind::FLOW_REMOVED | kind::PORT_STATUS | kind::ROLE_STATUS | kind::REQUEST_FORWARD => {
            Role::News
        }
        news if OTHER_NEWS.contains(&news) => Role::News,
        kind::MULTIPART_REPLY => match (u16_at(message, 8), u16_at(message, 10)) {
            (Some(FLOW_MONITOR), _) if header.xid == 0 => Role::News,
            (Some(multipart), Some(flags)) => Role::Part { multipart, last: flags & MORE == 0 },
            // Too short to be one: the decoder will say so.
            _ => Role::Reply,
        },
        kind::EXPERIMENTER => match message.get(8..16).and_then(|id| id.strip_prefix(&NICIRA)) {
            Some([NICIRA_PACKET_IN2]) => Role::Packet,
            Some([NICIRA_MONITOR_PAUSED | NICIRA_MONITOR_RESUMED]) => Role::News,
            _ => Role::Reply,
        },
        kind::ECHO_REPLY
        | kind::FEATURES_REPLY
        | kind::GET_CONFIG_REPLY
        | kind::BARRIER_REPLY
        | kind::ROLE_REPLY
        | kind::GET_ASYNC_REPLY
        | kind::BUNDLE_CONTROL => Role::Reply,
        _ => Role::Unexpected,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u8, xid: u32) -> Header {
        Header { version: 6, kind, length: 0, xid }
    }

    #[test]
    fn a_reply_has_the_name_of_its_request() {
        for request in 0..=35 {
            if let Some(reply) = reply_to(request) {
                let said = name(request).trim_end_matches(" request");
                assert_eq!(name(reply).trim_end_matches(" reply"), said);
            }
        }
    }

    #[test]
    fn updates_of_flow_monitors_are_news_and_other_parts_are_not() {
        let update = [6, 19, 0, 16, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0];
        assert_eq!(role(header(19, 0), &update), Role::News);
        let first = role(header(19, 7), &update);
        assert_eq!(first, Role::Part { multipart: 16, last: true });
        let more = [6, 19, 0, 16, 0, 0, 0, 7, 0, 17, 0, 1, 0, 0, 0, 0];
        assert_eq!(role(header(19, 7), &more), Role::Part { multipart: 17, last: false });
    }

    #[test]
    fn what_only_controllers_send_is_unexpected() {
        for kind in [5, 9, 13, 14, 15, 18, 20, 24, 34, 36, 255] {
            assert_eq!(role(header(kind, 1), &[]), Role::Unexpected, "{kind}");
        }
    }
}
