//! What becomes of plans, drift and lost databases, as `ovs-vsctl` sees it.

use crate::lab::{bridge, eventually, get, ownership, ports, put, reconciler, store, switch};
use osier_ovsdb::session::Remote;
use osier_southbound::rows::{
    ChangeError, Options, Plan, Port, Qos, Queue, RowReconciler, SettingColumn, Transaction,
    Trouble, Wait,
};
use std::time::{Duration, Instant};

/// Within this, drift must be put right.
const SOON: Duration = Duration::from_secs(1);

fn hundred() -> Plan {
    let plan = Plan::default().bridge(bridge("br0"));
    (0..100).fold(plan, |plan, n| plan.port(Port::internal("br0", format!("port{n}"))))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_with_a_hundred_ports_is_one_transaction_and_goes_again() {
    let ovs = switch();
    ovs.vsctl(&["add-br", "other", "--", "set", "bridge", "other", "datapath_type=netdev"])
        .unwrap();
    let other = ovs.vsctl(&["list", "bridge", "other"]).unwrap();
    let rows = reconciler(&ovs);
    let applied = put(&rows, "hundred", hundred()).await.unwrap();
    assert_eq!(rows.stats().transactions, 1);
    assert_eq!(applied.interfaces.len(), 101);
    assert!(applied.interfaces.iter().all(|state| state.ofport.is_some_and(|port| port > 0)));
    assert_eq!(ports(&ovs, "br0").len(), 100);
    assert_eq!(get(&ovs, "Bridge", "br0", "fail_mode"), "secure");

    // Only what differs is changed: one port less, one with other settings.
    let mut plan = hundred();
    plan.ports.pop();
    plan.ports[1].external_ids.insert("iface-id".to_owned(), "a:b".to_owned());
    plan.ports[1].interfaces[0].ofport_request = Some(777);
    let before = rows.stats();
    let applied = put(&rows, "hundred", plan).await.unwrap();
    assert_eq!(applied.ofport("port0"), Some(777));
    assert_eq!(ports(&ovs, "br0").len(), 99);
    assert_eq!(get(&ovs, "Port", "port0", "external_ids:iface-id"), "a:b");
    let after = rows.stats();
    assert_eq!(after.transactions, before.transactions + 1);
    assert_eq!(after.inserted, before.inserted);
    assert_eq!(after.updated - before.updated, 3, "a port, its interface, and their bridge's set");

    rows.remove("hundred").await.unwrap().await.unwrap();
    assert_eq!(ovs.bridges().unwrap(), ["other"]);
    assert_eq!(ovs.vsctl(&["list", "bridge", "other"]).unwrap(), other);
    assert_eq!(rows.stats().drift_repaired, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_others_stay_and_ours_go_when_unwanted_also_after_a_restart() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    let mut wanted = bridge("br0");
    wanted.other_config.insert("disable-in-band".to_owned(), "true".to_owned());
    let mut port = Port::internal("br0", "p");
    port.external_ids.insert("iface-id".to_owned(), "x".to_owned());
    port.external_ids.insert("osier-pod".to_owned(), "y".to_owned());
    port.interfaces[0].mtu_request = Some(1400);
    let setting =
        |plan: Plan| plan.setting(SettingColumn::OtherConfig, "stats-update-interval", "9000");
    let plan = setting(Plan::default().bridge(wanted).port(port));
    put(&rows, "me", plan).await.unwrap();
    ovs.vsctl(&["set", "port", "p", "external_ids:theirs=1", "other_config:theirs=2"]).unwrap();
    ovs.vsctl(&["set", "bridge", "br0", "other_config:theirs=3"]).unwrap();
    ovs.vsctl(&["set", "open", ".", "other_config:theirs=4"]).unwrap();
    drop(rows);

    // A new process wants less of the same rows.
    let remotes = vec![Remote::Unix(ovs.db_socket())];
    let rows = RowReconciler::connect(remotes, ownership(), Options::default());
    let plan = Plan::default().bridge(bridge("br0")).port(Port::internal("br0", "p"));
    let settling = rows.put("me", plan).await.unwrap();
    rows.resume().await.unwrap();
    settling.await.unwrap();
    for (table, row, column, expected) in [
        ("Port", "p", "external_ids:iface-id", ""),
        ("Port", "p", "external_ids:osier-pod", ""),
        ("Interface", "p", "mtu_request", "[]"),
        ("Bridge", "br0", "other_config:disable-in-band", ""),
        ("Open_vSwitch", ".", "other_config:stats-update-interval", ""),
        ("Port", "p", "external_ids:theirs", "1"),
        ("Port", "p", "other_config:theirs", "2"),
        ("Bridge", "br0", "other_config:theirs", "3"),
        ("Open_vSwitch", ".", "other_config:theirs", "4"),
        ("Interface", "p", "type", "internal"),
    ] {
        assert_eq!(get(&ovs, table, row, column), expected, "{table} {row} {column}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_put_right_at_once_and_counted() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    let mut port = Port::internal("br0", "p");
    port.interfaces[0].ofport_request = Some(50);
    put(&rows, "me", Plan::default().bridge(bridge("br0")).port(port)).await.unwrap();
    let drifts: [(&[&str], &dyn Fn() -> bool); 5] = [
        (&["del-port", "p"], &|| ports(&ovs, "br0").contains("p")),
        (&["set", "interface", "p", "ofport_request=9"], &|| {
            get(&ovs, "Interface", "p", "ofport_request") == "50"
        }),
        (&["set", "interface", "p", "type=patch"], &|| {
            get(&ovs, "Interface", "p", "type") == "internal"
        }),
        (&["remove", "port", "p", "external_ids", "osier-owner"], &|| {
            get(&ovs, "Port", "p", "external_ids:osier-owner") == "test"
        }),
        (&["del-br", "br0"], &|| ports(&ovs, "br0").contains("p")),
    ];
    for (command, repaired) in drifts {
        let before = rows.stats().drift_repaired;
        let start = Instant::now();
        ovs.vsctl(&[&["--no-wait"], command].concat()).unwrap();
        eventually(&format!("{command:?} is put right"), SOON, || {
            rows.stats().drift_repaired > before && repaired()
        })
        .await;
        eprintln!("{command:?}: put right within {:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_writers_do_not_spin() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    put(&rows, "me", Plan::default().bridge(bridge("br0"))).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        ovs.vsctl(&["--no-wait", "set", "bridge", "br0", "fail_mode=standalone"]).unwrap();
    }
    let stats = rows.stats();
    assert!(stats.fights >= 1 && stats.drift_repaired <= 8, "{stats:?}");
    // The other stops: we win.
    eventually("the bridge is as wanted", Duration::from_secs(10), || {
        get(&ovs, "Bridge", "br0", "fail_mode") == "secure"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_follow_their_port() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    let queue = |rate: &str| Queue {
        other_config: [("max-rate".to_owned(), rate.to_owned())].into(),
        ..Queue::default()
    };
    let qos = Qos {
        kind: "linux-htb".to_owned(),
        queues: [(0, queue("1000000")), (7, queue("2000000"))].into(),
        other_config: [("max-rate".to_owned(), "3000000".to_owned())].into(),
        ..Qos::default()
    };
    let plan = |qos| {
        let port = Port { qos, ..Port::internal("br0", "p") };
        Plan::default().bridge(bridge("br0")).port(port)
    };
    let count = |table: &str| {
        ovs.vsctl(&["--no-wait", "--columns=_uuid", "list", table])
            .unwrap()
            .lines()
            .filter(|l| !l.is_empty())
            .count()
    };
    // Somebody else's are not ours to delete.
    ovs.vsctl(&[
        "--",
        "--id=@q",
        "create",
        "queue",
        "dscp=3",
        "--",
        "create",
        "qos",
        "type=linux-hfsc",
        "queues:1=@q",
    ])
    .unwrap();
    put(&rows, "me", plan(Some(qos.clone()))).await.unwrap();
    let shown = ovs.vsctl(&["--no-wait", "get", "port", "p", "qos"]).unwrap();
    let row = shown.trim();
    assert_eq!(get(&ovs, "QoS", row, "other_config:max-rate"), "3000000");
    let queues = get(&ovs, "QoS", row, "queues");
    let seven = queues.split_once("7=").unwrap().1.trim_matches(['{', '}', ' ']).to_owned();
    assert_eq!(get(&ovs, "Queue", &seven, "other_config:max-rate"), "2000000");
    assert_eq!((count("QoS"), count("Queue")), (2, 3));

    let mut less = qos.clone();
    less.queues.remove(&0);
    less.queues.insert(7, queue("5000000"));
    put(&rows, "me", plan(Some(less))).await.unwrap();
    assert_eq!(get(&ovs, "Queue", &seven, "other_config:max-rate"), "5000000");
    assert_eq!((count("QoS"), count("Queue")), (2, 2));
    // A deleted port leaves its rows behind; the new one takes them over.
    ovs.vsctl(&["--no-wait", "del-port", "p"]).unwrap();
    eventually("the port has its QoS again", SOON, || get(&ovs, "Port", "p", "qos") == row).await;
    put(&rows, "me", plan(None)).await.unwrap();
    assert_eq!(get(&ovs, "Port", "p", "qos"), "[]");
    assert_eq!((count("QoS"), count("Queue")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_database_is_found_again_and_a_lost_one_made_anew() {
    let mut ovs = switch();
    let rows = reconciler(&ovs);
    put(&rows, "a", hundred()).await.unwrap();
    let compared = rows.stats().resyncs;
    ovs.kill_ovsdb();
    let plan = Plan::default().port(Port::internal("br0", "late"));
    let settling = rows.put("b", plan).await.unwrap();
    ovs.start_ovsdb().unwrap();
    settling.await.unwrap();
    assert_eq!(ports(&ovs, "br0").len(), 101);
    eprintln!("after a restart: {} more comparisons", rows.stats().resyncs - compared);
    assert_eq!(rows.stats().drift_repaired, 0);

    // The file is lost: the server comes back empty, without even the switch's own row.
    ovs.kill_ovsdb();
    let file = ovs.database().dir().join("db");
    std::fs::remove_file(&file).unwrap();
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    ovs.tool("ovsdb-tool").arg("create").arg(&file).arg(schema).run().unwrap();
    let repaired = rows.stats().drift_repaired;
    ovs.start_ovsdb().unwrap();
    eventually("all is made anew", Duration::from_secs(20), || {
        rows.status().in_sync && rows.stats().drift_repaired > repaired
    })
    .await;
    assert_eq!(ports(&ovs, "br0").len(), 101);
    let state =
        put(&rows, "b", Plan::default().port(Port::internal("br0", "later"))).await.unwrap();
    assert!(state.ofport("later").is_some_and(|port| port > 0), "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_it_changes_nothing() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    put(&rows, "me", Plan::default().bridge(bridge("br0"))).await.unwrap();
    rows.pause().await.unwrap();
    ovs.vsctl(&["--no-wait", "set", "bridge", "br0", "fail_mode=standalone"]).unwrap();
    let settling = rows.put("p", Plan::default().port(Port::internal("br0", "p"))).await.unwrap();
    eventually("the change is known", SOON, || !rows.status().in_sync).await;
    assert!(ports(&ovs, "br0").is_empty());
    assert_eq!(get(&ovs, "Bridge", "br0", "fail_mode"), "standalone");
    rows.resume().await.unwrap();
    settling.await.unwrap();
    assert_eq!(get(&ovs, "Bridge", "br0", "fail_mode"), "secure");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_with_ports_of_others_is_kept_until_they_go() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    put(&rows, "me", Plan::default().bridge(bridge("br0"))).await.unwrap();
    ovs.vsctl(&["add-port", "br0", "theirs", "--", "set", "interface", "theirs", "type=internal"])
        .unwrap();
    let refused = rows.remove("me").await.unwrap().await;
    let Err(ChangeError::Trouble(trouble)) = refused else { panic!("{refused:?}") };
    assert!(matches!(&*trouble, Trouble::Kept { port, .. } if port == "theirs"), "{trouble}");
    assert_eq!(ovs.bridges().unwrap(), ["br0"]);
    ovs.vsctl(&["--no-wait", "del-port", "theirs"]).unwrap();
    eventually("the bridge goes", SOON, || ovs.bridges().unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_puts_share_transactions() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    store(&rows, "bridge", Plan::default().bridge(bridge("br0"))).await;
    let mut settlings = Vec::new();
    for n in 0..200 {
        let plan = Plan::default().port(Port::internal("br0", format!("p{n}")));
        settlings.push(rows.put(format!("owner{n}"), plan).await.unwrap());
    }
    for settling in settlings {
        settling.await.unwrap();
    }
    assert_eq!(ports(&ovs, "br0").len(), 200);
    let transactions = rows.stats().transactions;
    assert!(transactions < 100, "{transactions} transactions for 200 puts");
    eprintln!("200 puts in {transactions} transactions");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_may_be_asked_for_before_its_wire_is_there() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    put(&rows, "bridge", Plan::default().bridge(bridge("br0"))).await.unwrap();
    let plan = || Plan::default().port(Port::new("br0", "late"));
    let asked = Transaction::new().put("late", plan()).wait(Wait::Attached);
    let asked = rows.transaction(asked).await.unwrap();
    // Who does not wait for the wire is told that there is none.
    let refused = put(&rows, "late", plan()).await.unwrap_err();
    assert!(
        matches!(&refused, ChangeError::Trouble(trouble) if matches!(&**trouble, Trouble::Interface { .. })),
        "{refused:?}"
    );
    ovs.netns().ip("link add late type veth peer name peer").unwrap();
    let applied = tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap().unwrap();
    assert!(applied.ofport("late").is_some_and(|number| number > 0), "{applied:?}");
}
