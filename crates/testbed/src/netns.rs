//! Network namespaces, as guards.
//!
//! Only threads enter a namespace, never the process: each entry is a short-lived thread of its own,
//! so that no pooled thread is ever left in the wrong one. Children and sockets made on that thread
//! stay in the namespace after it has ended.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::command::{Command, CommandError};
use crate::lab::Lab;

/// Something could not be done inside a namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// It could not be entered.
    #[error("cannot enter namespace {netns}")]
    Enter {
        /// Its name.
        netns: String,
        /// Why.
        source: io::Error,
    },
    /// A kernel parameter could not be set.
    #[error("cannot write {value} to {path}")]
    Sysctl {
        /// The file.
        path: String,
        /// The value.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A socket could not be bound or connected.
    #[error("no socket for {address} in namespace {netns}")]
    Socket {
        /// Where to.
        address: SocketAddr,
        /// The namespace's name.
        netns: String,
        /// Why.
        source: io::Error,
    },
}

/// A network namespace; a cheap handle. The namespace goes with the last one.
#[derive(Clone, Debug)]
pub struct Netns {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    lab: Lab,
    /// None is the namespace that the process is in.
    named: Option<Named>,
}

#[derive(Debug)]
struct Named {
    name: String,
    handle: File,
}

impl Netns {
    pub(crate) fn host(lab: Lab) -> Self {
        Self { inner: Arc::new(Inner { lab, named: None }) }
    }

    pub(crate) fn create(lab: Lab, name: &str) -> Result<Self, CommandError> {
        let name = format!("{}-{name}", lab.id());
        lab.host().run(&["ip", "netns", "add", &name])?;
        let handle = File::open(format!("/run/netns/{name}"))
            .map_err(|source| NetnsError::Enter { netns: name.clone(), source })?;
        let netns = Self { inner: Arc::new(Inner { lab, named: Some(Named { name, handle }) }) };
        netns.run(&["ip", "link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// The name under `/run/netns`, for `ip netns exec`; empty for the host's.
    pub fn name(&self) -> &str {
        self.inner.named.as_ref().map_or("", |named| &named.name)
    }

    /// Whether this is the namespace that the process itself is in.
    pub fn is_host(&self) -> bool {
        self.inner.named.is_none()
    }

    /// The lab it belongs to.
    pub fn lab(&self) -> &Lab {
        &self.inner.lab
    }

    /// Runs `work` on a thread inside the namespace.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        let inside = || {
            if let Some(Named { handle, .. }) = &self.inner.named {
                setns(handle, CloneFlags::CLONE_NEWNET)?;
            }
            Ok(work())
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
            .map_err(|e: nix::Error| NetnsError::Enter {
                netns: self.name().to_owned(),
                source: e.into(),
            })
    }

    /// A command to run inside.
    pub fn command(&self, program: &str) -> Command {
        Command::new(self.clone(), program)
    }

    /// Runs a command inside to its end and returns its standard output.
    pub fn run(&self, command: &[&str]) -> Result<String, CommandError> {
        let (program, args) = command.split_first().ok_or(CommandError::Empty)?;
        self.command(program).args(args).run()
    }

    /// Runs `ip` inside.
    pub fn ip(&self, args: &str) -> Result<String, CommandError> {
        self.command("ip").args(args.split_whitespace()).run()
    }

    /// Sets a kernel parameter inside, named as `sysctl` does with slashes: `net/ipv4/ip_forward`.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), NetnsError> {
        let path = format!("/proc/sys/{name}");
        self.within(|| std::fs::write(&path, value))?.map_err(|source| NetnsError::Sysctl {
            path,
            value: value.to_owned(),
            source,
        })
    }

    /// A UDP socket inside; it stays there when used from outside, as all sockets do.
    pub fn udp_bind(&self, address: SocketAddr) -> Result<UdpSocket, NetnsError> {
        self.socket(address, || UdpSocket::bind(address))
    }

    /// A listening TCP socket inside.
    pub fn tcp_listen(&self, address: SocketAddr) -> Result<TcpListener, NetnsError> {
        self.socket(address, || TcpListener::bind(address))
    }

    /// A TCP connection from inside.
    pub fn tcp_connect(&self, address: SocketAddr) -> Result<TcpStream, NetnsError> {
        self.socket(address, || TcpStream::connect(address))
    }

    fn socket<S: Send>(
        &self,
        address: SocketAddr,
        open: impl FnOnce() -> io::Result<S> + Send,
    ) -> Result<S, NetnsError> {
        let netns = self.name().to_owned();
        self.within(open)?.map_err(|source| NetnsError::Socket { address, netns, source })
    }

    /// Whether someone inside listens on this TCP port.
    pub fn listens_on_tcp(&self, port: u16) -> Result<bool, NetnsError> {
        const LISTEN: &str = "0A";
        let port = format!(":{port:04X}");
        // Not `/proc/net`, which shows the namespace of the process' first thread.
        let tables = self.within(|| {
            ["tcp", "tcp6"].map(|name| {
                std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
            })
        })?;
        Ok(tables.iter().flat_map(|table| table.lines()).any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let (local, _, state) = (columns.next(), columns.next(), columns.next());
            local.is_some_and(|local| local.ends_with(&port)) && state == Some(LISTEN)
        }))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(Named { name, .. }) = &self.named
            && let Err(e) = self.lab.host().run(&["ip", "netns", "delete", name])
        {
            eprintln!("namespace {name} stays until its lab goes: {e}");
        }
    }
}
