//! Small steps that many cases share: a session, a root row, the next event.

use std::time::Duration;

use osier_ovsdb::cache::Snapshot;
use osier_ovsdb::error::Outcome;
use osier_ovsdb::monitor::Monitor;
use osier_ovsdb::rows::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use osier_ovsdb::rows::{Datum, Ref, TypedRow};
use osier_ovsdb::session::{Config, Event, Resync, Session, State, Subscription};
use osier_ovsdb::{Mutation, Transaction, Uuid};

use crate::peer::{DATABASE, Peer};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Follows the tables that most cases need.
pub(crate) fn monitor() -> Monitor {
    Monitor::new().table::<OpenVSwitch>().table::<Bridge>().table::<Port>().table::<Interface>()
}

pub(crate) fn config(monitor: Monitor) -> Config {
    let mut config = Config::new(DATABASE, monitor);
    // What a session writes it must read at once, also from a cluster.
    config.leader_only = true;
    config
}

pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let Ok(done) = tokio::time::timeout(SOON, work).await else {
        panic!("waited {SOON:?} for {what}")
    };
    done
}

pub(crate) async fn session(peer: &Peer, monitor: Monitor) -> Session {
    let session = Session::connect(peer.remotes(), config(monitor));
    within("a session", session.ready()).await.unwrap();
    session
}

/// A session whose database has its one root row.
pub(crate) async fn session_with_root(peer: &Peer) -> (Session, Uuid) {
    let session = session(peer, monitor()).await;
    let mut transaction = Transaction::new("make the root row");
    transaction.insert(&OpenVSwitch::default());
    let outcomes = transact(&session, &transaction).await;
    let Outcome::Inserted(root) = outcomes[0] else { panic!("{outcomes:?}") };
    (session, root)
}

pub(crate) async fn transact(session: &Session, transaction: &Transaction) -> Vec<Outcome> {
    session.transact(transaction, SOON).await.unwrap()
}

/// Adds a bridge with its ports to a transaction.
pub(crate) fn add_bridge(transaction: &mut Transaction, root: Uuid, name: &str, ports: &[&str]) {
    let ports = ports
        .iter()
        .map(|name| {
            let name = (*name).to_owned();
            let interface =
                transaction.insert(&Interface { name: name.clone(), ..Default::default() });
            transaction.insert(&Port { name, interfaces: [interface].into(), ..Default::default() })
        })
        .collect();
    let bridge = Bridge { name: name.to_owned(), ports, ..Default::default() };
    let bridge: Ref<Bridge> = transaction.insert(&bridge);
    let bridges = std::collections::BTreeSet::from([bridge]);
    transaction.mutate(
        OpenVSwitch::TABLE,
        root,
        vec![Mutation::insert(OpenVSwitch::BRIDGES, bridges.to_value())],
    );
}

pub(crate) async fn next(subscription: &mut Subscription) -> Event {
    within("an event", subscription.next()).await.expect("the session goes on")
}

/// The next snapshot and why it came; other events are skipped.
pub(crate) async fn next_snapshot(
    subscription: &mut Subscription,
) -> (Resync, std::sync::Arc<Snapshot>) {
    loop {
        if let Event::Snapshot { reason, snapshot } = next(subscription).await {
            return (reason, snapshot);
        }
    }
}

/// Waits until the session is not ready, and then is again.
pub(crate) async fn reconnected(session: &Session, connection: u64) {
    let mut status = session.watch();
    let back = status.wait_for(|status| status.connection > connection && status.is_ready());
    within("a new connection", back).await.unwrap();
}

pub(crate) async fn state(session: &Session, what: &str, wanted: impl Fn(State) -> bool) {
    let mut status = session.watch();
    within(what, status.wait_for(|status| wanted(status.state))).await.unwrap();
}

/// All rows of a table in the cache, typed.
pub(crate) async fn rows<T: TypedRow + Send + 'static>(session: &Session) -> Vec<T> {
    session
        .query(|cache| {
            let table = cache.table(T::TABLE).unwrap();
            table.rows().map(|row| T::from_row(row).unwrap()).collect()
        })
        .await
        .unwrap()
}
