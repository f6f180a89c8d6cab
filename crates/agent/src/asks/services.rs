//! What came to each Service by this node: by its flows, and by what is tracked now.

use crate::Chain;
use crate::config::Config;
use crate::counters::{CountError, Counters, Led};
use crate::directory::Directory;
use crate::ports::Ports;
use osier_compiler::Compiler;
use osier_fleet::ask::{Counted, ServiceTraffic};
use osier_model::ServiceName;
use osier_ovsdb::unixctl::conntrack::{Connection, Transport};
use std::collections::BTreeMap;

/// Connections of a Service that are open.
#[derive(Debug, Default)]
struct Open {
    connections: u64,
    counted: Option<Counted>,
}

/// Of all Services that anything came to.
pub(super) async fn traffic(config: &Config, ports: &Ports) -> Result<Vec<ServiceTraffic>, String> {
    let led = async {
        let counters = Counters::open(config).await?;
        let led = counters.services(ports.switch()).await?;
        counters.close().await;
        Ok(led)
    };
    let led = led.await.map_err(|error: CountError| Chain(&error).to_string())?;
    let tracked = super::control(config)?.connections(None).await;
    let tracked = tracked.map_err(|error| error.to_string())?;
    let look = |compiler: &Compiler| {
        let view = compiler.view();
        (open(&tracked, &Directory::of(view)), view.fabric().accounting)
    };
    let (open, accounting) = ports.switch().with_compiler(look).await;
    Ok(join(led, open, accounting))
}

/// What is tracked, by Service.
fn open(tracked: &[Connection], directory: &Directory) -> BTreeMap<ServiceName, Open> {
    let mut open: BTreeMap<ServiceName, Open> = BTreeMap::new();
    for Connection { protocol, orig, reply, zone, .. } in tracked {
        let Transport::Ports { dst, .. } = orig.transport else { continue };
        let Some(service) = directory.service(*zone, *protocol, (orig.dst, dst)) else { continue };
        let of = open.entry(service.clone()).or_default();
        of.connections += 1;
        if let Some((sent, answered)) = orig.counted.zip(reply.counted) {
            let counted = of.counted.get_or_insert_default();
            counted.packets += sent.packets + answered.packets;
            counted.bytes += sent.bytes + answered.bytes;
        }
    }
    open
}

fn join(
    led: BTreeMap<ServiceName, Led>,
    mut open: BTreeMap<ServiceName, Open>,
    accounting: bool,
) -> Vec<ServiceTraffic> {
    let joined = led.into_iter().map(|(service, led)| {
        let Open { connections: open, counted } = open.remove(&service).unwrap_or_default();
        let counted = if accounting { Some(led.counted) } else { counted };
        ServiceTraffic { service, begun: led.begun, refused: led.refused, open, counted }
    });
    joined.filter(|it| it.begun + it.refused + it.open > 0).collect()
}
