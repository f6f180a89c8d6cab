//! What people do with labs: start, look, end. The keeper does the work.

use crate::error::LabError;
use crate::health::Report;
use crate::keeper::WANTED;
use crate::layout::Layout;
use crate::programs::{Programs, check_foreign};
use crate::protocol::{Answer, Event, Request, receive, send};
use crate::registry::{Registry, State, remove_remains};
use crate::spec::{LabName, LabSpec};
use osier_testbed::require_root;
use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a report may take: a part that does not answer costs seconds.
const PATIENCE: Duration = Duration::from_mins(5);
/// How much of a keeper's log an error shows, in bytes.
const LOG_TAIL: usize = 2000;

/// A lab that is being made. Dropping it before the end gives it up, and so does dying.
#[derive(Debug)]
pub struct Starting {
    name: LabName,
    registry: Registry,
    keeper: Child,
    events: BufReader<ChildStdout>,
    hold: Canceller,
}

/// Gives a lab up that is being made; a cheap handle.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Mutex<Hold>>);

/// The keeper's standard input: its end means that nobody wants the lab.
#[derive(Debug)]
struct Hold {
    stdin: Option<ChildStdin>,
    cancelled: bool,
}

/// Fails unless the caller is root, who alone can see and change labs.
pub fn check_privilege() -> Result<(), LabError> {
    require_root().map_err(|_| LabError::NotRoot)
}

/// Starts to make a lab. `keep` are the arguments that make this program a keeper, which the
/// specification, as JSON, is added to.
pub fn start(spec: &LabSpec, keep: &[&str]) -> Result<Starting, LabError> {
    spec.validate()?;
    check_privilege()?;
    check_foreign()?;
    let programs = Programs::of_this_process()?;
    let registry = Registry::system();
    let taken = registry.entry(&spec.name).is_some_and(|entry| entry.state != State::Dead);
    if taken {
        return Err(LabError::Taken { name: spec.name.clone() });
    }
    let spec_text = serde_json::to_string(spec).map_err(|e| LabError::KeeperStart(e.into()))?;
    let mut keeper = Command::new(&programs.osier)
        .args(keep)
        .arg(OsString::from(spec_text))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(LabError::KeeperStart)?;
    let hold = Hold { stdin: keeper.stdin.take(), cancelled: false };
    let stdout = keeper.stdout.take().expect("it is piped");
    Ok(Starting {
        name: spec.name.clone(),
        registry,
        keeper,
        events: BufReader::new(stdout),
        hold: Canceller(Arc::new(Mutex::new(hold))),
    })
}

// === impl Starting ===

impl Starting {
    /// A way to give it up from another thread.
    pub fn canceller(&self) -> Canceller {
        self.hold.clone()
    }

    /// Tells each step, and waits until all is there. If it fails, nothing stays.
    pub fn finish(mut self, mut on_step: impl FnMut(&str, u16, u16)) -> Result<Layout, LabError> {
        let mut dir: Option<PathBuf> = None;
        let failure = loop {
            match receive(&mut self.events) {
                Ok(Some(Event::Placed { dir: placed })) => dir = Some(placed),
                Ok(Some(Event::Step { text, number, total })) => on_step(&text, number, total),
                Ok(Some(Event::Ready { layout })) => match self.hold.keep() {
                    Ok(()) => return Ok(*layout),
                    Err(e) => break LabError::Ask(e),
                },
                Ok(Some(Event::Failed { reason })) => break LabError::Build(reason),
                Ok(None) => break LabError::KeeperLost { log: self.log() },
                Err(e) => break LabError::Ask(e),
            }
        };
        let cancelled = self.hold.cancel();
        // It may have ended already.
        let _ = self.keeper.wait();
        if let Some(dir) = dir {
            remove_remains(&self.name, &dir)?;
        }
        Err(if cancelled { LabError::Interrupted } else { failure })
    }

    fn log(&self) -> String {
        let log = self.registry.log(&self.name);
        let from = log.len().saturating_sub(LOG_TAIL);
        log.get(from..).unwrap_or(&log).trim().to_owned()
    }
}

// === impl Canceller ===

impl Canceller {
    /// Gives the lab up: whether it had been given up before.
    pub fn cancel(&self) -> bool {
        let mut hold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hold.stdin = None;
        std::mem::replace(&mut hold.cancelled, true)
    }

    /// Says that the lab is wanted, unless it was given up.
    fn keep(&self) -> io::Result<()> {
        let mut hold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match hold.stdin.take() {
            Some(mut stdin) => stdin.write_all(&[WANTED]),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// How a lab's parts are.
pub fn report(registry: &Registry, name: &LabName) -> Result<Report, LabError> {
    let stream = registry.connect(name).map_err(LabError::Ask)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(LabError::Ask)?;
    send(&stream, &Request::Report).map_err(LabError::Ask)?;
    match receive(&mut BufReader::new(&stream)).map_err(LabError::Ask)? {
        Some(Answer::Report(report)) => Ok(report),
        Some(Answer::Starting) => Err(LabError::Starting { name: name.clone() }),
        None => Err(LabError::Dead { name: name.clone() }),
    }
}

/// Removes a lab, in whatever state it is: whether there was one.
pub fn down(registry: &Registry, name: &LabName) -> Result<bool, LabError> {
    check_privilege()?;
    if let Ok(mut stream) = registry.connect(name) {
        // Its end is the answer. One that is already going gives none.
        let asked = send(&stream, &Request::Down)
            .and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(10))));
        let _ = asked.and_then(|()| stream.read(&mut [0]));
    }
    registry.bury(name)
}
