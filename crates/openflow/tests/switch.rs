//! A real switch reads back what we wrote, equal in canonical form; and its own tools agree.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

mod generator;

use generator::{Rng, Scope};
use osier_openflow::flow::{Flow, FlowMod};
use osier_openflow::group::{ALL_GROUPS, BUCKET_ALL, Group, GroupCommand, GroupMod};
use osier_openflow::message::{
    BundleFlags, FlowRequest, Message, MultipartRequest, ReplyBody, TlvCommand, TlvMap, TlvTableMod,
};
use osier_openflow::meter::{ALL_METERS, Meter, MeterCommand, MeterMod};
use osier_openflow::session::{Endpoint, Options, Session};
use osier_openflow::text::TableNames;
use osier_testbed::{FailMode, Lab, Ovs};
use std::collections::HashMap;

const SEED: u64 = 0x5e1f_5a3e;
const FLOWS: usize = 12_000;
/// Flows name groups and meters up to this number.
const NUMBERED: u32 = 1_000;
const TUN_METADATA: &[(u8, usize)] = &[(0, 4), (1, 8), (5, 16), (63, 32)];
const SCOPE: Scope = Scope { tun_metadata: TUN_METADATA, unprinted: false };

fn start() -> (Lab, Ovs) {
    let lab = Lab::new().unwrap();
    let netns = lab.netns("switch").unwrap();
    let ovs = Ovs::start(&netns, "ovs").unwrap();
    ovs.add_bridge("br0", FailMode::Secure).unwrap();
    (lab, ovs)
}

async fn connect(ovs: &Ovs) -> Session {
    let endpoint: Endpoint = format!("unix:{}", ovs.mgmt_socket("br0").display()).parse().unwrap();
    Session::connect(&endpoint, Options::default()).await.unwrap().0
}

/// Options of the sizes that the generator uses.
async fn map_tunnel_options(session: &Session) {
    let maps = TUN_METADATA
        .iter()
        .map(|&(index, len)| TlvMap {
            class: 0xfff0,
            kind: index,
            len: u8::try_from(len).unwrap(),
            index: index.into(),
        })
        .collect();
    let add = Message::TlvTableMod(TlvTableMod { command: TlvCommand::Add, maps });
    session.batch([add]).await.unwrap();
}

async fn groups_of(session: &Session) -> Vec<Group> {
    let parts = session.collect(MultipartRequest::GroupDesc(ALL_GROUPS)).await.unwrap();
    let of = |body| match body {
        ReplyBody::GroupDesc(groups) => groups,
        other => panic!("{other:?}"),
    };
    parts.into_iter().flat_map(|part| of(part.body)).collect()
}

async fn meters_of(session: &Session) -> Vec<Meter> {
    let parts = session.collect(MultipartRequest::MeterDesc(ALL_METERS)).await.unwrap();
    let of = |body| match body {
        ReplyBody::MeterDesc(meters) => meters,
        other => panic!("{other:?}"),
    };
    parts.into_iter().flat_map(|part| of(part.body)).collect()
}

async fn flows_of(session: &Session) -> Vec<Flow> {
    let parts = session.collect(MultipartRequest::FlowDesc(FlowRequest::default())).await.unwrap();
    let of = |body| match body {
        ReplyBody::FlowDesc(flows) => flows,
        other => panic!("{other:?}"),
    };
    parts.into_iter().flat_map(|part| of(part.body)).map(|desc| desc.flow).collect()
}

/// Writes meters and groups of all numbers that flows may name, and reads them back.
async fn write_meters_and_groups(session: &Session, rng: &mut Rng) {
    let meters: Vec<Meter> = (1..=NUMBERED)
        .map(|id| {
            let mut meter = generator::meter(rng, id);
            // The userspace datapath has one band, and no remarking.
            meter.bands.truncate(1);
            meter.bands[0].kind = osier_openflow::meter::BandKind::Drop;
            meter
        })
        .collect();
    let add = |meter: &Meter| {
        Message::MeterMod(MeterMod { command: MeterCommand::Add, meter: meter.clone() })
    };
    session.batch(meters.iter().map(add)).await.unwrap();
    let mut back = meters_of(session).await;
    back.sort_by_key(|m| m.id);
    assert_eq!(back, meters);

    let empty = (1..=NUMBERED).map(|id| Group { id, ..Group::default() });
    let change =
        |command, group| Message::GroupMod(GroupMod { command, group, bucket: BUCKET_ALL });
    let ordered = BundleFlags::ATOMIC | BundleFlags::ORDERED;
    session.bundle(ordered, empty.map(|g| change(GroupCommand::Add, g))).await.unwrap();
    // Some of each kind; those that name other groups could form a loop.
    let groups: Vec<Group> = (1..=NUMBERED)
        .map(|id| generator::group(rng, id, SCOPE))
        .filter(|group| !group.to_string().contains("group:"))
        .collect();
    let changes = groups.iter().map(|g| change(GroupCommand::Modify, g.clone()));
    session.bundle(ordered, changes).await.unwrap();
    let back: HashMap<u32, Group> =
        groups_of(session).await.into_iter().map(|g| (g.id, g)).collect();
    assert_eq!(back.len(), usize::try_from(NUMBERED).unwrap());
    for group in &groups {
        assert_eq!(back[&group.id], *group, "ours {group}, theirs {}", back[&group.id]);
    }
}

