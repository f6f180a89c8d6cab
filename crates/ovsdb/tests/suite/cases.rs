//! The cases every server must pass.

use std::collections::BTreeSet;
use std::time::Duration;

use osier_ovsdb::error::{ErrorKind, Outcome};
use osier_ovsdb::monitor::{Missing, Monitor};
use osier_ovsdb::op::{Condition, Function, Mutator, Operation, Until};
use osier_ovsdb::rows::vswitch::{Bridge, Interface, Mirror, OpenVSwitch, Port};
use osier_ovsdb::rows::{Datum, Ref, TypedRow};
use osier_ovsdb::session::{Event, LockState, Resync, Session, TransactError};
use osier_ovsdb::{Fields, Mutation, Transaction, Uuid, Value};

use crate::expect::{
    SOON, add_bridge, config, monitor, next, next_snapshot, reconnected, rows, session,
    session_with_root, transact, within,
};
use crate::peer::{Peer, schema};

pub(crate) async fn a_transaction_is_seen_before_it_returns(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let mut events = session.subscribe(16).await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Snapshot { reason: Resync::Subscribed, .. }));

    let mut transaction = Transaction::new("add a bridge");
    add_bridge(&mut transaction, root, "br0", &["p1", "p2"]);
    transact(&session, &transaction).await;

    let bridges: Vec<Bridge> = rows(&session).await;
    assert_eq!(bridges.len(), 1);
    assert_eq!((&*bridges[0].name, bridges[0].ports.len()), ("br0", 2));
    let Event::Changes(changes) = next(&mut events).await else { panic!("changes come first") };
    let mut tables: Vec<_> = changes.rows.iter().map(|change| change.table().to_string()).collect();
    tables.sort();
    assert_eq!(tables, ["Bridge", "Interface", "Interface", "Open_vSwitch", "Port", "Port"]);
    let new = |table: &str| {
        changes.rows.iter().filter(|c| &**c.table() == table && c.old.is_none()).count()
    };
    assert_eq!((new("Bridge"), new("Port"), new("Open_vSwitch")), (1, 2, 0));

    // By an index of the schema, and by a column without one.
    let found = session
        .query(|cache| {
            let ports = cache.table("Port").unwrap();
            let by_name = ports.find(&[("name", &"p1".into())]).len();
            let by_tag = ports.find(&[("tag", &Value::empty_set())]).len();
            (by_name, by_tag, ports.find(&[("no_such_column", &1.into())]).len())
        })
        .await;
    assert_eq!(found, Some((1, 2, 0)));
}

pub(crate) async fn every_operation_has_its_outcome(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let table = || OpenVSwitch::TABLE.into();
    let this = || vec![Condition::uuid(root)];
    let mutation =
        |mutator, value: i64| Mutation { column: "next_cfg".into(), mutator, value: value.into() };
    let mut transaction = Transaction::new("one of each");
    transaction
        .comment("one of each")
        .update(OpenVSwitch::TABLE, root, vec![("next_cfg".into(), 7.into())])
        .mutate(
            OpenVSwitch::TABLE,
            root,
            vec![
                mutation(Mutator::Add, 5),
                mutation(Mutator::Multiply, 10),
                mutation(Mutator::Subtract, 1),
                mutation(Mutator::Divide, 2),
                mutation(Mutator::Remainder, 50),
                Mutation::insert(
                    "external_ids",
                    Value::map([("a".into(), "1".into()), ("b".into(), "2".into())]),
                ),
                Mutation::delete("external_ids", Value::set(["a".into()])),
            ],
        )
        .push(Operation::Select {
            table: table(),
            conditions: vec![Condition::Column {
                column: "next_cfg".into(),
                function: Function::GreaterOrEqual,
                value: 9.into(),
            }],
            columns: Some(vec!["next_cfg".into(), "external_ids".into()]),
        })
        .push(Operation::Wait {
            table: table(),
            timeout: Some(0),
            conditions: this(),
            columns: Some(vec!["next_cfg".into()]),
            until: Until::Equal,
            rows: vec![vec![("next_cfg".into(), 9.into())]],
        })
        .push(Operation::Delete {
            table: Mirror::TABLE.into(),
            conditions: vec![Condition::equal("name", "none")],
        })
        .push(Operation::Commit { durable: true });
    let outcomes = transact(&session, &transaction).await;
    let external_ids = Value::map([("b".into(), "2".into())]);
    assert_eq!(
        outcomes,
        [
            Outcome::Done,
            Outcome::Count(1),
            Outcome::Count(1),
            Outcome::Rows(vec![vec![
                ("external_ids".to_owned(), external_ids),
                ("next_cfg".to_owned(), 9.into())
            ]]),
            Outcome::Done,
            Outcome::Count(0),
            Outcome::Done,
        ]
    );

    let mut abort = Transaction::new("changed my mind");
    abort.update(OpenVSwitch::TABLE, root, vec![("next_cfg".into(), 1.into())]);
    abort.push(Operation::Abort);
    let error = session.transact(&abort, SOON).await.unwrap_err();
    assert_eq!(error.operation().unwrap().kind, ErrorKind::Aborted);
    assert_eq!(error.operation().unwrap().operation, Some(1));
    assert_eq!(rows::<OpenVSwitch>(&session).await[0].next_cfg, 9);
}

