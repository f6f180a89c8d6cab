//! Dialling and being dialled, over each kind of socket, with peers that have the wrong
//! certificate, say nothing, or come and go. Both ends are ours: a session answers echo requests.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod session_pki;

use osier_openflow::message::Message;
use osier_openflow::session::{
    AcceptError, Accepted, Backoff, ConnectError, Dialer, Endpoint, Listener, Options, Session,
    SessionError, Tls, TlsError, TlsFiles,
};
use session_pki::Pki;
use std::os::unix::net::UnixListener;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;

fn with_tls(files: &TlsFiles) -> Options {
    Options { tls: Some(Tls::load(files).unwrap()), ..Options::default() }
}

async fn bind(endpoint: &str, options: Options) -> (Listener, u16) {
    let listener = Listener::bind(&endpoint.parse().unwrap(), options).await.unwrap();
    let port = listener.local_addr().map_or(0, |address| address.port());
    (listener, port)
}

async fn dial(endpoint: &str, options: Options) -> Result<Session, ConnectError> {
    Session::connect(&endpoint.parse().unwrap(), options).await.map(|(session, _)| session)
}

/// Dials, accepts, and asks for an echo in both directions.
async fn meet(listener: &mut Listener, endpoint: &str, options: Options) -> (Session, Accepted) {
    let (dialled, accepted) = tokio::join!(dial(endpoint, options), listener.accept());
    let (dialled, accepted) = (dialled.unwrap(), accepted.unwrap());
    for session in [&dialled, &accepted.session] {
        let echo = session.request(&Message::EchoRequest(vec![7; 60_000])).await.unwrap();
        assert_eq!(echo, Message::EchoReply(vec![7; 60_000]));
    }
    (dialled, accepted)
}

#[tokio::test]
async fn over_unix_and_the_socket_goes_with_its_listener() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s");
    // Left by a process that was killed.
    drop(UnixListener::bind(&path).unwrap());
    let (passive, active) =
        (format!("punix:{}", path.display()), format!("unix:{}", path.display()));
    let (mut listener, _) = bind(&passive, Options::default()).await;
    meet(&mut listener, &active, Options::default()).await;

    let taken = Listener::bind(&passive.parse().unwrap(), Options::default()).await.unwrap_err();
    assert!(matches!(taken, ConnectError::Socket { .. }), "{taken:?}");
    drop(listener);
    assert!(!path.exists());
    let gone = dial(&active, Options::default()).await.unwrap_err();
    assert_eq!(gone.to_string(), format!("no connection to {active}"));
}

#[tokio::test]
async fn over_tcp_with_both_families() {
    for (host, listen) in [("127.0.0.1", "ptcp:0:127.0.0.1"), ("[::1]", "ptcp:0:[::1]")] {
        let (mut listener, port) = bind(listen, Options::default()).await;
        let to = format!("tcp:{host}:{port}");
        let (_, accepted) = meet(&mut listener, &to, Options::default()).await;
        assert!(accepted.session.peer().starts_with(&format!("tcp:{host}:")));
    }
}

#[tokio::test]
async fn over_tls_by_the_authority_alone_or_by_name() {
    let dir = TempDir::new().unwrap();
    let pki = Pki::new(dir.path().join("ours"));
    let (mut listener, port) = bind("pssl:0:127.0.0.1", with_tls(&pki.issue("controller"))).await;
    let to = format!("ssl:127.0.0.1:{port}");
    let ours = pki.issue("switch");
    meet(&mut listener, &to, with_tls(&ours)).await;

    let named = |name| {
        let tls = Tls::load(&ours).unwrap().expecting(name).unwrap();
        Options { tls: Some(tls), ..Options::default() }
    };
    meet(&mut listener, &to, named("controller")).await;
    let (dialled, accepted) = tokio::join!(dial(&to, named("other")), listener.accept());
    assert!(matches!(dialled, Err(ConnectError::Socket { .. })), "{dialled:?}");
    assert!(matches!(accepted, Err(AcceptError::Peer { .. })), "{accepted:?}");
}

