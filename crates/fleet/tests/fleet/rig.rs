//! A controller on loopback with real TLS, and what tests need around it.

use futures_util::future::BoxFuture;
use osier_fleet::client::{
    Answers, Backoff, BoxIo, ClientOptions, ControllerClient, TlsTransport, Transport, ViewContent,
    ViewUpdate,
};
use osier_fleet::pki::{AgentTls, Authority, ServerTls};
use osier_fleet::server::{Agents, FleetServer, ServerOptions, accept};
use osier_fleet::{
    AgentVersion, Applied, Fault, HistoryLimits, Hub, JoinRefused, Joins, NodeConfiguration, Proof,
    Redemption, Report, Reports, TokenRecord,
};
use osier_model::{Change, Fabric, NodeName, Object, View};
use osier_span::Cluster;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

pub(crate) fn put(value: Value) -> Change {
    Change::Put(serde_json::from_value::<Object>(value).unwrap())
}

pub(crate) fn port(device: &str, node: &str, network: &str, address: &str) -> Change {
    let last: u32 = address.rsplit('.').next().unwrap().parse().unwrap();
    put(json!({"kind": "port", "device": device, "interface": "eth0", "network": network,
        "node": node, "mac": format!("0a:58:00:00:00:{last:02x}"), "addresses": [address]}))
}

/// Nodes n1 to n4; network blue, with no router, and the pods' own.
pub(crate) fn model() -> Vec<Change> {
    let mut changes = vec![
        put(json!({"kind": "router", "name": "default", "vrf": 0})),
        put(
            json!({"kind": "network", "name": "pods", "vni": 1, "router": "default", "reach": "routed"}),
        ),
        put(json!({"kind": "network", "name": "blue", "vni": 7})),
    ];
    for n in 1..=4 {
        changes.push(put(json!({"kind": "node", "name": format!("n{n}"),
            "tunnel": format!("192.0.2.{n}"), "blocks": [format!("10.1.{n}.0/24")]})));
    }
    changes
}

pub(crate) fn hub_of(term: u64, epoch: u64, limits: HistoryLimits) -> Hub {
    let fabric: Fabric = serde_json::from_value(json!({"cluster": ["10.1.0.0/16"]})).unwrap();
    let hub = Hub::with_limits(Cluster::new(fabric).unwrap(), term, epoch, 0, limits);
    hub.apply(1, model()).unwrap();
    hub
}

/// Remembers what the server heard.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) applied: Mutex<HashMap<NodeName, Applied>>,
    pub(crate) reports: Mutex<HashMap<NodeName, Report>>,
    pub(crate) ends: Mutex<Vec<(NodeName, String)>>,
    pub(crate) tokens: Mutex<Vec<TokenRecord>>,
    pub(crate) configuration: Mutex<Option<NodeConfiguration>>,
    changed: watch::Sender<u64>,
}

impl Heard {
    fn news(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            while !is(self) {
                changed.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(waited.is_ok(), "{what} did not happen");
    }

    pub(crate) async fn converged(&self, node: &str, revision: u64) {
        let is = |heard: &Self| {
            heard.applied.lock().unwrap().get(&name(node)).is_some_and(|a| a.revision >= revision)
        };
        self.until(&format!("revision {revision} on {node}"), is).await;
    }
}

impl Reports for Heard {
    fn connected(&self, _: &NodeName, _: &AgentVersion) {
        self.news();
    }
    fn applied(&self, node: &NodeName, applied: Applied) {
        self.applied.lock().unwrap().insert(node.clone(), applied);
        self.news();
    }
    fn report(&self, node: &NodeName, report: Report) {
        self.reports.lock().unwrap().insert(node.clone(), report);
        self.news();
    }
    fn disconnected(&self, node: &NodeName, why: &str) {
        self.ends.lock().unwrap().push((node.clone(), why.to_owned()));
        self.news();
    }
}

impl Joins for Heard {
    fn redeem<'a>(
        &'a self,
        by: &'a Redemption,
    ) -> BoxFuture<'a, Result<NodeConfiguration, JoinRefused>> {
        Box::pin(async move {
            let mut tokens = self.tokens.lock().unwrap();
            if let Proof::ServiceAccount(token) = &by.proof {
                // As a controller in Kubernetes has it reviewed.
                if token.0 == format!("account of {}", by.node) {
                    return Ok(self.configuration.lock().unwrap().clone().unwrap());
                }
                let why = "another's account".to_owned();
                return Err(JoinRefused::Stranger { node: by.node.clone(), why });
            }
            let record = tokens.iter_mut().find(|record| record.node == by.node);
            record.ok_or_else(|| JoinRefused::NoToken(by.node.clone()))?.redeem(by)?;
            Ok(self.configuration.lock().unwrap().clone().unwrap())
        })
    }
}

