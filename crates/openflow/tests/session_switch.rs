//! Sessions with a real `ovs-vswitchd`; what it did is asked of `ovs-ofctl`.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod session_pki;

use osier_openflow::action::Action;
use osier_openflow::field::Field;
use osier_openflow::flow::{Flow, FlowFlags, FlowMod};
use osier_openflow::instruction::Instructions;
use osier_openflow::matching::Match;
use osier_openflow::message::{
    BundleFlags, ConfigFlags, FlowMonitor, FlowUpdate, Message, MultipartRequest, PacketOut,
    ReplyBody, SwitchConfig,
};
use osier_openflow::port_no::PortNo;
use osier_openflow::session::{
    Backoff, BatchError, BundleError, Dialer, Endpoint, Events, Listener, Options, RequestError,
    Session, Tls,
};
use osier_testbed::{FailMode, Lab, Ovs};
use session_pki::Pki;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::timeout;

const BRIDGE: &str = "br-int";
const ORDERED: BundleFlags = BundleFlags::ATOMIC.union(BundleFlags::ORDERED);

fn switch() -> (Lab, Ovs) {
    let lab = Lab::new().unwrap();
    let ovs = Ovs::start(&lab.netns("ovs").unwrap(), "ovs").unwrap();
    ovs.add_bridge(BRIDGE, FailMode::Secure).unwrap();
    (lab, ovs)
}

async fn connect(ovs: &Ovs, options: Options) -> (Session, Events) {
    Session::connect(&Endpoint::Unix(ovs.mgmt_socket(BRIDGE)), options).await.unwrap()
}

fn to_host(n: u32) -> FlowMod {
    let matching = Match::builder()
        .eq(Field::ETH_TYPE, 0x0800_u16)
        .eq(Field::IPV4_DST, Ipv4Addr::from_bits(0x0a00_0000 + n))
        .build()
        .unwrap();
    let actions = vec![Action::Output { port: PortNo(1 + n % 100), max_len: 0 }];
    let instructions = Instructions::from(actions);
    FlowMod::add(Flow { table: 7, matching, cookie: n.into(), instructions, ..Flow::default() })
}

/// One that every switch refuses: there is no such group.
fn to_nowhere() -> FlowMod {
    let actions = vec![Action::Group(4_711)];
    let instructions = Instructions::from(actions);
    FlowMod::add(Flow { table: 7, instructions, ..Flow::default() })
}

