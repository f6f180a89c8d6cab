//! What policies did in the switch: how often rules granted, and which connections there are by whose
//! leave.

use crate::config::Config;
use crate::ports::Ports;
use osier_compiler::{Compiler, RuleId};
use osier_fleet::ask::{Grounds, RuleHits, Side, TrackedConnection};
use osier_model::{PortKey, RuleRef, View};
use osier_openflow::message::{FlowRequest, MultipartRequest, ReplyBody};
use osier_openflow::session::{Endpoint, Options, RequestError, Session};
use osier_ovsdb::unixctl::conntrack::{Connection, Transport};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// More connections are not told at once.
const MOST: usize = 10_000;
/// Zones that are not ours, and those of sources that are translated: the same connections again.
const OTHERS: u16 = osier_compiler::conntrack::SOURCE_ZONE;

/// How often each rule granted a connection. What the flow counts are the packets that were judged.
pub(super) async fn hits(config: &Config, ports: &Ports) -> Result<Vec<RuleHits>, String> {
    let cookies: BTreeMap<u64, RuleId> = ports
        .switch()
        .with_compiler(|compiler| compiler.rule_cookies().map(|(rule, c)| (c, rule)).collect())
        .await;
    let counted = match cookies.is_empty() {
        true => BTreeMap::new(),
        false => count(config).await?,
    };
    let told = |compiler: &Compiler| {
        let mut hits: BTreeMap<RuleRef, u64> = BTreeMap::new();
        for (cookie, rule) in &cookies {
            for rule in compiler.rules(*rule) {
                let packets = counted.get(cookie).copied().unwrap_or_default();
                *hits.entry(rule.clone()).or_default() += packets;
            }
        }
        hits.into_iter().map(|(rule, connections)| RuleHits { rule, connections }).collect()
    };
    Ok(ports.switch().with_compiler(told).await)
}

/// What flows counted, by their cookies.
async fn count(config: &Config) -> Result<BTreeMap<u64, u64>, String> {
    let socket = config.ovs_run_dir.join(format!("{}.mgmt", config.bridge));
    let (session, _events) = Session::connect(&Endpoint::Unix(socket), Options::default())
        .await
        .map_err(|error| error.to_string())?;
    let mut counted = BTreeMap::new();
    for table in osier_compiler::pipeline::POLICIES {
        let request = FlowRequest { table: table.number(), ..FlowRequest::default() };
        read(&session, request, &mut counted).await.map_err(|error| error.to_string())?;
    }
    session.close().await;
    Ok(counted)
}

async fn read(
    session: &Session,
    request: FlowRequest,
    counted: &mut BTreeMap<u64, u64>,
) -> Result<(), RequestError> {
    let mut answer = session.multipart(MultipartRequest::FlowDesc(request)).await?;
    while let Some(part) = answer.next().await {
        if let ReplyBody::FlowDesc(flows) = part?.body {
            for flow in flows {
                *counted.entry(flow.flow.cookie).or_default() +=
                    flow.stats.packets.unwrap_or_default();
            }
        }
    }
    Ok(())
}

/// What the switch tracks.
pub(super) async fn connections(
    config: &Config,
    ports: &Ports,
) -> Result<Vec<TrackedConnection>, String> {
    let control = super::control(config)?;
    let found = control.connections(None).await.map_err(|error| error.to_string())?;
    let told = |compiler: &Compiler| {
        let here = here(compiler.view());
        let ours = found.iter().filter(|connection| connection.zone > OTHERS).take(MOST);
        ours.map(|connection| tell(connection, compiler, &here)).collect()
    };
    Ok(ports.switch().with_compiler(told).await)
}

/// This node's ports by their addresses, where those are of the default router: others may share them.
fn here(view: &View) -> BTreeMap<IpAddr, PortKey> {
    let own = view.ports().values().filter(|port| port.node == *view.node());
    own.flat_map(|port| port.addresses.iter().map(|a| (*a, port.key.clone()))).collect()
}

fn tell(
    connection: &Connection,
    compiler: &Compiler,
    here: &BTreeMap<IpAddr, PortKey>,
) -> TrackedConnection {
    let Connection { orig, reply, .. } = connection;
    let side = |address: IpAddr, port| Side { address, port, of: here.get(&address).cloned() };
    let ports = |transport| match transport {
        Transport::Ports { src, dst } => (Some(src), Some(dst)),
        Transport::Icmp { .. } => (None, None),
    };
    let ((from, to), (answers, _)) = (ports(orig.transport), ports(reply.transport));
    let rule = |offset: u32| {
        let bits = connection.labels >> offset & u128::from(u32::MAX);
        RuleId(u32::try_from(bits).unwrap_or_default())
    };
    TrackedConnection {
        protocol: connection.protocol,
        source: side(orig.src, from),
        target: side(orig.dst, to),
        answering: side(reply.src, answers),
        state: connection.state.clone(),
        egress: grounds(rule(0), compiler),
        ingress: grounds(rule(32), compiler),
    }
}

fn grounds(rule: RuleId, compiler: &Compiler) -> Grounds {
    let rules: Vec<RuleRef> = compiler.rules(rule).cloned().collect();
    match rule {
        RuleId(0) => Grounds::Open,
        RuleId::NODE => Grounds::Node,
        RuleId::ITSELF => Grounds::Itself,
        RuleId::ELSEWHERE => Grounds::Elsewhere,
        _ if rules.is_empty() => Grounds::Gone,
        _ => Grounds::Rules(rules),
    }
}