pub(crate) async fn errors_name_table_column_and_row(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let mut setup = Transaction::new("one bridge");
    add_bridge(&mut setup, root, "br0", &["p1"]);
    transact(&session, &setup).await;
    let bridge = rows::<Bridge>(&session).await[0].uuid;

    let fields = |column: &'static str, value: Value| -> Fields { vec![(column.into(), value)] };
    let wrong = |build: &dyn Fn(&mut Transaction)| {
        let mut transaction = Transaction::new("wrong");
        transaction.comment("fine so far");
        build(&mut transaction);
        transaction
    };
    let insert = |table: &'static str, row: Fields| {
        wrong(&|transaction| drop(transaction.insert_fields(table, row.clone())))
    };
    let update = |column: &'static str, value: Value| {
        wrong(&|t| {
            t.update("Bridge", bridge, fields(column, value.clone()));
        })
    };
    let nowhere = Value::from(Uuid::from_u128(1));
    let divide = Mutation { column: "next_cfg".into(), mutator: Mutator::Divide, value: 0.into() };
    for (transaction, expected, row) in [
        (insert("Port", fields("tag", 9999.into())), "constraint violation, 1, Port.tag", None),
        (
            insert("Bridge", fields("fail_mode", "x".into())),
            "constraint violation, 1, Bridge.fail_mode",
            None,
        ),
        (insert("Bridge", fields("name", 5.into())), "syntax error, 1, Bridge.name", None),
        (insert("Bridge", fields("color", 5.into())), "unknown column, 1, Bridge.color", None),
        (insert("Nope", vec![]), "syntax error, 1, Nope.", None),
        (insert("Open_vSwitch", vec![]), "constraint violation, commit, Open_vSwitch.", None),
        (
            wrong(&|transaction| add_bridge(transaction, root, "br0", &[])),
            "constraint violation, commit, Bridge.name",
            None,
        ),
        (
            update("ports", nowhere),
            "referential integrity violation, commit, Bridge.ports",
            Some(bridge),
        ),
        (update("name", "br1".into()), "constraint violation, 1, Bridge.name", Some(bridge)),
        (
            wrong(&|transaction| {
                transaction.delete("Bridge", bridge);
            }),
            "referential integrity violation, commit, Bridge.",
            Some(bridge),
        ),
        (
            wrong(&|t| {
                t.mutate("Open_vSwitch", root, vec![divide.clone()]);
            }),
            "domain error, 1, Open_vSwitch.",
            Some(root),
        ),
        (
            wrong(&|transaction| {
                transaction.assert("nobody");
            }),
            "not owner, 1, .",
            None,
        ),
    ] {
        let error = session.transact(&transaction, SOON).await.unwrap_err();
        let TransactError::Failed { what, source } = &error else { panic!("{error:?}") };
        assert_eq!(what, "wrong");
        let operation = source.operation.map_or("commit".to_owned(), |index| index.to_string());
        let table = source.at.table.as_deref().unwrap_or("");
        let column = source.at.column.as_deref().unwrap_or("");
        let found = format!("{}, {operation}, {table}.{column}", source.kind);
        assert_eq!(found, expected, "{source}");
        assert!(row.is_none() || source.at.row == row, "{source}");
    }
    // With nothing wrong in it.
    transact(&session, &wrong(&|_| ())).await;
}

pub(crate) async fn rows_nobody_refers_to_are_collected(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let mut transaction = Transaction::new("a bridge, and a port without one");
    add_bridge(&mut transaction, root, "br0", &["p1", "p2"]);
    transaction.insert(&Interface { name: "lost".to_owned(), ..Default::default() });
    transact(&session, &transaction).await;
    assert_eq!(rows::<Interface>(&session).await.len(), 2);

    let mut transaction = Transaction::new("no bridges");
    let none = BTreeSet::<Ref<Bridge>>::new().to_value();
    transaction.update(OpenVSwitch::TABLE, root, vec![(OpenVSwitch::BRIDGES.into(), none)]);
    transact(&session, &transaction).await;
    assert!(rows::<Bridge>(&session).await.is_empty());
    assert!(rows::<Port>(&session).await.is_empty());
    assert!(rows::<Interface>(&session).await.is_empty());
}