fn dump(ovs: &Ovs) -> Vec<String> {
    let text = ovs.ofctl(&["--no-stats", "dump-flows", BRIDGE]).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// Reads all flows of the switch, in any order.
async fn read_flows(session: &Session) -> Vec<Flow> {
    let mut flows = Vec::new();
    for part in session.collect(MultipartRequest::all_flows()).await.unwrap() {
        let ReplyBody::FlowDesc(descs) = part.body else { panic!("{:?}", part.body) };
        flows.extend(descs.into_iter().map(|desc| desc.flow));
    }
    flows
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_get_their_own_answers() {
    let (_lab, ovs) = switch();
    let (session, _events) = connect(&ovs, Options::default()).await;
    let hello = Message::EchoRequest(b"hello".to_vec());
    let (features, config, echo, barrier) = tokio::join!(
        session.request(&Message::FeaturesRequest),
        session.request(&Message::GetConfigRequest),
        session.request(&hello),
        session.barrier(),
    );
    let Message::FeaturesReply(features) = features.unwrap() else { panic!() };
    let id = ovs.vsctl(&["get", "bridge", BRIDGE, "datapath_id"]).unwrap();
    assert_eq!(format!("\"{:016x}\"", features.datapath_id), id.trim());
    assert!(matches!(config.unwrap(), Message::GetConfigReply(_)));
    assert_eq!(echo.unwrap(), Message::EchoReply(b"hello".to_vec()));
    barrier.unwrap();

    let not_a_request = Message::FlowMod(to_host(1));
    let e = session.request(&not_a_request).await.unwrap_err();
    assert_eq!(e.to_string(), "a flow-mod has no answer");
    let unknown = MultipartRequest::Unknown { kind: 0x1234, body: Vec::new() };
    let e = session.collect(unknown).await.unwrap_err();
    let RequestError::Refused { request, error } = &e else { panic!("{e:?}") };
    assert_eq!((*request, error.code.name()), ("multipart request", Some("OFPBRC_BAD_STAT")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_done_but_for_what_is_refused() {
    let (_lab, ovs) = switch();
    let (session, _events) = connect(&ovs, Options::default()).await;
    session.batch([to_host(1)]).await.unwrap();
    assert_eq!(dump(&ovs), ["cookie=0x1, table=7, ip,nw_dst=10.0.0.1 actions=output:2"]);

    let mut messages: Vec<_> = (1..=20).map(to_host).collect();
    messages[3] = to_nowhere();
    messages[17] = to_nowhere();
    let e = session.batch(&messages).await.unwrap_err();
    let BatchError::Refused(refused) = &e else { panic!("{e:?}") };
    let found: Vec<_> = refused.iter().map(|r| (r.index, r.error.code.name())).collect();
    let name = Some("OFPBAC_BAD_OUT_GROUP");
    assert_eq!(found, [(3, name), (17, name)]);
    assert_eq!(dump(&ovs).len(), 18);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_of_ten_thousand_flows_reads_back_equal() {
    let (_lab, ovs) = switch();
    let (session, _events) = connect(&ovs, Options::default()).await;
    let wanted: Vec<_> = (0..10_000).map(to_host).collect();
    session.bundle(ORDERED, &wanted).await.unwrap();
    assert_eq!(dump(&ovs).len(), 10_000);

    let mut found = read_flows(&session).await;
    found.sort_by_key(|flow| flow.cookie);
    assert_eq!(found.len(), wanted.len());
    assert!(found.iter().eq(wanted.iter().map(|flow_mod| &flow_mod.flow)));

    // The same through a buffer of two parts, in a session of its own.
    let options = Options { receive_buffer: 128 * 1024, ..Options::default() };
    let (narrow, _events) = connect(&ovs, options).await;
    let mut answer = narrow.multipart(MultipartRequest::all_flows()).await.unwrap();
    let (mut flows, mut parts) = (0, 0);
    while let Some(part) = answer.next().await {
        let ReplyBody::FlowDesc(descs) = part.unwrap().body else { panic!() };
        (flows, parts) = (flows + descs.len(), parts + 1);
        tokio::task::yield_now().await;
    }
    assert_eq!(flows, 10_000);
    assert!(parts > 10, "{parts} parts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_with_one_bad_message_does_nothing_and_names_it() {
    let (_lab, ovs) = switch();
    let (session, _events) = connect(&ovs, Options::default()).await;
    session.bundle(ORDERED, [to_host(0)]).await.unwrap();

    // Back to an earlier table: refused when it is added.
    let mut backwards = to_host(77);
    backwards.flow.instructions = Instructions::goto(3);
    let cases =
        [(backwards, "OFPBIC_BAD_TABLE_ID", 1_234), (to_nowhere(), "OFPBAC_BAD_OUT_GROUP", 4_321)];
    for (bad, name, index) in cases {
        let mut messages: Vec<_> = (1..=5_000).map(to_host).collect();
        messages[index] = bad;
        let e = session.bundle(ORDERED, &messages).await.unwrap_err();
        let BundleError::Message(refusal) = &e else { panic!("{e:?}") };
        assert_eq!((refusal.index, refusal.error.code.name()), (index, Some(name)));
        assert!(!e.is_in_doubt());
        assert_eq!(dump(&ovs).len(), 1);
    }
    // The session is as good as before, and so are bundles.
    session.bundle(ORDERED, (1..=10).map(to_host)).await.unwrap();
    assert_eq!(dump(&ovs).len(), 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_switch_tells_unasked_arrives() {
    let (_lab, ovs) = switch();
    let (session, mut events) = connect(&ovs, Options::default()).await;
    // Without this, a switch tells nothing to a session that it did not dial.
    let config = SwitchConfig { flags: ConfigFlags::empty(), miss_send_len: 128 };
    session.send(&Message::SetConfig(config)).await.unwrap();

    let to_us = vec![Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff }];
    let packet = PacketOut::new(to_us, vec![0x55; 64]);
    session.send(&Message::PacketOut(packet)).await.unwrap();
    let event = events.recv().await.unwrap();
    let Message::PacketIn(packet) = event.message else { panic!("{event:?}") };
    assert_eq!(packet.packet, [0x55; 64]);

    let mut told = to_host(5);
    told.flow.flags = FlowFlags::SEND_FLOW_REM;
    let delete = FlowMod::delete_strict(7, told.flow.priority, told.flow.matching.clone());
    session.batch([told, delete]).await.unwrap();
    let event = events.recv().await.unwrap();
    assert!(matches!(event.message, Message::FlowRemoved(_)), "{event:?}");

    ovs.vsctl(&["add-port", BRIDGE, "p1", "--", "set", "interface", "p1", "type=internal"])
        .unwrap();
    let event = events.recv().await.unwrap();
    assert!(matches!(event.message, Message::PortStatus(_)), "{event:?}");

    let monitor = FlowMonitor { id: 1, ..FlowMonitor::default() };
    let (other, mut other_events) = connect(&ovs, Options::default()).await;
    other.collect(MultipartRequest::FlowMonitor(vec![monitor])).await.unwrap();
    session.batch([to_host(6)]).await.unwrap();
    let event = other_events.recv().await.unwrap();
    let Message::MultipartReply(reply) = event.message else { panic!("{event:?}") };
    let ReplyBody::FlowMonitor(updates) = reply.body else { panic!("{reply:?}") };
    assert!(matches!(&updates[..], [FlowUpdate::Added(flow)] if flow.cookie == 6), "{updates:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_switch_ends_requests_with_an_error() {
    let (_lab, mut ovs) = switch();
    let (session, _events) = connect(&ovs, Options::default()).await;
    session.barrier().await.unwrap();
    ovs.pause_vswitchd().unwrap();
    let asked: Vec<_> = (0..10)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.request(&Message::FeaturesRequest).await })
        })
        .collect();
    let bundle = tokio::spawn({
        let session = session.clone();
        async move { session.bundle(ORDERED, (0..1_000).map(to_host)).await }
    });
    ovs.kill_vswitchd();
    for asked in asked {
        let e = asked.await.unwrap().unwrap_err();
        assert!(matches!(e, RequestError::Session(_)), "{e:?}");
    }
    let e = bundle.await.unwrap().unwrap_err();
    assert!(matches!(e, BundleError::Prepare(RequestError::Session(_))), "{e:?}");
    session.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialer_comes_back_when_the_switch_does() {
    let (_lab, mut ovs) = switch();
    let endpoint = Endpoint::Unix(ovs.mgmt_socket(BRIDGE));
    let quick = Backoff { first: Duration::from_millis(5), most: Duration::from_millis(50) };
    let mut dialer = Dialer::new(endpoint, Options::default(), quick);
    let (first, _events) = dialer.next().await;
    first.barrier().await.unwrap();
    ovs.kill_vswitchd();
    // Nobody is there: it goes on trying.
    let none = timeout(Duration::from_millis(300), dialer.next()).await;
    assert!(none.is_err() && dialer.last_error().is_some());
    ovs.start_vswitchd().unwrap();
    let (second, _events) = timeout(Duration::from_secs(10), dialer.next()).await.unwrap();
    second.barrier().await.unwrap();
    assert!(first.close_reason().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_dials_in_over_tcp() {
    let (_lab, ovs) = switch();
    let socket = ovs.netns().tcp_listen(([127, 0, 0, 1], 0).into()).unwrap();
    let mut listener = Listener::from_std(socket, Options::default()).unwrap();
    let port = listener.local_addr().unwrap().port();
    ovs.vsctl(&["set-controller", BRIDGE, &format!("tcp:127.0.0.1:{port}")]).unwrap();
    let accepted = timeout(Duration::from_secs(20), listener.accept()).await.unwrap().unwrap();
    assert!(accepted.session.peer().starts_with("tcp:127.0.0.1:"));
    accepted.session.bundle(ORDERED, [to_host(1)]).await.unwrap();
    assert_eq!(dump(&ovs).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_dials_in_over_tls() {
    let (lab, ovs) = switch();
    let pki = Pki::new(lab.dir().join("pki"));
    let files = pki.issue("controller");
    let tls = Tls::load(&files).unwrap();
    let options = Options { tls: Some(tls), ..Options::default() };
    let socket = ovs.netns().tcp_listen(([127, 0, 0, 1], 0).into()).unwrap();
    let mut listener = Listener::from_std(socket, options).unwrap();
    let port = listener.local_addr().unwrap().port();
    let theirs = pki.issue("switch");
    let [key, certificate, ca] = [theirs.private_key, theirs.certificate, theirs.ca_certificate]
        .map(|path| path.to_str().unwrap().to_owned());
    ovs.vsctl(&["set-ssl", &key, &certificate, &ca]).unwrap();
    ovs.vsctl(&["set-controller", BRIDGE, &format!("ssl:127.0.0.1:{port}")]).unwrap();
    let accepted = timeout(Duration::from_secs(20), listener.accept()).await.unwrap().unwrap();
    accepted.session.bundle(ORDERED, (0..2_000).map(to_host)).await.unwrap();
    assert_eq!(read_flows(&accepted.session).await.len(), 2_000);
    assert_eq!(dump(&ovs).len(), 2_000);
}
