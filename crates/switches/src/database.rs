//! The database's side of a switch: its session, that we may write there, and the rows that we add.

use crate::fence::{self, Standing};
use crate::prepare;
use crate::wires::{Wires, text};
use osier_model::{Node, Tunnel};
use osier_ovsdb::Transaction;
use osier_ovsdb::session::{Event, Session, Subscription, TransactError};
use osier_southbound::rows::{self, RowReconciler, Settling};
use std::future::pending;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Events of a database that may wait.
const EVENTS: usize = 4096;
/// How long a transaction may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Who wants the tunnel.
const OWNER: &str = "node";

/// Why a switch's database is not written.
#[derive(Debug, Error)]
pub(crate) enum HoldError {
    /// Another controller drives the switch.
    #[error(
        "its switch is driven by the controller of term {found}, and this one's is {term}. If that one \
         is gone for ever: ovs-vsctl remove Open_vSwitch . external_ids {}",
        fence::KEY
    )]
    Deposed {
        /// Theirs.
        found: u64,
        /// Ours.
        term: u64,
    },
    /// It did not take what was written.
    #[error("the switch's database is not ours")]
    Refused(#[from] TransactError),
}

/// What came from there.
pub(crate) enum News {
    Event(Option<Event>),
    Tunnel(Result<rows::Applied, rows::ChangeError>),
}

/// See the module.
pub(crate) struct Database {
    session: Session,
    events: Subscription,
    reconciler: RowReconciler,
    term: u64,
    /// The tunnel on its way, and for which bridge, node and kind it is.
    tunnel: Option<Settling>,
    asked: Option<(String, Node, Tunnel)>,
}

// === impl Database ===

impl Database {
    /// Follows a database for a controller of this term. Nothing is written before [`Self::hold`].
    pub(crate) async fn open(session: Session, term: u64) -> Option<Self> {
        let options =
            rows::Options { guards: vec![fence::guard(term)], ..rows::Options::default() };
        let reconciler = RowReconciler::start(session.clone(), prepare::ownership(), options);
        let events = session.subscribe(EVENTS).await.ok()?;
        Some(Self { session, events, reconciler, term, tunnel: None, asked: None })
    }

    /// Whether all that it has is known.
    pub(crate) fn is_ready(&self) -> bool {
        self.session.status().is_ready()
    }

    /// What comes next; for ever nothing without a database.
    pub(crate) async fn next(database: &mut Option<Self>) -> News {
        let Some(database) = database else { return pending().await };
        let tunnel = async {
            match &mut database.tunnel {
                Some(settling) => settling.await,
                None => pending().await,
            }
        };
        tokio::select! {
            event = database.events.next() => News::Event(event),
            applied = tunnel => {
                database.tunnel = None;
                News::Tunnel(applied)
            }
        }
    }

    /// Takes the database over, unless a later controller has, and makes the bridge fit.
    pub(crate) async fn hold(&self, wires: &Wires) -> Result<bool, HoldError> {
        let (Some(root), Some(bridge)) = (wires.root(), wires.bridge()) else { return Ok(false) };
        match fence::standing(root, self.term) {
            Standing::Ours => {}
            Standing::Earlier(_) => self.write(&fence::claim(root, self.term)).await?,
            Standing::Later(found) => {
                return Err(HoldError::Deposed { found, term: self.term });
            }
        }
        if let Some(fitting) = prepare::transaction(bridge) {
            self.write(&fitting.guarded(&[fence::guard(self.term)])).await?;
        }
        Ok(true)
    }

    /// Whether the switch is still ours, which its database says itself. If it is, it is told to look
    /// for us soon when this connection ends.
    pub(crate) async fn is_held(&self, wires: &Wires) -> bool {
        let (Some(root), Some(bridge)) = (wires.root(), wires.bridge()) else { return false };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let question = prepare::eagerness(root, bridge, now).guarded(&[fence::guard(self.term)]);
        self.write(&question).await.is_ok()
    }

    async fn write(&self, transaction: &Transaction) -> Result<(), TransactError> {
        self.session.transact(transaction, PATIENCE).await.map(drop)
    }

    /// Asks for the tunnel of a node, unless it was asked for. Whether the database is there.
    pub(crate) async fn ask_tunnel(&mut self, wires: &Wires, node: Node, tunnel: Tunnel) -> bool {
        let Some(name) = wires.bridge().and_then(|bridge| text(bridge, "name")) else {
            return true;
        };
        let plan = prepare::plan(name, &node, tunnel);
        let asked = Some((name.to_owned(), node, tunnel));
        if self.asked == asked {
            return true;
        }
        let put = self.reconciler.put(OWNER, plan).await;
        let (Ok(settling), Ok(())) = (put, self.reconciler.resume().await) else { return false };
        self.tunnel = Some(settling);
        self.asked = asked;
        true
    }
}
