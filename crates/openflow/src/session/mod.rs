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
//! ```no_run
//! # use osier_openflow::{flow::{Flow, FlowMod}, message::{BundleFlags, MultipartRequest}};
//! # use osier_openflow::session::{Options, Session};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let switch = "unix:/run/openvswitch/br-int.mgmt".parse()?;
//! let (session, mut events) = Session::connect(&switch, Options::default()).await?;
//!
//! let flow: Flow = "table=7,ip,nw_dst=10.0.0.1,actions=output:2".parse()?;
//! session.bundle(BundleFlags::ATOMIC | BundleFlags::ORDERED, [FlowMod::add(flow)]).await?;
//!
//! let mut answer = session.multipart(MultipartRequest::all_flows()).await?;
//! while let Some(part) = answer.next().await {
//!     println!("{:?}", part?.body);
//! }
//! while let Some(event) = events.recv().await {
//!     println!("{event:?}");
//! }
//! println!("ended: {}", session.closed().await);
//! # Ok(()) }
//! ```
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
