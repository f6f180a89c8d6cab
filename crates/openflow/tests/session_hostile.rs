//! Sessions with peers that lie, flood, stall or fall silent: the session ends with an error that
//! names it, or the one request does, and memory stays bounded. Peers here are bytes over a pipe in
//! memory; time is paused where it matters.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use osier_openflow::action::Action;
use osier_openflow::flow::{Flow, FlowMod};
use osier_openflow::message::{BundleFlags, ErrorCode, Message, MultipartRequest, ReplyBody};
use osier_openflow::session::{
    BatchError, BundleError, Events, Options, RequestError, Session, SessionError,
};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, timeout};

const HELLO: [u8; 16] = [6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 1 << 6];
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const FEATURES_REPLY: u8 = 6;
const PACKET_IN: u8 = 10;
const PORT_STATUS: u8 = 12;
const FLOW_MOD: u8 = 14;
const MULTIPART_REQUEST: u8 = 18;
const MULTIPART_REPLY: u8 = 19;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;
const BUNDLE_CONTROL: u8 = 33;
const BUNDLE_ADD: u8 = 34;

/// A message as it comes.
struct Got {
    kind: u8,
    xid: u32,
    bytes: Vec<u8>,
}

/// The other end.
struct Peer(DuplexStream);

impl Peer {
    async fn send(&mut self, kind: u8, xid: u32, body: &[u8]) {
        self.raw(&message(kind, xid, body)).await;
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    async fn next(&mut self) -> Got {
        let mut bytes = vec![0; 8];
        self.0.read_exact(&mut bytes).await.unwrap();
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        bytes.resize(length, 0);
        self.0.read_exact(&mut bytes[8..]).await.unwrap();
        let xid = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        Got { kind: bytes[1], xid, bytes }
    }

    async fn expect(&mut self, kind: u8) -> Got {
        let got = self.next().await;
        assert_eq!(got.kind, kind);
        got
    }
}

fn message(kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).unwrap();
    [&[6, kind][..], &length.to_be_bytes(), &xid.to_be_bytes(), body].concat()
}

/// A session and the end of a pipe of `pipe` bytes that plays its switch.
async fn session(pipe: usize, options: Options) -> (Session, Events, Peer) {
    let (ours, theirs) = tokio::io::duplex(pipe);
    let mut peer = Peer(theirs);
    peer.raw(&HELLO).await;
    let (session, events) = Session::over(ours, "test", options).await.unwrap();
    peer.expect(0).await;
    (session, events, peer)
}

/// What a session says to a peer whose first bytes are these.
async fn greeted_with(bytes: &[u8]) -> SessionError {
    let (ours, theirs) = tokio::io::duplex(4096);
    let mut peer = Peer(theirs);
    peer.raw(bytes).await;
    peer.0.shutdown().await.unwrap();
    Session::over(ours, "test", Options::default()).await.unwrap_err()
}

fn flow(n: u64) -> FlowMod {
    FlowMod::add(Flow { cookie: n, ..Flow::default() })
}

/// An error and its causes.
fn texts(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts
}

#[tokio::test]
async fn what_is_not_openflow_is_no_session() {
    let e = greeted_with(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let said =
        "the peer closed the connection after 27 bytes, the last 27 of them a part of a message";
    assert_eq!(e.to_string(), said);

    let e = greeted_with(&[6, 0, 0, 3, 0, 0, 0, 1]).await;
    let said = ["the peer sent what is no message", "the header at byte 0 of the stream is wrong"];
    assert_eq!(texts(&e)[..2], said);

    let e = greeted_with(&message(FEATURES_REPLY, 1, &[0; 24])).await;
    assert_eq!(e.to_string(), "features reply instead of hello");

    // A hello whose element is longer than itself.
    let e = greeted_with(&[6, 0, 0, 12, 0, 0, 0, 1, 0, 1, 0, 200]).await;
    assert_eq!(e.to_string(), "the peer sent a malformed hello (xid 0x1) at byte 0 of the stream");
}

#[tokio::test]
async fn a_peer_of_other_versions_is_told_and_named() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let mut peer = Peer(theirs);
    // OpenFlow 1.0 and 1.3.
    peer.raw(&[4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0b1_0010]).await;
    let e = Session::over(ours, "test", Options::default()).await.unwrap_err();
    assert_eq!(e.to_string(), "the peer speaks OpenFlow 1.0, 1.3, we speak OpenFlow 1.5 only");
    peer.expect(0).await;
    let refusal = peer.expect(ERROR).await;
    let (_, Message::Error(refusal)) = Message::decode(&refusal.bytes).unwrap() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::HELLO_INCOMPATIBLE);
}

