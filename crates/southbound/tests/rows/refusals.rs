//! What the database or the switch will not have: each error names what and whose, nothing else is
//! held up, and nothing of others is touched.

use crate::lab::{bridge, eventually, ports, put, reconciler, switch};
use osier_southbound::rows::{
    ChangeError, Plan, Port, PutError, SettingColumn, Transaction, Trouble,
};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

fn trouble<T: std::fmt::Debug>(outcome: Result<T, ChangeError>) -> Arc<Trouble> {
    match outcome {
        Err(ChangeError::Trouble(trouble)) => trouble,
        other => panic!("no trouble: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_somebody_elses_row_is_refused_and_taken_when_it_is_free() {
    let ovs = switch();
    ovs.vsctl(&["add-br", "theirs", "--", "set", "bridge", "theirs", "datapath_type=netdev"])
        .unwrap();
    ovs.vsctl(&["add-port", "theirs", "p", "--", "set", "interface", "p", "type=internal"])
        .unwrap();
    let before = ovs.vsctl(&["list", "bridge", "theirs"]).unwrap();
    let row = ovs.vsctl(&["get", "port", "p", "_uuid"]).unwrap().trim().to_owned();
    let rows = reconciler(&ovs);
    put(&rows, "bridge", Plan::default().bridge(bridge("br0"))).await.unwrap();
    let conflict =
        trouble(put(&rows, "me", Plan::default().port(Port::internal("br0", "p"))).await);
    let text = conflict.to_string();
    for part in ["me", "Port \"p\"", "table Port", &row] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let conflict = trouble(put(&rows, "b", Plan::default().bridge(bridge("theirs"))).await);
    assert!(matches!(&*conflict, Trouble::Conflict { table: "Bridge", .. }), "{conflict}");
    // Also if only the interface is theirs.
    let mut port = Port::internal("br0", "mine");
    port.interfaces[0].name = "p".to_owned();
    let clash = put(&rows, "c", Plan::default().port(port.clone())).await;
    assert!(
        matches!(clash, Err(ChangeError::Rejected(PutError::InterfaceClash { .. }))),
        "{clash:?}"
    );
    rows.remove("me").await.unwrap().await.unwrap();
    let conflict = trouble(put(&rows, "c", Plan::default().port(port)).await);
    assert!(matches!(&*conflict, Trouble::Conflict { table: "Interface", .. }), "{conflict}");
    assert_eq!(ovs.vsctl(&["list", "bridge", "theirs"]).unwrap(), before);
    assert_eq!(rows.status().troubles, 3, "a bridge, its local port, and a port");

    ovs.vsctl(&["--no-wait", "del-br", "theirs"]).unwrap();
    eventually("both are made", Duration::from_secs(1), || {
        ports(&ovs, "br0").contains("mine") && ovs.bridges().unwrap() == ["br0", "theirs"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_owner_does_not_hold_up_the_others() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    let mut transaction = Transaction::new().put("bridge", Plan::default().bridge(bridge("br0")));
    for n in 0..20 {
        let mut port = Port::internal("br0", format!("p{n}"));
        match n {
            // Out of the column's range.
            7 => port.interfaces[0].ofport_request = Some(70_000),
            13 => port.tag = Some(5000),
            _ => {}
        }
        transaction = transaction.put(format!("owner{n}"), Plan::default().port(port));
    }
    let refused = trouble(rows.transaction(transaction).await.unwrap().await);
    let Trouble::Refused { owner, error, .. } = &*refused else { panic!("{refused}") };
    assert!(["owner7", "owner13"].contains(&owner.as_str()));
    assert!(["Interface", "Port"].contains(&error.at.table.as_deref().unwrap()), "{error}");
    assert!(["ofport_request", "tag"].contains(&error.at.column.as_deref().unwrap()), "{error}");
    assert!(refused.source().is_some());
    assert_eq!(ports(&ovs, "br0").len(), 18);
    let troubles = rows.troubles().await.unwrap();
    assert_eq!(troubles.len(), 2, "{troubles:?}");
    assert_eq!(rows.stats().refused, 2);
    // A better plan of the same owner is taken.
    put(&rows, "owner7", Plan::default().port(Port::internal("br0", "p7"))).await.unwrap();
    assert_eq!(rows.status().troubles, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interface_that_cannot_be_made_is_an_error_that_names_it() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    let plan = Plan::default().bridge(bridge("br0")).port(Port::new("br0", "nodevice"));
    let failed = trouble(put(&rows, "me", plan).await);
    let Trouble::Interface { interface, error, owner } = &*failed else { panic!("{failed}") };
    assert_eq!((interface.as_str(), owner.as_str()), ("nodevice", "me"));
    assert!(error.contains("No such device"), "{error}");
    let mut port = Port::new("br0", "odd");
    port.interfaces[0].kind = "no-such-type".to_owned();
    let failed = trouble(put(&rows, "odd", Plan::default().port(port)).await);
    assert!(failed.to_string().contains("odd"), "{failed}");
    let state = rows.interface("odd").await.unwrap().unwrap();
    assert_eq!((state.ofport, state.port.as_str()), (Some(-1), "odd"));
    eprintln!("{failed}");
    // The device comes: the switch makes the port by itself.
    ovs.netns().ip("link add nodevice type veth peer name peer").unwrap();
    ovs.vsctl(&["--no-wait", "set", "interface", "nodevice", "external_ids:poke=1"]).unwrap();
    eventually("a port number", Duration::from_secs(5), || {
        crate::lab::get(&ovs, "Interface", "nodevice", "ofport").parse::<i64>().is_ok_and(|n| n > 0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_others_are_not_overwritten() {
    let ovs = switch();
    ovs.vsctl(&["set", "open", ".", "external_ids:system-id=theirs"]).unwrap();
    let rows = reconciler(&ovs);
    let plan = |value: &str| {
        Plan::default().setting(SettingColumn::ExternalIds, "system-id", value).setting(
            SettingColumn::ExternalIds,
            "ovn-bridge",
            "br-int",
        )
    };
    let taken = trouble(put(&rows, "me", plan("ours")).await);
    assert!(matches!(&*taken, Trouble::Taken { found, .. } if found == "theirs"), "{taken}");
    assert_eq!(crate::lab::get(&ovs, "open", ".", "external_ids:ovn-bridge"), "br-int");
    put(&rows, "me", plan("theirs")).await.unwrap();
    rows.remove("me").await.unwrap().await.unwrap();
    assert_eq!(crate::lab::get(&ovs, "open", ".", "external_ids:system-id"), "theirs");
    assert_eq!(crate::lab::get(&ovs, "open", ".", "external_ids:ovn-bridge"), "");
    assert_eq!(crate::lab::get(&ovs, "open", ".", "external_ids:osier-keys"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_without_its_bridge_waits_for_it() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    let waiting = trouble(put(&rows, "me", Plan::default().port(Port::internal("br9", "p"))).await);
    assert!(matches!(&*waiting, Trouble::NoBridge { bridge, .. } if bridge == "br9"), "{waiting}");
    ovs.vsctl(&["add-br", "br9", "--", "set", "bridge", "br9", "datapath_type=netdev"]).unwrap();
    eventually("the port comes", Duration::from_secs(1), || ports(&ovs, "br9").contains("p")).await;
    assert_eq!(rows.status().troubles, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_known_to_be_wrong_is_known_at_once() {
    let ovs = switch();
    let rows = reconciler(&ovs);
    let mut spaced = Port::internal("br0", "p");
    spaced.external_ids.insert("a b".to_owned(), String::new());
    let mut reserved = Port::internal("br0", "p");
    reserved.external_ids.insert("osier-owner".to_owned(), "x".to_owned());
    for port in [
        spaced,
        reserved,
        Port::internal("br0", ""),
        Port { interfaces: vec![], ..Port::new("br0", "p") },
    ] {
        let rejected = put(&rows, "me", Plan::default().port(port)).await;
        assert!(matches!(rejected, Err(ChangeError::Rejected(_))), "{rejected:?}");
    }
    put(&rows, "a", Plan::default().bridge(bridge("br0"))).await.unwrap();
    let mut other = bridge("br0");
    other.fail_mode = None;
    let clash = put(&rows, "b", Plan::default().bridge(other)).await;
    assert!(matches!(clash, Err(ChangeError::Rejected(PutError::Clash { .. }))), "{clash:?}");
    // The same is shared, and goes with the last.
    put(&rows, "b", Plan::default().bridge(bridge("br0"))).await.unwrap();
    rows.remove("a").await.unwrap().await.unwrap();
    assert_eq!(ovs.bridges().unwrap(), ["br0"]);
    rows.remove("b").await.unwrap().await.unwrap();
    assert!(ovs.bridges().unwrap().is_empty());
}
