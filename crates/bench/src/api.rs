//! The controller's API, as a client uses it: HTTPS, JSON, and its certificate checked.
//!
//! Only what measuring needs: one connection, one request at a time, bodies with a length.

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// Where resources are.
pub(crate) const RESOURCES: &str = "/apis/osier.dev/v1alpha1";

/// Whom to ask, and with what right.
pub(crate) struct Access {
    pub(crate) address: SocketAddr,
    credential: String,
    tls: Arc<ClientConfig>,
}

/// A connection.
pub(crate) struct Client<'a> {
    access: &'a Access,
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

// === impl Access ===

impl Access {
    /// As a controller tells its own machine, in its directory.
    pub(crate) fn of(state: &Path) -> Result<Self> {
        let text = fs::read_to_string(state.join("admin.toml"))?;
        let admin: toml::Table = text.parse()?;
        let field = |name: &str| {
            let value = admin.get(name).and_then(toml::Value::as_str);
            value.with_context(|| format!("admin.toml has no {name}"))
        };
        let server = field("server")?;
        let address = server.strip_prefix("https://").context("the API is served by HTTPS")?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(field("ca")?.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let credential = field("credential")?.to_owned();
        Ok(Self { address: address.parse()?, credential, tls: Arc::new(tls) })
    }

    /// The same, where it is served at another port.
    pub(crate) fn at_port(mut self, port: u16) -> Self {
        self.address.set_port(port);
        self
    }

    /// Speaks over a connection that was made already.
    pub(crate) fn over(&self, stream: TcpStream) -> Result<Client<'_>> {
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let tls = ClientConnection::new(Arc::clone(&self.tls), name)?;
        let stream = BufReader::new(StreamOwned::new(tls, stream));
        Ok(Client { access: self, stream })
    }
}

// === impl Client ===

impl Client<'_> {
    /// Asks for something that must succeed.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let text = self.text(method, path, body)?;
        Ok(if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? })
    }

    /// The same, whatever the answer is.
    pub(crate) fn text(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<String> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let Access { address, credential, .. } = self.access;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {credential}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.stream.get_mut().flush()?;
        let status = self.line()?;
        let length = self.length()?;
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        let answer = String::from_utf8(answer)?;
        let code = status.split_whitespace().nth(1).unwrap_or_default();
        ensure!(code.starts_with('2'), "{method} {path}: {status}: {answer}");
        Ok(answer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            bail!("the controller hung up");
        }
        Ok(line.trim_end().to_owned())
    }

    /// Reads the headers: how long the body is.
    fn length(&mut self) -> Result<usize> {
        let mut length = 0;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok(length);
            }
            ensure!(!line.starts_with("transfer-encoding"), "a body without a length: {line}");
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
    }
}
