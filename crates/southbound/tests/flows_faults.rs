//! Connections that break and switches that die: all comes back, and traffic does not notice.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod flows_lab;

use flows_lab::{BRIDGE, dump, ownership, plan, start, switch, until};
use osier_openflow::session::{Endpoint, Events, Options as SessionOptions, Session};
use osier_southbound::flows::{FlowReconciler, Options};
use osier_testbed::traffic::{Pinger, ping_until};
use osier_testbed::{Endpoint as Pod, EndpointConfig, Ovs};
use std::time::Duration;
use tokio::sync::mpsc;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_switch_gets_all_back() {
    let (_lab, mut ovs) = switch();
    let reconciler = start(&ovs);
    let mut wanted = plan("table=0,priority=10,ip,actions=group:1001");
    let group = "group_id=1001,type=all,bucket=bucket_id=0,actions=output:1";
    wanted.groups.push(group.parse().unwrap());
    reconciler.put("a", wanted).await.unwrap().await.unwrap();
    let before = dump(&ovs);
    let mut replayed = reconciler.replayed();
    for round in 1..=3 {
        let last = *replayed.borrow_and_update();
        ovs.kill_vswitchd();
        until("the end", || (!reconciler.status().connected).then_some(())).await;
        assert!(!reconciler.status().in_sync);
        assert!(reconciler.status().last_error.is_some());
        // A change while nobody is there.
        let late = plan(&format!("table=1,priority={round},ip,actions=output:1"));
        let change = reconciler.put(format!("late {round}"), late).await.unwrap();
        ovs.start_vswitchd().unwrap();
        change.await.unwrap();
        replayed.wait_for(|now| *now > last).await.unwrap();
        assert_eq!(dump(&ovs).len(), before.len() + round);
        assert!(dump(&ovs).contains(&before[0]));
        assert!(ovs.ofctl(&["dump-groups", BRIDGE]).unwrap().contains("1001"));
    }
    assert_eq!(reconciler.stats().resyncs, 4);
}

async fn connect(ovs: &Ovs) -> (Session, Events) {
    let endpoint = Endpoint::Unix(ovs.mgmt_socket(BRIDGE));
    Session::connect(&endpoint, SessionOptions::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_loses_no_packet_and_sends_only_what_differs() {
    let (_lab, ovs) = switch();
    let a = Pod::attach(&ovs, BRIDGE, &EndpointConfig::numbered("a", 1)).unwrap();
    let b = Pod::attach(&ovs, BRIDGE, &EndpointConfig::numbered("b", 2)).unwrap();
    let (sessions, source) = mpsc::channel(1);
    let options = Options { paused: false, ..Options::default() };
    let reconciler = FlowReconciler::start(source, ownership(), options);
    let (mut session, events) = connect(&ovs).await;
    sessions.send((session.clone(), events)).await.unwrap();
    let wire =
        plan("priority=10,in_port=1,actions=output:2\npriority=10,in_port=2,actions=output:1");
    reconciler.put("wire", wire).await.unwrap().await.unwrap();
    let filler = (0..5000).map(|n| format!("table=7,ip,reg1={n},actions=drop\n"));
    reconciler.put("filler", plan(&filler.collect::<String>())).await.unwrap().await.unwrap();
    let to = b.addresses().next().unwrap();
    ping_until(a.netns(), to, Duration::from_secs(10)).unwrap();
    let pinger = Pinger::start(a.netns(), to).unwrap();
    until("replies", || (pinger.replies() > 20).then_some(())).await;
    let before = reconciler.stats();
    for _ in 0..5 {
        let last = reconciler.status().connection;
        session.close().await;
        until("the end", || (!reconciler.status().connected).then_some(())).await;
        ovs.ofctl(&["del-flows", BRIDGE, "table=7,ip,reg1=17"]).unwrap();
        let (next, events) = connect(&ovs).await;
        sessions.send((next.clone(), events)).await.unwrap();
        session = next;
        until("next session", || {
            let status = reconciler.status();
            (status.connection > last && status.in_sync).then_some(())
        })
        .await;
    }
    let after = reconciler.stats();
    assert_eq!(after.resyncs, before.resyncs + 5);
    assert_eq!(after.flows_added, before.flows_added + 5);
    assert_eq!((after.flows_changed, after.flows_deleted), (0, 0));
    assert_eq!(dump(&ovs).len(), 5002);
    let loss = pinger.stop().unwrap();
    assert_eq!(loss.lost, 0, "{loss:?}");
}
