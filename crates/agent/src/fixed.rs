//! The rows of the node itself: the bridge, the gateway's port, the tunnel's. Their numbers at the
//! switch are asked for, and read back.

use crate::config::Config;
use crate::gateway;
use crate::switch::SwitchError;
use crate::uplink::tunnel_mtu;
use osier_compiler::LocalPorts;
use osier_model::{Mac, Node, Tunnel};
use osier_openflow::port_no::PortNo;
use osier_ovsdb::rows::vswitch::BridgeFailMode;
use osier_southbound::rows::{Applied, Bridge, Plan, Port, RowReconciler, Settling};

/// The tunnel's port, and the numbers of the fixed ports at the switch.
pub(crate) const TUNNEL: &str = "osier-tun";
const TUNNEL_OFPORT: u32 = 1;
const GATEWAY_OFPORT: u32 = 2;
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
}

// === impl Fixed ===

impl Fixed {
    pub(crate) fn new(config: &Config, foreign_bridge: bool) -> Self {
        let bridge = config.bridge.as_str().to_owned();
        let (datapath, connection_rate) = (config.datapath.as_str(), config.connection_rate);
        Self { bridge, datapath, foreign_bridge, connection_rate }
    }

    /// Asks for the rows, for a node with this tunnel.
    pub(crate) async fn put(
        &self,
        rows: &RowReconciler,
        node: &Node,
        tunnel: Tunnel,
    ) -> Result<Settling, SwitchError> {
        Ok(rows.put(OWNER, self.plan(node, tunnel)).await?)
    }

    /// Asks for the rows and waits for them: the ports' numbers.
    pub(crate) async fn make(
        &self,
        rows: &RowReconciler,
        node: &Node,
        tunnel: Tunnel,
    ) -> Result<LocalPorts, SwitchError> {
        self.local(&self.put(rows, node, tunnel).await?.await?, node, tunnel)
    }

    fn plan(&self, node: &Node, tunnel: Tunnel) -> Plan {
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
        plan.port(gateway).port(tunnels)
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
            tunnel: number(TUNNEL)?,
            tunnel_mtu: tunnel_mtu(tunnel, node.tunnel).ok(),
            connection_rate: self.connection_rate,
        })
    }
}
