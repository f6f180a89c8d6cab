//! Where a session stands, for those who wait or watch.

use std::sync::Arc;

use super::error::{SessionError, Unfit};
use super::remote::Remote;
use crate::monitor::Missing;
use crate::schema::Schema;

/// The state of a session.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Its state.
    pub state: State,
    /// The server it is connected to, or was last.
    pub remote: Option<Remote>,
    /// Counts connections: changes when the session reconnects.
    pub connection: u64,
    /// Whether the server says that it leads its cluster (a server alone does).
    pub leader: bool,
    /// Whether the server says that it is in contact with its cluster (a server alone is).
    pub connected: bool,
    /// The server's schema.
    pub schema: Option<Arc<Schema>>,
    /// Tables and columns asked for that the schema lacks.
    pub missing: Arc<[Missing]>,
    /// Why the last connection, or attempt, ended.
    pub last_error: Option<Arc<SessionError>>,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Not connected; trying.
    #[default]
    Connecting,
    /// Connected; learning what the server has.
    Starting,
    /// Connected to the only server there is, and waiting until it will do.
    Waiting(Unfit),
    /// Following the database; transactions are accepted.
    Ready,
    /// Ended for good: its only connection closed, or no handle is left.
    Ended,
}

impl Status {
    /// Whether the session follows the database.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }
}
