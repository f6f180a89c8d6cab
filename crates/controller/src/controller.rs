//! The controller as a whole: its parts, started in order, and stopped together.

use crate::api::{self, Api, Door};
use crate::attachments::Ports;
use crate::audit::Audit;
use crate::config::Config;
use crate::credentials::{self, Credential, CredentialError, Credentials, Role};
use crate::engine::{Engine, StartError, Started};
use crate::joins::{self, Doorkeeper};
use crate::metrics::Metrics;
use crate::nodes::{NodeStates, Nodes};
use crate::northbound::Northbound;
use crate::pki::{self, Certificates, PkiError};
use crate::restconf::{self, OpenError as RestconfError, Restconf};
use crate::switches::{self, Sightings};
use osier_fleet::server::{Agents, FleetServer, ServerOptions, accept};
use osier_fleet::{Authority, Fingerprint};
use osier_restconf::Isolation;
use osier_store::{Embedded, OpenError, Options, Revision, Store, Unavailable};
use serde::Serialize;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Why the controller cannot run.
#[derive(Debug, Error)]
pub enum ControllerError {
    /// Its directory or a file in it cannot be used.
    #[error("{} cannot be used", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Open(#[from] OpenError),
    /// The store cannot be used.
    #[error("the engine cannot start")]
    Start(#[from] StartError),
    /// There are no certificates.
    #[error("there are no certificates")]
    Pki(#[from] PkiError),
    /// The credentials cannot be used.
    #[error("the credentials cannot be used")]
    Credentials(#[from] CredentialError),
    /// The pauses cannot be read.
    #[error("the store cannot be read")]
    List(#[from] osier_store::ListError),
    /// RESTCONF cannot be served.
    #[error("RESTCONF cannot be served")]
    Restconf(#[from] RestconfError),
    /// A port cannot be served.
    #[error("{address} cannot be listened at")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Switches cannot be let in.
    #[error("switches without an agent cannot be let in")]
    Switches(#[from] osier_switches::BindError),
    /// The store was lost while the controller ran.
    #[error("the store can no longer be used; a restart reads it anew")]
    Lost(#[source] Unavailable),
    /// The store is an older copy.
    #[error(
        "this controller leads term {term}, and nodes have followed term {seen}: its store is an \
         older copy, and begins a new epoch with the next start"
    )]
    Outdated {
        /// Ours.
        term: u64,
        /// Theirs.
        seen: u64,
    },
    /// A part has ended that should not.
    #[error("{0} has ended")]
    Ended(&'static str),
}

/// A controller that runs.
pub struct Controller {
    /// Where the API is.
    pub api: SocketAddr,
    /// Where agents connect.
    pub fleet: SocketAddr,
    /// Where RESTCONF is, over TLS and in the clear, if it is served so.
    pub restconf: (Option<SocketAddr>, Option<SocketAddr>),
    /// Where switches without an agent dial, their databases and their bridges, if they may.
    pub switches: Option<(SocketAddr, SocketAddr)>,
    /// How tokens name the authority.
    pub authority: Fingerprint,
    /// A credential that was made now, because there was none: shown once.
    pub first_credential: Option<String>,
    /// How many resources there are.
    pub resources: usize,
    /// How long it took to read them.
    pub took: Duration,
    states: NodeStates,
    metrics: Metrics,
    term: u64,
    nodes: Nodes,
    embedded: Option<Arc<Embedded>>,
    engine: Engine,
    engine_task: JoinHandle<Result<(), Unavailable>>,
    parts: JoinSet<&'static str>,
    stop: watch::Sender<bool>,
}

// === impl Controller ===

impl Controller {
    /// Starts all parts. Agents and clients may come when it answers.
    pub async fn start(config: Config) -> Result<Self, ControllerError> {
        prepare(&config)?;
        let (path, last) = (config.store(), config.last_term());
        let opened = tokio::task::spawn_blocking(move || Embedded::open(path, Options::default()));
        let store = opened.await.map_err(|_| ControllerError::Ended("opening the store"))??;
        let store = Arc::new(store);
        // A file that was put back in place knows less than its folder does.
        let led = std::fs::read_to_string(&last).ok().and_then(|text| text.trim().parse().ok());
        let led = Revision(led.unwrap_or_default());
        if store.position().await.map_err(ControllerError::Lost)?.revision < led {
            store.begin_epoch(led).await.map_err(ControllerError::Lost)?;
        }
        let credentials = own_credentials(&config)?;
        let parts = (Some(Arc::clone(&store)), None);
        let started = Self::begin(config, store, parts, credentials).await?;
        let term = format!("{}\n", started.term);
        std::fs::write(&last, term)
            .map_err(|source| ControllerError::File { path: last, source })?;
        Ok(started)
    }

    /// The same, with a store that is open already.
    pub async fn with_store(
        config: Config,
        store: Arc<dyn Store>,
    ) -> Result<Self, ControllerError> {
        prepare(&config)?;
        let credentials = own_credentials(&config)?;
        Self::begin(config, store, (None, None), credentials).await
    }

    /// The same, with credentials that several controllers share.
    pub async fn with_credentials(
        config: Config,
        store: Arc<dyn Store>,
        credentials: watch::Receiver<Vec<Credential>>,
    ) -> Result<Self, ControllerError> {
        prepare(&config)?;
        let (credentials, local) = Credentials::told(credentials)?;
        Self::begin(config, store, (None, None), (credentials, local, None)).await
    }

    /// The same, where somebody else owns the model: nobody writes it by the API.
    pub async fn with_northbound(
        config: Config,
        store: Arc<dyn Store>,
        northbound: Arc<dyn Northbound>,
    ) -> Result<Self, ControllerError> {
        prepare(&config)?;
        // Who may come in is known there.
        let (credentials, local) = Credentials::open(&config.credentials())?;
        Self::begin(config, store, (None, Some(northbound)), (credentials, local, None)).await
    }

    async fn begin(
        config: Config,
        store: Arc<dyn Store>,
        (embedded, northbound): (Option<Arc<Embedded>>, Option<Arc<dyn Northbound>>),
        (credentials, local, first_credential): (Credentials, String, Option<String>),
    ) -> Result<Self, ControllerError> {
        let metrics = Metrics::default();
        let authority = Arc::new(pki::authority(store.as_ref(), &config.cluster).await?);
        let api_listener = listen(config.api.listen).await?;
        let fleet_listener = listen(config.fleet.listen).await?;
        let addresses = (address(&api_listener, &config), address(&fleet_listener, &config));
        let pem = write_authority(&config, &authority)?;
        write_admin(&config, addresses.0, &pem, &local)?;
        let started = Engine::start(store, config.rules(), metrics.clone()).await?;
        let Started { engine, task: engine_task, term, resources, took } = started;
        let certificates = Arc::new(certificates(&config, &authority, &metrics)?);
        let paused = joins::paused(&engine).await?;
        let nodes = Nodes::new(&engine, metrics.clone(), paused);
        let audit = open_audit(&config, &metrics)?;
        let (stop, stopping) = watch::channel(false);
        let mut parts = JoinSet::new();
        let fleet = Fleet {
            config: &config,
            engine: &engine,
            nodes: &nodes,
            certificates: &certificates,
            northbound: &northbound,
        };
        let agents = fleet.start(&mut parts, fleet_listener, stopping.clone());
        nodes.with_agents(agents.clone());
        let tls = certificates.api()?;
        let renewing = stopping.clone();
        let states = nodes.states();
        let api = Api {
            northbound,
            metrics: metrics.clone(),
            buckets: api::Buckets::default(),
            watches: Arc::new(Semaphore::new(config.limits.watches)),
            config,
            engine: engine.clone(),
            embedded: embedded.clone(),
            term,
            started: crate::engine::now(),
            nodes: nodes.clone(),
            agents,
            credentials,
            certificates: Arc::clone(&certificates),
            audit,
            stopping,
        };
        let served = serve(Arc::new(api), api_listener, tls, &mut parts).await?;
        let Served { restconf, switches } = served;
        parts.spawn(renew(certificates, renewing));
        tracing::info!(resources, took_ms = took.as_millis(), term, "the model is read");
        Ok(Self {
            api: addresses.0,
            fleet: addresses.1,
            restconf,
            switches,
            authority: authority.fingerprint(),
            first_credential,
            resources,
            took,
            states,
            metrics,
            term,
            nodes,
            embedded,
            engine,
            engine_task,
            parts,
            stop,
        })
    }

    /// The engine, for who changes the model without the API.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How the nodes are.
    pub fn states(&self) -> &NodeStates {
        &self.states
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Runs until it is told to stop, or cannot go on.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), ControllerError> {
        let result = tokio::select! {
            () = stop => Ok(()),
            ended = &mut self.engine_task => match ended {
                Ok(Err(lost)) => Err(ControllerError::Lost(lost)),
                Ok(Ok(())) | Err(_) => Err(ControllerError::Ended("the engine")),
            },
            Some(ended) = self.parts.join_next() => {
                Err(ControllerError::Ended(ended.unwrap_or("a part")))
            }
            seen = self.nodes.outdated(), if self.embedded.is_some() => self.begin_anew(seen).await,
        };
        self.stop().await;
        result
    }

    /// Agents have followed a later start of this store: it is an older copy, as a snapshot of a
    /// whole machine is. The next start is of a new epoch, after all that anyone has seen.
    async fn begin_anew(&self, seen: u64) -> Result<(), ControllerError> {
        if let Some(store) = &self.embedded {
            // It leaps by the clock, whatever a node says.
            store.begin_epoch(Revision(0)).await.map_err(ControllerError::Lost)?;
        }
        Err(ControllerError::Outdated { term: self.term, seen })
    }

    /// Stops: what was begun is done first.
    pub async fn stop(mut self) {
        let Self { engine, engine_task, stop, embedded, .. } = self;
        // If nobody listens, all have ended.
        let _ = stop.send(true);
        let parts = async { while self.parts.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(5), parts).await;
        self.parts.shutdown().await;
        drop((engine, embedded));
        if !engine_task.is_finished() {
            // Its last handle is gone: it ends, and lets the store go.
            let _ = tokio::time::timeout(Duration::from_secs(5), engine_task).await;
        }
    }
}

/// Where RESTCONF is, over TLS and in the clear.
type RestconfAddresses = (Option<SocketAddr>, Option<SocketAddr>);

/// Where clients and switches come in beside the API.
struct Served {
    restconf: RestconfAddresses,
    switches: Option<(SocketAddr, SocketAddr)>,
}

/// Serves the API, RESTCONF beside it, and switches.
async fn serve(
    api: Arc<Api>,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    parts: &mut JoinSet<&'static str>,
) -> Result<Served, ControllerError> {
    let (restconf, data) = serve_restconf(&api, &tls, parts).await?;
    let switches = serve_switches(&api, data, parts).await?;
    parts.spawn(async move {
        api::serve(api, listener, tls).await;
        "the API"
    });
    Ok(Served { restconf, switches })
}

/// Drives switches without an agent, if the configuration says so.
async fn serve_switches(
    api: &Api,
    restconf: Option<Arc<Restconf>>,
    parts: &mut JoinSet<&'static str>,
) -> Result<Option<(SocketAddr, SocketAddr)>, ControllerError> {
    let Some(config) = &api.config.switches else { return Ok(None) };
    let doors = osier_switches::Doors::bind(config.options()).await?;
    let at = doors.addresses();
    let age = api.config.restconf.as_ref().map(|config| config.age_seconds);
    let sightings = Arc::new(Sightings::new(&api.engine, &api.nodes, api.metrics.clone()));
    let (cluster, stopping) = (Arc::clone(&sightings), api.stopping.clone());
    let (hub, reports) = (Arc::new(api.engine.hub().clone()), Arc::new(api.nodes.clone()));
    parts.spawn(async move {
        doors.run(hub, reports, cluster, stopping).await;
        "letting switches in"
    });
    // Where somebody else owns the model, nothing is written to it from here.
    if api.northbound.is_none() {
        let recorder = switches::Recorder {
            engine: api.engine.clone(),
            sightings,
            ageing: restconf.zip(age.map(|age| Duration::from_secs(age.into()))),
        };
        let stopping = api.stopping.clone();
        parts.spawn(async move {
            recorder.run(stopping).await;
            "recording what switches have"
        });
    }
    Ok(Some(at))
}

/// Serves RESTCONF, if the configuration says so: over TLS, and in the clear for who may.
async fn serve_restconf(
    api: &Arc<Api>,
    tls: &Arc<rustls::ServerConfig>,
    parts: &mut JoinSet<&'static str>,
) -> Result<(RestconfAddresses, Option<Arc<Restconf>>), ControllerError> {
    let Some(config) = &api.config.restconf else { return Ok(((None, None), None)) };
    if api.northbound.is_some() {
        tracing::warn!("RESTCONF is not served: the model is written elsewhere");
        return Ok(((None, None), None));
    }
    let isolation = match config.isolation {
        true => Isolation::Namespaces,
        false => Isolation::None,
    };
    let listener = listen(config.listen).await?;
    let plain_listener = match &config.plain {
        Some(plain) => Some((listen(plain.listen).await?, plain.allow.clone())),
        None => None,
    };
    let opened = Restconf::open(api.engine.clone(), api.metrics.clone(), isolation).await?;
    let routes = restconf::router(api, &opened);
    let at = (
        Some(address(&listener, &api.config)),
        plain_listener.as_ref().and_then(|(listener, _)| listener.local_addr().ok()),
    );
    let secure = Door { listener, tls: Some(Arc::clone(tls)), allow: None, routes: routes.clone() };
    let plain = plain_listener.map(|(listener, allow)| Door {
        listener,
        tls: None,
        allow: Some(allow),
        routes,
    });
    for door in [secure].into_iter().chain(plain) {
        let api = Arc::clone(api);
        parts.spawn(async move {
            api::serve_at(api, door).await;
            "RESTCONF"
        });
    }
    let (followed, stopping) = (Arc::clone(&opened), api.stopping.clone());
    parts.spawn(async move {
        restconf::follow(followed, stopping).await;
        "following nodes for RESTCONF"
    });
    let silence = Duration::from_secs(config.heal_seconds.into());
    let (healed, stopping) = (Arc::clone(&opened), api.stopping.clone());
    parts.spawn(async move {
        restconf::heal(healed, silence, stopping).await;
        "healing RESTCONF's data"
    });
    Ok((at, Some(opened)))
}

fn open_audit(config: &Config, metrics: &Metrics) -> Result<Audit, ControllerError> {
    let (path, limits) = (config.audit_log(), &config.audit);
    let opened = Audit::open(&path, limits.file_bytes, limits.files, metrics.clone());
    opened.map_err(|source| ControllerError::File { path, source })
}

/// What the agents' port needs.
struct Fleet<'a> {
    config: &'a Config,
    engine: &'a Engine,
    nodes: &'a Nodes,
    certificates: &'a Arc<Certificates>,
    northbound: &'a Option<Arc<dyn Northbound>>,
}

// === impl Fleet ===

impl Fleet<'_> {
    fn start(
        &self,
        parts: &mut JoinSet<&'static str>,
        listener: TcpListener,
        stopping: watch::Receiver<bool>,
    ) -> Agents {
        let fleet = &self.config.fleet;
        let options = ServerOptions {
            certificate_lifetime: Duration::from_hours(fleet.certificate_hours.into()),
            ..ServerOptions::default()
        };
        let (engine, northbound) = (self.engine.clone(), self.northbound.clone());
        let doorkeeper = Doorkeeper { engine, mtu: fleet.mtu, northbound };
        let server = FleetServer::new(
            Arc::new(self.engine.hub().clone()),
            Arc::new(self.nodes.clone()),
            Arc::new(doorkeeper),
            Arc::clone(&self.certificates.authority),
            options,
        )
        .with_attachments(Arc::new(Ports {
            engine: self.engine.clone(),
            northbound: self.northbound.clone(),
        }));
        let agents = server.agents();
        let incoming = accept(listener, &self.certificates.fleet, fleet.connections);
        parts.spawn(async move {
            if let Err(error) = server.serve(incoming, stopped(stopping)).await {
                tracing::error!(%error, "the agents' port failed");
            }
            "the agents' port"
        });
        agents
    }
}

async fn renew(certificates: Arc<Certificates>, stopping: watch::Receiver<bool>) -> &'static str {
    tokio::select! {
        () = certificates.keep() => {}
        () = stopped(stopping) => {}
    }
    "the renewal of certificates"
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // Nobody who could say it any more is as good as said.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

fn prepare(config: &Config) -> Result<(), ControllerError> {
    let path = &config.state_dir;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| ControllerError::File { path: path.clone(), source })
}

fn write_authority(config: &Config, authority: &Authority) -> Result<String, ControllerError> {
    let path = config.authority();
    let pem = pki::certificate_pem(authority);
    if std::fs::read_to_string(&path).is_ok_and(|found| found == pem) {
        return Ok(pem);
    }
    std::fs::write(&path, &pem).map_err(|source| ControllerError::File { path, source })?;
    Ok(pem)
}

/// What `osier` on this machine needs to talk to this controller, for its administrator only.
#[derive(Serialize)]
struct Admin<'a> {
    server: String,
    ca: &'a str,
    credential: &'a str,
}

fn write_admin(
    config: &Config,
    mut at: SocketAddr,
    ca: &str,
    credential: &str,
) -> Result<(), ControllerError> {
    if at.ip().is_unspecified() {
        at.set_ip(match at {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let admin = Admin { server: format!("https://{at}"), ca, credential };
    let text = toml::to_string(&admin).unwrap_or_default();
    let (path, next) = (config.admin(), config.admin().with_extension("new"));
    let write = || {
        let mut private = std::fs::OpenOptions::new();
        private.create(true).write(true).truncate(true).mode(0o600);
        private.open(&next)?.write_all(text.as_bytes())?;
        std::fs::rename(&next, &path)
    };
    write().map_err(|source| ControllerError::File { path, source })
}

/// The credentials of this controller's file, the local administrator's text, and that of the first one,
/// which is made if there is none.
fn own_credentials(
    config: &Config,
) -> Result<(Credentials, String, Option<String>), CredentialError> {
    let path = config.credentials();
    let first = match credentials::list(&path)?.is_empty() {
        true => Some(credentials::add(&path, credentials::FIRST, Role::Write)?),
        false => None,
    };
    let (credentials, local) = Credentials::open(&path)?;
    Ok((credentials, local, first))
}

fn certificates(
    config: &Config,
    authority: &Arc<Authority>,
    metrics: &Metrics,
) -> Result<Certificates, PkiError> {
    let mut names = vec!["localhost".to_owned()];
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    names.extend(Some(machine.trim().to_owned()).filter(|name| !name.is_empty()));
    names.extend(config.api.names.iter().cloned());
    let mut addresses: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    addresses.extend(&config.api.addresses);
    let own = [config.api.listen.ip(), config.fleet.listen.ip()];
    addresses.extend(own.iter().filter(|address| !address.is_unspecified()));
    addresses.sort();
    addresses.dedup();
    names.dedup();
    let lifetime = Duration::from_hours(config.fleet.certificate_hours.into());
    Certificates::new(Arc::clone(authority), names, addresses, lifetime, metrics.clone())
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ControllerError> {
    let failed = |source| ControllerError::Listen { address, source };
    TcpListener::bind(address).await.map_err(failed)
}

/// Where a listener is, also if the system chose its port.
fn address(listener: &TcpListener, config: &Config) -> SocketAddr {
    listener.local_addr().unwrap_or(config.api.listen)
}
