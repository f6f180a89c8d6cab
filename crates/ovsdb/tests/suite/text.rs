//! Our text of rows is that of `ovs-vsctl`, byte for byte, and our reader reads it back.

use std::sync::Arc;

use osier_ovsdb::monitor::Monitor;
use osier_ovsdb::rows::TypedRow;
use osier_ovsdb::rows::vswitch::Bridge;
use osier_ovsdb::session::Session;
use osier_ovsdb::text::{Cells, Table, parse_value, print_value};
use osier_ovsdb::{Row, Transaction, Value};
use osier_testbed::OvsdbServer;

use crate::expect::{self, add_bridge, session, session_with_root, transact};
use crate::peer::Peer;

fn vsctl(server: &OvsdbServer, args: &[&str]) -> String {
    let command = server.netns().command("ovs-vsctl").arg("--no-wait");
    let db = format!("--db=unix:{}", server.socket().display());
    command.arg(db).args(args.iter().copied()).run().unwrap()
}

/// Strings that quoting, escaping and padding could get wrong.
const WORDS: [&str; 27] = [
    "",
    " ",
    "a",
    "_",
    "-",
    "1",
    "1a",
    "a1",
    "true",
    "false",
    "yes",
    "a-b.c_d",
    "a,b",
    "a=b",
    "[x]",
    "{",
    "\"",
    "\\",
    "é",
    "zé",
    "\n\t\u{1}\u{1f}\u{7f}",
    "<&>",
    "a/b",
    "@x",
    "00f1a2b3-0001-4abc-8def-0123456789ab",
    "f0f1a2b3-0001-4abc-8def-0123456789ab",
    "f0f1a2b3",
];

/// Makes a bridge with odd values, and ports.
async fn make_rows(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let mut transaction = Transaction::new("a bridge");
    add_bridge(&mut transaction, root, "br-int", &["veth0", "tun 1"]);
    transact(&session, &transaction).await;
    let bridge = expect::rows::<Bridge>(&session).await[0].uuid;
    let pairs = WORDS.iter().enumerate().flat_map(|(i, &word)| {
        [(word.into(), format!("v{i}").into()), (format!("k{i}").into(), word.into())]
    });
    let fields = vec![
        ("external_ids".into(), Value::map(pairs)),
        ("flood_vlans".into(), Value::set([3.into(), 1.into(), 4095.into()])),
        ("fail_mode".into(), "secure".into()),
        ("protocols".into(), "OpenFlow15".into()),
    ];
    let mut transaction = Transaction::new("odd values");
    transaction.update(Bridge::TABLE, bridge, fields);
    transact(&session, &transaction).await;
}

/// All rows of a table, sorted by name.
async fn rows(session: &Session, table: &'static str) -> Vec<Arc<Row>> {
    let rows = session.query(move |cache| {
        let mut rows: Vec<_> = cache.table(table).unwrap().rows().cloned().collect();
        rows.sort_by_key(|row| row.get("name").cloned());
        rows
    });
    rows.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_as_ovs_vsctl_prints_them() {
    let peer = Peer::standalone();
    let server = peer.real().unwrap();
    make_rows(&peer).await;
    let session = session(&peer, Monitor::new().all_columns("Bridge").all_columns("Port")).await;
    let bridge = rows(&session, "Bridge").await;
    let layout = bridge[0].layout();
    let ours = || Table::new(layout, &bridge);
    let theirs = |args: &[&str]| vsctl(server, &[args, &["Bridge"]].concat());
    assert_eq!(ours().list(), theirs(&["list"]));
    assert_eq!(ours().table(), theirs(&["--format=table", "list"]));
    assert_eq!(ours().json(), theirs(&["--format=json", "list"]));
    assert_eq!(ours().cells(Cells::Json).list(), theirs(&["--data=json", "list"]));
    assert_eq!(ours().cells(Cells::Bare).list(), theirs(&["--data=bare", "list"]));
    let columns = ["name", "external_ids", "_uuid"];
    let option = format!("--columns={}", columns.join(","));
    assert_eq!(ours().columns(&columns).list(), theirs(&[&option, "find"]));

    let ports = rows(&session, "Port").await;
    assert_eq!(
        Table::new(ports[0].layout(), &ports).table(),
        vsctl(server, &["--format=table", "list", "Port", "tun 1", "veth0"])
    );
    for (name, column) in layout.columns() {
        let value = bridge[0].get(name).unwrap();
        let text = print_value(&column.ty, value);
        assert_eq!(format!("{text}\n"), vsctl(server, &["get", "Bridge", "br-int", name]));
        assert_eq!(parse_value(&column.ty, &text).as_ref(), Ok(value), "{text}");
    }
}

#[test]
fn what_ovs_vsctl_reads_we_read() {
    let schema = crate::peer::schema();
    let ty = |table: &str, column: &str| {
        schema.table(table).unwrap().column_type(column).unwrap().clone()
    };
    let trunks = ty("Port", "trunks");
    let expected = Value::set([1.into(), 2.into()]);
    for text in ["1,2", "[1, 2]", "[2 1]", "1 2", " [ 1 , 2 ] "] {
        assert_eq!(parse_value(&trunks, text).as_ref(), Ok(&expected), "{text}");
    }
    let ids = ty("Port", "external_ids");
    let expected = Value::map([("a".into(), "b".into()), ("c d".into(), "1".into())]);
    for text in ["a=b,\"c d\"=1", "{a=b, \"c d\"=\"1\"}", "{\"a\"=\"b\" \"c d\"=1}"] {
        assert_eq!(parse_value(&ids, text).as_ref(), Ok(&expected), "{text}");
    }
    for (column, text) in [
        ("tag", "4096"),
        ("tag", "1,2"),
        ("tag", "x"),
        ("tag", "\"1\""),
        ("trunks", "[1"),
        ("trunks", "1]"),
        ("trunks", "1,1"),
        ("trunks", "1,,2"),
        ("external_ids", "a"),
        ("external_ids", "a="),
        ("external_ids", "{a=b"),
        ("external_ids", "a=\"b"),
        ("external_ids", "a=b,a=c"),
        ("vlan_mode", "purple"),
        ("name", ""),
        ("qos", "not-a-uuid"),
    ] {
        let ty = ty("Port", column);
        assert!(parse_value(&ty, text).is_err(), "{column} {text}");
    }
}
