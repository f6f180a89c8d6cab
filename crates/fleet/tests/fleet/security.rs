//! Forged and expired certificates, stolen names, liars, garbage and floods: refused, and the
//! others notice nothing.

use crate::rig::{Agent, DEADLINE, Metered, Rig, credentials, hub_of, name, options, port};
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, iter};
use osier_fleet::client::{TlsTransport, Transport};
use osier_fleet::pki::{AgentTls, Authority, Issued, ServerTls};
use osier_fleet::proto::fleet_client::FleetClient;
use osier_fleet::proto::fleet_server::{Fleet, FleetServer as Service};
use osier_fleet::proto::{self, from_agent, from_controller};
use osier_fleet::server::{ServerOptions, accept};
use osier_fleet::{HistoryLimits, VERSION};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

const HOUR: Duration = Duration::from_hours(1);

async fn rig() -> Rig {
    Rig::start(hub_of(1, 1, HistoryLimits::default())).await
}

fn agent_of(rig: &Rig, tls: AgentTls) -> Arc<Metered> {
    Metered::new(TlsTransport::new(vec![rig.address.to_string()], tls, None))
}

/// The server still serves who is right.
async fn still_serves(rig: &Rig) {
    let _agent = rig.agent("n3").await;
    rig.heard.converged("n3", 1).await;
}

#[tokio::test]
async fn only_certificates_of_our_authority_that_hold_now_are_good() {
    let rig = rig().await;
    let now = SystemTime::now();
    // They trust the real one, and show a certificate of another: of its name, and of none we know.
    let forged = |name: &str| {
        let tls = credentials(&Authority::generate(name, now).unwrap(), "n1", HOUR, now);
        AgentTls { authority: rig.authority.certificate().clone(), ..tls }
    };
    let expired = credentials(&rig.authority, "n1", HOUR, now - 2 * HOUR);
    let early = credentials(&rig.authority, "n1", HOUR, now + 2 * HOUR);
    for (tls, alert) in [
        (forged("test"), "DecryptError"),
        (forged("other"), "UnknownCA"),
        (expired, "CertificateExpired"),
        // The protocol has no other word for it.
        (early, "CertificateExpired"),
    ] {
        let agent = Agent::start(options("n1"), agent_of(&rig, tls)).await;
        agent.problem(alert).await;
    }
    assert!(rig.heard.applied.lock().unwrap().is_empty());
    still_serves(&rig).await;
}

#[tokio::test]
async fn nobody_takes_anothers_name() {
    let rig = rig().await;
    let tls = rig.credentials("n2", HOUR);
    let agent = Agent::start(options("n1"), agent_of(&rig, tls)).await;
    agent.problem("the certificate is node n2's, the hello node n1's").await;
    // A node that nobody knows.
    let tls = rig.credentials("n9", HOUR);
    let agent = Agent::start(options("n9"), agent_of(&rig, tls)).await;
    agent.problem("there is no node n9").await;
    assert!(rig.heard.applied.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_certificate_is_renewed_in_time_and_ends_the_stream_when_not() {
    let rig = rig().await;
    let short = || rig.credentials("n1", Duration::from_secs(10));
    let agent = Agent::start(options("n1"), agent_of(&rig, short())).await;
    rig.heard.converged("n1", 1).await;
    let late = SystemTime::now() + HOUR;
    let mut state = agent.client.state();
    let renewed =
        state.wait_for(|s| s.connected && s.certificate_expires.is_some_and(|end| end > late));
    tokio::time::timeout(DEADLINE, renewed).await.expect("a new certificate").unwrap();
    agent.stop().await;

    // Who does not renew is shown the door.
    let mut raw = raw_client(&rig, short()).await;
    let (_sender, mut inbound) = greet(&mut raw, hello("n1")).await.unwrap();
    let end = async {
        loop {
            if let Err(status) = inbound.message().await {
                return status;
            }
        }
    };
    let status = tokio::time::timeout(DEADLINE, end).await.expect("the stream ends");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unauthenticated, "the certificate has expired")
    );
}

