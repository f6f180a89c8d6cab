//! Brings what is compiled to a real switch, in the order that it needs.

use osier_compiler::{Compiler, Plan};
use osier_openflow::flow::FlowMod;
use osier_openflow::group::{BUCKET_ALL, GroupCommand, GroupMod};
use osier_openflow::message::{
    BundleFlags, ConfigFlags, Message, SwitchConfig, TlvCommand, TlvTableMod,
};
use osier_openflow::meter::MeterMod;
use osier_openflow::session::{Endpoint, Options, Session};
use osier_testbed::Ovs;

pub async fn program(ovs: &Ovs, bridge: &str, compiler: &Compiler) {
    let endpoint: Endpoint = format!("unix:{}", ovs.mgmt_socket(bridge).display()).parse().unwrap();
    let (session, _events) = Session::connect(&endpoint, Options::default()).await.unwrap();
    // No bundle takes options and meters.
    let (mut maps, mut first, mut groups, mut flows) = (vec![], vec![], vec![], vec![]);
    for compiled in compiler.all().unwrap() {
        let Plan { tlvs, meters, groups: some, flows: more } = compiled.plan;
        maps.extend(tlvs);
        first.extend(meters.into_iter().map(|m| Message::MeterMod(MeterMod::add(m))));
        let add = |group| GroupMod { command: GroupCommand::Add, group, bucket: BUCKET_ALL };
        groups.extend(some.into_iter().map(|g| Message::GroupMod(add(g))));
        flows.extend(more.into_iter().map(|f| Message::FlowMod(FlowMod::add(f))));
    }
    if !maps.is_empty() {
        first.push(Message::TlvTableMod(TlvTableMod { command: TlvCommand::Add, maps }));
    }
    first.push(Message::SetConfig(SwitchConfig {
        flags: ConfigFlags::FRAG_NX_MATCH,
        miss_send_len: 0,
    }));
    session.batch(first).await.unwrap();
    groups.extend(flows);
    session.bundle(BundleFlags::ATOMIC | BundleFlags::ORDERED, &groups).await.unwrap();
}
