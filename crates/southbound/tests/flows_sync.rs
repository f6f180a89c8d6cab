//! A real switch becomes equal to what is wanted, and nothing else on it changes.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod flows_lab;

use flows_lab::{BRIDGE, dump, packets, plan, start, start_paused, switch, until};
use osier_openflow::message::TlvMap;
use osier_southbound::flows::{ChangeError, Plan, PutError, Transaction, Trouble};

/// Groups, meters, TLV maps, and flows that use them.
fn full() -> Plan {
    let mut plan = plan(
        "table=0,priority=10,tcp,tp_dst=80,actions=group:1001
         table=0,priority=9,udp,actions=meter:101,output:1
         table=0,priority=8,tun_metadata1=0x7,actions=set_field:5->tun_metadata2,output:2
         table=1,priority=7,ip,nw_dst=10.0.0.0/8,actions=load:7->NXM_NX_REG3[],note:01.02,resubmit(,2)
         table=1,priority=6,ip,check_overlap,reset_counts,send_flow_rem,actions=ct(commit,zone=3,nat(src=10.1.1.1)),output:1
         table=2,priority=5,ip,idle_timeout=600,importance=3,actions=learn(table=3,cookie=0xa5ee000000000001,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),drop",
    );
    plan.groups = vec![
        // Names one that comes behind it.
        "group_id=1001,type=all,bucket=bucket_id=0,actions=group:1002".parse().unwrap(),
        "group_id=1002,type=select,selection_method=dp_hash,bucket=bucket_id=1,weight=5,actions=output:1,bucket=bucket_id=2,weight=6,actions=output:2".parse().unwrap(),
    ];
    plan.meters =
        vec!["meter=101,kbps,burst,stats,bands=type=drop rate=100 burst_size=20".parse().unwrap()];
    plan.tlvs = vec![
        TlvMap { class: 0x102, kind: 1, len: 4, index: 1 },
        TlvMap { class: 0x102, kind: 2, len: 8, index: 2 },
    ];
    plan
}

