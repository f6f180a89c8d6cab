//! A bare `ovsdb-server` with any schema.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::panicking;

use crate::command::CommandError;
use crate::daemon::{Daemon, DaemonError, accepts};
use crate::netns::Netns;
use crate::process::Usage;

/// Files with which a server speaks TLS; it demands a certificate of its clients.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Its private key (PEM).
    pub private_key: PathBuf,
    /// Its certificate (PEM).
    pub certificate: PathBuf,
    /// The authority that signs its clients' certificates (PEM).
    pub ca_certificate: PathBuf,
}

/// What an [`OvsdbServer`] is to serve, and where.
#[derive(Debug)]
#[must_use = "a server does not run until it is started"]
pub struct OvsdbServerBuilder {
    netns: Netns,
    name: String,
    tcp: Option<SocketAddr>,
    tls: Option<(SocketAddr, TlsFiles)>,
    remotes: Vec<String>,
}

/// An `ovsdb-server`, always on a Unix socket, and on TCP or TLS if asked for. A panicking owner
/// makes it print its log.
#[derive(Debug)]
pub struct OvsdbServer {
    daemon: Daemon,
    database: PathBuf,
    tcp: Option<SocketAddr>,
    tls: Option<(SocketAddr, TlsFiles)>,
    remotes: Vec<String>,
}

// === impl OvsdbServerBuilder ===

impl OvsdbServerBuilder {
    /// Also listens on TCP. Port 0 lets the kernel choose, see [`OvsdbServer::tcp_address`].
    pub fn tcp(mut self, address: SocketAddr) -> Self {
        self.tcp = Some(address);
        self
    }

    /// Also listens on TLS (`ssl:`). With port 0, the IP address must differ from that of
    /// [`Self::tcp`]: the server's log, which names the port, cannot tell them apart.
    pub fn tls(mut self, address: SocketAddr, files: TlsFiles) -> Self {
        self.tls = Some((address, files));
        self
    }

    /// Passes one more `--remote`, in ovsdb-server's words.
    pub fn remote(mut self, remote: &str) -> Self {
        self.remotes.push(remote.to_owned());
        self
    }

    /// Starts it with an empty database of this schema.
    pub fn start(self, schema: &Path) -> Result<OvsdbServer, DaemonError> {
        self.start_with(|tool, database| tool.arg("create").arg(database).arg(schema).run())
    }

    /// Starts it with the database that `create` makes with `ovsdb-tool`.
    pub(crate) fn start_with(
        self,
        create: impl FnOnce(crate::Command, &Path) -> Result<String, CommandError>,
    ) -> Result<OvsdbServer, DaemonError> {
        let dir = self.netns.lab().make_dir(&self.name)?;
        let database = dir.join("db");
        let daemon = Daemon::new("ovsdb-server", self.netns, dir);
        create(daemon.tool("ovsdb-tool"), &database)?;
        let Self { tcp, tls, remotes, .. } = self;
        let mut server = OvsdbServer { daemon, database, tcp, tls, remotes };
        server.start()?;
        server.keep_ports();
        Ok(server)
    }
}

// === impl OvsdbServer ===

impl OvsdbServer {
    /// Prepares a server that lives in `netns`, in the lab's subdirectory `name`.
    pub fn builder(netns: &Netns, name: &str) -> OvsdbServerBuilder {
        OvsdbServerBuilder {
            netns: netns.clone(),
            name: name.to_owned(),
            tcp: None,
            tls: None,
            remotes: Vec::new(),
        }
    }

    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.daemon.dir().join("db.sock")
    }

    /// The socket of `ovs-appctl`.
    pub fn unixctl(&self) -> PathBuf {
        self.daemon.unixctl()
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        self.daemon.dir()
    }

    /// Its namespace, where its TCP and TLS addresses are.
    pub fn netns(&self) -> &Netns {
        self.daemon.netns()
    }

    /// Where it listens on TCP.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// Where it listens on TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(|(address, _)| *address)
    }

    /// Runs `ovsdb-client` on its socket: the command, then what follows the server's name.
    pub fn client(&self, command: &str, args: &[&str]) -> Result<String, CommandError> {
        self.daemon
            .tool("ovsdb-client")
            .args(["--timeout=20", command])
            .arg(format!("unix:{}", self.socket().display()))
            .args(args)
            .run()
    }

    /// Runs `ovs-appctl` on it.
    pub fn appctl(&self, args: &[&str]) -> Result<String, CommandError> {
        self.daemon.appctl(args)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts it again on the same database and the same addresses; kills it first if it runs.
    pub fn start(&mut self) -> Result<(), DaemonError> {
        let mut args = vec![
            self.database.display().to_string(),
            format!("--remote=punix:{}", self.socket().display()),
        ];
        if let Some(address) = self.tcp {
            args.push(format!("--remote=ptcp:{}", passive(address)));
        }
        if let Some((address, files)) = &self.tls {
            args.push(format!("--remote=pssl:{}", passive(*address)));
            args.push(format!("--private-key={}", files.private_key.display()));
            args.push(format!("--certificate={}", files.certificate.display()));
            args.push(format!("--ca-cert={}", files.ca_certificate.display()));
        }
        args.extend(self.remotes.iter().map(|remote| format!("--remote={remote}")));
        let socket = self.socket();
        self.daemon.start(&args, |_| accepts(&socket))
    }

    /// Stops it without ending it: connections stay open, nothing is answered.
    pub fn pause(&self) -> io::Result<()> {
        self.daemon.pause()
    }

    /// Lets it go on after [`Self::pause`].
    pub fn resume(&self) -> io::Result<()> {
        self.daemon.resume()
    }

    /// The CPU time and memory it used since it was last started.
    pub fn usage(&self) -> io::Result<Usage> {
        self.daemon.usage()
    }

    /// Its log since the first start.
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    pub(crate) fn move_to(&mut self, netns: &Netns) {
        self.daemon.move_to(netns);
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Remembers the ports that the kernel chose, so that a restart is found again.
    fn keep_ports(&mut self) {
        let log = self.daemon.log();
        let addresses = [self.tcp.as_mut(), self.tls.as_mut().map(|(address, _)| address)];
        for address in addresses.into_iter().flatten().filter(|address| address.port() == 0) {
            let announced = format!("|{}: listening on port ", passive(*address));
            let port = log
                .lines()
                .find_map(|line| line.split_once(&announced))
                .and_then(|(_, port)| port.trim().parse().ok());
            address.set_port(port.unwrap_or_default());
        }
    }
}

impl Drop for OvsdbServer {
    fn drop(&mut self) {
        if panicking() {
            let dir = self.dir().display();
            eprintln!(
                "==== ovsdb-server in {dir}, end of its log ====\n{}",
                self.daemon.log_tail(20)
            );
        }
    }
}

/// An address in the words of passive connections, ovsdb(7): the port comes first.
fn passive(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("{}:{}", v4.port(), v4.ip()),
        SocketAddr::V6(v6) => format!("{}:[{}]", v6.port(), v6.ip()),
    }
}
