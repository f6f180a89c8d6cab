//! Services as goals of traces.

use super::Api;
use super::error::ApiError;
use crate::trace::Journey;
use osier_fleet::ask::Protocol;
use osier_model::{Key, Object, Service, ServiceName, ServicePort, Transport};
use std::net::IpAddr;

/// A Service's port that a packet is for.
pub(super) struct Goal {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    name: ServiceName,
    endpoints: (usize, usize),
}

/// What `svc/namespace:name` means, if that is what was said.
pub(super) fn goal(
    api: &Api,
    text: &str,
    protocol: Option<Protocol>,
    port: Option<u16>,
) -> Result<Option<Goal>, ApiError> {
    let Some(name) = text.strip_prefix("svc/") else { return Ok(None) };
    let invalid = |field, said| ApiError::invalid("trace", field, said);
    let missing = || invalid("to", format!("there is no Service {name}"));
    let name = ServiceName::new(name).map_err(|_| missing())?;
    let shared = api.engine.hub().get(&Key::Service(name.clone())).ok_or_else(missing)?;
    let Object::Service(service) = shared.object() else { return Err(missing()) };
    let (transport, port) =
        chosen(service, protocol, port).map_err(|said| invalid("port", said))?;
    let endpoints = api.engine.hub().endpoints_of(&name);
    let addresses = service.addresses.clone();
    Ok(Some(Goal { addresses, protocol: transport, port, name, endpoints }))
}

/// The port that is meant.
fn chosen(
    service: &Service,
    protocol: Option<Protocol>,
    port: Option<u16>,
) -> Result<(Protocol, u16), String> {
    let is_meant = |own: &&ServicePort| {
        port.is_none_or(|port| own.port == port)
            && protocol.is_none_or(|protocol| Some(protocol) == carried(own.transport))
    };
    let mut meant = service.ports.iter().filter(is_meant);
    let list = || {
        let ports = service.ports.iter().map(|port| format!("{}/{}", port.port, port.transport));
        ports.collect::<Vec<_>>().join(", ")
    };
    match (meant.next(), meant.next(), port, protocol) {
        (Some(one), None, ..) | (Some(one), _, Some(_), _) => match carried(one.transport) {
            Some(protocol) => Ok((protocol, one.port)),
            None => Err(format!("packets of {} cannot be traced", one.transport)),
        },
        (Some(_), Some(_), ..) => Err(format!("say which of its ports: {}", list())),
        // What becomes of a packet to a port that it has not, is a question too.
        (None, _, Some(port), protocol) => Ok((protocol.unwrap_or(Protocol::Tcp), port)),
        (None, ..) => Err(format!("it has no such port: {}", list())),
    }
}

fn carried(transport: Transport) -> Option<Protocol> {
    match transport {
        Transport::Tcp => Some(Protocol::Tcp),
        Transport::Udp => Some(Protocol::Udp),
        Transport::Sctp | Transport::Any => None,
    }
}

// === impl Goal ===

impl Goal {
    /// What the Service is, and which of its endpoints was chosen, in words.
    pub(super) fn why(&self, address: IpAddr, journey: &Journey) -> String {
        let Self { name, port, endpoints: (ready, all), .. } = self;
        let address = std::net::SocketAddr::new(address, *port);
        let chosen = match journey.translated() {
            Some(endpoint) => {
                let why = journey.why_translated().map(|why| format!(": {why}"));
                format!(
                    ", of which {endpoint} was chosen for this packet{}",
                    why.unwrap_or_default()
                )
            }
            None => String::new(),
        };
        format!("service {name} is {address}, with {ready} of {all} endpoints ready{chosen}")
    }
}
