//! Bad input and bad behaviour, which the in-memory server shows on demand: each ends in an error
//! that says what and where, and the session lives on.

use std::time::Duration;

use osier_ovsdb::frame::{FrameError, Limits};
use osier_ovsdb::monitor::Monitor;
use osier_ovsdb::rows::TypedRow;
use osier_ovsdb::rows::vswitch::{Bridge, OpenVSwitch};
use osier_ovsdb::server::{Server, Silence};
use osier_ovsdb::session::{
    Config, Event, Resync, Session, SessionError, State, TransactError, Unfit,
};
use osier_ovsdb::{Transaction, Uuid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::expect::{
    add_bridge, monitor, next, next_snapshot, reconnected, rows, session_with_root, state,
    transact, within,
};
use crate::peer::{DATABASE, Peer, schema};

/// A server, a session with small limits and little patience, and the root row.
async fn lab() -> (Peer, Server, Session, Uuid) {
    let peer = Peer::memory().await;
    let Peer::Memory { server, .. } = &peer else { unreachable!("it is in memory") };
    let server = server.clone();
    let (_, root) = session_with_root(&peer).await;
    let mut config = Config::new(DATABASE, monitor());
    config.limits = Limits { message: 1 << 20, depth: 16 };
    config.probe = Duration::from_millis(200);
    config.patience = Duration::from_millis(500);
    config.backoff.first = Duration::from_millis(5);
    let session = Session::connect(peer.remotes(), config);
    within("a session", session.ready()).await.unwrap();
    (peer, server, session, root)
}

fn set(root: Uuid, value: i64) -> Transaction {
    let mut transaction = Transaction::new("set cur_cfg");
    transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), value.into())]);
    transaction
}

/// The text of the last error with its causes.
fn last_error(session: &Session) -> String {
    let error = session.status().last_error.expect("an error");
    format!("{:#}", anyhow::Error::new(SharedError(error)))
}

#[derive(Debug)]
struct SharedError(std::sync::Arc<SessionError>);

impl std::fmt::Display for SharedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)
    }
}

/// The session broke with this error, and works again.
async fn broke_and_mended(session: &Session, connection: u64, root: Uuid, error: &str) {
    reconnected(session, connection).await;
    let last = last_error(session);
    assert!(last.contains(error), "expected {error:?} in {last:?}");
    transact(session, &set(root, 99)).await;
    assert_eq!(rows::<OpenVSwitch>(session).await[0].cur_cfg, 99);
}

#[tokio::test]
async fn what_is_not_json_ends_the_connection_only() {
    let (_peer, server, session, root) = lab().await;
    let endless = [b"{\"id\":null,\"method\":\"".as_slice(), &vec![b'a'; 3 << 20]].concat();
    let nested = [b"{\"a\":".as_slice(), &vec![b'['; 1 << 16]].concat();
    for (bytes, error) in [
        (endless.as_slice(), "message longer than 1048576 bytes"),
        (&nested, "JSON nested deeper than 16"),
        (b"HTTP/1.1 400 Bad Request\r\n", "begins no JSON object"),
        (b"{]", "not a JSON-RPC message"),
        (b"{\"id\":null}", "neither method nor id"),
        (b"{\"id\":null,\"method\":7,\"params\":[]}", "not a JSON-RPC message"),
        (b"{\"id\":null,\"method\":\"update3\",\"params\":{}}", "malformed update3"),
        (b"{\"id\":null,\"method\":\"update3\",\"params\":[1,2,3]}", "malformed update3"),
        (b"{\"id\":null,\"method\":\"locked\",\"params\":[[]]}", "malformed locked"),
        (
            b"{\"id\":null,\"method\":\"update2\",\"params\":[\"\xff\",{}]}",
            "not a JSON-RPC message",
        ),
    ] {
        let connection = session.status().connection;
        server.inject(bytes);
        broke_and_mended(&session, connection, root, error).await;
    }
    // What is odd but harmless is ignored.
    let connection = session.status().connection;
    server.inject(b"{\"id\":12345,\"result\":{},\"error\":null} {\"id\":\"x\",\"error\":[]}");
    server.inject(b"{\"id\":null,\"method\":\"gossip\",\"params\":[]}");
    server.inject(b"{\"id\":null,\"method\":\"update3\",\"params\":[\"other\",\"00000000-0000-0000-0000-000000000000\",{}]}");
    transact(&session, &set(root, 1)).await;
    assert_eq!(session.status().connection, connection);
}

