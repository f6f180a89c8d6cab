//! A clustered database: `ovsdb-server`s joined by Raft, to be killed one by one.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::daemon::DaemonError;
use crate::netns::Netns;
use crate::ovsdb_server::OvsdbServer;
use crate::wait::{Timeout, wait_until};

/// Ports 6641 up are for clients, 6741 up for Raft. They need no chance: the namespace is private.
const CLIENT_PORT: u16 = 6641;
const RAFT_PORT: u16 = 6741;

/// Joining and electing take about a second each on an idle machine.
const SETTLE: Duration = Duration::from_secs(30);

/// Clustered servers of one database, in one namespace of their own.
#[derive(Debug)]
pub struct OvsdbCluster {
    database: String,
    members: Vec<OvsdbServer>,
}

impl OvsdbCluster {
    /// Starts `size` servers (three is usual) in `netns`, which must not be the host's, and waits
    /// until all have joined. Each listens on its Unix socket and on TCP, `127.0.0.1`.
    pub fn start(netns: &Netns, name: &str, schema: &Path, size: u16) -> Result<Self, DaemonError> {
        let database = netns.command("ovsdb-tool").arg("schema-name").arg(schema).run()?;
        let mut cluster = Self { database: database.trim().to_owned(), members: Vec::new() };
        for i in 0..size {
            let member = OvsdbServer::builder(netns, &format!("{name}{i}"))
                .tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, CLIENT_PORT + i)))
                .start_with(|tool, file| match i {
                    0 => {
                        tool.arg("create-cluster").arg(file).arg(schema).arg(raft_address(0)).run()
                    }
                    _ => tool
                        .arg("join-cluster")
                        .arg(file)
                        .args([&cluster.database, &raft_address(i), &raft_address(0)])
                        .run(),
                })?;
            cluster.members.push(member);
            // One at a time: two that ask at once wait for each other's retry.
            cluster.wait_for_member(usize::from(i))?;
        }
        Ok(cluster)
    }

    /// The name of the database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The servers, by index.
    pub fn members(&self) -> &[OvsdbServer] {
        &self.members
    }

    /// The members' Unix sockets.
    pub fn sockets(&self) -> Vec<PathBuf> {
        self.members.iter().map(OvsdbServer::socket).collect()
    }

    /// The index of the leader; waits for an election if there is none.
    pub fn leader(&self) -> Result<usize, Timeout> {
        wait_until("a leader", SETTLE, || {
            let roles: Vec<_> = (0..self.members.len()).map(|i| self.role(i)).collect();
            roles.iter().position(|role| role == "leader").ok_or_else(|| roles.join(", "))
        })
    }

    /// Kills a member with SIGKILL.
    pub fn kill(&mut self, member: usize) {
        self.members[member].kill();
    }

    /// Starts a member again and waits until it knows a leader.
    pub fn restart(&mut self, member: usize) -> Result<(), DaemonError> {
        self.members[member].start()?;
        Ok(self.wait_for_member(member)?)
    }

    fn wait_for_member(&self, member: usize) -> Result<(), Timeout> {
        wait_until(&format!("member {member} to follow a leader"), SETTLE, || {
            let status = self.status(member);
            let joined = field(&status, "Status") == Some("cluster member");
            let led = field(&status, "Leader").is_some_and(|leader| leader != "unknown");
            if joined && led { Ok(()) } else { Err(status) }
        })
    }

    fn role(&self, member: usize) -> String {
        field(&self.status(member), "Role").unwrap_or("down").to_owned()
    }

    /// The member's `cluster/status`; what went wrong if it has none.
    fn status(&self, member: usize) -> String {
        let daemon = self.members[member].daemon();
        // A member that was killed is not worth waiting for.
        match daemon.process() {
            Ok(_) => daemon
                .appctl(&["--timeout=2", "cluster/status", &self.database])
                .unwrap_or_else(|e| e.to_string()),
            Err(e) => e.to_string(),
        }
    }
}

fn raft_address(member: u16) -> String {
    format!("tcp:{}:{}", Ipv4Addr::LOCALHOST, RAFT_PORT + member)
}

/// The value after `name: ` at the start of a line.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
