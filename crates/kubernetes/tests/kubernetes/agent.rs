//! Agents without switches, which join as those of Kubernetes do.

use crate::controller::Controller;
use crate::server::{NAMESPACE, Server, until};
use osier_fleet::client::{
    Backoff, ClientOptions, ControllerClient, Credentials, JoinError, Joined, TlsTransport,
    ViewUpdate, join,
};
use osier_fleet::{Fingerprint, Report, Ticket};
use osier_model::{Change, NetworkName, NodeName, Port, PortKey, View, ViewContent};
use serde_json::json;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// An agent that makes everything real at once.
pub(crate) struct Agent {
    pub(crate) client: ControllerClient,
    /// What it knows.
    view: Arc<Mutex<Option<View>>>,
    /// What it keeps on disk.
    _folder: TempDir,
}

/// A token of an agent's pod on a node, as its kubelet gets it.
pub(crate) fn token(server: &Server, node: &str, account: &str, audience: &str) -> String {
    let pod = format!("{account}-{node}");
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": pod, "namespace": NAMESPACE},
        "spec": {"nodeName": node, "hostNetwork": true, "serviceAccountName": account,
            "automountServiceAccountToken": false,
            "containers": [{"name": "agent", "image": "osier"}]},
    });
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    if server.get(&format!("{pods}/{pod}"))["kind"] != "Pod" {
        server.send("POST", &pods, &manifest);
    }
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod});
    server.token(account, &json!({"audiences": [audience], "boundObjectRef": bound}))
}

/// The authority that the ConfigMap announces.
pub(crate) fn authority(server: &Server) -> Fingerprint {
    until("an announced authority", || {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/osier-controllers");
        let map = server.get(&path);
        let pem = map["data"]["authority.pem"].as_str().unwrap_or_default().to_owned();
        Fingerprint::of_pem(&pem).ok_or(pem)
    })
}

/// Joins once.
pub(crate) async fn try_join(
    server: &Server,
    node: &str,
    fleet: &str,
    token: String,
    folder: &Path,
) -> Result<Joined, JoinError> {
    let ticket = Ticket::service_account(NodeName::new(node).unwrap(), authority(server), token);
    join(fleet, ticket, &Credentials::new(folder)).await
}

fn learn(view: &mut Option<View>, node: &NodeName, update: ViewUpdate) {
    let (fabric, objects, changes) = match update.content {
        ViewContent::Snapshot { fabric, objects } => (Some(fabric), objects, Vec::new()),
        ViewContent::Changes { fabric, changes } => {
            let known = view.as_ref().expect("all of it comes first");
            (fabric, known.objects().collect(), changes)
        }
    };
    if let Some(fabric) = fabric {
        let mut anew = View::new(node.clone(), fabric);
        for object in objects {
            anew.apply(Change::Put(object)).unwrap();
        }
        *view = Some(anew);
    }
    let view = view.as_mut().expect("it is there");
    for change in changes {
        view.apply(change).unwrap();
    }
}

impl Agent {
    /// Joins as soon as it may, and follows all of these controllers.
    pub(crate) async fn join(
        server: &Server,
        controllers: &[&Controller],
        node: &str,
        machine: &str,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let token = token(server, node, "osier-agent", "osier-controller");
        let mut last = String::new();
        for _ in 0..200 {
            for controller in controllers {
                let fleet = controller.fleet(machine);
                match try_join(server, node, &fleet, token.clone(), folder.path()).await {
                    Ok(_) => return Self::follow(controllers, node, machine, folder).await,
                    Err(error) => last = format!("{error:?}"),
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{node} did not join: {last}");
    }

    pub(crate) async fn follow(
        controllers: &[&Controller],
        node: &str,
        machine: &str,
        folder: TempDir,
    ) -> Self {
        let node = NodeName::new(node).unwrap();
        let credentials = Credentials::new(folder.path());
        let tls = credentials.load().unwrap().unwrap();
        let at: Vec<String> =
            controllers.iter().map(|controller| controller.fleet(machine)).collect();
        let transport = Arc::new(TlsTransport::new(at, tls, Some(credentials)));
        let options = ClientOptions {
            cache: Some(folder.path().join("view")),
            backoff: Backoff { least: Duration::from_millis(20), most: Duration::from_millis(200) },
            ..ClientOptions::new(node.clone())
        };
        let (client, mut news) = ControllerClient::start(options, transport).await;
        let voice = client.clone();
        let view = Arc::new(Mutex::new(None));
        let (known, own) = (Arc::clone(&view), node.clone());
        tokio::spawn(async move {
            while let Some(update) = news.recv().await {
                let update: ViewUpdate = update;
                let position = update.position();
                learn(&mut known.lock().unwrap(), &own, update);
                voice.applied(position, Vec::new());
            }
        });
        Self { client, view, _folder: folder }
    }

    /// Waits until it follows a leader of a term, or a later one; says which.
    pub(crate) async fn following(&self, least: u64) -> u64 {
        let mut state = self.client.state();
        let following = state.wait_for(|state| state.connected && state.term >= least);
        let following = tokio::time::timeout(crate::server::PATIENCE, following).await;
        let following = following.expect("it follows in time").unwrap();
        following.term
    }

    /// What it knows, looked at.
    pub(crate) fn knows<T>(&self, look: impl FnOnce(&View) -> T) -> Option<T> {
        self.view.lock().unwrap().as_ref().map(look)
    }

    /// Waits until what it knows looks as expected.
    pub(crate) fn eventually<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        look: impl Fn(&View) -> T,
        expected: T,
    ) {
        until(what, || match self.knows(&look) {
            Some(found) if found == expected => Ok(()),
            found => Err(format!("{found:?} instead of {expected:?}")),
        });
    }

    /// How many objects it was sent so far.
    pub(crate) fn received(&self) -> u64 {
        self.client.state().borrow().received.objects
    }

    /// Says which addresses its pods have.
    pub(crate) fn has(&self, node: &str, addresses: &[IpAddr]) {
        let port = |address: &IpAddr| Port {
            key: PortKey {
                device: osier_model::DeviceName::new(
                    &format!("shop:pod-{address}").replace("::", "-"),
                )
                .unwrap(),
                interface: osier_model::InterfaceName::new("eth0").unwrap(),
            },
            network: NetworkName::new("pods").unwrap(),
            node: NodeName::new(node).unwrap(),
            mac: osier_model::Mac::of(*address),
            addresses: vec![*address],
            limits: osier_model::Limits::default(),
            identity: osier_model::Identity::default(),
        };
        let ports = addresses.iter().map(port).collect();
        self.client.report(Report { ports, ..Report::default() });
    }
}
