//! What others do to our part of a real switch is put right, well within a second.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod flows_lab;

use flows_lab::{BRIDGE, dump, packets, plan, start, switch, until};
use osier_openflow::message::TlvMap;
use osier_southbound::flows::{FlowReconciler, Plan};
use osier_testbed::Ovs;
use std::time::Duration;

/// The time in which drift must be gone.
const SOON: Duration = Duration::from_secs(1);

fn wanted() -> Plan {
    let mut plan = plan(
        "table=0,priority=10,ip,actions=output:1
         table=0,priority=11,ip,actions=group:1001
         table=0,priority=12,ip,actions=meter:101,output:1
         table=0,priority=13,ip,hard_timeout=600,actions=output:1",
    );
    let group = "group_id=1001,type=all,bucket=bucket_id=0,actions=output:1";
    plan.groups.push(group.parse().unwrap());
    plan.meters.push("meter=101,kbps,bands=type=drop rate=100".parse().unwrap());
    plan.tlvs.push(TlvMap { class: 0x102, kind: 1, len: 4, index: 1 });
    plan
}

/// All of our part that `ovs-ofctl` shows, and the others'.
fn picture(ovs: &Ovs) -> Vec<String> {
    let mut all = dump(ovs);
    for what in ["dump-groups", "dump-meters", "dump-tlv-map"] {
        let text = ovs.ofctl(&[what, BRIDGE]).unwrap();
        all.extend(text.lines().skip(1).map(|line| line.trim().to_owned()));
    }
    all
}

async fn repaired(ovs: &Ovs, before: &[String], what: &str) {
    let mut now = Vec::new();
    let ((), took) = until(what, || {
        now = picture(ovs);
        (now == before).then_some(())
    })
    .await;
    assert!(took < SOON, "{what} took {took:?}");
    eprintln!("{what}: {took:?}");
}

