//! Agents without switches.

use crate::rig::Rig;
use futures_util::future::BoxFuture;
use osier_fleet::Token;
use osier_fleet::ask::{
    Ask, Check, CheckResult, Diagnostics, Outcome, PauseState, TraceFrom, TraceStep, Traced,
    TrackedConnections, Transit,
};
use osier_fleet::client::{
    Answers, Backoff, ClientOptions, ControllerClient, Credentials, Reply, TlsTransport,
    ViewContent, ViewUpdate, join,
};
use osier_model::{Change, NodeName, Object, View};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;

pub(crate) fn token(rig: &Rig, node: &str, address: &str) -> Token {
    let asked = json!({"address": address, "ttlSeconds": 60});
    let made = rig.send("POST", &format!("/nodes/{node}/token"), &asked).expect(201);
    made["token"].as_str().unwrap().parse().unwrap()
}

/// An agent that makes everything real at once.
pub(crate) struct Agent {
    view: Arc<Mutex<Option<View>>>,
    epoch: Arc<AtomicU64>,
    pub(crate) client: ControllerClient,
    /// Keeps what it has on disk.
    folder: Option<TempDir>,
}

impl Agent {
    /// Joins, and follows.
    pub(crate) fn join(rig: &Rig, node: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let (fleet, credentials) = (rig.fleet.to_string(), Credentials::new(folder.path()));
        let token = token(rig, node, "127.0.0.1");
        rig.runtime.block_on(join(&fleet, &token, &credentials)).unwrap();
        let mut agent = Self::follow(rig, node, folder.path());
        agent.folder = Some(folder);
        agent
    }

    pub(crate) fn follow(rig: &Rig, node: &str, folder: &Path) -> Self {
        let node = NodeName::new(node).unwrap();
        let credentials = Credentials::new(folder);
        let tls = credentials.load().unwrap().unwrap();
        let controllers = vec![rig.fleet.to_string()];
        let transport = TlsTransport::new(controllers, tls, Some(credentials));
        let options = ClientOptions {
            cache: Some(folder.join("view")),
            software: "test 1".to_owned(),
            backoff: Backoff { least: Duration::from_millis(20), most: Duration::from_millis(200) },
            ..ClientOptions::new(node.clone())
        };
        let view = Arc::new(Mutex::new(None));
        let epoch = Arc::new(AtomicU64::new(0));
        let (shared, heard) = (Arc::clone(&view), Arc::clone(&epoch));
        let client = rig.runtime.block_on(async move {
            let answers = Arc::new(Oracle(node.clone()));
            let transport = Arc::new(transport);
            let (client, updates) =
                ControllerClient::start_answering(options, transport, answers).await;
            tokio::spawn(apply(client.clone(), node, updates, shared, heard));
            client
        });
        Self { view, epoch, client, folder: None }
    }

    /// The history of the model that its view is of.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    pub(crate) fn has(&self, port: &str) -> bool {
        let view = self.view.lock().unwrap();
        view.as_ref().is_some_and(|view| view.ports().keys().any(|key| key.to_string() == port))
    }
}

async fn apply(
    client: ControllerClient,
    node: NodeName,
    mut updates: mpsc::Receiver<ViewUpdate>,
    view: Arc<Mutex<Option<View>>>,
    epoch: Arc<AtomicU64>,
) {
    while let Some(update) = updates.recv().await {
        let mut view = view.lock().unwrap();
        let put = |view: &mut View, object: Object| view.apply(Change::Put(object)).unwrap();
        match &update.content {
            ViewContent::Snapshot { fabric, objects } => {
                let mut fresh = View::new(node.clone(), fabric.clone());
                for object in objects {
                    put(&mut fresh, object.clone());
                }
                *view = Some(fresh);
            }
            ViewContent::Changes { changes, .. } => {
                let view = view.as_mut().unwrap();
                for change in changes {
                    view.apply(change.clone()).unwrap();
                }
            }
        }
        epoch.store(update.epoch, Ordering::SeqCst);
        client.applied(update.position(), Vec::new());
    }
}

/// Answers what a node of two would: what comes from a port goes to node `n2`, and there to
/// `shop:db`; what goes to 10.5.0.99 is dropped.
struct Oracle(NodeName);

impl Answers for Oracle {
    fn answer(&self, ask: Ask, reply: Reply) -> BoxFuture<'static, Result<(), String>> {
        let node = self.0.clone();
        Box::pin(async move {
            let sent = match ask {
                Ask::Trace(request) => {
                    let outcome = match request.from {
                        _ if request.packet.target.to_string() == "10.5.0.99" => Outcome::Dropped {
                            table: 20,
                            name: "route".to_owned(),
                            owner: Some("network blue".to_owned()),
                            reason: "nobody has 10.5.0.99".to_owned(),
                        },
                        TraceFrom::Tunnel(_) => {
                            Outcome::Port { key: osier_resource::port_key("shop:db").unwrap() }
                        }
                        TraceFrom::Port(_) | TraceFrom::Gateway => Outcome::Tunnel(Transit {
                            node: None,
                            source: "192.0.2.1".parse().unwrap(),
                            target: "192.0.2.2".parse().unwrap(),
                            vni: 4096,
                            identity: None,
                        }),
                    };
                    let step = TraceStep {
                        table: 0,
                        name: "ingress".to_owned(),
                        flow: None,
                        owner: None,
                        notes: Vec::new(),
                    };
                    let raw = format!("as node {node} says");
                    let packet = request.packet;
                    reply.send_json(&Traced { steps: vec![step], outcome, packet, raw }).await
                }
                Ask::Capture(request) => {
                    let text = format!("{} packets of {}", request.count, request.port);
                    reply.send(text.into()).await
                }
                Ask::Diagnostics => {
                    let flows = format!("flows of {node}");
                    reply.send_json(&Diagnostics { flows, ..Diagnostics::default() }).await
                }
                Ask::Pause => reply.send_json(&PauseState { paused: true }).await,
                Ask::Resume => reply.send_json(&PauseState { paused: false }).await,
                Ask::Check => {
                    let check = Check {
                        name: "clock".to_owned(),
                        result: CheckResult::Warning,
                        detail: "a second late".to_owned(),
                        advice: "run a time daemon".to_owned(),
                    };
                    reply.send_json(&[check]).await
                }
                Ask::Hits | Ask::Services => reply.send_json(&[(); 0]).await,
                Ask::Connections(_) => reply.send_json(&TrackedConnections::default()).await,
            };
            sent.map_err(|error| error.to_string())
        })
    }
}