#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_come_and_go_and_reading_back_finds_them_equal() {
    let (_lab, ovs) = switch();
    ovs.add_flows(BRIDGE, "cookie=0x77,table=0,priority=1,actions=drop").unwrap();
    ovs.ofctl(&["add-group", BRIDGE, "group_id=7,type=all,bucket=output:1"]).unwrap();
    ovs.ofctl(&["add-meter", BRIDGE, "meter=7,pktps,band=type=drop,rate=10"]).unwrap();
    let reconciler = start(&ovs);
    reconciler.put("all", full()).await.unwrap().await.unwrap();
    let before = dump(&ovs);
    assert_eq!(before.len(), 7, "{before:#?}");
    assert!(ovs.ofctl(&["dump-groups", BRIDGE]).unwrap().contains("group_id=1002,type=select"));
    assert!(ovs.ofctl(&["dump-meters", BRIDGE]).unwrap().contains("meter=101"));
    assert!(ovs.ofctl(&["dump-tlv-map", BRIDGE]).unwrap().contains("tun_metadata2"));
    let first = reconciler.stats();
    assert_eq!((first.flows_added, first.flows_changed, first.others_set), (6, 0, 5));

    // Reading everything again finds no difference.
    reconciler.resync().await.unwrap();
    reconciler.settled().await.unwrap();
    let second = reconciler.stats();
    assert_eq!(second.resyncs, first.resyncs + 1);
    assert_eq!((second.bundles, second.others_set), (first.bundles, first.others_set));

    // Neither does a reconciler that starts later.
    drop(reconciler);
    let reconciler = start_paused(&ovs);
    let change = reconciler.put("all", full()).await.unwrap();
    reconciler.resume().await.unwrap();
    change.await.unwrap();
    let stats = reconciler.stats();
    assert_eq!((stats.bundles, stats.others_set, stats.flows_deleted), (0, 0, 0));
    assert_eq!(dump(&ovs), before);

    reconciler.remove("all").await.unwrap().await.unwrap();
    assert_eq!(dump(&ovs), ["cookie=0x77, priority=1 actions=drop"]);
    assert!(!ovs.ofctl(&["dump-groups", BRIDGE]).unwrap().contains("group_id=100"));
    assert!(ovs.ofctl(&["dump-groups", BRIDGE]).unwrap().contains("group_id=7"));
    assert!(!ovs.ofctl(&["dump-meters", BRIDGE]).unwrap().contains("meter=101"));
    assert!(ovs.ofctl(&["dump-meters", BRIDGE]).unwrap().contains("meter=7"));
    // A map goes when the switch has freed the flows that used it.
    let maps = || ovs.ofctl(&["dump-tlv-map", BRIDGE]).unwrap();
    until("the end of the maps", || (!maps().contains("tun_metadata1")).then_some(())).await;
    assert_eq!(reconciler.stats().drift_repaired, 0);
    assert_eq!(reconciler.status().troubles, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_outlives_the_group_and_meter_that_it_leaves() {
    let (_lab, ovs) = switch();
    let reconciler = start(&ovs);
    let with = |n: u32| {
        let flow = format!("in_port=LOCAL,actions=meter:{},group:{}", 100 + n, 1000 + n);
        let mut plan = plan(&flow);
        let group = format!("group_id={},type=all,bucket=bucket_id=0,actions=output:1", 1000 + n);
        plan.groups.push(group.parse().unwrap());
        let meter = format!("meter={},pktps,bands=type=drop rate=1000", 100 + n);
        plan.meters.push(meter.parse().unwrap());
        plan
    };
    reconciler.put("a", with(1)).await.unwrap().await.unwrap();
    let out = "in_port=LOCAL,packet=112233445566778899aabbcc0806,actions=table";
    ovs.ofctl(&["packet-out", BRIDGE, out]).unwrap();
    until("a packet", || (packets(&ovs, "in_port=LOCAL") == 1).then_some(())).await;
    // Deleting a group or meter that is in use would delete the flow, and its counters.
    for n in 2..5 {
        reconciler.put("a", with(n)).await.unwrap().await.unwrap();
        assert_eq!(packets(&ovs, "in_port=LOCAL"), 1);
        let groups = ovs.ofctl(&["dump-groups", BRIDGE]).unwrap();
        assert_eq!(groups.matches("group_id=").count(), 1, "{groups}");
        let meters = ovs.ofctl(&["dump-meters", BRIDGE]).unwrap();
        assert_eq!(meters.matches("meter=").count(), 1, "{meters}");
    }
    assert_eq!(reconciler.stats().drift_repaired, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_connect_only_differences_are_sent() {
    let (_lab, ovs) = switch();
    ovs.add_flows(
        BRIDGE,
        "cookie=0xa500000000000001,table=0,priority=10,in_port=LOCAL,actions=drop
         cookie=0xa500000000000001,table=0,priority=11,ip,actions=output:1
         cookie=0xa500000000000009,table=0,priority=12,ip,actions=output:1
         cookie=0xa5ee000000000001,table=3,priority=3,ip,actions=output:9
         cookie=0x77,table=0,priority=13,ip,actions=output:5",
    )
    .unwrap();
    let out = "in_port=LOCAL,packet=112233445566778899aabbcc0806,actions=table";
    ovs.ofctl(&["packet-out", BRIDGE, out]).unwrap();
    let sent = || Some(packets(&ovs, "table=0,in_port=LOCAL")).filter(|n| *n > 0);
    let (counted, _) = until("a packet", sent).await;

    let reconciler = start_paused(&ovs);
    let change = reconciler
        .put(
            "pod",
            plan(
                "table=0,priority=10,in_port=LOCAL,actions=drop
                 table=0,priority=11,ip,actions=output:2
                 table=0,priority=14,ip,actions=output:3",
            ),
        )
        .await
        .unwrap();
    assert_eq!(dump(&ovs).len(), 5, "nothing is sent while it is paused");
    reconciler.resume().await.unwrap();
    change.await.unwrap();
    let mut wanted = [
        "cookie=0x77, priority=13,ip actions=output:5",
        "cookie=0xa500000000000001, priority=10,in_port=LOCAL actions=drop",
        "cookie=0xa500000000000001, priority=11,ip actions=output:2",
        "cookie=0xa500000000000001, priority=14,ip actions=output:3",
        "cookie=0xa5ee000000000001, table=3, priority=3,ip actions=output:9",
    ];
    wanted.sort_unstable();
    assert_eq!(dump(&ovs), wanted);
    let stats = reconciler.stats();
    assert_eq!((stats.flows_added, stats.flows_changed, stats.flows_deleted), (1, 1, 1));
    assert_eq!(packets(&ovs, "table=0,in_port=LOCAL"), counted);
    // A changed flow goes on counting, too.
    let changed = plan("table=0,priority=10,in_port=LOCAL,actions=output:7");
    reconciler.put("pod", changed).await.unwrap().await.unwrap();
    assert_eq!((packets(&ovs, "table=0,in_port=LOCAL"), dump(&ovs).len()), (counted, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_flow_keeps_its_place_and_both_are_named() {
    let (_lab, ovs) = switch();
    ovs.add_flows(BRIDGE, "cookie=0x77,table=0,priority=10,ip,actions=output:5").unwrap();
    let reconciler = start(&ovs);
    reconciler.wait_synced().await.unwrap();
    let ours = plan(
        "table=0,priority=10,ip,actions=output:1
         table=0,priority=11,ip,actions=output:1",
    );
    let e = reconciler.put("pod web", ours.clone()).await.unwrap().await.unwrap_err();
    let ChangeError::Trouble(trouble) = &e else { panic!("{e}") };
    assert!(matches!(&**trouble, Trouble::Conflict { cookie: 0x77, .. }), "{e}");
    for part in ["pod web", "cookie=0xa500000000000001", "output:1", "0x77", "output:5"] {
        assert!(e.to_string().contains(part), "{e}");
    }
    assert_eq!(dump(&ovs).len(), 2);
    assert!(dump(&ovs).contains(&"cookie=0x77, priority=10,ip actions=output:5".to_owned()));
    assert_eq!(reconciler.status().troubles, 1);
    assert_eq!(reconciler.stats().conflicts, 1);

    // The same when the switch is read.
    reconciler.resync().await.unwrap();
    reconciler.settled().await.unwrap();
    assert_eq!(reconciler.troubles().await.unwrap().len(), 1);
    // The place is taken as soon as it is free.
    ovs.ofctl(&["del-flows", BRIDGE, "cookie=0x77/-1"]).unwrap();
    until("free place", || (reconciler.status().troubles == 0).then_some(())).await;
    assert!(
        dump(&ovs)
            .contains(&"cookie=0xa500000000000001, priority=10,ip actions=output:1".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_owner_does_not_block_others() {
    let (_lab, ovs) = switch();
    let reconciler = start(&ovs);
    let old = "table=0,priority=10,ip,actions=output:1";
    reconciler.put("bad", plan(old)).await.unwrap().await.unwrap();
    reconciler.pause().await.unwrap();
    let mut changes = Vec::new();
    for n in 0..50 {
        let flow = format!("table=1,priority={n},ip,actions=output:1");
        changes.push(reconciler.put(format!("good {n}"), plan(&flow)).await.unwrap());
    }
    let bad = plan(
        "table=0,priority=11,ip,actions=output:1
         table=0,priority=12,ip,actions=group:1500",
    );
    let refused = reconciler.put("bad", bad).await.unwrap();
    let mut more = Vec::new();
    for n in 0..8 {
        let flow = format!("table=2,priority={n},ip,actions=group:1500");
        more.push(reconciler.put(format!("bad {n}"), plan(&flow)).await.unwrap());
    }
    reconciler.resume().await.unwrap();
    for change in changes {
        change.await.unwrap();
    }
    let e = refused.await.unwrap_err();
    assert!(e.to_string().starts_with("the switch refused the flow of bad: cookie="), "{e}");
    assert!(e.to_string().contains("priority=12"), "{e}");
    for change in more {
        change.await.unwrap_err();
    }
    // What the bad owner had is still there.
    assert_eq!(dump(&ovs).len(), 51);
    assert!(
        dump(&ovs)
            .contains(&"cookie=0xa500000000000001, priority=10,ip actions=output:1".to_owned())
    );
    assert_eq!(reconciler.stats().refused, 9);

    let better = plan("table=0,priority=11,ip,actions=output:1");
    reconciler.put("bad", better).await.unwrap().await.unwrap();
    assert_eq!(dump(&ovs).len(), 51);
    assert_eq!(reconciler.troubles().await.unwrap().len(), 8);

    // A group that comes is enough for the others, once the switch is read.
    let mut group = Plan::default();
    group
        .groups
        .push("group_id=1500,type=all,bucket=bucket_id=0,actions=output:1".parse().unwrap());
    reconciler.put("group", group).await.unwrap().await.unwrap();
    reconciler.resync().await.unwrap();
    reconciler.settled().await.unwrap();
    assert_eq!(dump(&ovs).len(), 59);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_flow_goes_with_its_last_owner() {
    let (_lab, ovs) = switch();
    let reconciler = start(&ovs);
    let shared = "table=0,priority=10,ip,actions=output:1";
    let mine = "table=0,priority=11,ip,actions=output:1";
    reconciler.put("a", plan(shared)).await.unwrap().await.unwrap();
    reconciler.put("b", plan(&format!("{shared}\n{mine}"))).await.unwrap().await.unwrap();
    assert_eq!(reconciler.stats().flows_added, 2);
    let other = plan("table=0,priority=10,ip,actions=output:2");
    let e = reconciler.put("c", other.clone()).await.unwrap().await.unwrap_err();
    assert!(matches!(&e, ChangeError::Rejected(PutError::Clash { .. })), "{e}");
    for part in ["c wants cookie=", "output:2", "output:1"] {
        assert!(e.to_string().contains(part), "{e}");
    }
    reconciler.remove("a").await.unwrap().await.unwrap();
    assert_eq!(dump(&ovs).len(), 2);
    // From one owner to another without a gap, and changed by both at once.
    let swap = Transaction::new().put("d", other.clone()).put("b", other);
    reconciler.transaction(swap).await.unwrap().await.unwrap();
    assert_eq!(dump(&ovs), ["cookie=0xa500000000000001, priority=10,ip actions=output:2"]);
    assert_eq!((reconciler.stats().flows_changed, reconciler.stats().flows_deleted), (1, 1));
    let gone = Transaction::new().remove("b").remove("d");
    reconciler.transaction(gone).await.unwrap().await.unwrap();
    assert_eq!(dump(&ovs).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_not_be_ours_is_rejected_at_once() {
    let (_lab, ovs) = switch();
    let reconciler = start(&ovs);
    for (cookie, said) in [
        (
            "0x1",
            "web wants a flow whose cookie 0x1 is not of 0xa500000000000000/0xff00000000000000: cookie=0x1, ip actions=drop",
        ),
        ("0xa5ee000000000000", "web wants a flow whose cookie 0xa5ee000000000000 is not of"),
    ] {
        let bad = plan(&format!("cookie={cookie},ip,actions=drop"));
        let e = reconciler.put("web", bad).await.unwrap_err();
        assert!(e.to_string().starts_with(said), "{e}");
    }
    let mut bad = Plan::default();
    bad.groups.push("group_id=7,type=all,bucket=output:1".parse().unwrap());
    let e = reconciler.put("web", bad).await.unwrap_err();
    assert_eq!(e.to_string(), "web wants group 7, which is not in 1000..=1999");
}