async fn settled(reconciler: &FlowReconciler, plan: Plan) {
    reconciler.put("all", plan).await.unwrap().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_repaired_and_counted() {
    let (_lab, ovs) = switch();
    ovs.add_flows(BRIDGE, "cookie=0x77,table=5,priority=1,actions=drop").unwrap();
    let reconciler = start(&ovs);
    settled(&reconciler, wanted()).await;
    let before = picture(&ovs);
    let mut drift = reconciler.stats().drift_repaired;
    assert_eq!(drift, 0, "own changes are none");
    let mine = "cookie=0xa500000000000001/-1";
    for (args, least) in [
        (vec!["del-flows", BRIDGE, mine], 4),
        (vec!["--strict", "del-flows", BRIDGE, "table=0,priority=11,ip"], 1),
        (vec!["mod-flows", BRIDGE, "table=0,ip,actions=drop"], 4),
        (vec!["add-flow", BRIDGE, "cookie=0x77,table=0,priority=10,ip,actions=output:7"], 1),
        (
            vec![
                "add-flow",
                BRIDGE,
                "cookie=0xa500000000000009,table=9,priority=10,ip,actions=drop",
            ],
            1,
        ),
        (vec!["del-groups", BRIDGE, "group_id=1001"], 2),
        (
            vec!["mod-group", BRIDGE, "group_id=1001,type=all,bucket=bucket_id=3,actions=output:4"],
            1,
        ),
        (
            vec!["add-group", BRIDGE, "group_id=1009,type=all,bucket=bucket_id=3,actions=output:4"],
            1,
        ),
        (vec!["del-groups", BRIDGE], 2),
        (vec!["del-meters", BRIDGE, "meter=101"], 2),
        (vec!["mod-meter", BRIDGE, "meter=101,kbps,band=type=drop,rate=7"], 1),
        (vec!["del-tlv-map", BRIDGE], 1),
    ] {
        ovs.ofctl(&args).unwrap();
        let repairs = || reconciler.stats().drift_repaired;
        until("notice of drift", || (repairs() >= drift + least).then_some(())).await;
        repaired(&ovs, &before, &args.join(" ")).await;
        drift = repairs();
    }
    // Others' changes of their own are none of ours.
    ovs.add_flows(BRIDGE, "cookie=0x77,table=5,priority=2,actions=drop").unwrap();
    ovs.ofctl(&["--strict", "del-flows", BRIDGE, "table=5,priority=2"]).unwrap();
    reconciler.settled().await.unwrap();
    assert_eq!(reconciler.stats().drift_repaired, drift);
    assert_eq!(reconciler.stats().resyncs, 1, "nothing was read as a whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_want_one_place_do_not_fight_forever() {
    let (_lab, ovs) = switch();
    let reconciler = start(&ovs);
    settled(&reconciler, plan("table=0,priority=10,ip,actions=output:1")).await;
    let theirs = "cookie=0x77,table=0,priority=10,ip,actions=output:7";
    let mut rounds = 0;
    while reconciler.status().troubles == 0 {
        ovs.ofctl(&["add-flow", BRIDGE, theirs]).unwrap();
        until("an answer", || {
            let given_up = reconciler.status().troubles > 0;
            (given_up || dump(&ovs)[0].contains("output:1")).then_some(())
        })
        .await;
        rounds += 1;
        assert!(rounds < 20);
    }
    assert!(rounds > 2, "{rounds}");
    assert_eq!(dump(&ovs), ["cookie=0x77, priority=10,ip actions=output:7"]);
    let troubles = reconciler.troubles().await.unwrap();
    assert!(troubles[0].to_string().starts_with("all wants cookie="), "{}", troubles[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_that_end_by_themselves_are_no_drift() {
    let (_lab, ovs) = switch();
    let reconciler = start(&ovs);
    let short = "table=0,priority=10,ip,hard_timeout=1,actions=output:1";
    settled(&reconciler, plan(short)).await;
    ovs.add_flows(BRIDGE, "cookie=0xa5ee000000000001,table=3,hard_timeout=1,actions=drop").unwrap();
    until("empty switch", || dump(&ovs).is_empty().then_some(())).await;
    reconciler.settled().await.unwrap();
    assert_eq!(dump(&ovs), [""; 0]);
    assert_eq!(reconciler.stats().drift_repaired, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_foreign_flows_leaves_ours_in_order() {
    let (_lab, ovs) = switch();
    let reconciler = start(&ovs);
    settled(&reconciler, plan("table=0,priority=10,ip,actions=output:1")).await;
    let flood = (0..30_000).map(|n| format!("cookie=0x77,table=9,tcp,reg3={n},actions=drop\n"));
    ovs.add_flows(BRIDGE, &flood.collect::<String>()).unwrap();
    ovs.ofctl(&["del-flows", BRIDGE, "table=0"]).unwrap();
    ovs.ofctl(&["del-flows", BRIDGE, "table=9"]).unwrap();
    let ours = ["cookie=0xa500000000000001, priority=10,ip actions=output:1"];
    until("our flow", || (dump(&ovs) == ours).then_some(())).await;
    // The place of one of theirs is free again.
    let late = plan("table=9,priority=32768,tcp,reg3=77,actions=output:1");
    reconciler.put("late", late).await.unwrap().await.unwrap();
    assert_eq!(dump(&ovs).len(), 2);
    eprintln!("{:?}", reconciler.stats());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_paused_nothing_is_sent_and_counters_live_on() {
    let (_lab, ovs) = switch();
    let reconciler = start(&ovs);
    let quiet = "table=0,priority=9,in_port=LOCAL,actions=drop";
    let both = format!("table=0,priority=10,tcp,actions=output:1\n{quiet}");
    settled(&reconciler, plan(&both)).await;
    let out = "in_port=LOCAL,packet=112233445566778899aabbcc0806,actions=table";
    ovs.ofctl(&["packet-out", BRIDGE, out]).unwrap();
    until("a packet", || (packets(&ovs, "table=0,in_port=LOCAL") == 1).then_some(())).await;

    reconciler.pause().await.unwrap();
    assert!(reconciler.status().paused && !reconciler.status().in_sync);
    ovs.ofctl(&["--strict", "del-flows", BRIDGE, "table=0,priority=10,tcp"]).unwrap();
    let change = reconciler.put("more", plan("table=1,actions=drop")).await.unwrap();
    // It has seen both, and whatever it wanted to do by now, it has done.
    until("notice", || (reconciler.stats().drift_repaired == 1).then_some(())).await;
    reconciler.troubles().await.unwrap();
    assert_eq!(dump(&ovs).len(), 1);
    reconciler.resume().await.unwrap();
    change.await.unwrap();
    assert_eq!(dump(&ovs).len(), 3);
    assert_eq!(packets(&ovs, "table=0,in_port=LOCAL"), 1, "it was not touched");
}