#[tokio::test]
async fn wrong_types_name_table_column_and_row() {
    let (peer, server, session, root) = lab().await;
    let writer = Session::connect(peer.remotes(), Config::new(DATABASE, Monitor::new()));
    let connection = session.status().connection;
    server.faults(|faults| faults.wrong_types = true);
    transact(&writer, &set(root, 1)).await;
    let place = format!("update of table Open_vSwitch column cur_cfg row {root}");
    broke_and_mended_after(&session, connection, &place, || {
        server.faults(|faults| faults.wrong_types = false);
    })
    .await;
    assert!(last_error(&session).contains("expected integer"), "{}", last_error(&session));
    assert_eq!(rows::<OpenVSwitch>(&session).await[0].cur_cfg, 1);

    // A row that was never inserted.
    let connection = session.status().connection;
    let monitor_id = "osier-1";
    let stranger = Uuid::from_u128(7);
    server.inject(format!("{{\"id\":null,\"method\":\"update3\",\"params\":[\"{monitor_id}\",\"{}\",{{\"Bridge\":{{\"{stranger}\":{{\"modify\":{{\"name\":\"x\"}}}}}}}}]}}", Uuid::ZERO).as_bytes());
    let error = format!("table Bridge row {stranger}, which was never inserted");
    broke_and_mended(&session, connection, root, &error).await;
}

async fn broke_and_mended_after(
    session: &Session,
    connection: u64,
    error: &str,
    mend: impl FnOnce(),
) {
    let mut status = session.watch();
    let broken = status.wait_for(|status| status.last_error.is_some());
    within("the break", broken).await.unwrap();
    let last = last_error(session);
    assert!(last.contains(error), "expected {error:?} in {last:?}");
    mend();
    reconnected(session, connection).await;
}

#[tokio::test]
async fn a_message_cut_in_two() {
    let (_peer, server, session, root) = lab().await;
    let connection = session.status().connection;
    server.faults(|faults| faults.cut_next = true);
    let error = session.transact(&set(root, 5), Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_in_doubt(), "{error}");
    broke_and_mended_after(&session, connection, "within a message", || {
        server.faults(|faults| faults.cut_next = false);
    })
    .await;
    // It had happened all the same.
    assert_eq!(rows::<OpenVSwitch>(&session).await[0].cur_cfg, 5);
}

#[tokio::test]
async fn silence_is_noticed() {
    let (_peer, server, session, root) = lab().await;
    let connection = session.status().connection;
    server.faults(|faults| faults.silence = Silence::All);
    broke_and_mended_after(&session, connection, "the server was silent", || {
        server.faults(|faults| faults.silence = Silence::None);
    })
    .await;
    transact(&session, &set(root, 1)).await;

    // A server that answers all but the monitor.
    let connection = session.status().connection;
    server.faults(|faults| faults.silence = Silence::Monitors);
    server.disconnect_all();
    let mut status = session.watch();
    let no_answer = |status: &osier_ovsdb::session::Status| {
        matches!(
            status.last_error.as_deref(),
            Some(SessionError::NoAnswer { method: "monitor_cond_since", .. })
        )
    };
    within("the end of patience", status.wait_for(no_answer)).await.unwrap();
    server.faults(|faults| faults.silence = Silence::None);
    reconnected(&session, connection).await;
}