#[tokio::test]
async fn a_refused_hello_is_told() {
    let e = greeted_with(&message(ERROR, 1, b"\0\0\0\0no 1.5 here")).await;
    let said =
        ["the peer refused our hello", "OFPHFC_INCOMPATIBLE: no common version (no 1.5 here)"];
    assert_eq!(texts(&e), said);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_no_session() {
    let (ours, _theirs) = tokio::io::duplex(4096);
    let e = Session::over(ours, "test", Options::default()).await.unwrap_err();
    assert_eq!(e.to_string(), "no hello within 10s");
}

/// Each of these, sent by a peer that was fine before, ends the session.
#[tokio::test]
async fn lies_end_the_session_and_say_where() {
    let cases: [(Vec<u8>, &str); 6] = [
        (
            vec![1, 0, 0, 8, 0, 0, 0, 9],
            "version 0x01 at byte 16 of the stream, 0x06 was agreed upon",
        ),
        (vec![6, 3, 0, 7, 0, 0, 0, 9], "the header at byte 16 of the stream is wrong"),
        (
            message(99, 7, &[]),
            "the peer sent a message of an unknown type (type 99, xid 0x7) at byte 16 of the stream",
        ),
        (
            message(FLOW_MOD, 7, &[0; 48]),
            "the peer sent a flow-mod (type 14, xid 0x7) at byte 16 of the stream",
        ),
        (
            message(PORT_STATUS, 7, &[0; 9]),
            "the peer sent a malformed port-status (xid 0x7) at byte 16 of the stream",
        ),
        (
            message(ERROR, 7, &[0; 3]),
            "the peer sent a malformed error (xid 0x7) at byte 16 of the stream",
        ),
    ];
    for (lie, said) in cases {
        let (session, _events, mut peer) = session(4096, Options::default()).await;
        peer.raw(&lie).await;
        let reason = session.closed().await;
        assert!(texts(&*reason).iter().any(|text| text == said), "{:?}", texts(&*reason));
        // The peer sees the end; asking more fails with the same reason.
        assert_eq!(peer.0.read(&mut [0; 1]).await.unwrap(), 0);
        let e = session.barrier().await.unwrap_err();
        assert!(matches!(e, RequestError::Session(_)), "{e}");
    }
}

#[tokio::test]
async fn a_message_that_is_cut_off_is_told() {
    let (session, _events, mut peer) = session(4096, Options::default()).await;
    peer.raw(&message(PACKET_IN, 0, &[0; 100])[..50]).await;
    drop(peer);
    let reason = session.closed().await;
    assert!(matches!(*reason, SessionError::Closed { received: 66, pending: 50 }), "{reason}");
}

#[tokio::test]
async fn an_answer_of_the_wrong_type_ends_the_session() {
    let (session, _events, mut peer) = session(4096, Options::default()).await;
    let asked = tokio::spawn({
        let session = session.clone();
        async move { session.request(&Message::FeaturesRequest).await }
    });
    let xid = peer.expect(5).await.xid;
    peer.send(BARRIER_REPLY, xid, &[]).await;
    let e = asked.await.unwrap().unwrap_err();
    let said = format!(
        "the peer answered a features request (xid {xid:#x}) with a barrier reply at byte 16 of the stream"
    );
    assert_eq!(texts(&e), ["the session ended".to_owned(), said]);
}

#[tokio::test]
async fn parts_of_another_multipart_answer_end_the_session() {
    let (session, _events, mut peer) = session(4096, Options::default()).await;
    let mut answer = session.multipart(MultipartRequest::all_flows()).await.unwrap();
    let xid = peer.expect(MULTIPART_REQUEST).await.xid;
    peer.send(MULTIPART_REPLY, xid, &[0, 13, 0, 0, 0, 0, 0, 0]).await;
    let e = answer.next().await.unwrap().unwrap_err();
    assert!(
        matches!(&e, RequestError::Session(reason) if matches!(**reason, SessionError::WrongReply { .. })),
        "{e:?}"
    );
    assert!(answer.next().await.is_none());
}

#[tokio::test]
async fn a_malformed_part_ends_the_session() {
    let (session, _events, mut peer) = session(4096, Options::default()).await;
    let mut answer = session.multipart(MultipartRequest::all_flows()).await.unwrap();
    let xid = peer.expect(MULTIPART_REQUEST).await.xid;
    peer.send(MULTIPART_REPLY, xid, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0]).await;
    let e = answer.next().await.unwrap().unwrap_err();
    let texts = texts(&e);
    let at = format!(
        "the peer sent a malformed multipart reply (xid {xid:#x}) at byte 16 of the stream"
    );
    assert_eq!(texts[1], at);
    assert!(texts[2].starts_with("flow_desc at byte 16"), "{texts:?}");
}

