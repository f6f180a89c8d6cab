//! The plugin: a runtime's call goes to the agent, and its answer back.
//!
//! Nothing is kept and nothing made here, so there is nothing to undo: if the agent is away, the
//! runtime hears "try again later" (code 11) and the node is as it was. See `docs/cni.md` for why
//! that is also the answer to DEL.

use crate::MAX_DOCUMENT;
use crate::config::{Header, version_of};
use crate::rpc::{self, Reply, Request, RpcError};
use crate::spec::{Code, Command, Environment, Error, Version, version_document};
use crate::timed::TimedStream;
use serde_json::value::RawValue;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// STATUS is asked often, and a runtime waits for it before anything else.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an agent that is away is waited for: as long as it takes to be upgraded.
const RESTART_PATIENCE: Duration = Duration::from_secs(8);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What to print on standard output, and whether the call succeeded.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Empty, or one JSON document.
    pub output: String,
    /// Whether to exit with 0.
    pub success: bool,
}

/// The explanation for people who run the plugin by hand.
pub fn about() -> String {
    format!(
        "osier-cni {}: the CNI plugin of Osier. Container runtimes call it; it relays to the node's agent.\n\
         CNI versions supported: {}",
        env!("CARGO_PKG_VERSION"),
        Version::list()
    )
}

/// Serves one call of a runtime: the environment through `variable`, the configuration from `stdin`.
pub fn serve(variable: impl Fn(&str) -> Option<OsString>, stdin: &mut impl Read) -> Outcome {
    answering(variable, stdin, relay)
}

/// The same, with somebody who answers calls that are well formed.
pub(crate) fn answering(
    variable: impl Fn(&str) -> Option<OsString>,
    stdin: &mut impl Read,
    answerer: impl FnOnce(Environment, &[u8]) -> Result<String, Error>,
) -> Outcome {
    let mut version = Version::NEWEST;
    match answer(variable, stdin, &mut version, answerer) {
        Ok(output) => Outcome { output, success: true },
        Err(error) => Outcome { output: error.render(version), success: false },
    }
}

/// `version` becomes that of the configuration as soon as it is known: errors are printed in it.
fn answer(
    variable: impl Fn(&str) -> Option<OsString>,
    stdin: &mut impl Read,
    version: &mut Version,
    answerer: impl FnOnce(Environment, &[u8]) -> Result<String, Error>,
) -> Result<String, Error> {
    let environment = Environment::read(variable)?;
    let config = read_config(stdin)?;
    *version = version_of(&config).unwrap_or(Version::NEWEST);
    if environment.command == Command::Version {
        return Ok(version_document(*version));
    }
    answerer(environment, &config)
}

fn read_config(stdin: &mut impl Read) -> Result<Vec<u8>, Error> {
    let mut config = Vec::new();
    stdin.take(MAX_DOCUMENT as u64 + 1).read_to_end(&mut config).map_err(|e| {
        let msg = "the network configuration cannot be read from standard input";
        Error::new(Code::IO_FAILURE, msg).with_details(e)
    })?;
    if config.len() > MAX_DOCUMENT {
        return Err(too_large());
    }
    Ok(config)
}

fn too_large() -> Error {
    Error::config(format!(
        "the network configuration has more than {MAX_DOCUMENT} bytes: shorten it"
    ))
}

/// Refuses to attach the node to itself. It is seen here, since the plugin runs in the runtime's
/// namespaces, and the agent may not.
fn check_netns(environment: &Environment) -> Result<(), Error> {
    if environment.command != Command::Add {
        return Ok(());
    }
    let path = &environment.netns;
    let theirs = fs::metadata(path).map_err(|e| {
        let msg = format!("CNI_NETNS {path:?} is not there: the container may be gone");
        Error::environment(msg).with_details(e)
    })?;
    let same = |ours: fs::Metadata| (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino());
    if !environment.netns_override && fs::metadata("/proc/self/ns/net").is_ok_and(same) {
        let msg = format!("CNI_NETNS {path:?} is the node's own namespace: pass the container's");
        return Err(Error::environment(msg));
    }
    Ok(())
}

