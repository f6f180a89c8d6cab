//! Sessions with switches: `unix:`, `tcp:` and TLS, dialling out and being dialled.
//!
//! One task owns each connection and all its state; callers hold a [`Session`], a cheap handle, and
//! reach the task through bounded queues. Every request gets its own answer, or its own error, or a
//! deadline; a batch or bundle learns which of its messages was refused. What comes unasked goes to
//! one receiver of [`Events`].
//!
//! A peer is not trusted. Bytes that are not OpenFlow, a message that lies, an answer of the wrong
//! kind, silence, or not reading what we send: each ends that session with a [`SessionError`] that
//! names it, and nothing else. Memory is bounded by [`Options`].
//!
//! The half without I/O (`frame`, `requests`, `protocol`, `dispatch`) decides; the other moves bytes.

mod backoff;
mod batch;
mod bundle;
mod burst;
mod command;
mod connect;
mod connection;
mod dialer;
mod dispatch;
mod endpoint;
mod error;
mod events;
mod frame;
mod handle;
mod handshake;
mod listener;
mod multipart;
mod options;
mod outbound;
mod protocol;
mod requests;
mod tls;

pub use backoff::Backoff;
pub use burst::Encode;
pub use dialer::Dialer;
pub use endpoint::{DEFAULT_PORT, Endpoint, EndpointError, EndpointProblem, Host};
pub use error::{BatchError, BundleError, ConnectError, Refusal, RequestError, SessionError};
pub use events::{Event, Events};
pub use frame::FrameError;
pub use handle::Session;
pub use listener::{AcceptError, Accepted, Listener};
pub use multipart::Multipart;
pub use options::Options;
pub use tls::{Tls, TlsError, TlsFiles};
