//! Certificates: the cluster's own authority, and TLS on both sides.
//!
//! A node is who its certificate says: the name is in a URI, `osier://node/NAME`, and nowhere else.
//! Certificates of agents are good for clients only, those of controllers for servers only.

mod authority;
mod identity;
mod tls;

pub use authority::{Authority, AuthorityError, Issued};
pub(crate) use identity::key_hash;
pub use identity::{Validity, identity_of};
pub use tls::{AgentTls, ServerTls, TlsError};
pub(crate) use tls::{client_config, joining_config, server_name};