pub(crate) struct Rig {
    pub(crate) hub: Hub,
    pub(crate) heard: Arc<Heard>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) agents: Agents,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

impl Rig {
    pub(crate) async fn start(hub: Hub) -> Self {
        let authority = Arc::new(Authority::generate("test", SystemTime::now()).unwrap());
        Self::with(hub, authority, "127.0.0.1:0", ServerOptions::default()).await
    }

    pub(crate) async fn with(
        hub: Hub,
        authority: Arc<Authority>,
        at: &str,
        options: ServerOptions,
    ) -> Self {
        let heard = Arc::new(Heard::default());
        let now = SystemTime::now();
        let issued = authority.issue_server(&[], &[], Duration::from_hours(1), now).unwrap();
        let tls = ServerTls::new(authority.certificate(), issued).unwrap();
        let server = FleetServer::new(
            Arc::new(hub.clone()),
            Arc::clone(&heard) as _,
            Arc::clone(&heard) as _,
            Arc::clone(&authority),
            options,
        )
        .with_attachments(Arc::clone(&heard) as _);
        let agents = server.agents();
        let listener = listen(at).await;
        let address = listener.local_addr().unwrap();
        let incoming = accept(listener, &tls, 64);
        let (stop, stopped) = oneshot::channel();
        let running = server.clone();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            running.serve(incoming, stopped).await.unwrap();
        });
        let (stop, task) = (Some(stop), Some(task));
        Self { hub, heard, authority, agents, address, stop, task }
    }

    /// Waits until an agent hears questions.
    pub(crate) async fn listens(&self, node: &str) {
        let heard = async {
            while !self.agents.connected().contains(&name(node)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, heard).await.expect("the agent hears questions");
    }

    /// Ends the server, and waits for it.
    pub(crate) async fn stop(&mut self) {
        drop(self.stop.take());
        let task = self.task.take().unwrap();
        tokio::time::timeout(DEADLINE, task).await.expect("the server ends").unwrap();
    }

    pub(crate) fn credentials(&self, node: &str, lifetime: Duration) -> AgentTls {
        credentials(&self.authority, node, lifetime, SystemTime::now())
    }

    pub(crate) fn transport(&self, node: &str) -> Arc<Metered> {
        let tls = self.credentials(node, Duration::from_hours(1));
        Metered::new(TlsTransport::new(vec![self.address.to_string()], tls, None))
    }

    pub(crate) async fn agent(&self, node: &str) -> Agent {
        Agent::start(options(node), self.transport(node)).await
    }
}

