//! Where servers are: `unix:PATH`, `tcp:HOST:PORT`, `ssl:HOST:PORT`, as everywhere in Open vSwitch
//! (ovsdb(7), "Active Database Connection Methods"), and how to connect to them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::error::SessionError;
use super::tls::{self, TlsError, TlsFiles};

/// The port IANA gave to OVSDB.
pub(super) const DEFAULT_PORT: u16 = 6640;

/// An address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Remote {
    /// A Unix domain socket.
    Unix(PathBuf),
    /// TCP.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
    /// TLS over TCP.
    Tls {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A connection someone else made; for people.
    Given(String),
}

/// The text is not a remote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// No known method before the colon.
    #[error("{remote:?} begins with none of {expected}")]
    Method {
        /// The text.
        remote: String,
        /// What it could begin with.
        expected: &'static str,
    },
    /// What follows is no address.
    #[error("{remote:?} has no valid {what}")]
    Address {
        /// The text.
        remote: String,
        /// "path", "host" or "port".
        what: &'static str,
    },
}

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// A connection of any kind.
pub type Stream = Box<dyn Duplex>;

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(remote: &str) -> Result<Self, RemoteError> {
        let wrong = |what| RemoteError::Address { remote: remote.to_owned(), what };
        match remote.split_once(':') {
            Some(("unix", "")) => Err(wrong("path")),
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", rest)) => {
                let (host, port) = host_and_port(rest).map_err(wrong)?;
                Ok(Self::Tcp { host, port })
            }
            Some(("ssl", rest)) => {
                let (host, port) = host_and_port(rest).map_err(wrong)?;
                Ok(Self::Tls { host, port })
            }
            _ => Err(RemoteError::Method {
                remote: remote.to_owned(),
                expected: "unix:, tcp:, ssl:",
            }),
        }
    }
}

/// `host[:port]`; an IPv6 address stands in brackets.
fn host_and_port(text: &str) -> Result<(String, u16), &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("host")?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or("port")?) })
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            Some(_) => return Err("host"),
            None => (text, None),
        },
    };
    if host.is_empty() || host.contains(['[', ']']) {
        return Err("host");
    }
    let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| "port"))?;
    Ok((host.to_owned(), port))
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracket = |host: &str| {
            if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
        };
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } => write!(f, "tcp:{}:{port}", bracket(host)),
            Self::Tls { host, port } => write!(f, "ssl:{}:{port}", bracket(host)),
            Self::Given(peer) => f.write_str(peer),
        }
    }
}

impl Remote {
    /// Connects.
    pub async fn dial(&self, tls: Option<&TlsFiles>) -> Result<Stream, SessionError> {
        let tcp = async |host: &str, port: u16| {
            let stream = TcpStream::connect((host, port)).await.map_err(SessionError::Connect)?;
            // Requests are whole messages: waiting for more to send only costs time.
            stream.set_nodelay(true).map_err(SessionError::Connect)?;
            Ok::<_, SessionError>(stream)
        };
        match self {
            Self::Unix(path) => {
                Ok(Box::new(UnixStream::connect(path).await.map_err(SessionError::Connect)?))
            }
            Self::Tcp { host, port } => Ok(Box::new(tcp(host, *port).await?)),
            Self::Tls { host, port } => {
                let files = tls.ok_or(TlsError::Missing)?;
                let connector = tls::connector(files)?;
                let name = tls::server_name(host)?;
                let stream = tcp(host, *port).await?;
                let stream =
                    connector.connect(name, stream).await.map_err(SessionError::Connect)?;
                Ok(Box::new(stream))
            }
            Self::Given(_) => Err(SessionError::Connect(std::io::ErrorKind::NotConnected.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_as_open_vswitch_writes_them() {
        for text in ["unix:/run/db.sock", "tcp:127.0.0.1:6640", "ssl:[::1]:6641", "tcp:db.local:1"]
        {
            assert_eq!(text.parse::<Remote>().unwrap().to_string(), text);
        }
        assert_eq!("tcp:a".parse::<Remote>().unwrap().to_string(), "tcp:a:6640");
        for text in
            ["", "unix:", "tcp::1", "tcp:a:b", "tcp:::1:5", "http:x", "ssl:[::1]x", "tcp:[a:1"]
        {
            assert!(text.parse::<Remote>().is_err(), "{text}");
        }
    }

    #[test]
    fn brackets_are_no_part_of_a_host() {
        // Found by fuzzing: its text was not that of a remote.
        for text in ["ssl:[[]", "tcp:a]:1", "tcp:[[::1]]:1"] {
            assert!(text.parse::<Remote>().is_err(), "{text}");
        }
    }
}
