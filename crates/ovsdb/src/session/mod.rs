//! A session with a database server. One task owns the connection and the cache; callers hold a
//! [`Session`], a cheap handle, and talk to the task through bounded queues.
//!
//! The task dials (or is given) a connection, learns from the `_Server` database whether this
//! server is fit (right database, connected to its cluster, leader if asked for), fetches the
//! schema, and follows the database with the best monitor the server knows, resuming from the last
//! transaction where it can. When the connection, the leader, the schema or the database goes, it
//! starts over; subscribers are told where the stream of changes broke.

mod config;
mod connection;
mod core;
mod error;
mod handle;
mod listen;
mod lock;
mod protocol;
mod remote;
mod server_row;
mod status;
mod subscribe;
mod supervisor;
mod tls;

pub use config::{Backoff, Config};
pub use error::{RequestError, SessionError, TransactError, Unfit};
pub use handle::Session;
pub use listen::{Incoming, Listener};
pub use lock::{Lock, LockState};
pub use remote::{Duplex, Remote, RemoteError, Stream};
pub use status::{State, Status};
pub use subscribe::{Changes, Event, Resync, Subscription};
pub use tls::{TlsError, TlsFiles};
