//! Two real switches, joined by a Geneve tunnel and programmed by this crate.
//!
//! ```text
//! cargo run -p osier-openflow --example two_switches
//! ```
//!
//! Needs root and Open vSwitch; makes its own network namespaces and leaves nothing behind. It
//! fails if anything is not as it says.

mod pipeline;
mod show;

use anyhow::{Context, Result, bail, ensure};
use osier_openflow::field::Mac;
use osier_openflow::flow::{FlowDesc, FlowMod};
use osier_openflow::message::{
    BundleFlags, Message, MultipartRequest, ReplyBody, TlvCommand, TlvTableMod,
};
use osier_openflow::session::{Endpoint as SwitchEndpoint, Options, Session};
use osier_testbed::traffic::{Capture, ping, ping_until};
use osier_testbed::{Endpoint, EndpointConfig, Fabric, Family, Lab, Node, Tunnel};
use pipeline::{IDENTITY_OPTION, Pod, TUNNEL_PORT, VNI, View};
use show::say;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(10);
const PINGS: u32 = 20;
const STRANGERS_PINGS: u32 = 5;

/// Names, the nodes they are on, and what they are.
const CAST: [(&str, usize, u32); 3] = [("alice", 0, 100), ("mallory", 0, 666), ("bob", 1, 200)];
/// Whom each node lets in from the tunnel.
const ADMITTED: [&[u32]; 2] = [&[200], &[100]];

/// A pod that runs.
struct Actor {
    name: &'static str,
    pod: Pod,
    endpoint: Endpoint,
}