#[tokio::test]
async fn answers_to_no_request_and_unknown_extensions_harm_nobody() {
    let (session, mut events, mut peer) = session(4096, Options::default()).await;
    peer.send(BARRIER_REPLY, 77, &[]).await;
    peer.send(MULTIPART_REPLY, 77, &[0, 1, 0, 0, 0, 0, 0, 0]).await;
    peer.send(ECHO_REPLY, 77, &[]).await;
    peer.send(4, 77, &[0, 0, 0, 1, 0, 0, 0, 2, 3]).await;
    let event = events.recv().await.unwrap();
    assert!(matches!(event.message, Message::Experimenter(_)), "{event:?}");
    assert!(session.close_reason().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_asked_for_an_echo_and_then_left() {
    let start = Instant::now();
    let (session, _events, mut peer) = session(4096, Options::default()).await;
    for _ in 0..100 {
        let asked = peer.expect(ECHO_REQUEST).await;
        peer.send(ECHO_REPLY, asked.xid, &[]).await;
    }
    assert!(session.close_reason().is_none());
    assert!(start.elapsed() >= Duration::from_secs(500));
    let reason = session.closed().await;
    assert_eq!(reason.to_string(), "the peer was silent for 15s");
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_fails_alone_and_its_late_answer_is_ignored() {
    let options = Options { response: Duration::from_secs(3), ..Options::default() };
    let (session, _events, mut peer) = session(4096, options).await;
    let e = session.request(&Message::FeaturesRequest).await.unwrap_err();
    assert_eq!(e.to_string(), "no answer to the features request within 3s");
    let xid = peer.expect(5).await.xid;
    peer.send(FEATURES_REPLY, xid, &[0; 24]).await;
    let (done, ()) = tokio::join!(session.barrier(), async {
        let xid = peer.expect(BARRIER_REQUEST).await.xid;
        peer.send(BARRIER_REPLY, xid, &[]).await;
    });
    done.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_limit_wait_for_their_turn() {
    let options = Options { requests: 2, ..Options::default() };
    let (session, _events, mut peer) = session(4096, options).await;
    let asked: Vec<_> = (0..5)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.barrier().await })
        })
        .collect();
    for round in [2, 2, 1] {
        let mut xids = Vec::new();
        for _ in 0..round {
            xids.push(peer.expect(BARRIER_REQUEST).await.xid);
        }
        let more = timeout(Duration::from_secs(1), peer.next()).await;
        assert!(more.is_err(), "more than {round} requests at once");
        for xid in xids {
            peer.send(BARRIER_REPLY, xid, &[]).await;
        }
    }
    for asked in asked {
        asked.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_reading_is_left_and_memory_stays_bounded() {
    let options = Options { send_buffer: 256 * 1024, ..Options::default() };
    let (session, _events, peer) = session(4096, options).await;
    let made = AtomicUsize::new(0);
    let flows = (0..).map(|n| {
        made.fetch_add(1, Ordering::Relaxed);
        flow(n)
    });
    let e = session.batch(flows).await.unwrap_err();
    let BatchError::Unknown(RequestError::Session(reason)) = &e else { panic!("{e:?}") };
    assert!(matches!(**reason, SessionError::NotReading { queued: 1.., .. }), "{reason}");
    // An empty flow_mod takes 56 bytes: what was made fits the send buffer, a chunk and the pipe.
    let bytes = made.load(Ordering::Relaxed) * 56;
    assert!(bytes <= 640 * 1024, "{bytes} bytes were made for a peer that does not read");
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_for_echoes_and_reads_none_is_left() {
    let (session, _events, peer) = session(4096, Options::default()).await;
    let (mut from_us, mut to_us) = tokio::io::split(peer.0);
    let flood = tokio::spawn(async move {
        let request = message(ECHO_REQUEST, 1, &vec![0; 60_000]);
        let mut taken = 0;
        while to_us.write_all(&request).await.is_ok() {
            taken += request.len();
        }
        taken
    });
    let reason = session.closed().await;
    assert!(matches!(*reason, SessionError::NotReading { .. }), "{reason}");
    let _ = from_us.read(&mut [0; 1]).await;
    drop(from_us);
    assert!(flood.await.unwrap() < 1024 * 1024);
}

#[tokio::test]
async fn echoes_are_answered_before_a_full_queue() {
    let (session, _events, mut peer) = session(4096, Options::default()).await;
    let sending = tokio::spawn(async move { session.batch((0..100_000).map(flow)).await });
    // The pipe is full, and so will be the queue.
    peer.expect(FLOW_MOD).await;
    peer.send(ECHO_REQUEST, 0xabc, b"alive?").await;
    let mut before = 0;
    let reply = loop {
        let got = peer.next().await;
        if got.kind == ECHO_REPLY {
            break got;
        }
        before += got.bytes.len();
    };
    assert_eq!((reply.xid, &reply.bytes[8..]), (0xabc, &b"alive?"[..]));
    assert!(before < 512 * 1024, "{before} bytes before the echo");
    sending.abort();
}

#[tokio::test]
async fn packets_that_nobody_takes_are_dropped_and_counted() {
    let options = Options { event_buffer: 64 * 1024, ..Options::default() };
    let (session, mut events, mut peer) = session(64 * 1024, options).await;
    // No buffer, reason 1 (an action), no match, 200 bytes of packet.
    let mut body = vec![0xff, 0xff, 0xff, 0xff, 0, 200, 1, 0];
    body.extend([0; 8]);
    body.extend([0, 1, 0, 4, 0, 0, 0, 0, 0, 0]);
    body.extend([0; 200]);
    let packet = message(PACKET_IN, 0, &body);
    let total = 5_000;
    for _ in 0..total {
        peer.raw(&packet).await;
    }
    let (done, ()) = tokio::join!(session.barrier(), async {
        let xid = peer.expect(BARRIER_REQUEST).await.xid;
        peer.send(BARRIER_REPLY, xid, &[]).await;
    });
    done.unwrap();
    let dropped = events.dropped();
    let kept = 64 * 1024 / 256;
    assert_eq!(dropped, total - kept);
    for _ in 0..kept {
        let event = events.recv().await.unwrap();
        assert!(matches!(event.message, Message::PacketIn(_)), "{event:?}");
    }
    // Room again.
    peer.raw(&packet).await;
    assert!(events.recv().await.is_some());
}

fn port_status() -> Vec<u8> {
    let mut body = vec![2; 1];
    body.extend([0; 7]);
    let mut port = vec![0; 40];
    port[3] = 1;
    port[5] = 40;
    body.extend(port);
    message(PORT_STATUS, 0, &body)
}

#[tokio::test]
async fn news_that_nobody_takes_end_the_session() {
    let options = Options { event_buffer: 1024, ..Options::default() };
    let (session, mut events, mut peer) = session(4096, options).await;
    for _ in 0..5 {
        peer.raw(&port_status()).await;
    }
    let reason = session.closed().await;
    let said = "no room for a port-status: 1024 bytes of events wait to be received";
    assert_eq!(reason.to_string(), said);
    // What was taken is still there.
    for _ in 0..4 {
        assert!(matches!(events.recv().await.unwrap().message, Message::PortStatus(_)));
    }
    assert!(events.recv().await.is_none());
}

#[tokio::test]
async fn without_a_receiver_news_are_ignored() {
    let options = Options { event_buffer: 1024, ..Options::default() };
    let (session, events, mut peer) = session(4096, options).await;
    drop(events);
    for _ in 0..100 {
        peer.raw(&port_status()).await;
    }
    let (done, ()) = tokio::join!(session.barrier(), async {
        let xid = peer.expect(BARRIER_REQUEST).await.xid;
        peer.send(BARRIER_REPLY, xid, &[]).await;
    });
    done.unwrap();
}

/// A part of a multipart answer that promises more: flow descriptions without any flow, or a type
/// of which we know nothing, with a long body.
fn endless_part(xid: u32) -> Vec<u8> {
    let mut body = vec![0x12, 0x34, 0, 1, 0, 0, 0, 0];
    body.resize(60_000, 0);
    message(MULTIPART_REPLY, xid, &body)
}

fn unknown_multipart() -> MultipartRequest {
    MultipartRequest::Unknown { kind: 0x1234, body: Vec::new() }
}

#[tokio::test]
async fn an_endless_answer_is_not_collected() {
    let options = Options { collect: 1024 * 1024, ..Options::default() };
    let (session, _events, mut peer) = session(64 * 1024, options).await;
    let endless = tokio::spawn(async move {
        let xid = peer.expect(MULTIPART_REQUEST).await.xid;
        while peer.0.write_all(&endless_part(xid)).await.is_ok() {}
    });
    let e = session.collect(unknown_multipart()).await.unwrap_err();
    let said = "the answer to the multipart request has more than 1048576 bytes";
    assert_eq!(e.to_string(), said);
    assert!(session.close_reason().is_none());
    session.close().await;
    endless.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_is_given_up_and_others_go_on() {
    let options = Options { receive_buffer: 256 * 1024, ..Options::default() };
    let (session, _events, mut peer) = session(4096, options).await;
    let mut slow = session.multipart(unknown_multipart()).await.unwrap();
    let xid = peer.expect(MULTIPART_REQUEST).await.xid;
    let start = Instant::now();
    for _ in 0..10 {
        peer.raw(&endless_part(xid)).await;
    }
    assert_eq!(start.elapsed().as_secs(), 2, "held up for as long as allowed");
    let (done, ()) = tokio::join!(session.barrier(), async {
        let xid = peer.expect(BARRIER_REQUEST).await.xid;
        peer.send(BARRIER_REPLY, xid, &[]).await;
    });
    done.unwrap();
    // Four parts fit; then the reader learns why there are no more.
    for _ in 0..4 {
        let part = slow.next().await.unwrap().unwrap();
        assert!(matches!(part.body, ReplyBody::Unknown { kind: 0x1234, .. }));
    }
    let e = slow.next().await.unwrap().unwrap_err();
    assert!(matches!(e, RequestError::Stalled { .. }), "{e}");
    assert!(slow.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_halfway_fails_after_its_deadline() {
    let (session, _events, mut peer) = session(64 * 1024, Options::default()).await;
    let mut answer = session.multipart(unknown_multipart()).await.unwrap();
    let xid = peer.expect(MULTIPART_REQUEST).await.xid;
    let alive = tokio::spawn(async move {
        peer.raw(&endless_part(xid)).await;
        loop {
            let asked = peer.expect(ECHO_REQUEST).await;
            peer.send(ECHO_REPLY, asked.xid, &[]).await;
        }
    });
    answer.next().await.unwrap().unwrap();
    let e = answer.next().await.unwrap().unwrap_err();
    assert_eq!(e.to_string(), "no answer to the multipart request within 30s");
    alive.abort();
}

#[tokio::test]
async fn errors_of_a_batch_name_their_messages() {
    let (session, mut events, mut peer) = session(64 * 1024, Options::default()).await;
    let switch = tokio::spawn(async move {
        let mut n = 0;
        loop {
            let got = peer.next().await;
            match got.kind {
                FLOW_MOD => {
                    if n % 20_000 == 7 {
                        let body = [&[0, 5, 0, 1][..], &got.bytes].concat();
                        peer.send(ERROR, got.xid, &body).await;
                        // Said twice, it counts once.
                        peer.send(ERROR, got.xid, &body).await;
                    }
                    n += 1;
                }
                BARRIER_REQUEST => {
                    peer.send(BARRIER_REPLY, got.xid, &[]).await;
                    return peer;
                }
                kind => panic!("message of type {kind}"),
            }
        }
    });
    let e = session.batch((0..50_000).map(flow)).await.unwrap_err();
    let BatchError::Refused(refused) = &e else { panic!("{e}") };
    let indexes: Vec<_> = refused.iter().map(|refusal| refusal.index).collect();
    assert_eq!(indexes, [7, 20_007, 40_007]);
    assert!(refused.iter().all(|refusal| refusal.error.code == ErrorCode::TABLE_FULL));
    let text = e.to_string();
    assert!(
        text.starts_with(
            "the switch refused 3 of the messages, first message 7: OFPFMFC_TABLE_FULL"
        ),
        "{text}"
    );

    // An error that nobody waits for is an event.
    let mut peer = switch.await.unwrap();
    session.send(&Message::FlowMod(flow(1))).await.unwrap();
    let got = peer.expect(FLOW_MOD).await;
    peer.send(ERROR, got.xid, &[0, 5, 0, 1]).await;
    assert!(matches!(events.recv().await.unwrap().message, Message::Error(_)));
}

#[tokio::test]
async fn a_message_that_cannot_be_written_is_named_and_the_session_goes_on() {
    let (session, _events, mut peer) = session(64 * 1024, Options::default()).await;
    // 9,000 actions of 8 bytes: more than 64 KiB.
    let mut long = flow(2);
    long.flow.instructions = vec![Action::DecTtl; 9_000].into();
    let answering = tokio::spawn(async move {
        peer.expect(FLOW_MOD).await;
        let refused = peer.expect(FLOW_MOD).await;
        peer.send(ERROR, refused.xid, &[0, 5, 0, 1]).await;
        let xid = peer.expect(BARRIER_REQUEST).await.xid;
        peer.send(BARRIER_REPLY, xid, &[]).await;
        peer
    });
    let e = session.batch([flow(0), flow(1), long, flow(3)]).await.unwrap_err();
    let _peer = answering.await.unwrap();
    let BatchError::Encode { index: 2, refused, .. } = &e else { panic!("{e:?}") };
    assert_eq!(refused[0].index, 1);
    assert!(session.close_reason().is_none());
}

#[tokio::test]
async fn a_bundle_with_a_refused_message_is_discarded_and_not_committed() {
    let (session, _events, mut peer) = session(64 * 1024, Options::default()).await;
    let switch = tokio::spawn(async move {
        let (mut steps, mut added) = (Vec::new(), 0);
        while steps.last() != Some(&6) {
            let got = peer.next().await;
            match got.kind {
                BUNDLE_CONTROL => {
                    let step = got.bytes[13];
                    steps.push(step);
                    let mut reply = got.bytes[8..].to_vec();
                    reply[5] = step + 1;
                    peer.send(BUNDLE_CONTROL, got.xid, &reply).await;
                }
                BUNDLE_ADD => {
                    assert_eq!(got.bytes[4..8], got.bytes[20..24], "the xid inside and outside");
                    if added == 3 {
                        peer.send(ERROR, got.xid, &[0, 5, 0, 1]).await;
                    }
                    added += 1;
                }
                kind => panic!("message of type {kind}"),
            }
        }
        steps
    });
    let flags = BundleFlags::ATOMIC | BundleFlags::ORDERED;
    let e = session.bundle(flags, (0..10).map(flow)).await.unwrap_err();
    let BundleError::Message(refusal) = &e else { panic!("{e:?}") };
    assert_eq!((refusal.index, refusal.error.code), (3, ErrorCode::TABLE_FULL));
    assert!(!e.is_in_doubt());
    // Open, close, discard.
    assert_eq!(switch.await.unwrap(), [0, 2, 6]);
}

#[tokio::test]
async fn a_session_ends_with_its_last_handle_and_not_before_all_is_written() {
    let (session, mut events, mut peer) = session(1024, Options::default()).await;
    for n in 0..100 {
        session.send(&Message::FlowMod(flow(n))).await.unwrap();
    }
    drop(session);
    for _ in 0..100 {
        peer.expect(FLOW_MOD).await;
    }
    assert_eq!(peer.0.read(&mut [0; 1]).await.unwrap(), 0);
    assert!(events.recv().await.is_none());
}
