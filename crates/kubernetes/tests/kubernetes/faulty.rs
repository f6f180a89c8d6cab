//! A proxy in front of the API server that fails as servers do on bad days.

use crate::server::Server;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::{Request, Response, header};
use futures_util::{StreamExt, stream};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

const ADDRESS: &str = "192.0.2.100:6444";

/// What it does with requests, but for those of the election.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fault {
    /// Everything is refused with 429, and so many seconds to wait.
    pub(crate) busy: Option<u64>,
    /// Watches that would go on where they were are refused with 410.
    pub(crate) forgets: bool,
    /// Watches end as soon as they begin, and in order.
    pub(crate) short: bool,
    /// Nothing of watches is passed on.
    pub(crate) late: bool,
}

/// The proxy; it ends with the runtime that it was made on.
pub(crate) struct Faulty {
    shared: Arc<Shared>,
    folder: TempDir,
}

struct Shared {
    api: kube::Client,
    fault: watch::Sender<Fault>,
    /// How often watches were cut.
    cuts: watch::Sender<usize>,
    /// Answers so far: method and path, the query, the code.
    seen: Mutex<Vec<(String, String, u16)>>,
}

// === impl Faulty ===

impl Faulty {
    /// Begins to pass on what the controller's account asks for.
    pub(crate) async fn start(server: &Server) -> Self {
        let account = server.account("osier-controller");
        let folder = TempDir::new().unwrap();
        let text = std::fs::read_to_string(&account).unwrap();
        let text = text.replace("https://192.0.2.100:6443", &format!("http://{ADDRESS}"));
        std::fs::write(folder.path().join("conf"), text).unwrap();
        let (file, options) =
            (Kubeconfig::read_from(account).unwrap(), KubeConfigOptions::default());
        let mut way = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
        way.default_retry = false;
        let shared = Arc::new(Shared {
            api: kube::Client::try_from(way).unwrap(),
            fault: watch::Sender::default(),
            cuts: watch::Sender::default(),
            seen: Mutex::default(),
        });
        let router = axum::Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind(ADDRESS).await.unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(router.clone());
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    // Whoever asked is gone, or was cut off.
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { shared, folder }
    }

    /// With this one comes to the proxy.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("conf")
    }

    /// From now on it fails so.
    pub(crate) fn set(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// Cuts the connections of all watches.
    pub(crate) fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Forgets what it has seen.
    pub(crate) fn forget(&self) {
        self.shared.seen.lock().unwrap().clear();
    }

    /// How often something was asked for, by method and path, if its query and code are as expected.
    pub(crate) fn seen(&self, is: impl Fn(&str, u16) -> bool) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (what, query, code) in self.shared.seen.lock().unwrap().iter() {
            if is(query, *code) {
                *counts.entry(what.clone()).or_default() += 1;
            }
        }
        counts
    }
}

fn refused(code: u16, reason: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": reason,
    });
    let answer = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    answer.body(Body::from(status.to_string())).unwrap()
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let what = format!("{} {}", parts.method, parts.uri.path());
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let fault = match what.contains("/leases") {
        true => Fault::default(),
        false => *shared.fault.borrow(),
    };
    let is_watch = query.contains("watch=true");
    let answer = if let Some(seconds) = fault.busy {
        let mut answer = refused(429, "TooManyRequests");
        answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        answer
    } else if fault.forgets && is_watch && !query.contains("sendInitialEvents") {
        refused(410, "Expired")
    } else {
        parts.headers.remove(header::HOST);
        parts.headers.remove(header::AUTHORIZATION);
        let body = to_bytes(body, 1 << 24).await.unwrap();
        let asked = Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
        match shared.api.send(asked).await {
            Ok(answer) if is_watch => answer.map(|body| passed(&shared, Body::new(body))),
            Ok(answer) => answer.map(Body::new),
            Err(error) => refused(502, &error.to_string()),
        }
    };
    shared.seen.lock().unwrap().push((what, query, answer.status().as_u16()));
    answer
}

/// What a watch tells, as far as it comes through.
fn passed(shared: &Shared, body: Body) -> Body {
    let (fault, mut cuts) = (shared.fault.subscribe(), shared.cuts.subscribe());
    cuts.mark_unchanged();
    let state = (body.into_data_stream(), fault, cuts);
    let chunks = stream::unfold(state, |(mut body, mut fault, mut cuts)| async move {
        let next = async {
            let chunk = tokio::select! {
                chunk = body.next() => chunk?.map_err(io::Error::other),
                Ok(_) = fault.wait_for(|fault| fault.short) => return None,
            };
            fault.wait_for(|fault| !fault.late).await.ok()?;
            Some(chunk)
        };
        let chunk: io::Result<Bytes> = tokio::select! {
            chunk = next => chunk?,
            _ = cuts.changed() => Err(io::ErrorKind::ConnectionReset.into()),
        };
        Some((chunk, (body, fault, cuts)))
    });
    Body::from_stream(chunks)
}
