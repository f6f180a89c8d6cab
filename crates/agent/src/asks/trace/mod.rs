//! Where a packet would go, as the switch itself says it (`ofproto/trace`), in the model's words.
//!
//! [`parse`] reads the switch's text and is pure; `ask` says a packet in the switch's words;
//! `explain` tells what came of it.

mod ask;
mod explain;
pub mod parse;

use crate::config::Config;
use crate::fixed;
use crate::gateway;
use crate::ports::Ports;
use osier_fleet::ask::{TraceFrom, TraceRequest, Traced};

/// Runs a trace.
pub(super) async fn trace(
    config: &Config,
    ports: &Ports,
    request: &TraceRequest,
) -> Result<Traced, String> {
    let number = async |name: &str| {
        let port = ports.switch().port(name).await.and_then(|state| state.ofport);
        let number = port.and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| format!("{name} is not on the switch"))
    };
    let fixed = explain::Fixed {
        tunnel: number(fixed::TUNNEL).await?,
        gateway: number(gateway::INTERFACE).await?,
        service_gateway: number(gateway::SERVICES).await.ok(),
    };
    let packet = match &request.from {
        TraceFrom::Port(key) => {
            let living = ports.living().into_iter().find(|port| port.key == *key);
            let port = living.ok_or_else(|| format!("port {key} is not on this node"))?;
            let sent = ports.switch().with_view(|view| ask::on_link(view, &port, request.packet));
            match sent.await {
                Ok(packet) => (u32::from(port.ofport), packet, None),
                Err(stopped) => return Ok(*stopped),
            }
        }
        TraceFrom::Gateway => (fixed.gateway, ask::from_machine(request.packet), None),
        TraceFrom::Tunnel(transit) => (fixed.tunnel, request.packet, Some(transit)),
    };
    let flow = ask::flow(packet.0, &packet.1, packet.2);
    let text = super::control(config)?.trace(config.bridge.as_str(), &flow, &[]).await;
    let text = text.map_err(|error| format!("the switch does not trace: {error}"))?;
    let walk = parse::parse(&text, config.bridge.as_str());
    let living = ports.living();
    ports
        .switch()
        .with_compiler(|compiler| {
            explain::explain(compiler, &living, fixed, &packet.1, &walk, text)
        })
        .await
}
