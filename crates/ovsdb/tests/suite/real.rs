//! What only the real server can show: TCP and TLS, dialling us, dying, freezing, changing its
//! database file.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use osier_ovsdb::Transaction;
use osier_ovsdb::rows::TypedRow;
use osier_ovsdb::rows::vswitch::OpenVSwitch;
use osier_ovsdb::session::{
    Config, Listener, Remote, Resync, Session, State, TlsFiles, TransactError, Unfit,
};
use osier_testbed::{Lab, OvsdbServer};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::expect::{
    config, monitor, next_snapshot, reconnected, rows, session_with_root, state, transact, within,
};
use crate::peer::{DATABASE, Peer, schema_path};

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An authority, and what it signed for two sides.
fn certificates(dir: &Path) -> [TlsFiles; 2] {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "authority");
    let ca_certificate = dir.join("ca.pem");
    let certificate = authority.self_signed(&authority_key).unwrap();
    std::fs::write(&ca_certificate, certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    ["server", "client"].map(|name| {
        let key = KeyPair::generate().unwrap();
        // A name that is not the host's: Open vSwitch does not look at it.
        let mut params = CertificateParams::new(vec![format!("{name}.example")]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let signed = params.signed_by(&key, &issuer).unwrap();
        let files = TlsFiles {
            private_key: dir.join(format!("{name}-key.pem")),
            certificate: dir.join(format!("{name}-cert.pem")),
            ca_certificate: ca_certificate.clone(),
        };
        std::fs::write(&files.private_key, key.serialize_pem()).unwrap();
        std::fs::write(&files.certificate, signed.pem()).unwrap();
        files
    })
}

fn for_testbed(files: &TlsFiles) -> osier_testbed::TlsFiles {
    osier_testbed::TlsFiles {
        private_key: files.private_key.clone(),
        certificate: files.certificate.clone(),
        ca_certificate: files.ca_certificate.clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tcp_and_tls() {
    let lab = Lab::new().unwrap();
    let [theirs, ours] = certificates(lab.dir());
    let tcp = OvsdbServer::builder(&lab.host(), "tcp").tcp(ANYWHERE).start(&schema_path()).unwrap();
    let tls = OvsdbServer::builder(&lab.host(), "tls")
        .tls(ANYWHERE, for_testbed(&theirs))
        .start(&schema_path())
        .unwrap();
    let remotes = [
        format!("tcp:{}", tcp.tcp_address().unwrap()),
        format!("ssl:{}", tls.tls_address().unwrap()),
    ];
    for remote in &remotes {
        let remote: Remote = remote.parse().unwrap();
        let mut config = config(monitor());
        config.tls = Some(ours.clone());
        let session = Session::connect(vec![remote.clone()], config);
        within(&remote.to_string(), session.ready()).await.unwrap();
        let mut transaction = Transaction::new("make the root row");
        transaction.insert(&OpenVSwitch::default());
        transact(&session, &transaction).await;
    }

    // An authority that did not sign the server's certificate.
    let other = lab.make_dir("other").unwrap();
    let mut config = config(monitor());
    config.tls = Some(certificates(&other)[1].clone());
    let session = Session::connect(vec![remotes[1].parse().unwrap()], config);
    let mut status = session.watch();
    let refused = status.wait_for(|status| status.last_error.is_some());
    within("a refusal", refused).await.unwrap();
    assert!(!session.status().is_ready());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn being_dialled() {
    let lab = Lab::new().unwrap();
    let [theirs, ours] = certificates(lab.dir());
    let socket = lab.dir().join("manager.sock");
    let unix = Listener::bind(&format!("punix:{}", socket.display()), None).await.unwrap();
    let tcp = Listener::bind("ptcp:0:127.0.0.1", None).await.unwrap();
    let tls = Listener::bind("pssl:0:127.0.0.1", Some(ours)).await.unwrap();
    assert!(Listener::bind("pssl:0:127.0.0.1", None).await.is_err());
    assert!(Listener::bind("pudp:0", None).await.is_err());
    let _server = OvsdbServer::builder(&lab.host(), "db")
        .tls(ANYWHERE, for_testbed(&theirs))
        .remote(&format!("unix:{}", socket.display()))
        .remote(&format!("tcp:{}", tcp.tcp_address().unwrap()))
        .remote(&format!("ssl:{}", tls.tcp_address().unwrap()))
        .start(&schema_path())
        .unwrap();
    let mut connections = Vec::new();
    for listener in [&unix, &tcp, &tls] {
        let incoming = within("the switch to dial", listener.accept()).await.unwrap();
        let session = Session::accept(incoming, Config::new(DATABASE, monitor()));
        within("a session", session.ready()).await.unwrap();
        connections.push(session);
    }
    let mut transaction = Transaction::new("make the root row");
    transaction.insert(&OpenVSwitch::default());
    transact(&connections[2], &transaction).await;
    let mut events = connections[0].subscribe(4).await.unwrap();
    let (_, snapshot) = next_snapshot(&mut events).await;
    if snapshot.is_empty() {
        within("the row", events.next()).await.unwrap();
    }
    assert_eq!(rows::<OpenVSwitch>(&connections[0]).await.len(), 1);
    drop(unix);
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_and_returns() {
    let mut peer = Peer::standalone();
    let (session, root) = session_with_root(&peer).await;
    let mut events = session.subscribe(16).await.unwrap();
    next_snapshot(&mut events).await;
    for round in 1..=3 {
        let connection = session.status().connection;
        let Peer::Standalone(server) = &mut peer else { unreachable!("it is alone") };
        server.kill();
        state(&session, "the loss", |state| state == State::Connecting).await;
        server.start().unwrap();
        reconnected(&session, connection).await;
        let (reason, snapshot) = next_snapshot(&mut events).await;
        assert_eq!((reason, snapshot.len()), (Resync::Refetched, 1));
        let mut transaction = Transaction::new("after its return");
        transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), round.into())]);
        transact(&session, &transaction).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_freezes() {
    let peer = Peer::standalone();
    let (_, root) = session_with_root(&peer).await;
    let mut config = config(monitor());
    config.probe = Duration::from_millis(400);
    let session = Session::connect(peer.remotes(), config);
    within("a session", session.ready()).await.unwrap();
    let connection = session.status().connection;
    peer.real().unwrap().pause().unwrap();
    let mut transaction = Transaction::new("into the ice");
    transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), 1.into())]);
    let error = session.transact(&transaction, Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, TransactError::NoAnswer { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("into the ice") && text.contains("update Open_vSwitch"), "{text}");
    state(&session, "the probe", |state| state != State::Ready).await;
    peer.real().unwrap().resume().unwrap();
    reconnected(&session, connection).await;
    transact(&session, &transaction).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_replaced_by_another() {
    let peer = Peer::standalone();
    let (session, _) = session_with_root(&peer).await;
    let server = peer.real().unwrap();
    let mut events = session.subscribe(16).await.unwrap();
    let (_, snapshot) = next_snapshot(&mut events).await;
    assert_eq!(snapshot.len(), 1);
    server.appctl(&["ovsdb-server/remove-db", DATABASE]).unwrap();
    let gone = |state| state == State::Waiting(Unfit::NoDatabase);
    state(&session, "the loss of the database", gone).await;
    let file = server.dir().join("other.db");
    let tool = server.netns().command("ovsdb-tool").arg("create").arg(&file);
    tool.arg(schema_path()).run().unwrap();
    server.appctl(&["ovsdb-server/add-db", file.to_str().unwrap()]).unwrap();
    let (reason, snapshot) = next_snapshot(&mut events).await;
    assert_eq!((reason, snapshot.len()), (Resync::Refetched, 0));
    let mut transaction = Transaction::new("a row in the new database");
    transaction.insert(&OpenVSwitch::default());
    transact(&session, &transaction).await;
    assert_eq!(rows::<OpenVSwitch>(&session).await.len(), 1);
}
