//! Which connections the switch tracks, by whose leave, and which ones policies denied lately.

use crate::config::Config;
use crate::directory::Directory;
use crate::ports::Ports;
use crate::services::fronts;
use osier_compiler::conntrack::{SOURCE_ZONE, granted_by};
use osier_compiler::{Compiler, RuleId};
use osier_fleet::ask::{
    ConnectionsRequest, Counted, Grounds, Parties, Side, TrackedConnection, TrackedConnections, Who,
};
use osier_model::{RuleRef, Service, ServiceName, View};
use osier_ovsdb::unixctl::conntrack::{Connection, Transport};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// More connections are not told at once.
const MOST: usize = 10_000;

/// Those that fit.
pub(super) async fn connections(
    config: &Config,
    ports: &Ports,
    request: &ConnectionsRequest,
) -> Result<TrackedConnections, String> {
    let control = super::control(config)?;
    let found = control.connections(None).await.map_err(|error| error.to_string())?;
    let denied = ports.switch().denied();
    let told = |compiler: &Compiler| {
        let directory = Directory::of(compiler.view());
        let meant = Meant::of(request, compiler.view());
        // Other zones are not ours, or those of sources that are translated: the same connections again.
        let ours = found.iter().filter(|connection| connection.zone > SOURCE_ZONE);
        let tracked = ours.map(|connection| tell(connection, compiler, &directory));
        let all = denied.tell(&directory).into_iter().chain(tracked);
        let mut fit = all.filter(|connection| meant.has(connection));
        let connections: Vec<TrackedConnection> = fit.by_ref().take(MOST).collect();
        TrackedConnections { connections, left_out: fit.count() }
    };
    Ok(ports.switch().with_compiler(told).await)
}

/// What is asked for, and who answers for the Services that are. Behind the node where a connection to a
/// Service begins nobody sees that it is one; but what is known there of the same connection is wanted too.
struct Meant<'a> {
    request: &'a ConnectionsRequest,
    /// For the Service that is asked for.
    for_service: BTreeSet<IpAddr>,
    /// For Services that are asked at the port.
    for_port: BTreeSet<IpAddr>,
}

// === impl Meant ===

impl<'a> Meant<'a> {
    fn of(request: &'a ConnectionsRequest, view: &View) -> Self {
        let ConnectionsRequest { port, of, .. } = request;
        let named = of.as_ref().and_then(|of| of.service.as_ref());
        let is_at = |service: &&Service| {
            port.is_some_and(|port| fronts(service, view).any(|(_, (_, number))| number == port))
        };
        let at_port = view.services().values().filter(is_at).map(|service| &service.name);
        Self {
            request,
            for_service: endpoints(view, named.into_iter()),
            for_port: endpoints(view, at_port),
        }
    }

    fn has(&self, connection: &TrackedConnection) -> bool {
        let TrackedConnection { protocol, source, target, answering, .. } = connection;
        let ConnectionsRequest { protocols, port, of } = self.request;
        let any = |fits: &dyn Fn(&Side) -> bool| [source, target, answering].into_iter().any(fits);
        let is_at = |port| any(&|side| side.port == Some(port));
        (protocols.is_empty() || protocols.contains(protocol))
            && (port.is_none_or(is_at) || self.for_port.contains(&answering.address))
            && of.as_ref().is_none_or(|of| {
                self.for_service.contains(&answering.address) || any(&|side| is_of(of, side))
            })
    }
}

/// The addresses that answer for Services.
fn endpoints<'a>(
    view: &'a View,
    services: impl Iterator<Item = &'a ServiceName>,
) -> BTreeSet<IpAddr> {
    let slices = services.flat_map(|service| view.endpoints_of(service));
    slices.flat_map(|slice| &slice.endpoints).map(|endpoint| endpoint.address).collect()
}

fn is_of(parties: &Parties, side: &Side) -> bool {
    let Parties { addresses, namespace, service } = parties;
    let who = side.who.as_ref();
    addresses.contains(&side.address)
        || namespace.is_some() && who.and_then(Who::namespace) == *namespace
        || service
            .as_ref()
            .is_some_and(|name| matches!(who, Some(Who::Service(asked)) if asked == name))
}

fn tell(connection: &Connection, compiler: &Compiler, directory: &Directory) -> TrackedConnection {
    let Connection { orig, reply, zone, protocol, .. } = connection;
    let side = |at, is_asked| directory.side((*zone, *protocol), at, is_asked);
    let ports = |transport| match transport {
        Transport::Ports { src, dst } => (Some(src), Some(dst)),
        Transport::Icmp { .. } => (None, None),
    };
    let ((from, to), (answers, _)) = (ports(orig.transport), ports(reply.transport));
    let counted = orig.counted.zip(reply.counted).map(|(sent, answered)| Counted {
        packets: sent.packets + answered.packets,
        bytes: sent.bytes + answered.bytes,
    });
    let [egress, ingress] = granted_by(connection.labels).map(|rule| grounds(rule, compiler));
    TrackedConnection {
        zone: *zone,
        protocol: *protocol,
        source: side((orig.src, from), false),
        target: side((orig.dst, to), true),
        answering: side((reply.src, answers), false),
        state: connection.state.clone(),
        egress,
        ingress,
        counted,
        denied: None,
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
