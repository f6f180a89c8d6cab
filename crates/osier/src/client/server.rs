//! Where a controller is, or several of which one leads.

use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Where the API is served if nobody says otherwise.
pub(crate) const DEFAULT_PORT: u16 = 6645;

/// A controller's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    host: String,
    port: u16,
}

/// The addresses of controllers, of which whoever leads answers: one, as a rule. Commas are between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Servers(Vec<Server>);

/// Text that is no controller's address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum BadServer {
    #[error("{0:?} is no address: https://HOST or https://HOST:PORT")]
    Form(String),
    #[error("{0:?} would send the credential in the clear: only https is spoken")]
    Clear(String),
}

// === impl Server ===

impl Server {
    /// The host, to be resolved.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// As it stands in `Host`.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The name that its certificate has to be for.
    pub(crate) fn name(&self) -> ServerName<'static> {
        ServerName::try_from(self.host.clone()).expect("checked when it was made")
    }
}

impl FromStr for Server {
    type Err = BadServer;

    fn from_str(text: &str) -> Result<Self, BadServer> {
        let bad = || BadServer::Form(text.to_owned());
        if text.starts_with("http://") {
            return Err(BadServer::Clear(text.to_owned()));
        }
        let rest = text.strip_prefix("https://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(bad)?;
                let port = match port.strip_prefix(':') {
                    Some(port) => Some(port),
                    None if port.is_empty() => None,
                    None => return Err(bad()),
                };
                (host, port)
            }
            // A bare IPv6 address has more than one colon, and no port.
            None if rest.matches(':').count() > 1 => (rest, None),
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).map_err(|_| bad())?;
        ServerName::try_from(host.to_owned()).map_err(|_| bad())?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority())
    }
}

// === impl Servers ===

impl Servers {
    /// All of them: one at least.
    pub(crate) fn all(&self) -> &[Server] {
        &self.0
    }
}

impl FromStr for Servers {
    type Err = BadServer;

    fn from_str(text: &str) -> Result<Self, BadServer> {
        text.split(',').map(|server| server.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.0.iter().enumerate() {
            write!(f, "{}{server}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Servers {
    type Error = BadServer;

    fn try_from(text: String) -> Result<Self, BadServer> {
        text.parse()
    }
}

impl From<Servers> for String {
    fn from(servers: Servers) -> Self {
        servers.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_all_their_spellings() {
        let default = format!(":{DEFAULT_PORT}");
        for (text, is) in [
            ("https://10.0.0.1:7000", "https://10.0.0.1:7000".to_owned()),
            ("https://ctl.example/", format!("https://ctl.example{default}")),
            ("ctl.example:1", "https://ctl.example:1".to_owned()),
            ("::1", format!("https://[::1]{default}")),
            ("[fd00::1]:443", "https://[fd00::1]:443".to_owned()),
        ] {
            assert_eq!(text.parse::<Server>().unwrap().to_string(), is);
        }
        for text in ["", "https://", "a b", "host:port", "host:70000", "[::1]x", "ftp://x", "x/y"] {
            let error = text.parse::<Server>().expect_err(text).to_string();
            assert!(error.contains("is no address"), "{error}");
        }
        let several = "a, https://b:7".parse::<Servers>().unwrap().to_string();
        assert_eq!(several, format!("https://a{default}, https://b:7"));
        assert_eq!(several.parse::<Servers>().unwrap().all().len(), 2);
        "a,".parse::<Servers>().unwrap_err();
        let error = "http://x".parse::<Server>().unwrap_err().to_string();
        assert!(error.contains("only https"), "{error}");
    }
}