#[tokio::test]
async fn a_switch_reads_back_what_we_wrote() {
    let (_lab, ovs) = start();
    let session = connect(&ovs).await;
    let mut rng = Rng(SEED);
    map_tunnel_options(&session).await;
    write_meters_and_groups(&session, &mut rng).await;

    let mut wanted = HashMap::new();
    while wanted.len() < FLOWS {
        let flow = generator::flow(&mut rng, SCOPE);
        wanted.insert((flow.table, flow.priority, flow.matching.clone()), flow);
    }
    let adds = wanted.values().map(|flow| Message::FlowMod(FlowMod::add(flow.clone())));
    let flags = BundleFlags::ATOMIC | BundleFlags::ORDERED;
    if let Err(e) = session.bundle(flags, adds).await {
        panic!("{e:?}");
    }

    let back = flows_of(&session).await;
    assert_eq!(back.len(), FLOWS);
    let mut differences = Vec::new();
    for flow in back {
        match wanted.get(&(flow.table, flow.priority, flow.matching.clone())) {
            Some(ours) if *ours == flow => {}
            Some(ours) => differences.push(format!("  ours {ours}\ntheirs {flow}")),
            None => differences.push(format!("not ours: {flow}")),
        }
    }
    let shown = differences.iter().take(10).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(differences.is_empty(), "{} of {FLOWS} differ:\n{shown}", differences.len());

    // The foreign tool sees the same lines.
    let dump = ovs.ofctl(&["--no-names", "--no-stats", "dump-flows", "br0"]).unwrap();
    let mut theirs: Vec<&str> = dump.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let mut ours: Vec<String> = wanted.values().map(ToString::to_string).collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    let different: Vec<_> = ours.iter().zip(&theirs).filter(|(o, t)| o != *t).take(5).collect();
    assert!(different.is_empty() && ours.len() == theirs.len(), "{different:#?}");
}

/// Names that the bridge's own tables have, in `ovs-ofctl`'s text and in ours.
#[tokio::test]
async fn tables_are_called_by_name() {
    let (_lab, ovs) = start();
    let names: TableNames =
        [(0, "classifier"), (4, "routing"), (220, "egress")].into_iter().collect();
    for (table, name) in [(0, "classifier"), (4, "routing"), (220, "egress")] {
        let id = format!("flow_tables:{table}=@t");
        let set = ["--", "--id=@t", "create", "Flow_Table", &format!("name={name}")];
        ovs.vsctl(&[&["set", "bridge", "br0", &id][..], &set].concat()).unwrap();
    }
    let text = [
        "table=classifier, priority=7,ip actions=resubmit(,egress),goto_table:routing",
        "cookie=0x9, table=routing, priority=1 actions=learn(table=egress,NXM_OF_ETH_SRC[])",
        "table=egress, priority=3,tcp actions=ct(commit,table=routing,zone=7)",
    ];
    let session = connect(&ovs).await;
    let flows = text.map(|line| Flow::parse(line, &names).unwrap());
    session.batch(flows.iter().cloned().map(FlowMod::add)).await.unwrap();

    let shown = |flow: &Flow| names.show(flow).to_string();
    let mut back: Vec<String> = flows_of(&session).await.iter().map(shown).collect();
    let dump = ovs.ofctl(&["--names", "--no-stats", "dump-flows", "br0"]).unwrap();
    let mut theirs: Vec<&str> = dump.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    back.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(
        theirs,
        text.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    );
    assert_eq!(back, theirs);
}
