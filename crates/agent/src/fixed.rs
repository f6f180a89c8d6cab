//! The rows of the node itself: the bridge, the gateway's port, the tunnel's, the service gateway's. Their numbers at the
//! switch are asked for, and read back.

use crate::adopt::Adopted;
use crate::config::Config;
use crate::gateway;
use crate::switch::SwitchError;
use crate::uplink::tunnel_mtu;
use osier_compiler::LocalPorts;
use osier_model::{Fabric, Mac, Node, Tunnel};
use osier_openflow::port_no::PortNo;
use osier_ovsdb::rows::vswitch::BridgeFailMode;
use osier_southbound::rows::{Applied, Bridge, Plan, Port, RowReconciler, Settling};

/// The tunnel's port, and the numbers of the fixed ports at the switch.
pub(crate) const TUNNEL: &str = "osier-tun";
const TUNNEL_OFPORT: u32 = 1;
const GATEWAY_OFPORT: u32 = 2;
const SERVICES_OFPORT: u32 = 3;
/// Who wants the fixed rows.
const OWNER: &str = "node";

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Fixed {
    bridge: String,
    datapath: &'static str,
    /// Whether the bridge is somebody else's, and used as it is.
    foreign_bridge: bool,
    connection_rate: Option<u32>,
    /// Whether there is a service gateway. One that is there stays: connections may go by it.
    service_gateway: bool,
}

// === impl Fixed ===

impl Fixed {
    pub(crate) fn new(config: &Config, adopted: &Adopted) -> Self {
        Self {
            bridge: config.bridge.as_str().to_owned(),
            datapath: config.datapath.as_str(),
            foreign_bridge: adopted.foreign_bridge,
            connection_rate: config.connection_rate.of(config.datapath, tracker_room()),
            service_gateway: adopted.service_gateway,
        }
    }

    /// Whether there is a service gateway.
    pub(crate) fn has_service_gateway(&self) -> bool {
        self.service_gateway
    }

    /// Asks for the rows, for a node with this tunnel.
    pub(crate) async fn put(
        &mut self,
        rows: &RowReconciler,
        node: &Node,
        fabric: &Fabric,
    ) -> Result<Settling, SwitchError> {
        self.service_gateway |= fabric.service_gateway;
        Ok(rows.put(OWNER, self.plan(node, fabric.tunnel)).await?)
    }

    /// Asks for the rows and waits for them: the ports' numbers.
    pub(crate) async fn make(
        &mut self,
        rows: &RowReconciler,
        node: &Node,
        fabric: &Fabric,
    ) -> Result<LocalPorts, SwitchError> {
        let applied = self.put(rows, node, fabric).await?.await?;
        self.local(&applied, node, fabric.tunnel)
    }

    pub(crate) fn plan(&self, node: &Node, tunnel: Tunnel) -> Plan {
        let mut plan = Plan::default();
        if !self.foreign_bridge {
            plan = plan.bridge(Bridge {
                name: self.bridge.clone(),
                datapath_type: Some(self.datapath.to_owned()),
                fail_mode: Some(BridgeFailMode::Secure),
                ..Bridge::default()
            });
        }
        let mut gateway = Port::internal(&self.bridge, gateway::INTERFACE);
        gateway.interfaces[0].mac = Some(Mac::GATEWAY.to_string());
        gateway.interfaces[0].ofport_request = Some(GATEWAY_OFPORT);
        let (kind, local) = (tunnel.as_str(), node.tunnel);
        let tunnels = Port::tunnel(&self.bridge, TUNNEL, kind, local, TUNNEL_OFPORT);
        if self.service_gateway {
            plan = plan.port(self.services(node));
        }
        plan.port(gateway).port(tunnels)
    }

    /// The service gateway's port, known by what Netvirt COE's deployments wrote in their records.
    fn services(&self, node: &Node) -> Port {
        let mut port = Port::internal(&self.bridge, gateway::SERVICES);
        let interface = &mut port.interfaces[0];
        interface.mac = Some(Mac::SERVICES.to_string());
        interface.ofport_request = Some(SERVICES_OFPORT);
        let mark = [
            ("iface-id", format!("default:{}-services", node.name)),
            ("attached-mac", Mac::SERVICES.to_string()),
            ("is-service-gateway", "true".to_owned()),
        ];
        interface.external_ids = mark.map(|(key, value)| (key.to_owned(), value)).into();
        port
    }

    /// The numbers that the fixed ports have, how large a packet fits the tunnel, and how much of the
    /// connection tracker is for a port.
    pub(crate) fn local(
        &self,
        applied: &Applied,
        node: &Node,
        tunnel: Tunnel,
    ) -> Result<LocalPorts, SwitchError> {
        let number = |name: &str| {
            let number = applied.ofport(name).and_then(|number| u32::try_from(number).ok());
            number.map(PortNo).ok_or_else(|| SwitchError::NoNumber(name.to_owned()))
        };
        Ok(LocalPorts {
            gateway: number(gateway::INTERFACE)?,
            service_gateway: match self.service_gateway {
                true => Some(number(gateway::SERVICES)?),
                false => None,
            },
            tunnel: number(TUNNEL)?,
            tunnel_mtu: tunnel_mtu(tunnel, node.tunnel).ok(),
            connection_rate: self.connection_rate,
        })
    }
}

/// How many connections the kernel's tracker has room for, if it is there.
fn tracker_room() -> Option<u32> {
    let said = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max").ok()?;
    said.trim().parse().ok()
}
