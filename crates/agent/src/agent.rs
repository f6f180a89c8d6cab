//! The agent as a whole: starts its parts in order, follows the view, stops.
//!
//! Nothing is changed before all is known: the view, the rows of the database, which pods live.
//! Then wanted things go in first and the reconcilers begin, so that what is right stays as it is.

use crate::adopt::{self, Adopted};
use crate::cni_server::{CniServer, ServeError};
use crate::config::{Config, Mtu};
use crate::forward;
use crate::gateway::{self, GatewayError};
use crate::health;
use crate::metrics::Metrics;
use crate::netlink::{NamespaceId, NetlinkError, mtu_of_address};
use crate::ports::Ports;
use crate::switch::{Switch, SwitchError, row_ownership};
use crate::view::{POLL, ViewDocument, ViewError, ViewFile};
use ipnet::IpNet;
use osier_compiler::LocalPorts;
use osier_model::{Change, Key, Mac, Node, Object, Tunnel};
use osier_openflow::port_no::PortNo;
use osier_ovsdb::cache::Cache;
use osier_ovsdb::rows::vswitch::BridgeFailMode;
use osier_ovsdb::session::Remote;
use osier_southbound::rows::{
    self, Bridge, Port, Restore, RestoreOptions, RowReconciler, Transaction,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{error, info, warn};

/// The tunnel's port, and the numbers of the fixed ports at the switch.
const TUNNEL: &str = "osier-tun";
const TUNNEL_OFPORT: u32 = 1;
const GATEWAY_OFPORT: u32 = 2;
/// Who wants the fixed rows.
const NODE_OWNER: &str = "node";
/// How long the database may take to be there, before it is said that it is not.
const DATABASE_PATIENCE: Duration = Duration::from_secs(10);
/// How often the gateway's addresses and routes are put right without a reason.
const GATEWAY_AUDIT: Duration = Duration::from_secs(10);

/// Why the agent cannot run.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The view is wrong from the start.
    #[error(transparent)]
    View(#[from] ViewError),
    /// Which life of the machine this is, is unknown.
    #[error("the machine's boot id cannot be read")]
    BootId(#[source] io::Error),
    /// The pods' MTU is unknown.
    #[error("no interface has the tunnel's address {0}: correct the view, or set `mtu`")]
    NoUplink(IpAddr),
    /// The uplink is too small.
    #[error("an uplink with an MTU of {uplink} leaves {left} for pods, less than the 1280 of IPv6")]
    SmallUplink {
        /// Its MTU.
        uplink: u32,
        /// What would be left.
        left: u32,
    },
    /// The kernel.
    #[error("the kernel does not tell of its interfaces")]
    Kernel(#[from] NetlinkError),
    /// The switch.
    #[error("the switch cannot be set up")]
    Switch(#[from] SwitchError),
    /// The gateway.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The CNI socket.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The page of metrics.
    #[error("metrics cannot be served at {address}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The database's session has ended.
    #[error("the session with the switch's database has ended")]
    Database,
}

/// Runs until told to stop. Pods and their traffic stay as they are.
pub async fn run(config: Config, mut stop: watch::Receiver<bool>) -> Result<(), AgentError> {
    let metrics = Metrics::default();
    let Some((mut view, node)) = first_view(&config, &mut stop).await? else { return Ok(()) };
    let fabric = view.current().fabric.clone();
    let mtu = pod_mtu(&config, fabric.tunnel, node.tunnel)?;
    let boot_id = adopt::boot_id().map_err(AgentError::BootId)?;

    let options = rows::Options { paused: true, ..rows::Options::default() };
    let remote = Remote::Unix(config.ovsdb.clone());
    let rows = RowReconciler::connect(vec![remote], row_ownership(), options);
    let Some(adopted) = read_database(&config, &rows, &boot_id, &mut stop).await? else {
        return Ok(());
    };
    info!(living = adopted.living.len(), dead = adopted.dead.len(), mtu, "took over");
    let local = attach_fixed(&config, &rows, &adopted, &node, fabric.tunnel).await?;

    let management = config.ovs_run_dir.join(format!("{}.mgmt", config.bridge));
    let switch =
        Switch::new(config.node.clone(), fabric, local, config.bridge.as_str(), &management, rows);
    let changes = own_changes(ViewDocument::default().changes_to(view.current()), &node);
    switch.begin(changes, &adopted.living).await?;
    let restore = Restore::start(
        switch.rows(),
        vec![Box::new(switch.flows().clone())],
        RestoreOptions::default(),
    );

    let ports = Ports::new(config.clone(), boot_id, mtu, switch, metrics.clone(), adopted.living);
    metrics.set_ports(ports.count());
    ports.set_blocks(&node.blocks);
    set_up_gateway(&config, &view, &node, mtu).await?;
    let server = CniServer::bind(&config.cni_socket, ports.clone(), metrics.clone()).await?;
    if let Some(address) = config.metrics {
        let failed = |source| AgentError::Metrics { address, source };
        let listener = health::bind(address).await.map_err(failed)?;
        tokio::spawn(health::serve(listener, ports.clone(), metrics.clone(), stop.clone()));
    }
    info!(node = %config.node, socket = %config.cni_socket.display(), "ready");
    let follow = follow_view(&config, &mut view, node, mtu, &ports, &metrics);
    tokio::select! {
        () = server.serve(stop) => {}
        () = follow => {}
    }
    drop(restore);
    Ok(())
}

/// Waits for a view that has this node.
async fn first_view(
    config: &Config,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<(ViewFile, Node)>, AgentError> {
    let mut file = ViewFile::open(&config.view)?;
    let mut told = false;
    loop {
        if let Some(node) = own_node(config, file.current()) {
            return Ok(Some((file, node)));
        }
        if !std::mem::replace(&mut told, true) {
            let (path, node) = (config.view.display(), &config.node);
            warn!(view = %path, %node, "waiting for a view that has this node");
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        }
        if let Err(error) = file.look() {
            warn!(error = %Chain(&error), "the view was refused");
        }
    }
}

fn own_node(config: &Config, view: &ViewDocument) -> Option<Node> {
    view.objects.iter().find_map(|object| match object {
        Object::Node(node) if node.name == config.node => Some(node.clone()),
        _ => None,
    })
}

/// The changes of a view, less ports of this node: those are the agent's own to know. The node
/// itself never goes: its tunnel and pods would.
fn own_changes(changes: Vec<Change>, node: &Node) -> Vec<Change> {
    let kept = |change: &Change| match change {
        Change::Put(Object::Port(port)) => port.node != node.name,
        Change::Delete(Key::Node(name)) => *name != node.name,
        _ => true,
    };
    changes.into_iter().filter(kept).collect()
}

/// What the tunnel leaves of the uplink's MTU for pods.
fn pod_mtu(config: &Config, kind: Tunnel, tunnel: IpAddr) -> Result<u16, AgentError> {
    if let Mtu::Fixed(mtu) = config.mtu {
        return Ok(mtu);
    }
    let uplink = mtu_of_address(tunnel)?.ok_or(AgentError::NoUplink(tunnel))?;
    let left = uplink.saturating_sub(overhead(kind, tunnel)).min(65535);
    match u16::try_from(left) {
        Ok(mtu @ 1280..) => Ok(mtu),
        _ => Err(AgentError::SmallUplink { uplink, left }),
    }
}

/// What a tunnel adds to a pod's packet: IP, UDP, the tunnel's header and option, Ethernet.
fn overhead(kind: Tunnel, tunnel: IpAddr) -> u32 {
    let ip = if tunnel.is_ipv4() { 20 } else { 40 };
    let header = match kind {
        // RFC 8926: eight bytes, and our option of four with its header of four.
        Tunnel::Geneve => 8 + 8,
        Tunnel::Vxlan => 8,
    };
    ip + 8 + header + 14
}

/// What earlier agents left in the database.
async fn read_database(
    config: &Config,
    rows: &RowReconciler,
    boot_id: &str,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Adopted>, AgentError> {
    let session = rows.session().clone();
    loop {
        tokio::select! {
            ready = session.ready() => {
                ready.map_err(|_| AgentError::Database)?;
                break;
            }
            () = tokio::time::sleep(DATABASE_PATIENCE) => {
                warn!(socket = %config.ovsdb.display(), "waiting for the switch's database");
            }
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        }
    }
    let snapshot = session.query(Cache::snapshot).await.ok_or(AgentError::Database)?;
    let namespace = |path: &str| NamespaceId::at(path).ok();
    Ok(Some(adopt::adopt(
        snapshot.rows("Bridge"),
        snapshot.rows("Interface"),
        &row_ownership(),
        config.bridge.as_str(),
        boot_id,
        namespace,
    )))
}

/// Puts the fixed rows and those of living pods in, lets the reconciler begin, and tells which
/// numbers the fixed ports have.
async fn attach_fixed(
    config: &Config,
    rows: &RowReconciler,
    adopted: &Adopted,
    node: &Node,
    tunnel: Tunnel,
) -> Result<LocalPorts, AgentError> {
    let fixed = fixed_rows(config, adopted.foreign_bridge, node, tunnel);
    let ports = adopted.living.iter().fold(Transaction::new(), |all, port| {
        all.put(port.owner(), port.rows(config.bridge.as_str()))
    });
    let living = rows.transaction(ports).await.map_err(SwitchError::from)?;
    let settling = rows.put(NODE_OWNER, fixed).await.map_err(SwitchError::from)?;
    rows.resume().await.map_err(|_| AgentError::Database)?;
    let applied = settling.await.map_err(SwitchError::from)?;
    if let Err(error) = living.await {
        // A pod whose wire is gone: that is for its runtime to see.
        warn!(error = %Chain(&error), "not all ports that were taken over work");
    }
    let number = |name: &str| {
        let number = applied.ofport(name).and_then(|number| u32::try_from(number).ok());
        number.map(PortNo).ok_or_else(|| SwitchError::NoNumber(name.to_owned()))
    };
    Ok(LocalPorts { gateway: number(gateway::INTERFACE)?, tunnel: number(TUNNEL)? })
}

/// The bridge, unless it is somebody else's, the gateway and the tunnel.
fn fixed_rows(config: &Config, foreign: bool, node: &Node, tunnel: Tunnel) -> rows::Plan {
    let bridge = config.bridge.as_str();
    let mut plan = rows::Plan::default();
    if !foreign {
        plan = plan.bridge(Bridge {
            name: bridge.to_owned(),
            datapath_type: Some(config.datapath.as_str().to_owned()),
            fail_mode: Some(BridgeFailMode::Secure),
            ..Bridge::default()
        });
    }
    let mut gateway = Port::internal(bridge, gateway::INTERFACE);
    gateway.interfaces[0].mac = Some(Mac::GATEWAY.to_string());
    gateway.interfaces[0].ofport_request = Some(GATEWAY_OFPORT);
    let mut tunnels = Port::new(bridge, TUNNEL);
    let kind = match tunnel {
        Tunnel::Geneve => "geneve",
        Tunnel::Vxlan => "vxlan",
    };
    let options = [("remote_ip", "flow"), ("key", "flow"), ("local_ip", &node.tunnel.to_string())];
    let interface = &mut tunnels.interfaces[0];
    kind.clone_into(&mut interface.kind);
    interface.ofport_request = Some(TUNNEL_OFPORT);
    interface.options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    plan.port(gateway).port(tunnels)
}

async fn set_up_gateway(
    config: &Config,
    view: &ViewFile,
    node: &Node,
    mtu: u16,
) -> Result<(), GatewayError> {
    set_up_interface(view, node, mtu).await?;
    let script = gateway::nft_script(&pod_prefixes(view), config.masquerade);
    if let Err(error) = gateway::apply_nft(&script).await {
        // Pods still reach one another and the node.
        error!(error = %Chain(&error), "pods do not reach the outside");
    }
    Ok(())
}

async fn set_up_interface(view: &ViewFile, node: &Node, mtu: u16) -> Result<(), GatewayError> {
    gateway::set_up(gateway::interface(node, &pod_prefixes(view), mtu)).await?;
    forward::accept_forwarding().await;
    Ok(())
}

fn pod_prefixes(view: &ViewFile) -> Vec<IpNet> {
    let document = view.current();
    let nodes = document.objects.iter().filter_map(|object| match object {
        Object::Node(node) => Some(node),
        _ => None,
    });
    gateway::pod_prefixes(&document.fabric, nodes)
}

/// Looks at the view again and again.
async fn follow_view(
    config: &Config,
    view: &mut ViewFile,
    mut node: Node,
    mtu: u16,
    ports: &Ports,
    metrics: &Metrics,
) {
    let mut ticks = tokio::time::interval(POLL);
    let mut replayed = ports.switch().flows().replayed();
    let mut set_up = Instant::now();
    loop {
        ticks.tick().await;
        // A switch that started anew may have made its interfaces anew.
        if replayed.has_changed().unwrap_or_default() || set_up.elapsed() >= GATEWAY_AUDIT {
            replayed.mark_unchanged();
            set_up = Instant::now();
            if let Err(error) = set_up_interface(view, &node, mtu).await {
                warn!(error = %Chain(&error), "the gateway is not as it should be");
            }
        }
        let changes = match view.look() {
            Ok(changes) if changes.is_empty() => continue,
            Ok(changes) => own_changes(changes, &node),
            Err(error) => {
                metrics.refused_view();
                warn!(error = %Chain(&error), "the view was refused; the last good one stays");
                continue;
            }
        };
        info!(changes = changes.len(), "the view changed");
        if let Some(now) = own_node(config, view.current()) {
            if now.tunnel != node.tunnel {
                warn!("the tunnel's address changed: restart the agent");
            }
            node = now;
        }
        if let Err(error) = ports.switch().change(changes).await {
            warn!(error = %Chain(&error), "the view is not on the switch");
        }
        ports.set_blocks(&node.blocks);
        if let Err(error) = set_up_gateway(config, view, &node, mtu).await {
            warn!(error = %Chain(&error), "the gateway is not as it should be");
        }
    }
}

/// An error with its causes.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let causes = std::iter::successors(self.0.source(), |cause| cause.source());
        causes.into_iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}