pub(crate) async fn weak_references_vanish_with_their_rows(peer: &Peer) {
    let watched = monitor().table::<Mirror>();
    let (setup, root) = session_with_root(peer).await;
    let session = session(peer, watched).await;
    let mut transaction = Transaction::new("a mirror of two ports");
    add_bridge(&mut transaction, root, "br0", &["p1", "p2"]);
    transact(&setup, &transaction).await;
    let ports: Vec<Port> = rows(&setup).await;
    let bridge = rows::<Bridge>(&setup).await[0].uuid;
    let mut transaction = Transaction::new("a mirror of two ports");
    let mirror = transaction.insert(&Mirror {
        name: "m".to_owned(),
        select_src_port: ports.iter().map(|port| Ref::new(port.uuid)).collect(),
        ..Default::default()
    });
    let mirrors = BTreeSet::from([mirror]).to_value();
    transaction.mutate(Bridge::TABLE, bridge, vec![Mutation::insert(Bridge::MIRRORS, mirrors)]);
    transact(&session, &transaction).await;
    assert_eq!(rows::<Mirror>(&session).await[0].select_src_port.len(), 2);

    let mut transaction = Transaction::new("one port less");
    let gone: Value = ports[0].uuid.into();
    transaction.mutate(Bridge::TABLE, bridge, vec![Mutation::delete(Bridge::PORTS, gone)]);
    transact(&session, &transaction).await;
    let left = &rows::<Mirror>(&session).await[0].select_src_port;
    assert_eq!(*left, BTreeSet::from([Ref::new(ports[1].uuid)]));
}

pub(crate) async fn conditions_choose_rows(peer: &Peer) {
    let (writer, root) = session_with_root(peer).await;
    let name = |name: &str| vec![Condition::equal(Bridge::NAME, name)];
    let chosen = Monitor::new().table::<Bridge>().only(Bridge::TABLE, name("br1"));
    let session = session(peer, chosen).await;
    let names = async || -> Vec<String> {
        let mut names: Vec<_> =
            rows::<Bridge>(&session).await.into_iter().map(|bridge| bridge.name).collect();
        names.sort();
        names
    };
    let mut transaction = Transaction::new("three bridges");
    for bridge in ["br0", "br1", "br2"] {
        add_bridge(&mut transaction, root, bridge, &[]);
    }
    transact(&writer, &transaction).await;
    // An echo of ours after the change: what the server sent before it has come.
    session.request("echo", b"[]".to_vec()).await.unwrap();
    assert_eq!(names().await, ["br1"]);

    let mut both = name("br0");
    both.extend(name("br2"));
    session.set_conditions(Bridge::TABLE, both).await.unwrap();
    assert_eq!(names().await, ["br0", "br2"]);

    let refused =
        session.set_conditions(Bridge::TABLE, vec![Condition::equal("color", "red")]).await;
    assert!(refused.is_err());
    assert!(session.set_conditions("Port", vec![]).await.is_err());

    let connection = session.status().connection;
    peer.disconnect_clients();
    reconnected(&session, connection).await;
    assert_eq!(names().await, ["br0", "br2"]);
    session.set_conditions(Bridge::TABLE, vec![]).await.unwrap();
    assert_eq!(names().await, ["br0", "br1", "br2"]);
}

pub(crate) async fn locks_are_exclusive(peer: &Peer) {
    let (first, root) = session_with_root(peer).await;
    let second = session(peer, monitor()).await;
    let guarded = |lock: &str| {
        let mut transaction = Transaction::new("guarded");
        transaction.assert(lock.to_owned());
        transaction.update(OpenVSwitch::TABLE, root, vec![("next_cfg".into(), 1.into())]);
        transaction
    };
    let mut ours = first.lock("osier", false).await.unwrap();
    within("the lock", ours.held()).await.unwrap();
    transact(&first, &guarded("osier")).await;
    let mut theirs = second.lock("osier", false).await.unwrap();
    let error = second.transact(&guarded("osier"), SOON).await.unwrap_err();
    assert_eq!(error.operation().unwrap().kind, ErrorKind::NotOwner);
    assert_eq!(theirs.state(), LockState::Waiting);

    drop(ours);
    within("the lock, when it is free", theirs.held()).await.unwrap();
    transact(&second, &guarded("osier")).await;

    let mut stolen = first.lock("osier", true).await.unwrap();
    within("the stolen lock", stolen.held()).await.unwrap();
    within("the loss", theirs.lost()).await.unwrap();
    transact(&first, &guarded("osier")).await;

    // Locks are asked for again with a new connection.
    let connections = (first.status().connection, second.status().connection);
    drop(theirs);
    peer.disconnect_clients();
    reconnected(&first, connections.0).await;
    reconnected(&second, connections.1).await;
    within("the lock after a reconnect", stolen.held()).await.unwrap();
}