async fn channel(io: osier_fleet::client::BoxIo) -> Channel {
    let mut io = Some(hyper_util::rt::TokioIo::new(io));
    let connector = tower::service_fn(move |_| {
        let io = io.take();
        async move { io.ok_or(std::io::Error::from(std::io::ErrorKind::NotConnected)) }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://test");
    endpoint.connect_with_connector(connector).await.unwrap()
}

async fn raw_client(rig: &Rig, tls: AgentTls) -> FleetClient<Channel> {
    let io = agent_of(rig, tls).connect().await.unwrap();
    FleetClient::new(channel(io).await)
}

fn hello(node: &str) -> proto::Hello {
    proto::Hello { version: VERSION, node: node.to_owned(), ..proto::Hello::default() }
}

fn from_agent(message: from_agent::Message) -> proto::FromAgent {
    proto::FromAgent { message: Some(message) }
}

type Out = tokio::sync::mpsc::Sender<proto::FromAgent>;

async fn greet(
    client: &mut FleetClient<Channel>,
    hello: proto::Hello,
) -> Result<(Out, Streaming<proto::FromController>), Status> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(from_agent(from_agent::Message::Hello(hello))).await.unwrap();
    let inbound = client.follow(ReceiverStream::new(receiver)).await?;
    Ok((sender, inbound.into_inner()))
}

/// What a stream ends with.
async fn ends(mut inbound: Streaming<proto::FromController>) -> Status {
    let end = async {
        loop {
            match inbound.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("it ended"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(DEADLINE, end).await.expect("the stream ends")
}

#[tokio::test]
async fn what_does_not_begin_right_is_refused() {
    let rig = rig().await;
    let mut client = raw_client(&rig, rig.credentials("n1", HOUR)).await;
    for version in [0, VERSION + 1, u32::MAX] {
        let refused =
            greet(&mut client, proto::Hello { version, ..hello("n1") }).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains(&format!("version {version} ")), "{refused}");
    }
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let early = from_agent::Message::Applied(proto::Applied::default());
    sender.send(from_agent(early)).await.unwrap();
    let refused = client.follow(ReceiverStream::new(receiver)).await.unwrap_err();
    assert_eq!(refused.message(), "the first message must be a hello");

    let (sender, inbound) = greet(&mut client, hello("n1")).await.unwrap();
    sender.send(from_agent(from_agent::Message::Hello(hello("n1")))).await.unwrap();
    assert_eq!(ends(inbound).await.message(), "a second hello");
    still_serves(&rig).await;
}

#[tokio::test]
async fn who_shows_no_certificate_can_only_join() {
    let rig = rig().await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rig.authority.certificate().clone()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let server = osier_fleet::SERVER_NAME.try_into().unwrap();
    let stream = TcpStream::connect(rig.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(server, stream).await.unwrap();
    let mut client = FleetClient::new(channel(Box::new(stream)).await);
    let refused = greet(&mut client, hello("n1")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let refused = client.renew(proto::RenewRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let refused = client.join(proto::JoinRequest { version: VERSION, ..Default::default() }).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn floods_and_giants_end_their_own_stream_only() {
    let rig = rig().await;
    let good = rig.agent("n3").await;
    rig.heard.converged("n3", 1).await;
    let mut client = raw_client(&rig, rig.credentials("n1", HOUR)).await;
    let report = |report: Vec<u8>| {
        from_agent(from_agent::Message::Report(proto::Report { report: report.into() }))
    };
    let (sender, inbound) = greet(&mut client, hello("n1")).await.unwrap();
    sender.send(report(vec![b' '; osier_fleet::MAX_FROM_AGENT + 1])).await.unwrap();
    let status = ends(inbound).await;
    assert!(status.message().contains("too large"), "{status}");

    let (sender, inbound) = greet(&mut client, hello("n1")).await.unwrap();
    sender.send(report(b"{\"ports\":[7]}".to_vec())).await.unwrap();
    assert!(ends(inbound).await.message().starts_with("report: "));

    let (sender, inbound) = greet(&mut client, hello("n1")).await.unwrap();
    let flood = async {
        while sender
            .send(from_agent(from_agent::Message::Applied(proto::Applied::default())))
            .await
            .is_ok()
        {}
        std::future::pending::<()>().await;
    };
    let status = tokio::select! {
        status = ends(inbound) => status,
        () = flood => unreachable!(),
    };
    assert_eq!(status.message(), "too many messages");

    rig.hub.apply(2, vec![port("a", "n3", "pods", "10.1.3.9")]).unwrap();
    rig.heard.converged("n3", 2).await;
    assert!(good.client.state().borrow().connected);
}

#[tokio::test]
async fn the_newest_stream_of_a_node_counts() {
    let rig = rig().await;
    let mut client = raw_client(&rig, rig.credentials("n1", HOUR)).await;
    let (_first, inbound) = greet(&mut client, hello("n1")).await.unwrap();
    let mut second = raw_client(&rig, rig.credentials("n1", HOUR)).await;
    let _second = greet(&mut second, hello("n1")).await.unwrap();
    assert_eq!(ends(inbound).await.message(), "the node has opened another stream");
}

#[tokio::test]
async fn garbage_and_silence_hold_up_nobody() {
    let rig = rig().await;
    let mut silent = Vec::new();
    for n in 0..20_u8 {
        let mut stream = TcpStream::connect(rig.address).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(&[n; 4000]).await.unwrap();
            let mut rest = Vec::new();
            // It answers with an alert, or just closes.
            let read = stream.read_to_end(&mut rest);
            let _ = tokio::time::timeout(DEADLINE, read).await.expect("garbage is hung up on");
        } else {
            silent.push(stream);
        }
    }
    // Garbage inside of TLS.
    let mut io = agent_of(&rig, rig.credentials("n1", HOUR)).connect().await.unwrap();
    io.write_all(&[0xff; 5000]).await.unwrap();
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, io.read_to_end(&mut rest)).await.expect("hung up on");
    still_serves(&rig).await;
    drop(silent);
}

/// A controller that says whatever it likes.
#[derive(Clone)]
struct Liar(Vec<from_controller::Message>);

#[tonic::async_trait]
impl Fleet for Liar {
    type FollowStream = BoxStream<'static, Result<proto::FromController, Status>>;
    type QuestionsStream = BoxStream<'static, Result<proto::Ask, Status>>;
    async fn questions(
        &self,
        _: Request<proto::QuestionsRequest>,
    ) -> Result<Response<Self::QuestionsStream>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn answer(
        &self,
        _: Request<Streaming<proto::AnswerPart>>,
    ) -> Result<Response<proto::AnswerReceipt>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn attach(
        &self,
        _: Request<proto::AttachRequest>,
    ) -> Result<Response<proto::AttachAnswer>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn detach(
        &self,
        _: Request<proto::DetachRequest>,
    ) -> Result<Response<proto::DetachAnswer>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn join(
        &self,
        _: Request<proto::JoinRequest>,
    ) -> Result<Response<proto::JoinAnswer>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn renew(
        &self,
        _: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::RenewAnswer>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn follow(
        &self,
        _: Request<Streaming<proto::FromAgent>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let said = self.0.clone().into_iter();
        let said = said.map(|message| Ok(proto::FromController { message: Some(message) }));
        Ok(Response::new(iter(said).chain(futures_util::stream::pending()).boxed()))
    }
}

/// An agent of a controller with this certificate that says these things.
async fn lied_to(
    authority: &Authority,
    issued: Issued,
    at: &str,
    said: Vec<from_controller::Message>,
) -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let tls = ServerTls::new(authority.certificate(), issued).unwrap();
    let listener = TcpListener::bind(at).await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = accept(listener, &tls, 16);
    let serving = tokio::spawn(async move {
        let mut server = tonic::transport::Server::builder();
        server.add_service(Service::new(Liar(said))).serve_with_incoming(incoming).await.unwrap();
    });
    (address, serving)
}

fn welcome(term: u64, version: u32) -> from_controller::Message {
    from_controller::Message::Welcome(proto::Welcome { version, term, epoch: 1, features: 0 })
}

fn wrong_batch() -> from_controller::Message {
    from_controller::Message::Batch(proto::Batch {
        revision: 9,
        reset: true,
        fabric: bytes::Bytes::from_static(b"{}"),
        digest: vec![0; 16].into(),
        ..proto::Batch::default()
    })
}

#[tokio::test]
async fn an_agent_believes_no_old_leader_no_wrong_view_and_no_other_node() {
    let mut rig = rig().await;
    let agent = rig.agent("n1").await;
    rig.heard.converged("n1", 1).await;
    let view = agent.view();
    let (authority, at) = (Arc::clone(&rig.authority), rig.address.to_string());
    rig.stop().await;
    let now = SystemTime::now();
    let server = || authority.issue_server(&[], &[], HOUR, now).unwrap();
    for (said, why) in [
        (vec![welcome(0, VERSION), wrong_batch()], "leads term 0, and term 1 was seen"),
        (vec![welcome(1, VERSION + 1), wrong_batch()], "speaks version 2"),
        (vec![welcome(1, VERSION), wrong_batch()], "the view differs from the controller's"),
        (vec![wrong_batch()], "the controller closed it"),
    ] {
        let (_, serving) = lied_to(&authority, server(), &at, said).await;
        agent.problem(why).await;
        serving.abort();
        let _ = serving.await;
        assert_eq!(agent.view(), view, "{why}");
    }
    // A node's own certificate makes no controller.
    let node = credentials(&authority, "n2", HOUR, now);
    let issued = Issued { certificate: node.certificate, key: node.key };
    let said = vec![welcome(7, VERSION), wrong_batch()];
    let (_, serving) = lied_to(&authority, issued, &at, said).await;
    agent.problem("invalid peer certificate").await;
    serving.abort();
    let _ = serving.await;

    // And after all that it follows the real one.
    let hub = hub_of(1, 1, HistoryLimits::default());
    let rig = Rig::with(hub, authority, &at, ServerOptions::default()).await;
    rig.heard.converged("n1", 1).await;
    assert_eq!(agent.view(), view);
    assert!(rig.heard.applied.lock().unwrap()[&name("n1")].faults.is_empty());
}
