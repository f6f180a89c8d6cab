//! A model in YAML: what a node knows, and where its ports are.

use osier_compiler::{Attachment, Compiler, LocalPorts};
use osier_model::{Change, Fabric, NodeName, Object, PortKey};
use osier_openflow::port_no::PortNo;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
pub struct Scenario {
    pub node: NodeName,
    fabric: Fabric,
    pub local: Local,
    objects: Vec<Object>,
    pub attachments: Vec<Attached>,
}

#[derive(Deserialize)]
pub struct Local {
    tunnel: u32,
    gateway: u32,
    /// The number of the service gateway's port, where there is one.
    pub service_gateway: Option<u32>,
    tunnel_mtu: Option<u16>,
    connection_rate: Option<u32>,
}

#[derive(Deserialize, Clone)]
pub struct Attached {
    #[serde(flatten)]
    pub key: PortKey,
    pub ofport: u32,
    tag: u32,
    mtu: Option<u16>,
}

/// Where scenarios are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

impl Scenario {
    /// The one in this folder.
    pub fn read(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join("model.yaml")).unwrap();
        serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
    }

    pub fn compiler(&self) -> Compiler {
        let Local { tunnel, gateway, service_gateway, tunnel_mtu, connection_rate } = self.local;
        let (gateway, tunnel) = (PortNo(gateway), PortNo(tunnel));
        let service_gateway = service_gateway.map(PortNo);
        let local = LocalPorts { gateway, service_gateway, tunnel, tunnel_mtu, connection_rate };
        let mut compiler = Compiler::new(self.node.clone(), self.fabric.clone(), local);
        for object in &self.objects {
            compiler.apply(Change::Put(object.clone())).unwrap();
        }
        for Attached { key, ofport, tag, mtu } in self.attachments.iter().cloned() {
            compiler.attach(key, Attachment { ofport: PortNo(ofport), tag, mtu }).unwrap();
        }
        compiler
    }
}
