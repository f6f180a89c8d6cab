//! Where switches come in, and how those are reached that wait to be dialled.
//!
//! A switch is the node that has its address: nothing else of what it says is believed of that. From
//! addresses that are not allowed nothing is read; over TLS a switch has to have a certificate of the
//! authority besides. Each connection has its limits in time, and there are not too many that are
//! not known yet.

use crate::driver::{Context, Driver, Input};
use crate::{Cluster, prepare};
use ipnet::IpNet;
use osier_fleet::{Reports, Views};
use osier_model::NodeName;
use osier_openflow::message::{Message, Role, RoleRequest};
use osier_openflow::session::{
    Backoff, Dialer, Endpoint, Events, Options as SwitchOptions, Session, Tls,
    TlsFiles as SwitchTlsFiles,
};
use osier_ovsdb::session::{Config, Duplex, Remote, Session as Manager, TlsFiles};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

/// Connections that have not said who they are.
const STRANGERS: usize = 64;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Sessions that wait for a node's task.
const QUEUE: usize = 4;
/// How often to look for the node of an address that is dialled.
const LOOK: Duration = Duration::from_secs(1);

/// How switches are let in.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where their databases dial.
    pub manager: SocketAddr,
    /// Where their bridges dial.
    pub openflow: SocketAddr,
    /// Who may.
    pub allow: Vec<IpNet>,
    /// Who is dialled: addresses, and the ports of the database and of the bridge.
    pub dial: Vec<(IpAddr, u16, u16)>,
    /// TLS, both ways; in the clear without it.
    pub tls: Option<TlsFiles>,
    /// The bridge of switches that do not say which it is.
    pub bridge: String,
}