#[tokio::test]
async fn over_tls_strangers_are_refused_on_both_sides() {
    let dir = TempDir::new().unwrap();
    let [ours, theirs] = ["ours", "theirs"].map(|name| Pki::new(dir.path().join(name)));
    let (mut listener, port) = bind("pssl:0:127.0.0.1", with_tls(&ours.issue("controller"))).await;
    let to = format!("ssl:127.0.0.1:{port}");

    // A stranger who would take any certificate, but has none of our authority's.
    let mut stranger = theirs.issue("switch");
    stranger.ca_certificate = ours.issue("x").ca_certificate;
    let (dialled, accepted) = tokio::join!(dial(&to, with_tls(&stranger)), listener.accept());
    assert!(dialled.is_err());
    assert!(matches!(accepted, Err(AcceptError::Peer { .. })), "{accepted:?}");
    // One who has a certificate of ours, and does not trust us.
    let mut distrustful = ours.issue("switch");
    distrustful.ca_certificate = theirs.issue("x").ca_certificate;
    let (dialled, accepted) = tokio::join!(dial(&to, with_tls(&distrustful)), listener.accept());
    assert!(matches!(dialled, Err(ConnectError::Socket { .. })), "{dialled:?}");
    assert!(matches!(accepted, Err(AcceptError::Peer { .. })), "{accepted:?}");
    // One without TLS.
    let plain = format!("tcp:127.0.0.1:{port}");
    let (dialled, accepted) = tokio::join!(dial(&plain, Options::default()), listener.accept());
    assert!(matches!(dialled, Err(ConnectError::Session { .. })), "{dialled:?}");
    assert!(matches!(accepted, Err(AcceptError::Peer { .. })), "{accepted:?}");
    // And the next friend is welcome.
    meet(&mut listener, &to, with_tls(&ours.issue("friend"))).await;
}

#[tokio::test]
async fn what_cannot_be_used_is_named() {
    let dir = TempDir::new().unwrap();
    let files = Pki::new(dir.path().to_owned()).issue("x");
    let missing = TlsFiles { private_key: dir.path().join("no.key"), ..files.clone() };
    let e = Tls::load(&missing).unwrap_err();
    assert_eq!(
        e.to_string(),
        format!("cannot read private key from {}/no.key", dir.path().display())
    );
    let swapped = TlsFiles { certificate: files.private_key.clone(), ..files.clone() };
    let e = Tls::load(&swapped).unwrap_err();
    assert!(matches!(e, TlsError::Missing { what: "certificate", .. }), "{e}");
    let other = Pki::new(dir.path().join("other")).issue("y");
    let e = Tls::load(&TlsFiles { private_key: other.private_key, ..files }).unwrap_err();
    assert!(matches!(e, TlsError::Identity(_)), "{e}");

    let e = dial("ssl:127.0.0.1", Options::default()).await.unwrap_err();
    assert_eq!(e.to_string(), "ssl:127.0.0.1:6653 needs a key, a certificate and an authority");
    let e = dial("ptcp:", Options::default()).await.unwrap_err();
    assert_eq!(e.to_string(), "ptcp:6653:0.0.0.0 is for waiting");
    let active: Endpoint = "tcp:127.0.0.1".parse().unwrap();
    let e = Listener::bind(&active, Options::default()).await.unwrap_err();
    assert_eq!(e.to_string(), "tcp:127.0.0.1:6653 is for connecting");
}

#[tokio::test]
async fn silent_peers_are_few_and_given_up() {
    let options =
        Options { handshake: Duration::from_millis(200), half_open: 2, ..Options::default() };
    let (mut listener, port) = bind("ptcp:0:127.0.0.1", options).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    let good = tokio::spawn(async move {
        dial(&format!("tcp:127.0.0.1:{port}"), Options::default()).await.unwrap()
    });
    let mut refused = 0;
    let accepted = loop {
        match timeout(Duration::from_secs(5), listener.accept()).await.unwrap() {
            Ok(accepted) => break accepted,
            Err(AcceptError::Peer { source: SessionError::NoHello(_), .. }) => refused += 1,
            Err(e) => panic!("{e}"),
        }
    };
    // All who came before had to go first, two at a time.
    assert!(refused >= 3, "{refused}");
    accepted.session.request(&Message::EchoRequest(Vec::new())).await.unwrap();
    good.await.unwrap();
}

#[tokio::test]
async fn a_dialer_does_not_circle_around_a_peer_that_leaves_at_once() {
    let (mut listener, port) = bind("ptcp:0:127.0.0.1", Options::default()).await;
    let slow = Backoff { first: Duration::from_secs(20), most: Duration::from_secs(20) };
    let endpoint: Endpoint = format!("tcp:127.0.0.1:{port}").parse().unwrap();
    let mut dialer = Dialer::new(endpoint, Options::default(), slow);
    let ((session, _events), accepted) = tokio::join!(dialer.next(), listener.accept());
    // The peer leaves: its only handle goes.
    drop(accepted);
    session.closed().await;
    assert!(timeout(Duration::from_millis(100), dialer.next()).await.is_err());
}