#[tokio::main]
async fn main() -> ExitCode {
    match play().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("two_switches: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn play() -> Result<()> {
    let lab = Lab::new()?;
    show::title("Two switches, one network");
    say!("  Starting two Open vSwitch daemons and three pods, each in a network namespace ...\n");
    let fabric = Fabric::new(&lab, Family::Ipv4, 2).context("no fabric")?;
    let actors = attach(&fabric).context("no pods")?;
    draw(&fabric, &actors);
    let shown = demonstrate(&fabric, &actors).await;
    if shown.is_err() {
        fabric.nodes().iter().for_each(|node| eprintln!("{}", node.ovs().report()));
    }
    shown
}

/// Gives each node its tunnel and its pods.
fn attach(fabric: &Fabric) -> Result<Vec<Actor>> {
    for node in fabric.nodes() {
        node.add_tunnel_port(Tunnel::Geneve, "tunnel", TUNNEL_PORT)?;
    }
    let mut actors = Vec::new();
    for (port, (name, node, identity)) in (10..).zip(CAST) {
        let config = EndpointConfig::numbered(name, port);
        let endpoint = fabric.nodes()[node].add_endpoint(&config)?;
        let ip = ipv4(endpoint.addresses())?;
        let pod = Pod { node, port, mac: Mac(endpoint.mac().0), ip, identity };
        actors.push(Actor { name, pod, endpoint });
    }
    Ok(actors)
}

fn draw(fabric: &Fabric, actors: &[Actor]) {
    let nodes = [0, 1].map(|i| {
        let node = &fabric.nodes()[i];
        format!("{}, {}", node.name(), node.underlay())
    });
    let pods = [0, 1].map(|i| -> Vec<String> {
        let here = actors.iter().filter(|actor| actor.pod.node == i);
        here.flat_map(|Actor { name, pod, endpoint }| {
            let addresses = endpoint.addresses().map(|ip| ip.to_string()).collect::<Vec<_>>();
            [
                format!("{name}: port {}, identity {}", pod.port, pod.identity),
                format!("  {}", addresses.join(", ")),
            ]
        })
        .collect()
    });
    let tunnel = ["Geneve", &format!("VNI {VNI}")];
    show::picture([&nodes[0], &nodes[1]], [&pods[0], &pods[1]], tunnel);
    say!("\n  A Geneve option carries the sender's identity. n1 admits 200, n2 admits only 100.");
}

async fn demonstrate(fabric: &Fabric, actors: &[Actor]) -> Result<()> {
    show::title("Programming");
    let mut sessions = Vec::new();
    for (here, node) in fabric.nodes().iter().enumerate() {
        let session = program(fabric, here, actors);
        sessions.push(session.await.with_context(|| format!("cannot program {}", node.name()))?);
    }
    show::title("Traffic");
    let capture = Capture::start(fabric.segment(), "n1", "udp port 6081")?;
    measure(actors)?;
    let dropped = dropped(&sessions[1], STRANGERS_PINGS).await?;
    say!("  n2 does not admit mallory's identity: it dropped {dropped} packets in tunnel_in.");
    say!("\n  On the wire between the nodes, as tcpdump sees it:");
    say!("    {}", identity_on_the_wire(&capture)?);
    for (node, session) in fabric.nodes().iter().zip(&sessions) {
        show::title(&format!("Flows of {}, with the packets that each has seen", node.name()));
        show::flows(read(session).await?, &pipeline::table_names());
    }
    Ok(())
}

/// Connects to a node's switch; maps the option, then writes all flows in one bundle.
async fn program(fabric: &Fabric, here: usize, actors: &[Actor]) -> Result<Session> {
    let node = &fabric.nodes()[here];
    let nodes = fabric.nodes().iter().map(|node| ipv4([node.underlay()]));
    let nodes = nodes.collect::<Result<Vec<_>>>()?;
    let pods: Vec<_> = actors.iter().map(|actor| actor.pod.clone()).collect();
    let view = View { here, nodes: &nodes, pods: &pods, admitted: ADMITTED[here] };
    let flows: Vec<_> = pipeline::flows(&view)?.into_iter().map(FlowMod::add).collect();

    let start = Instant::now();
    let socket = SwitchEndpoint::Unix(node.ovs().mgmt_socket(Node::INTEGRATION));
    let (session, _events) = Session::connect(&socket, Options::default()).await?;
    // Not in the bundle, because bundles do not carry it; and first, because flows refer to it.
    let option = TlvTableMod { command: TlvCommand::Add, maps: vec![IDENTITY_OPTION] };
    session.batch([Message::TlvTableMod(option)]).await?;
    session.bundle(BundleFlags::ATOMIC | BundleFlags::ORDERED, &flows).await?;
    let took = show::milliseconds(start.elapsed());
    say!(
        "  {}: connected, one Geneve option, {} flows in one bundle: {took}",
        node.name(),
        flows.len()
    );
    Ok(session)
}

/// Friends reach each other, and a stranger nobody.
fn measure(actors: &[Actor]) -> Result<()> {
    let [alice, mallory, bob] = actors else { bail!("{} pods instead of three", actors.len()) };
    for (from, to) in [(alice, bob), (bob, alice)] {
        for address in to.endpoint.addresses() {
            ping_until(from.endpoint.netns(), address, PATIENCE)?;
            let pings = ping(from.endpoint.netns(), address, PINGS)?;
            show::pings(from.name, to.name, &address.to_string(), &pings);
            ensure!(pings.received == PINGS, "{} lost pings to {}", from.name, to.name);
        }
    }
    let pings = ping(mallory.endpoint.netns(), bob.pod.ip.into(), STRANGERS_PINGS)?;
    show::pings(mallory.name, bob.name, &bob.pod.ip.to_string(), &pings);
    ensure!(pings.received == 0, "{} reached {}", mallory.name, bob.name);
    Ok(())
}

/// The first packet with our option, in tcpdump's words.
fn identity_on_the_wire(capture: &Capture) -> Result<String> {
    let class = format!("({:#06x})", IDENTITY_OPTION.class);
    let packets = capture.packets(&["-vv"])?;
    let ours = |line: &&str| line.starts_with("Geneve") && line.contains(&class);
    let packet = packets.iter().filter_map(|line| line.find("Geneve").map(|at| &line[at..]));
    Ok(packet.into_iter().find(ours).context("no packet with an identity was seen")?.to_owned())
}

/// Waits until a switch has counted so many packets as dropped for their identity: counters follow
/// the packets within a second.
async fn dropped(session: &Session, at_least: u32) -> Result<u64> {
    let counted = async {
        loop {
            let flows = read(session).await?;
            let drops = flows.iter().find(|desc| pipeline::refuses(&desc.flow));
            let packets = drops.and_then(|desc| desc.stats.packets).unwrap_or(0);
            if packets >= at_least.into() {
                return Ok(packets);
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, counted).await.context("the stranger's packets were not seen dropped")?
}

/// All flows of a switch, with their counters.
async fn read(session: &Session) -> Result<Vec<FlowDesc>> {
    let mut flows = Vec::new();
    for part in session.collect(MultipartRequest::all_flows()).await? {
        let ReplyBody::FlowDesc(part) = part.body else { bail!("an answer not about flows") };
        flows.extend(part);
    }
    Ok(flows)
}

fn ipv4(addresses: impl IntoIterator<Item = IpAddr>) -> Result<Ipv4Addr> {
    let mut addresses = addresses.into_iter();
    addresses
        .find_map(|address| match address {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        })
        .context("no IPv4 address")
}
