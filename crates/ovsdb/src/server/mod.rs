//! An in-memory OVSDB server for fault tests: it answers like `ovsdb-server` until told otherwise.
//! It keeps nothing on disk and knows no clusters; it does know all operations, constraints,
//! references, monitors, locks and the `_Server` database, and it can go silent, send garbage, cut
//! a message in two, or convert the schema under its clients.

mod client;
mod condition;
mod database;
mod integrity;
mod monitor;
mod mutation;
mod request;
mod transaction;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::DuplexStream;

pub use world::{Faults, Silence};

use crate::schema::Schema;
use crate::session::{Listener, SessionError, Stream};
use world::World;

/// The server; clones share it.
#[derive(Clone)]
pub struct Server {
    world: Arc<Mutex<World>>,
}

impl Server {
    /// A server with one empty database. Panics outside of a tokio runtime when a client connects.
    pub fn new(schema: Schema) -> Self {
        let mut world = World::default();
        world.add_database(schema);
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// A new connection to it, in memory.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(256 << 10);
        self.serve(Box::new(theirs));
        ours
    }

    /// Serves one connection.
    pub fn serve(&self, stream: Stream) {
        tokio::spawn(client::run(Arc::clone(&self.world), stream));
    }

    /// Serves all connections to an address such as `punix:PATH`, until the task is aborted.
    pub async fn listen(&self, address: &str) -> Result<tokio::task::JoinHandle<()>, SessionError> {
        let listener = Listener::bind(address, None).await?;
        let server = self.clone();
        Ok(tokio::spawn(async move {
            while let Ok(incoming) = listener.accept().await {
                if let Ok(stream) = incoming.establish().await {
                    server.serve(stream);
                }
            }
        }))
    }

    /// Changes how it misbehaves.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        let mut world = self.lock();
        change(&mut world.faults);
        world.wake_all();
    }

    /// Sends these bytes to every client, in the middle of whatever it is sending.
    pub fn inject(&self, bytes: &[u8]) {
        self.lock().inject(bytes);
    }

    /// Closes all connections.
    pub fn disconnect_all(&self) {
        self.lock().disconnect_all();
    }

    /// Converts the database to another schema, as `ovsdb-client convert` does.
    pub fn convert(&self, schema: Schema) {
        self.lock().convert(schema);
    }

    /// Removes a database.
    pub fn remove(&self, database: &str) {
        self.lock().remove_database(database);
    }

    /// Adds an empty database.
    pub fn add(&self, schema: Schema) {
        self.lock().add_database(schema);
    }

    /// What `_Server` says about a database.
    pub fn set_cluster_state(&self, database: &str, connected: bool, leader: bool) {
        self.lock().set_cluster_state(database, connected, leader);
    }

    /// Forgets the transactions that clients could resume from.
    pub fn forget_history(&self) {
        self.lock().forget_history();
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        // A panic of one client's task must not take the others along.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
