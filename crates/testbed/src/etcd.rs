//! A cluster of etcd, to be killed member by member.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::daemon::DaemonError;
use crate::netns::Netns;
use crate::process::Process;
use crate::wait::{Timeout, wait_until};

/// Ports 2379 up are for clients, 2479 up for one another. They need no chance: the namespace is private.
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2479;
/// Starting and electing take about a second on an idle machine.
const SETTLE: Duration = Duration::from_mins(1);
const READY: &str = "ready to serve client requests";

/// Members of one cluster, in a namespace that must not be the host's.
#[derive(Debug)]
pub struct Etcd {
    netns: Netns,
    dir: PathBuf,
    address: IpAddr,
    scheme: &'static str,
    /// What each is started with besides.
    more: Vec<String>,
    members: Vec<Option<Process>>,
}

impl Etcd {
    /// Starts three members that listen for clients at an address of the namespace, and waits until they
    /// are ready.
    pub fn start(netns: &Netns, address: IpAddr) -> Result<Self, DaemonError> {
        Self::start_with(netns, address, "http", Vec::new())
    }

    /// The same, for clients that speak `https`, with more arguments.
    pub fn start_with(
        netns: &Netns,
        address: IpAddr,
        scheme: &'static str,
        more: Vec<String>,
    ) -> Result<Self, DaemonError> {
        let dir = netns.lab().make_dir("etcd")?;
        let members = (0..3).map(|_| None).collect();
        let mut etcd = Self { netns: netns.clone(), dir, address, scheme, more, members };
        for member in 0..etcd.members.len() {
            etcd.launch(member)?;
        }
        for member in 0..etcd.members.len() {
            etcd.wait_for(member)?;
        }
        Ok(etcd)
    }

    /// Where clients find them.
    pub fn urls(&self) -> Vec<String> {
        (0..3).map(|member| self.client_url(member)).collect()
    }

    /// Kills a member, with SIGKILL.
    pub fn kill(&mut self, member: usize) {
        self.members[member] = None;
    }

    /// Starts a member again.
    pub fn revive(&mut self, member: usize) -> Result<(), DaemonError> {
        self.launch(member)
    }

    /// A member that runs.
    pub fn member(&self, member: usize) -> Option<&Process> {
        self.members[member].as_ref()
    }

    fn client_url(&self, member: u16) -> String {
        format!("{}://{}:{}", self.scheme, self.address, CLIENT_PORT + member)
    }

    fn launch(&mut self, member: usize) -> Result<(), DaemonError> {
        let peer = |n: u16| format!("http://127.0.0.1:{}", PEER_PORT + n);
        let number = u16::try_from(member).unwrap_or_default();
        let cluster: Vec<String> = (0..3).map(|n| format!("m{n}={}", peer(n))).collect();
        let client = self.client_url(number);
        let process = self
            .netns
            .command("etcd")
            .args(["--name", &format!("m{member}"), "--data-dir"])
            .arg(self.dir.join(format!("m{member}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer(number)])
            .args(["--initial-advertise-peer-urls", &peer(number)])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
            .args(&self.more)
            .spawn()?;
        self.members[member] = Some(process);
        Ok(())
    }

    fn wait_for(&self, member: usize) -> Result<(), Timeout> {
        wait_until(&format!("etcd's member m{member}"), SETTLE, || {
            let said = self.members[member].as_ref().map(Process::stderr).unwrap_or_default();
            if said.contains(READY) { Ok(()) } else { Err(said) }
        })
    }
}