/// Why switches cannot be let in.
#[derive(Debug, Error)]
pub enum BindError {
    /// An address cannot be listened at.
    #[error("{address} cannot be listened at")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The database's TLS.
    #[error("TLS for switches cannot be used")]
    Manager(#[from] osier_ovsdb::session::TlsError),
    /// OpenFlow's TLS.
    #[error("TLS for switches cannot be used")]
    OpenFlow(#[from] osier_openflow::session::TlsError),
}

/// See the module.
pub struct Doors {
    manager: TcpListener,
    openflow: TcpListener,
    acceptor: Option<TlsAcceptor>,
    switch_options: SwitchOptions,
    options: Options,
}

/// What connections need to become sessions of nodes.
struct House {
    context: Arc<Context>,
    options: Options,
    switch_options: SwitchOptions,
    acceptor: Option<TlsAcceptor>,
    strangers: Arc<Semaphore>,
    nodes: Mutex<HashMap<NodeName, mpsc::Sender<Input>>>,
}

/// Which of its two sessions a switch opens.
#[derive(Debug, Clone, Copy)]
enum Door {
    Manager,
    OpenFlow,
}

// === impl Doors ===

impl Doors {
    /// Opens them. Nobody is spoken with yet.
    pub async fn bind(options: Options) -> Result<Self, BindError> {
        let bind = async |address: SocketAddr| {
            let bound = TcpListener::bind(address).await;
            bound.map_err(|source| BindError::Listen { address, source })
        };
        let (manager, openflow) = (bind(options.manager).await?, bind(options.openflow).await?);
        let mut switch_options = SwitchOptions::default();
        let mut acceptor = None;
        if let Some(files) = &options.tls {
            acceptor = Some(files.acceptor()?);
            switch_options.tls = Some(Tls::load(&SwitchTlsFiles {
                private_key: files.private_key.clone(),
                certificate: files.certificate.clone(),
                ca_certificate: files.ca_certificate.clone(),
            })?);
        }
        Ok(Self { manager, openflow, acceptor, switch_options, options })
    }

    /// Where databases and bridges dial, also if the system chose the ports.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        let at = |listener: &TcpListener, said| listener.local_addr().unwrap_or(said);
        (at(&self.manager, self.options.manager), at(&self.openflow, self.options.openflow))
    }

    /// Drives switches until it is told to stop. They forward on then.
    pub async fn run(
        self,
        views: Arc<dyn Views>,
        reports: Arc<dyn Reports>,
        cluster: Arc<dyn Cluster>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let Self { manager, openflow, acceptor, switch_options, options } = self;
        let bridge = options.bridge.clone();
        let house = Arc::new(House {
            context: Arc::new(Context { views, reports, cluster, bridge }),
            switch_options,
            acceptor,
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            nodes: Mutex::default(),
            options,
        });
        let mut tasks = tokio::task::JoinSet::new();
        for (address, manager, openflow) in house.options.dial.clone() {
            tasks.spawn(Arc::clone(&house).dial_manager(address, manager));
            tasks.spawn(Arc::clone(&house).dial_openflow(address, openflow));
        }
        loop {
            let (door, accepted) = tokio::select! {
                accepted = manager.accept() => (Door::Manager, accepted),
                accepted = openflow.accept() => (Door::OpenFlow, accepted),
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer)) => house.let_in(door, stream, peer),
                Err(error) => {
                    debug!(%error, "no connection was accepted");
                    sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

// === impl House ===

impl House {
    /// Speaks with who may come in, in a task of its own.
    fn let_in(self: &Arc<Self>, door: Door, stream: TcpStream, peer: SocketAddr) {
        let address = peer.ip().to_canonical();
        if !self.options.allow.iter().any(|prefix| prefix.contains(&address)) {
            return self.refuse(None, &format!("a switch at {address} is not allowed"));
        }
        let Ok(room) = Arc::clone(&self.strangers).try_acquire_owned() else {
            return debug!(%peer, "too many connections that are not known yet");
        };
        let house = Arc::clone(self);
        tokio::spawn(async move {
            let greeted = timeout(HANDSHAKE, house.greet(door, stream, address)).await;
            if let Err(error) = greeted.unwrap_or_else(|_| Err("it took too long".to_owned())) {
                debug!(%peer, error, "no session with a switch");
            }
            drop(room);
        });
    }

    fn refuse(&self, node: Option<&NodeName>, why: &str) {
        self.context.cluster.refused(node, why);
    }

    /// The node that a switch is, if it may be driven from here.
    fn node_at(&self, address: IpAddr) -> Result<NodeName, String> {
        let Some(node) = self.context.cluster.node_at(address) else {
            let why = format!("a switch at {address} is of no node");
            self.refuse(None, &why);
            return Err(why);
        };
        if self.context.cluster.has_agent(&node) {
            let why = format!("a switch at {address} is node {node}'s, which has an agent");
            self.refuse(Some(&node), &why);
            return Err(why);
        }
        Ok(node)
    }

    async fn greet(&self, door: Door, stream: TcpStream, address: IpAddr) -> Result<(), String> {
        let node = self.node_at(address)?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let stream: Box<dyn Duplex> = match &self.acceptor {
            Some(acceptor) => {
                Box::new(acceptor.accept(stream).await.map_err(|error| error.to_string())?)
            }
            None => Box::new(stream),
        };
        match door {
            Door::Manager => {
                let session = Manager::over(stream, config(None));
                self.give(node, Input::Manager(session));
            }
            Door::OpenFlow => {
                let options = self.switch_options.clone();
                let peer = address.to_string();
                let (session, events) = Session::over(stream, peer, options)
                    .await
                    .map_err(|error| error.to_string())?;
                self.present(node, session, events).await?;
            }
        }
        Ok(())
    }

    /// Asks a bridge which it is, and says that we lead it: one that led before is refused from now on.
    async fn present(
        &self,
        node: NodeName,
        session: Session,
        events: Events,
    ) -> Result<(), String> {
        let role = RoleRequest { role: Role::Primary, generation_id: self.context.views.term() };
        if let Err(error) = session.request(&Message::RoleRequest(role)).await {
            session.close().await;
            return Err(format!("the switch follows another controller: {error}"));
        }
        match session.request(&Message::FeaturesRequest).await {
            Ok(Message::FeaturesReply(features)) => {
                match self.give(node, Input::OpenFlow(features.datapath_id, session, events)) {
                    true => Ok(()),
                    false => Err("its node's task is busy".to_owned()),
                }
            }
            Ok(other) => Err(format!("it answers a question for features with {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Gives a session to its node's task, which begins if there is none; whether that could take it.
    fn give(&self, node: NodeName, input: Input) -> bool {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|_, inputs| !inputs.is_closed());
        let inputs = nodes.entry(node).or_insert_with_key(|node| {
            let (inputs, received) = mpsc::channel(QUEUE);
            let driver = Driver::new(node.clone(), Arc::clone(&self.context));
            tokio::spawn(driver.run(received));
            inputs
        });
        // Who dials tries again.
        let is_taken = inputs.try_send(input).is_ok();
        if !is_taken {
            debug!("a node's switch opens sessions faster than they can be taken");
        }
        is_taken
    }

    /// Dials a database, again and again.
    async fn dial_manager(self: Arc<Self>, address: IpAddr, port: u16) {
        let host = address.to_string();
        let remote = match self.options.tls {
            Some(_) => Remote::Tls { host, port },
            None => Remote::Tcp { host, port },
        };
        loop {
            let Ok(node) = self.node_at(address) else {
                sleep(LOOK).await;
                continue;
            };
            let session = Manager::connect(vec![remote.clone()], config(self.options.tls.clone()));
            // The node's task would wait for one that nobody answers, though its database may dial us.
            if session.ready().await.is_err() || self.node_at(address).as_ref() != Ok(&node) {
                sleep(LOOK).await;
                continue;
            }
            self.give(node.clone(), Input::Manager(session));
            // As long as somebody drives it.
            while self.is_driven(&node) {
                sleep(LOOK).await;
            }
        }
    }

    fn is_driven(&self, node: &NodeName) -> bool {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.get(node).is_some_and(|inputs| !inputs.is_closed())
    }

    /// Dials a bridge, again and again.
    async fn dial_openflow(self: Arc<Self>, address: IpAddr, port: u16) {
        let host = SocketAddr::new(address, port).into();
        let endpoint = match self.options.tls {
            Some(_) => Endpoint::Ssl(host),
            None => Endpoint::Tcp(host),
        };
        let mut dialer = Dialer::new(endpoint, self.switch_options.clone(), Backoff::default());
        loop {
            let Ok(node) = self.node_at(address) else {
                sleep(LOOK).await;
                continue;
            };
            let (session, events) = dialer.next().await;
            match self.present(node, session.clone(), events).await {
                Ok(()) => drop(session.closed().await),
                Err(error) => {
                    warn!(%address, error, "no session with a switch");
                    sleep(LOOK).await;
                }
            }
        }
    }
}

fn config(tls: Option<TlsFiles>) -> Config {
    let mut config = Config::new("Open_vSwitch", prepare::monitor());
    config.tls = tls;
    config
}
