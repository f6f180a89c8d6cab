//! A switch that there is only on paper: rows of its database and steps of its node's view go in, and
//! whatever they say, what is remembered of its wires has to be right. For who tries to break that.

use crate::board::{Board, Outcome};
use crate::wires::Wires;
use osier_compiler::LocalPorts;
use osier_model::{Change, Fabric, NodeName, PortKey};
use osier_openflow::port_no::PortNo;
use osier_ovsdb::cache::RowChange;
use osier_ovsdb::monitor::Monitor;
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug)]
pub struct Trial {
    board: Board,
    wires: Wires,
    /// The ports that were told to be there.
    told: BTreeSet<PortKey>,
}

// === impl Trial ===

impl Trial {
    /// A node whose view has nothing yet, whose tunnel has this number, and whose bridge is called so
    /// if its database does not say otherwise.
    pub fn new(node: NodeName, tunnel: u32, bridge: &str) -> Self {
        let local = LocalPorts {
            gateway: PortNo::LOCAL,
            service_gateway: None,
            tunnel: PortNo(tunnel),
            tunnel_mtu: None,
            connection_rate: None,
        };
        let board = Board::new(node, Fabric::default(), local);
        Self { board, wires: Wires::new(bridge), told: BTreeSet::new() }
    }

    /// What is followed of a database.
    pub fn monitor() -> Monitor {
        crate::prepare::monitor()
    }

    /// Rows of the database.
    pub fn follow(&mut self, rows: &[RowChange]) {
        let touched = self.wires.follow(rows);
        let outcome = self.board.rewire(touched, &self.wires);
        self.note(outcome);
    }

    /// Steps of the view.
    pub fn hear(&mut self, changes: Vec<Change>) {
        let outcome = self.board.hear(changes, &self.wires);
        self.note(outcome);
    }

    fn note(&mut self, outcome: Outcome) {
        for key in &outcome.detached {
            self.told.remove(key);
        }
        self.told.extend(outcome.attached.into_iter().map(|(key, _)| key));
    }

    /// The ports that are on wires.
    pub fn ports(&self) -> Vec<PortKey> {
        self.board.attached().map(|port| port.key.clone()).collect()
    }

    /// What is not right, if anything is.
    pub fn fault(&self) -> Option<String> {
        let ports = self.ports();
        let is_told = self.told.iter().eq(&ports);
        let told = || format!("{ports:?} are on wires, and {:?} were told", self.told);
        self.board.fault(&self.wires).or_else(|| (!is_told).then(told))
    }
}
