//! Metrics and health over HTTP: two pages, one request a connection.

use crate::metrics::Metrics;
use crate::ports::Ports;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// The longest request that is read, in bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Connections at once.
const CONNECTIONS: usize = 32;
/// How long a connection may last.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until told to stop.
pub async fn serve(
    listener: TcpListener,
    ports: Ports,
    metrics: Metrics,
    mut stop: watch::Receiver<bool>,
) {
    let turns = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        let (ports, metrics) = (ports.clone(), metrics.clone());
        tokio::spawn(async move {
            // Who is slow or gone gets nothing.
            let _ = timeout(PATIENCE, respond(stream, ports, metrics)).await;
            drop(turn);
        });
    }
}

async fn respond(mut stream: TcpStream, ports: Ports, metrics: Metrics) -> io::Result<()> {
    let request = read_request(&mut stream).await?;
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let page = page(line, &ports, &metrics).await;
    stream.write_all(page.as_bytes()).await?;
    stream.shutdown().await
}

/// A request's head, as far as it is read at all.
pub(crate) async fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        let mut some = [0; 1024];
        match stream.read(&mut some).await? {
            0 => break,
            n => request.extend_from_slice(&some[..n]),
        }
    }
    Ok(request)
}

async fn page(line: &[u8], ports: &Ports, metrics: &Metrics) -> String {
    const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const TEXT: &str = "text/plain; charset=utf-8";
    let (status, kind, body) = match request_path(line) {
        Some("/metrics") => {
            ports.count_switch().await;
            ("200 OK", METRICS, metrics.render())
        }
        Some("/healthz") => match ports.status().await {
            Ok(()) => ("200 OK", TEXT, "ok\n".to_owned()),
            Err(error) => ("503 Service Unavailable", TEXT, format!("{error}\n")),
        },
        Some(_) => ("404 Not Found", TEXT, "try /metrics or /healthz\n".to_owned()),
        None => ("400 Bad Request", TEXT, "only GET\n".to_owned()),
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The path of a request's first line; `None` if it is none that we answer.
fn request_path(line: &[u8]) -> Option<&str> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let known = method == "GET" && version.starts_with("HTTP/1.") && words.next().is_none();
    known.then(|| target.split_once('?').map_or(target, |(path, _)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_read() {
        assert_eq!(request_path(b"GET /metrics HTTP/1.1"), Some("/metrics"));
        assert_eq!(request_path(b"GET /healthz?verbose HTTP/1.0"), Some("/healthz"));
        for line in [&b""[..], b"GET /", b"POST / HTTP/1.1", b"GET / HTTP/2", b"\xff / HTTP/1.1"] {
            assert_eq!(request_path(line), None);
        }
    }
}