fn relay(environment: Environment, config: &[u8]) -> Result<String, Error> {
    let header = Header::decode(config)?;
    let command = environment.command;
    command.require(header.version)?;
    check_netns(&environment)?;
    let timeout = match command {
        Command::Status => header.timeout.min(STATUS_TIMEOUT),
        _ => header.timeout,
    };
    let config: Box<RawValue> = serde_json::from_slice(config).map_err(|e| {
        Error::new(Code::DECODING_FAILURE, "the network configuration is not JSON").with_details(e)
    })?;
    let request = Request::new(environment, config, timeout).encode().map_err(|e| match e {
        RpcError::Length { .. } => too_large(),
        other => Error::new(Code::AGENT_FAILED, other.to_string()),
    })?;
    let patience = match command {
        Command::Add | Command::Del => RESTART_PATIENCE.min(timeout / 3),
        _ => Duration::ZERO,
    };
    let reply = ask_patiently(&header.socket, &request, timeout, patience)
        .map_err(|e| e.for_runtime(command, &header.socket))?;
    match (reply, command) {
        (Reply::Failed(error), _) => Err(error),
        (Reply::Added(result), Command::Add) => Ok(result),
        (Reply::Added(_), _) | (Reply::Done, Command::Add) => {
            let msg =
                format!("the agent's reply is not one to {}: {SAME_RELEASE}", command.as_str());
            Err(Error::new(Code::BAD_AGENT, msg))
        }
        (Reply::Done, _) => Ok(String::new()),
    }
}

const SAME_RELEASE: &str = "install plugin and agent from one release";

/// Asks an agent that may be about to come back: nobody listened, so nothing was asked yet. A runtime
/// that is refused comes again only after many seconds, and an agent is upgraded in a few.
fn ask_patiently(
    socket: &Path,
    request: &[u8],
    timeout: Duration,
    patience: Duration,
) -> Result<Reply, AskError> {
    let begun = Instant::now();
    loop {
        match ask(socket, request, timeout.saturating_sub(begun.elapsed())) {
            Err(AskError::Away(error)) if nobody_listened(&error) && begun.elapsed() < patience => {
                thread::sleep(LOOK_AGAIN);
            }
            // In all, whenever it came to be asked.
            Err(AskError::Deadline(_)) => return Err(AskError::Deadline(timeout)),
            answered => return answered,
        }
    }
}

fn nobody_listened(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

/// A reply that did not come.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens, or the connection broke.
    #[error("the agent is away")]
    Away(#[source] io::Error),
    /// Nothing came in time.
    #[error("the agent did not answer within {0:?}")]
    Deadline(Duration),
    /// The path is no socket, or belongs to somebody else.
    #[error("{0}")]
    Untrusted(String),
    /// What came is no reply.
    #[error("the agent's reply cannot be read")]
    Reply(#[source] RpcError),
}

impl AskError {
    /// What the runtime hears.
    fn for_runtime(&self, command: Command, socket: &Path) -> Error {
        let socket = socket.display();
        let code = match (self, command) {
            (Self::Untrusted(_) | Self::Reply(_), _) => Code::BAD_AGENT,
            (_, Command::Status) => Code::NOT_AVAILABLE,
            _ => Code::TRY_AGAIN_LATER,
        };
        let advice = match self {
            Self::Away(_) | Self::Deadline(_) => "see whether it runs; the call can be repeated",
            Self::Untrusted(_) => "remove it and restart the agent",
            Self::Reply(_) => SAME_RELEASE,
        };
        Error::new(code, format!("{self} ({socket}): {advice}")).with_causes_of(self)
    }
}

/// Sends an encoded request to the agent and waits for its reply, no longer than `timeout` in all.
pub fn ask(socket: &Path, request: &[u8], timeout: Duration) -> Result<Reply, AskError> {
    check_owner(socket)?;
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::TimedOut => AskError::Deadline(timeout),
        _ => AskError::Away(error),
    };
    let mut stream = TimedStream::connect(socket, timeout).map_err(failed)?;
    let sent = rpc::write_message(&mut stream, request);
    // An agent that refuses early may answer and close before it has read all.
    let body = match (rpc::read_message(&mut stream), sent) {
        (Ok(body), _) => body,
        (Err(RpcError::Io(e)), _) | (_, Err(RpcError::Io(e))) => return Err(failed(e)),
        (Err(e), _) => return Err(AskError::Reply(e)),
    };
    Reply::decode(&body).map_err(AskError::Reply)
}

/// The socket must be root's, or the caller's own: whoever serves it decides what a container is
/// told.
fn check_owner(socket: &Path) -> Result<(), AskError> {
    let found = fs::metadata(socket).map_err(AskError::Away)?;
    if !found.file_type().is_socket() {
        return Err(AskError::Untrusted("this is no socket".to_owned()));
    }
    let owner = found.uid();
    let own = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == owner);
    if owner == 0 || own {
        return Ok(());
    }
    Err(AskError::Untrusted(format!("the socket belongs to user {owner}, not to root")))
}
