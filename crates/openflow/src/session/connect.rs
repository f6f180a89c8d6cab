//! Dialling out.

use super::endpoint::{Endpoint, Host};
use super::error::ConnectError;
use super::events::Events;
use super::handle::Session;
use super::options::Options;
use std::io;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};

impl Session {
    /// Connects to `unix:`, `tcp:` or `ssl:` and says hello.
    pub async fn connect(
        endpoint: &Endpoint,
        options: Options,
    ) -> Result<(Self, Events), ConnectError> {
        let waited = options.handshake;
        match timeout_at(Instant::now() + waited, dial(endpoint, options)).await {
            Ok(connected) => connected,
            Err(_) => Err(ConnectError::Deadline { endpoint: endpoint.clone(), waited }),
        }
    }
}

async fn dial(endpoint: &Endpoint, options: Options) -> Result<(Session, Events), ConnectError> {
    let no_socket = |source| ConnectError::Socket { endpoint: endpoint.clone(), source };
    let peer = endpoint.to_string();
    let connected = match endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(no_socket)?;
            Session::over(stream, peer, options).await
        }
        Endpoint::Tcp(host) => {
            let stream = dial_tcp(host).await.map_err(no_socket)?;
            Session::over(stream, peer, options).await
        }
        Endpoint::Ssl(host) => {
            let no_tls = |source| ConnectError::Tls { endpoint: endpoint.clone(), source };
            let tls = options.tls.as_ref().ok_or_else(|| ConnectError::NoTls(endpoint.clone()))?;
            let name = tls.server_name(&host.name).map_err(no_tls)?;
            let stream = dial_tcp(host).await.map_err(no_socket)?;
            let stream = tls.connector().connect(name, stream).await.map_err(no_socket)?;
            Session::over(stream, peer, options).await
        }
        _ => return Err(ConnectError::Direction { endpoint: endpoint.clone() }),
    };
    connected.map_err(|source| ConnectError::Session { endpoint: endpoint.clone(), source })
}

async fn dial_tcp(host: &Host) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
    // Requests are small and waited for.
    stream.set_nodelay(true)?;
    Ok(stream)
}