pub(crate) async fn a_wait_waits(peer: &Peer) {
    let (writer, root) = session_with_root(peer).await;
    let waiter = session(peer, monitor()).await;
    let wait = |timeout| {
        let mut transaction = Transaction::new("wait for next_cfg");
        transaction.push(Operation::Wait {
            table: OpenVSwitch::TABLE.into(),
            timeout,
            conditions: vec![Condition::uuid(root)],
            columns: Some(vec!["next_cfg".into()]),
            until: Until::Equal,
            rows: vec![vec![("next_cfg".into(), 3.into())]],
        });
        transaction
    };
    let error = waiter.transact(&wait(Some(50)), SOON).await.unwrap_err();
    assert_eq!(error.operation().unwrap().kind, ErrorKind::TimedOut);

    // Longer than our patience: cancelled, and the session goes on.
    let error = waiter.transact(&wait(None), Duration::from_millis(200)).await.unwrap_err();
    assert!(
        matches!(&error, TransactError::NoAnswer { operations: 1, first, .. } if first == "wait Open_vSwitch"),
        "{error}"
    );
    assert!(error.is_in_doubt());

    let waiting = tokio::spawn({
        let waiter: Session = waiter.clone();
        let wait = wait(None);
        async move { waiter.transact(&wait, SOON).await }
    });
    let mut transaction = Transaction::new("what they wait for");
    transaction.update(OpenVSwitch::TABLE, root, vec![("next_cfg".into(), 3.into())]);
    transact(&writer, &transaction).await;
    within("the end of the wait", waiting).await.unwrap().unwrap();
}

pub(crate) async fn a_broken_connection_is_mended(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let mut events = session.subscribe(64).await.unwrap();
    let (reason, _) = next_snapshot(&mut events).await;
    assert_eq!(reason, Resync::Subscribed);
    for round in 1..=5 {
        let connection = session.status().connection;
        peer.disconnect_clients();
        // The transaction waits for the new connection.
        let mut transaction = Transaction::new("after the break");
        transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), round.into())]);
        let done = session.transact(&transaction, SOON).await;
        if let Err(error) = &done {
            assert!(error.is_in_doubt(), "{error}");
        }
        reconnected(&session, connection).await;
        transact(&session, &transaction).await;
        let mut disconnected = false;
        let mut back = false;
        // Whether resumed or fetched anew, the stream of events ends with the new value.
        let cur_cfg = loop {
            let row = match next(&mut events).await {
                Event::Disconnected => {
                    disconnected = true;
                    continue;
                }
                Event::Resumed => {
                    back = true;
                    continue;
                }
                Event::Snapshot { reason, snapshot } => {
                    assert_eq!(reason, Resync::Refetched);
                    back = true;
                    snapshot.rows(OpenVSwitch::TABLE).first().cloned()
                }
                Event::Changes(changes) => changes.rows.last().and_then(|c| c.new.clone()),
            };
            let row = OpenVSwitch::from_row(&row.unwrap()).unwrap();
            if row.cur_cfg == round && disconnected {
                break row.cur_cfg;
            }
        };
        assert_eq!((cur_cfg, back), (round, true));
    }
}

pub(crate) async fn a_converted_database_is_followed(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let mut transaction = Transaction::new("a bridge");
    add_bridge(&mut transaction, root, "br0", &["p1"]);
    transact(&session, &transaction).await;
    let mut events = session.subscribe(16).await.unwrap();
    next_snapshot(&mut events).await;

    // A later schema: a column more, a column less, a table less.
    let mut json = schema().to_json();
    json["version"] = "9.0.0".into();
    let tables = json["tables"].as_object_mut().unwrap();
    tables["Port"]["columns"]["color"] = serde_json::json!({ "type": "string" });
    tables["Port"]["columns"].as_object_mut().unwrap().remove("protected");
    peer.convert(&json.to_string().parse().unwrap());

    let (reason, snapshot) = next_snapshot(&mut events).await;
    assert_eq!(reason, Resync::Refetched);
    let ports: Vec<Port> = snapshot.typed().collect::<Result<_, _>>().unwrap();
    assert_eq!((ports.len(), ports[0].protected), (1, false));
    let status = session.status();
    assert_eq!(status.schema.unwrap().version, "9.0.0");
    let protected = Missing { table: Port::TABLE.into(), column: Some(Port::PROTECTED.into()) };
    assert_eq!(&*status.missing, [protected]);

    let mut transaction = Transaction::new("the new column");
    transaction.update(Port::TABLE, ports[0].uuid, vec![("color".into(), "red".into())]);
    transact(&session, &transaction).await;
}