/// The port may be in its last connections' hands for a moment.
async fn listen(at: &str) -> TcpListener {
    let bound = async {
        loop {
            match TcpListener::bind(at).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(DEADLINE, bound).await.expect("the address can be listened on")
}

pub(crate) fn credentials(
    authority: &Authority,
    node: &str,
    lifetime: Duration,
    now: SystemTime,
) -> AgentTls {
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap();
    let certificate = authority.issue_agent(&name(node), request.der(), lifetime, now).unwrap();
    AgentTls {
        authority: authority.certificate().clone(),
        certificate,
        key: rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into()),
    }
}

pub(crate) fn options(node: &str) -> ClientOptions {
    ClientOptions {
        software: "test".to_owned(),
        backoff: Backoff { least: Duration::from_millis(20), most: Duration::from_millis(200) },
        ..ClientOptions::new(name(node))
    }
}

/// An agent that only keeps its view, and says so.
pub(crate) struct Agent {
    pub(crate) client: ControllerClient,
    pub(crate) transport: Arc<Metered>,
    view: Arc<Mutex<Option<View>>>,
    paused: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Agent {
    pub(crate) async fn start(options: ClientOptions, transport: Arc<Metered>) -> Self {
        let through = Arc::clone(&transport) as Arc<dyn Transport>;
        let started = ControllerClient::start(options.clone(), through).await;
        Self::keeping(&options, transport, started)
    }

    /// One that answers questions.
    pub(crate) async fn answering(
        options: ClientOptions,
        transport: Arc<Metered>,
        answers: Arc<dyn Answers>,
    ) -> Self {
        let through = Arc::clone(&transport) as Arc<dyn Transport>;
        let started = ControllerClient::start_answering(options.clone(), through, answers).await;
        Self::keeping(&options, transport, started)
    }

    fn keeping(
        options: &ClientOptions,
        transport: Arc<Metered>,
        (client, updates): (ControllerClient, mpsc::Receiver<ViewUpdate>),
    ) -> Self {
        let node = options.node.clone();
        let view = Arc::new(Mutex::new(None));
        let (paused, waits) = watch::channel(false);
        let task = tokio::spawn(keep(node, client.clone(), updates, Arc::clone(&view), waits));
        Self { client, transport, view, paused, task }
    }

    pub(crate) fn view(&self) -> Option<View> {
        self.view.lock().unwrap().clone()
    }

    /// Takes nothing more, or goes on.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    pub(crate) async fn problem(&self, text: &str) {
        let mut state = self.client.state();
        let has = |s: &osier_fleet::client::LinkState| {
            s.problem.as_ref().is_some_and(|problem| problem.contains(text))
        };
        let found = tokio::time::timeout(DEADLINE, state.wait_for(has)).await;
        assert!(found.is_ok(), "no problem with {text:?}, but {:?}", self.client.state().borrow());
    }

    /// Ends it, and waits until its view is on disk.
    pub(crate) async fn stop(self) {
        let mut state = self.client.state();
        self.task.abort();
        let _ = self.task.await;
        drop(self.client);
        let ended = async { while state.changed().await.is_ok() {} };
        tokio::time::timeout(DEADLINE, ended).await.expect("the client's task ends");
    }
}

async fn keep(
    node: NodeName,
    client: ControllerClient,
    mut updates: mpsc::Receiver<ViewUpdate>,
    kept: Arc<Mutex<Option<View>>>,
    mut paused: watch::Receiver<bool>,
) {
    loop {
        if paused.wait_for(|paused| !paused).await.is_err() {
            return;
        }
        let Some(update) = updates.recv().await else { return };
        let position = update.position();
        let mut faults = Vec::new();
        let mut view = kept.lock().unwrap();
        let changes = match update.content {
            ViewContent::Snapshot { fabric, objects } => {
                *view = Some(View::new(node.clone(), fabric));
                objects.into_iter().map(Change::Put).collect()
            }
            ViewContent::Changes { changes, .. } => changes,
        };
        for change in changes {
            if let Err(error) = view.as_mut().unwrap().apply(change) {
                faults.push(Fault { key: None, text: error.to_string() });
            }
        }
        drop(view);
        client.applied(position, faults);
    }
}

/// Counts bytes, and cuts the wire on demand.
pub(crate) struct Metered {
    inner: TlsTransport,
    pub(crate) received: Arc<AtomicU64>,
    cut: Arc<AtomicBool>,
    cuts: watch::Sender<u64>,
}

impl Metered {
    pub(crate) fn new(inner: TlsTransport) -> Arc<Self> {
        let (received, cut) = Default::default();
        Arc::new(Self { inner, received, cut, cuts: watch::Sender::new(0) })
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
        self.cuts.send_modify(|count| *count += 1);
    }
}

impl Transport for Metered {
    fn connect(&self) -> BoxFuture<'static, io::Result<BoxIo>> {
        if self.cut.load(Ordering::SeqCst) {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        let connecting = self.inner.connect();
        let (received, mut cuts) = (Arc::clone(&self.received), self.cuts.subscribe());
        Box::pin(async move {
            let io = connecting.await?;
            let cut = Box::pin(async move {
                if cuts.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            });
            Ok(Box::new(Wire { io, received, cut: Some(cut) }) as BoxIo)
        })
    }

    fn validity(&self) -> Option<osier_fleet::pki::Validity> {
        self.inner.validity()
    }

    fn renewal(&self) -> Option<osier_fleet::client::Renewal> {
        self.inner.renewal()
    }
}

struct Wire {
    io: BoxIo,
    received: Arc<AtomicU64>,
    cut: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_cut = self.cut.as_mut().is_none_or(|cut| cut.as_mut().poll(cx).is_ready());
        if is_cut {
            self.cut = None;
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        self.received.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
