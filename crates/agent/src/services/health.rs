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
    /// Ports at which it is not said, and why.
    silent: BTreeMap<u16, String>,
    turns: Arc<Semaphore>,
}

// === impl HealthPorts ===

impl Default for HealthPorts {
    fn default() -> Self {
        let (said, _) = watch::channel(BTreeMap::new());
        let turns = Arc::new(Semaphore::new(CONNECTIONS));
        Self { said, listeners: BTreeMap::new(), silent: BTreeMap::new(), turns }
    }
}

impl Drop for HealthPorts {
    fn drop(&mut self) {
        self.listeners.values().for_each(AbortHandle::abort);
    }
}

impl HealthPorts {
    /// Ports at which nothing is said, since somebody else has them: by Service, in words.
    pub(crate) fn silent(&self) -> Vec<String> {
        let said = self.said.borrow();
        let tell = |(port, why): (&u16, &String)| {
            let service = said.get(port).map(|health| health.service.as_str()).unwrap_or_default();
            format!("the health of {service} is not told at port {port}: {why}")
        };
        self.silent.iter().map(tell).collect()
    }

    /// Tries again where somebody else was. Whether something is said now that was not.
    pub(crate) async fn try_again(&mut self) -> bool {
        if self.silent.is_empty() {
            return false;
        }
        let before = self.silent.len();
        let now = self.said.borrow().clone();
        self.say(now).await;
        self.silent.len() < before
    }

    /// This is said from now on, there and nowhere else, as far as nobody else has the ports.
    pub(crate) async fn say(&mut self, now: BTreeMap<u16, Health>) {
        self.listeners.retain(|port, listener| {
            let stays = now.contains_key(port);
            if !stays {
                listener.abort();
            }
            stays
        });
        self.silent.retain(|port, _| now.contains_key(port));
        for port in now.keys() {
            if self.listeners.contains_key(port) {
                continue;
            }
            match bind(*port).await {
                Ok(listener) => {
                    let serve =
                        serve(listener, *port, self.said.subscribe(), Arc::clone(&self.turns));
                    self.listeners.insert(*port, tokio::spawn(serve).abort_handle());
                    self.silent.remove(port);
                }
                Err(error) => {
                    let why = Chain(&error).to_string();
                    if self.silent.insert(*port, why).is_none() {
                        warn!(port, error = %Chain(&error), "a Service's health is not told here");
                    }
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

    #[tokio::test]
    async fn a_port_that_is_taken_is_told_and_tried_again() {
        let other = bind(0).await.unwrap();
        let port = other.local_addr().unwrap().port();
        let mut ports = HealthPorts::default();
        let health = Health { service: "shop:web".parse().unwrap(), local: 1 };
        ports.say(BTreeMap::from([(port, health)])).await;
        let silent = ports.silent();
        let [told] = silent.as_slice() else { panic!("{silent:?}") };
        assert!(told.contains("shop:web") && told.contains(&port.to_string()), "{told}");
        assert!(!ports.try_again().await, "it is still taken");
        drop(other);
        assert!(ports.try_again().await);
        assert!(ports.silent().is_empty());
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        // Nobody asks for it any more.
        ports.say(BTreeMap::new()).await;
        assert!(ports.silent().is_empty() && !ports.try_again().await);
    }

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