pub(crate) async fn unknown_columns_are_reported(peer: &Peer) {
    let (writer, _) = session_with_root(peer).await;
    let wishful = Monitor::new()
        .columns(OpenVSwitch::TABLE, &["next_cfg", "from_the_future"])
        .columns("Teapot", &["handle"])
        .all_columns(Bridge::TABLE)
        .index(OpenVSwitch::TABLE, &["from_the_future"]);
    let session = Session::connect(peer.remotes(), config(wishful));
    within("a session", session.ready()).await.unwrap();
    assert_eq!(
        &*session.status().missing,
        [
            Missing { table: "Open_vSwitch".into(), column: Some("from_the_future".into()) },
            Missing { table: "Teapot".into(), column: None },
        ]
    );
    // Columns that are not followed read as their defaults.
    let root = rows::<OpenVSwitch>(&session).await.remove(0);
    assert_eq!(OpenVSwitch { uuid: root.uuid, ..Default::default() }, root);
    drop(writer);
}

pub(crate) async fn a_thousand_ports_in_one_transaction(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let names: Vec<String> = (0..1000).map(|i| format!("p{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut transaction = Transaction::new("a thousand ports");
    add_bridge(&mut transaction, root, "br0", &names);
    let outcomes = transact(&session, &transaction).await;
    assert_eq!(outcomes.len(), 2002);
    assert_eq!(rows::<Interface>(&session).await.len(), 1000);
    assert_eq!(rows::<Bridge>(&session).await[0].ports.len(), 1000);
    // One more is a small change of a large set.
    let mut events = session.subscribe(4).await.unwrap();
    next_snapshot(&mut events).await;
    let bridge = rows::<Bridge>(&session).await[0].uuid;
    let mut transaction = Transaction::new("one more");
    let interface = transaction.insert(&Interface { name: "x".to_owned(), ..Default::default() });
    let port = Port { name: "x".to_owned(), interfaces: [interface].into(), ..Default::default() };
    let port = BTreeSet::from([transaction.insert(&port)]).to_value();
    transaction.mutate(Bridge::TABLE, bridge, vec![Mutation::insert(Bridge::PORTS, port)]);
    transact(&session, &transaction).await;
    let Event::Changes(changes) = next(&mut events).await else { panic!("a change") };
    assert_eq!(changes.rows.len(), 3);
    assert_eq!(rows::<Bridge>(&session).await[0].ports.len(), 1001);
}

pub(crate) async fn a_slow_subscriber_gets_a_snapshot(peer: &Peer) {
    let (session, root) = session_with_root(peer).await;
    let mut slow = session.subscribe(2).await.unwrap();
    let mut fast = session.subscribe(64).await.unwrap();
    for round in 1..=20 {
        let mut transaction = Transaction::new("churn");
        transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), round.into())]);
        transact(&session, &transaction).await;
    }
    assert!(matches!(next(&mut slow).await, Event::Snapshot { reason: Resync::Subscribed, .. }));
    assert!(matches!(next(&mut slow).await, Event::Changes(_)));
    let (reason, snapshot) = next_snapshot(&mut slow).await;
    assert_eq!(reason, Resync::Lagged);
    let root_row: OpenVSwitch = snapshot.typed().next().unwrap().unwrap();
    assert_eq!(root_row.cur_cfg, 20);
    next_snapshot(&mut fast).await;
    for round in 1..=20 {
        let Event::Changes(changes) = next(&mut fast).await else { panic!("each change") };
        let row = OpenVSwitch::from_row(changes.rows[0].new.as_ref().unwrap()).unwrap();
        assert_eq!(row.cur_cfg, round);
    }
    // Having caught up, the slow one follows again.
    let mut transaction = Transaction::new("once more");
    transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), 21.into())]);
    transact(&session, &transaction).await;
    assert!(matches!(next(&mut slow).await, Event::Changes(_)));
}
