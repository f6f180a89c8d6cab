//! The way from the host to the API server, which only listens inside of its machine.
//!
//! A port of the host's loopback leads there, so that kubectl and clients in tests need no namespace.
//! Connections are made in the machine's namespace, one at a time as they come.

use crate::machine::Machine;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Forwards a port until it is dropped; connections that are open stay until their ends close them.
#[derive(Debug)]
pub(crate) struct Forward {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Forward {
    /// Forwards a free port of the loopback to `target` in the network of `machine`.
    pub(crate) fn start(machine: Arc<Machine>, target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let over = ended.clone();
        let acceptor = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if over.load(Ordering::Acquire) {
                    return;
                }
                // Who finds nobody there sees its connection closed, as behind any proxy.
                if let Ok(server) = machine.netns().and_then(|n| Ok(n.tcp_connect(target)?)) {
                    let _ = join(client, server);
                }
            }
        });
        Ok(Self { address, ended, acceptor: Some(acceptor) })
    }

    /// Where to connect to on the host.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the acceptor.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            // It has nothing to say.
            let _ = acceptor.join();
        }
    }
}

/// Copies both ways, each on a thread that ends with the connection.
fn join(client: TcpStream, server: TcpStream) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let ways = [(client.try_clone()?, server.try_clone()?), (server, client)];
    for (mut from, mut to) in ways {
        thread::spawn(move || {
            // Either end may cut it at any time.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}
