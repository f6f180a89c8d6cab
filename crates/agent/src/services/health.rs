//! Ports at which a node says whether it has endpoints of a Service (Kubernetes:
//! `healthCheckNodePort`), so that load balancers send it what stays local. The words are
//! kube-proxy's.

use super::Health;
use crate::Chain;
use crate::health::read_request;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::warn;

/// Connections of all ports at once, and how long one may last.
const CONNECTIONS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said at which port. Listeners end with it.
#[derive(Debug)]
pub(crate) struct HealthPorts {
    said: watch::Sender<BTreeMap<u16, Health>>,
    listeners: BTreeMap<u16, AbortHandle>,
    turns: Arc<Semaphore>,
}

// === impl HealthPorts ===

impl Default for HealthPorts {
    fn default() -> Self {
        let (said, _) = watch::channel(BTreeMap::new());
        let turns = Arc::new(Semaphore::new(CONNECTIONS));
        Self { said, listeners: BTreeMap::new(), turns }
    }
}

impl Drop for HealthPorts {
    fn drop(&mut self) {
        self.listeners.values().for_each(AbortHandle::abort);
    }
}

impl HealthPorts {
    /// This is said from now on, there and nowhere else. A port that somebody else has is tried
    /// again at the next change.
    pub(crate) async fn say(&mut self, now: BTreeMap<u16, Health>) {
        self.listeners.retain(|port, listener| {
            let stays = now.contains_key(port);
            if !stays {
                listener.abort();
            }
            stays
        });
        for port in now.keys() {
            if self.listeners.contains_key(port) {
                continue;
            }
            match bind(*port).await {
                Ok(listener) => {
                    let serve =
                        serve(listener, *port, self.said.subscribe(), Arc::clone(&self.turns));
                    self.listeners.insert(*port, tokio::spawn(serve).abort_handle());
                }
                Err(error) => {
                    warn!(port, error = %Chain(&error), "a Service's health is not told here");
                }
            }
        }
        self.said.send_if_modified(|said| {
            let differs = *said != now;
            *said = now;
            differs
        });
    }
}

/// On all addresses, of both families where the machine has both.
async fn bind(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
        }
        bound => bound,
    }
}

async fn serve(
    listener: TcpListener,
    port: u16,
    said: watch::Receiver<BTreeMap<u16, Health>>,
    turns: Arc<Semaphore>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        let health = said.borrow().get(&port).cloned();
        tokio::spawn(async move {
            // Who is slow or gone gets nothing.
            if let Some(health) = health {
                let _ = timeout(PATIENCE, respond(stream, &health)).await;
            }
            drop(turn);
        });
    }
}

async fn respond(mut stream: TcpStream, health: &Health) -> io::Result<()> {
    // Whatever is asked, the answer is one.
    read_request(&mut stream).await?;
    stream.write_all(page(health).as_bytes()).await?;
    stream.shutdown().await
}

fn page(Health { service, local }: &Health) -> String {
    let status = if *local > 0 { "200 OK" } else { "503 Service Unavailable" };
    let name = service.as_str();
    let (namespace, name) = name.split_once(':').unwrap_or(("", name));
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{namespace}\",\n\t\t\"name\": \"{name}\"\n\t}},\n\
         \t\"localEndpoints\": {local},\n\t\"serviceProxyHealthy\": true\n}}\n"
    );
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n\
         X-Load-Balancing-Endpoint-Weight: {local}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_endpoints_is_unavailable() {
        let health = |local| Health { service: "shop:web".parse().unwrap(), local };
        let page_of = |local| page(&health(local));
        assert!(page_of(0).starts_with("HTTP/1.1 503 "));
        let two = page_of(2);
        assert!(two.starts_with("HTTP/1.1 200 OK\r\n"), "{two}");
        let body: serde_json::Value =
            serde_json::from_str(two.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(body["service"]["namespace"], "shop");
        assert_eq!(body["localEndpoints"], 2);
    }
}
