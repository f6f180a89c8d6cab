//! What the switch asks the agent: packets that flows alone cannot answer, and what is needed to
//! answer them, as the bytes that a `controller` action carries.
//!
//! Each kind has a meter, so that nobody can keep the agent busy; without an agent they are
//! dropped, and nothing else is.

use crate::meters;
use osier_model::Direction;
use osier_openflow::action::{Action, Controller};

/// Which controller the packets are for: who listens says this number of itself, so no other
/// controller of the bridge sees them.
pub const CONTROLLER_ID: u16 = 0x6f73;

/// How much of a packet comes: what an answer may quote of it (RFC 4443, 2.4 (c)).
const QUOTED: u16 = 1280;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Question {
    /// The packet is larger than the tunnel: "fragmentation needed" or "packet too big".
    TooBig {
        /// What the tunnel takes, without the Ethernet header.
        mtu: u16,
    },
    /// It has no hop left: "time exceeded".
    Expired,
    /// A neighbour solicitation for an address of a router.
    Neighbour,
    /// A new connection to a Service at which nobody answers: it is refused.
    Reject,
    /// A client asks for its addresses, by DHCP.
    Dhcp,
    /// The same by DHCPv6.
    Dhcp6,
    /// A client looks for routers: a router solicitation.
    Router,
    /// Policies did not grant it: it is logged, and answered by nobody.
    Denied {
        /// Which side did not.
        direction: Direction,
    },
}

// === impl Question ===

impl Question {
    /// As bytes, for the switch to return with the packet.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::TooBig { mtu } => [&[1][..], &mtu.to_be_bytes()].concat(),
            Self::Expired => vec![2],
            Self::Neighbour => vec![3],
            Self::Reject => vec![4],
            Self::Dhcp => vec![6],
            Self::Dhcp6 => vec![7],
            Self::Router => vec![8],
            Self::Denied { direction: Direction::Ingress } => vec![5, 0],
            Self::Denied { direction: Direction::Egress } => vec![5, 1],
        }
    }

    /// From what came with a packet; `None` if it is no question of ours.
    pub fn decode(userdata: &[u8]) -> Option<Self> {
        Some(match *userdata {
            [1, high, low] => Self::TooBig { mtu: u16::from_be_bytes([high, low]) },
            [2] => Self::Expired,
            [3] => Self::Neighbour,
            [4] => Self::Reject,
            [5, 0] => Self::Denied { direction: Direction::Ingress },
            [6] => Self::Dhcp,
            [7] => Self::Dhcp6,
            [8] => Self::Router,
            [5, 1] => Self::Denied { direction: Direction::Egress },
            _ => return None,
        })
    }

    /// In one word, for who counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooBig { .. } => "too-big",
            Self::Expired => "expired",
            Self::Neighbour => "neighbour",
            Self::Reject => "reject",
            Self::Dhcp => "dhcp",
            Self::Dhcp6 => "dhcpv6",
            Self::Router => "router",
            Self::Denied { .. } => "denied",
        }
    }

    /// The meter that bounds how often it is asked.
    pub(crate) fn meter(self) -> u32 {
        let kind = match self {
            Self::TooBig { .. } => 1,
            Self::Expired => 2,
            Self::Neighbour => 3,
            Self::Reject => 4,
            Self::Denied { .. } => 5,
            Self::Dhcp => 6,
            Self::Dhcp6 => 7,
            Self::Router => 8,
        };
        meters::QUESTIONS + kind
    }

    /// The action that asks.
    pub(crate) fn ask(self) -> Action {
        Controller {
            max_len: QUOTED,
            id: CONTROLLER_ID,
            userdata: self.encode(),
            meter: Some(self.meter()),
            ..Controller::default()
        }
        .into_action()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_back_as_they_were_asked() {
        let all = [
            Question::TooBig { mtu: 1442 },
            Question::Expired,
            Question::Neighbour,
            Question::Reject,
            Question::Dhcp,
            Question::Dhcp6,
            Question::Router,
            Question::Denied { direction: Direction::Ingress },
            Question::Denied { direction: Direction::Egress },
        ];
        for question in all {
            assert_eq!(Question::decode(&question.encode()), Some(question));
        }
        assert_eq!(Question::decode(&[]), None);
        assert_eq!(Question::decode(&[1, 2]), None);
    }
}
