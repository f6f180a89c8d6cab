//! Packets between namespaces, made and judged by foreign tools and by plain sockets.

mod capture;
mod conversation;
mod iperf;
mod packet;
mod ping;

pub use capture::Capture;
pub use conversation::{Conversation, Talk};
pub use iperf::{TcpRate, UdpRate, iperf_tcp, iperf_udp};
pub use packet::PacketSocket;
pub use ping::{Loss, Ping, Pinger, ping, ping_until};

use std::io;
use std::net::IpAddr;

use crate::command::CommandError;
use crate::netns::NetnsError;
use crate::wait::Timeout;

/// Traffic could not be sent or measured. Packets that are lost are a result, not an error.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A tool failed.
    #[error("a tool failed")]
    Tool(#[from] CommandError),
    /// The namespace could not be entered.
    #[error(transparent)]
    Namespace(#[from] NetnsError),
    /// A tool was not ready, or did not end, in time.
    #[error("a tool is late")]
    Late(#[from] Timeout),
    /// A tool said something that could not be read.
    #[error("cannot find {what} in what {tool} said:\n{text}")]
    Unreadable {
        /// The tool.
        tool: &'static str,
        /// What was looked for.
        what: &'static str,
        /// What it said.
        text: String,
    },
    /// A socket failed.
    #[error("cannot {action} on interface {interface}")]
    Socket {
        /// What was tried.
        action: &'static str,
        /// The interface.
        interface: String,
        /// Why.
        source: io::Error,
    },
    /// A conversation could not begin.
    #[error("no conversation from namespace {from} to {to}")]
    Conversation {
        /// Who asks.
        from: String,
        /// Who answers.
        to: IpAddr,
        /// Why.
        source: io::Error,
    },
    /// The namespace has no such interface.
    #[error("no interface {interface} in namespace {netns}")]
    NoInterface {
        /// The interface.
        interface: String,
        /// The namespace.
        netns: String,
    },
}
