//! A server of one of three kinds, and what can be done to it.

use std::path::{Path, PathBuf};

use osier_ovsdb::schema::Schema;
use osier_ovsdb::server::Server;
use osier_ovsdb::session::Remote;
use osier_testbed::{Lab, OvsdbCluster, OvsdbServer};
use tempfile::TempDir;

pub(crate) const DATABASE: &str = "Open_vSwitch";

pub(crate) enum Peer {
    Standalone(Box<OvsdbServer>),
    Clustered(OvsdbCluster),
    Memory { server: Server, dir: TempDir },
}

impl Peer {
    pub(crate) fn standalone() -> Self {
        let lab = Lab::new().unwrap();
        let server = OvsdbServer::builder(&lab.host(), "db").start(&schema_path()).unwrap();
        Self::Standalone(Box::new(server))
    }

    pub(crate) fn clustered() -> Self {
        let lab = Lab::new().unwrap();
        let netns = lab.netns("db").unwrap();
        Self::Clustered(OvsdbCluster::start(&netns, "db", &schema_path(), 3).unwrap())
    }

    pub(crate) async fn memory() -> Self {
        let server = Server::new(schema());
        let dir = TempDir::new().unwrap();
        let address = format!("punix:{}", dir.path().join("db.sock").display());
        server.listen(&address).await.unwrap();
        Self::Memory { server, dir }
    }

    /// Where clients connect to.
    pub(crate) fn remotes(&self) -> Vec<Remote> {
        let sockets = match self {
            Self::Standalone(server) => vec![server.socket()],
            Self::Clustered(cluster) => cluster.sockets(),
            Self::Memory { dir, .. } => vec![dir.path().join("db.sock")],
        };
        sockets.into_iter().map(Remote::Unix).collect()
    }

    /// A real server's socket, for foreign tools.
    pub(crate) fn real(&self) -> Option<&OvsdbServer> {
        match self {
            Self::Standalone(server) => Some(server),
            Self::Clustered(cluster) => Some(&cluster.members()[cluster.leader().unwrap()]),
            Self::Memory { .. } => None,
        }
    }

    /// Closes all connections to it.
    pub(crate) fn disconnect_clients(&self) {
        let reconnect = |server: &OvsdbServer| {
            server.appctl(&["ovsdb-server/reconnect"]).unwrap();
        };
        match self {
            Self::Standalone(server) => reconnect(server),
            Self::Clustered(cluster) => cluster.members().iter().for_each(reconnect),
            Self::Memory { server, .. } => server.disconnect_all(),
        }
    }

    /// Converts the database to another schema.
    pub(crate) fn convert(&self, schema: &Schema) {
        match self {
            Self::Memory { server, .. } => server.convert(schema.clone()),
            real => {
                let server = real.real().unwrap();
                let file = server.dir().join("new.ovsschema");
                std::fs::write(&file, schema.to_json().to_string()).unwrap();
                server.client("convert", &[file.to_str().unwrap()]).unwrap();
            }
        }
    }
}

pub(crate) fn schema_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/vswitch.ovsschema")
}

pub(crate) fn schema() -> Schema {
    std::fs::read_to_string(schema_path()).unwrap().parse().unwrap()
}
