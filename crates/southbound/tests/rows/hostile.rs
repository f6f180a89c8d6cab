//! Databases that do not answer, lie, or change under us: the reconciler lives, says what is wrong,
//! and goes on when it can.

use crate::lab::{bridge, eventually, ownership, put};
use osier_ovsdb::schema::Schema;
use osier_ovsdb::server::{Server, Silence};
use osier_ovsdb::session::{Config, Session, TransactError};
use osier_southbound::rows::{
    ChangeError, Options, Plan, Port, RowReconciler, Trouble, Wait, monitor,
};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(5);

struct Peer {
    server: Server,
    rows: RowReconciler,
    _dir: tempfile::TempDir,
}

fn schema() -> Schema {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../ovsdb/schemas/vswitch.ovsschema");
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

/// A schema without a column: an older one.
fn without(table: &str, column: &str) -> Schema {
    let mut json = schema().to_json();
    json["tables"][table]["columns"].as_object_mut().unwrap().remove(column);
    json["version"] = "7.0.0".into();
    json.to_string().parse().unwrap()
}

async fn peer(schema: Schema) -> Peer {
    let server = Server::new(schema);
    let dir = tempfile::TempDir::new().unwrap();
    let socket = dir.path().join("db.sock");
    server.listen(&format!("punix:{}", socket.display())).await.unwrap();
    let mut config = Config::new("Open_vSwitch", monitor());
    config.backoff.first = Duration::from_millis(5);
    config.backoff.most = Duration::from_millis(50);
    config.probe = Duration::from_millis(200);
    config.patience = Duration::from_secs(1);
    let remote = format!("unix:{}", socket.display()).parse().unwrap();
    let session = Session::connect(vec![remote], config);
    let patience = Duration::from_millis(100);
    let options = Options { paused: false, wait: Wait::Database, patience, ..Options::default() };
    let rows = RowReconciler::start(session, ownership(), options);
    Peer { server, rows, _dir: dir }
}

#[tokio::test]
async fn a_transaction_that_is_never_answered_is_made_again() {
    let peer = peer(schema()).await;
    peer.rows.wait_synced().await.unwrap();
    peer.server.faults(|faults| faults.silence = Silence::Transactions);
    let settling = peer.rows.put("me", Plan::default().bridge(bridge("br0"))).await.unwrap();
    eventually("it says so", SOON, || {
        let error = peer.rows.status().last_error;
        error.is_some_and(|error| matches!(*error, TransactError::NoAnswer { .. }))
    })
    .await;
    peer.server.faults(|faults| faults.silence = Silence::None);
    settling.await.unwrap();
}

#[tokio::test]
async fn lies_and_cut_messages_end_only_the_connection() {
    let peer = peer(schema()).await;
    put(&peer.rows, "bridge", Plan::default().bridge(bridge("br0"))).await.unwrap();
    let update = b"{\"id\":null,\"method\":\"update3\",\"params\":[1]}";
    let lies: [&[u8]; 3] = [b"[1]", b"{\"id\":}", update];
    for (number, garbage) in lies.into_iter().enumerate() {
        peer.server.inject(garbage);
        let plan = Plan::default().port(Port::internal("br0", format!("p{number}")));
        put(&peer.rows, "port", plan).await.unwrap();
    }
    for wrong_types in [false, true] {
        peer.server.faults(|faults| {
            faults.wrong_types = wrong_types;
            faults.cut_next = !wrong_types;
        });
        let plan = Plan::default().port(Port::internal("br0", format!("wrong{wrong_types}")));
        let settling = peer.rows.put("port", plan).await.unwrap();
        eventually("it is not connected", SOON, || !peer.rows.status().connected).await;
        peer.server.faults(|faults| (faults.wrong_types, faults.cut_next) = (false, false));
        settling.await.unwrap();
    }
}

#[tokio::test]
async fn a_column_that_an_older_schema_lacks_is_named() {
    let peer = peer(without("Interface", "mtu_request")).await;
    let mut port = Port::internal("br0", "p");
    port.interfaces[0].mtu_request = Some(1400);
    put(&peer.rows, "bridge", Plan::default().bridge(bridge("br0"))).await.unwrap();
    let refused = put(&peer.rows, "me", Plan::default().port(port)).await;
    let Err(ChangeError::Trouble(trouble)) = refused else { panic!("{refused:?}") };
    let Trouble::Refused { error, .. } = &*trouble else { panic!("{trouble}") };
    assert_eq!(error.at.table.as_deref(), Some("Interface"), "{error}");
    assert_eq!(error.at.column.as_deref(), Some("mtu_request"), "{error}");
    // The newer schema comes, and with it what was wanted.
    peer.server.convert(schema());
    eventually("it is as wanted", SOON, || {
        let status = peer.rows.status();
        status.in_sync && status.troubles == 0
    })
    .await;
}

#[tokio::test]
async fn a_database_that_goes_and_comes_back_empty_is_filled_again() {
    let peer = peer(schema()).await;
    put(&peer.rows, "bridge", Plan::default().bridge(bridge("br0"))).await.unwrap();
    let before = peer.rows.stats();
    peer.server.remove("Open_vSwitch");
    peer.server.add(schema());
    eventually("it is filled again", SOON, || {
        let stats = peer.rows.stats();
        stats.inserted >= before.inserted + 3 && peer.rows.status().in_sync
    })
    .await;
}
