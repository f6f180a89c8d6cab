//! How patient a session is, and how much it may hold.

use super::tls::Tls;
use std::time::Duration;

/// Deadlines and limits of a session. All memory that a peer can make a session use is bounded by
/// these, plus half a MiB for what is being read and answered.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long connecting, TLS and the exchange of hellos may take, together.
    pub handshake: Duration,
    /// After this long without a byte from the peer, an echo is asked for.
    pub echo_interval: Duration,
    /// How long the peer may then stay silent.
    pub echo_deadline: Duration,
    /// How long the answer to a request may take, and each next part of a multipart answer.
    pub response: Duration,
    /// How long the peer may take no byte of what we have to send.
    pub write: Duration,
    /// How long the reader of a multipart answer may keep the session from reading; then that
    /// answer is given up.
    pub stall: Duration,
    /// Requests that wait for answers at the same time; more wait for their turn.
    pub requests: usize,
    /// Bytes that wait to be sent; senders wait for room.
    pub send_buffer: usize,
    /// Bytes of multipart answers that wait for their readers.
    pub receive_buffer: usize,
    /// Bytes of events that wait for their receiver.
    pub event_buffer: usize,
    /// Bytes of a multipart answer that is collected as a whole.
    pub collect: usize,
    /// Connections that a listener has accepted and that have not said hello yet.
    pub half_open: usize,
    /// Key, certificate and authority for `ssl:` and `pssl:`.
    pub tls: Option<Tls>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            echo_interval: Duration::from_secs(5),
            echo_deadline: Duration::from_secs(10),
            response: Duration::from_secs(30),
            write: Duration::from_secs(10),
            stall: Duration::from_secs(2),
            requests: 256,
            send_buffer: 1024 * 1024,
            receive_buffer: 4 * 1024 * 1024,
            event_buffer: 4 * 1024 * 1024,
            collect: 256 * 1024 * 1024,
            half_open: 64,
            tls: None,
        }
    }
}