#[tokio::test]
async fn a_transaction_that_never_answers() {
    let (_peer, server, session, root) = lab().await;
    let connection = session.status().connection;
    server.faults(|faults| faults.silence = Silence::Transactions);
    // More than may be outstanding: forgotten ones make room.
    let all = (0..2000).map(|round| {
        let session = session.clone();
        async move { session.transact(&set(root, round), Duration::from_millis(300)).await }
    });
    let tasks: Vec<_> = all.map(tokio::spawn).collect();
    for task in tasks {
        let error = within("the deadline", task).await.unwrap().unwrap_err();
        let TransactError::NoAnswer { what, operations, first, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((&**what, *operations, &**first), ("set cur_cfg", 1, "update Open_vSwitch"));
    }
    server.faults(|faults| faults.silence = Silence::None);
    transact(&session, &set(root, 7)).await;
    assert_eq!(session.status().connection, connection);
}

#[tokio::test]
async fn older_servers_know_fewer_methods() {
    for unknown in [
        &["monitor_cond_since"][..],
        &["monitor_cond_since", "monitor_cond", "set_db_change_aware"],
    ] {
        let peer = Peer::memory().await;
        let Peer::Memory { server, .. } = &peer else { unreachable!("it is in memory") };
        server.faults(|faults| {
            faults.unknown_methods = unknown.iter().map(|&method| method.to_owned()).collect();
        });
        let (session, root) = session_with_root(&peer).await;
        let mut transaction = Transaction::new("two bridges");
        add_bridge(&mut transaction, root, "br0", &["p1", "p2"]);
        add_bridge(&mut transaction, root, "br1", &[]);
        transact(&session, &transaction).await;
        let bridges: Vec<Bridge> = rows(&session).await;
        assert_eq!(bridges.len(), 2);
        let one = bridges.iter().find(|bridge| bridge.name == "br0").unwrap();
        let mut transaction = Transaction::new("one bridge less");
        let gone = osier_ovsdb::Value::from(one.uuid);
        let less = osier_ovsdb::Mutation::delete(OpenVSwitch::BRIDGES, gone);
        transaction.mutate(OpenVSwitch::TABLE, root, vec![less]);
        transact(&session, &transaction).await;
        assert_eq!(rows::<Bridge>(&session).await.len(), 1);
        assert_eq!(rows::<OpenVSwitch>(&session).await[0].bridges.len(), 1);
        let connection = session.status().connection;
        peer.disconnect_clients();
        reconnected(&session, connection).await;
        assert_eq!(rows::<Bridge>(&session).await.len(), 1);
    }
}

#[tokio::test]
async fn a_database_that_is_gone_is_waited_for() {
    let (_peer, server, session, _) = lab().await;
    let mut events = session.subscribe(16).await.unwrap();
    next_snapshot(&mut events).await;
    server.remove(DATABASE);
    let gone = |state| state == State::Waiting(Unfit::NoDatabase);
    state(&session, "the loss", gone).await;
    let transaction = Transaction::new("into the void");
    let error = session.transact(&transaction, Duration::from_millis(50)).await;
    assert!(matches!(error, Err(TransactError::NotConnected { .. })), "{error:?}");
    server.add(schema());
    let (reason, snapshot) = next_snapshot(&mut events).await;
    assert_eq!((reason, snapshot.len()), (Resync::Refetched, 0));
}

#[tokio::test]
async fn the_only_server_may_be_unfit_for_a_while() {
    let peer = Peer::memory().await;
    let Peer::Memory { server, .. } = &peer else { unreachable!("it is in memory") };
    let (session, _) = session_with_root(&peer).await;
    let connection = session.status().connection;
    server.set_cluster_state(DATABASE, true, false);
    state(&session, "a follower", |state| state == State::Waiting(Unfit::NotLeader)).await;
    assert!(!session.status().leader);
    server.set_cluster_state(DATABASE, false, false);
    state(&session, "a loner", |state| state == State::Waiting(Unfit::Disconnected)).await;
    server.set_cluster_state(DATABASE, true, true);
    state(&session, "a leader", |state| state == State::Ready).await;
    assert_eq!(session.status().connection, connection);
}

#[tokio::test]
async fn what_was_missed_is_resumed_or_fetched() {
    let (peer, server, session, root) = lab().await;
    let writer = Session::connect(peer.remotes(), Config::new(DATABASE, Monitor::new()));
    transact(&session, &set(root, 1)).await;
    let mut events = session.subscribe(16).await.unwrap();
    next_snapshot(&mut events).await;
    for (forget, value) in [(false, 2), (true, 3)] {
        server.disconnect_all();
        assert!(matches!(next(&mut events).await, Event::Disconnected));
        transact(&writer, &set(root, value)).await;
        if forget {
            server.forget_history();
        }
        // The order of the writer's change and the session's return is open.
        let row = loop {
            match next(&mut events).await {
                Event::Resumed => {}
                Event::Snapshot { snapshot, .. } => {
                    assert!(forget || value == 3);
                    if let Some(row) = snapshot.rows(OpenVSwitch::TABLE).first().cloned() {
                        break row;
                    }
                }
                Event::Changes(changes) => break changes.rows[0].new.clone().unwrap(),
                Event::Disconnected => panic!("twice"),
            }
        };
        let seen = OpenVSwitch::from_row(&row).unwrap().cur_cfg;
        assert!(seen == value || seen == value - 1, "{seen}");
        if seen != value {
            let Event::Changes(_) = next(&mut events).await else { panic!("the missed change") };
        }
        assert_eq!(rows::<OpenVSwitch>(&session).await[0].cur_cfg, value);
    }
}

/// A server made by hand, to see what the session says.
#[tokio::test]
async fn the_session_answers_requests() {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let session = Session::over(ours, Config::new(DATABASE, monitor()));
    theirs
        .write_all(b"{\"id\":\"echo\",\"method\":\"echo\",\"params\":[7]}{\"id\":[1],\"method\":\"sing\",\"params\":[]}")
        .await
        .unwrap();
    let mut heard = String::new();
    while !heard.contains("unknown method") {
        let mut buffer = [0; 4096];
        let count = within("an answer", theirs.read(&mut buffer)).await.unwrap();
        heard.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    assert!(heard.contains(r#"{"id":"echo","error":null,"result":[7]}"#), "{heard}");
    assert!(heard.contains(r#"{"id":[1],"error":"unknown method","result":null}"#), "{heard}");
    assert!(heard.contains(r#""method":"set_db_change_aware","params":[true]"#), "{heard}");
    drop(theirs);
    state(&session, "the end", |state| state == State::Ended).await;
    let error = session.status().last_error.unwrap();
    assert!(matches!(*error, SessionError::Closed { mid_message: false }), "{error:?}");
    assert!(session.ready().await.is_err());
}

#[test]
fn frame_errors_say_where() {
    let error = FrameError::TooDeep { limit: 16, offset: 1234 };
    assert_eq!(error.to_string(), "JSON nested deeper than 16 at stream offset 1234");
}
