//! The process that keeps a lab: it makes it, owns it, answers about it, and takes it along when it
//! goes.
//!
//! Whoever started it holds its standard input. As long as the lab is not complete and acknowledged
//! there, the end of that input means that nobody wants the lab any more. There is one way to
//! remove a lab: the keeper ends, and the testbed's janitor cleans up. So a kill is not special.

use crate::error::LabError;
use crate::health::chain;
use crate::playground::{Playground, empty_layout};
use crate::programs::Programs;
use crate::protocol::{Answer, Event, Request, receive, send};
use crate::registry::{Claim, Registry};
use crate::spec::LabSpec;
use nix::sys::signal::SigSet;
use nix::unistd::{dup2_stderr, setsid};
use osier_testbed::Lab;
use std::io::{self, BufReader, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What the keeper reads on its standard input when the lab is wanted.
pub(crate) const WANTED: u8 = b'\n';
/// How long who connected may take to ask.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lab, once it is complete.
type Shared = Arc<Mutex<Option<Playground>>>;

/// Makes a lab and keeps it until it is told to go. Events go to standard output.
pub fn run(spec: &LabSpec) -> Result<(), LabError> {
    let told = |event: &Event| send(io::stdout().lock(), event);
    let result = detach().and_then(|()| keep(spec, &told));
    if let Err(error) = &result {
        // Nobody may listen any more; the exit status says it, too.
        let _ = told(&Event::Failed { reason: chain(error) });
    }
    result
}

/// A session of its own: no terminal, no signals from one, and nobody's directory in use.
fn detach() -> Result<(), LabError> {
    setsid().map_err(|e| LabError::KeeperStart(e.into()))?;
    // Who started us may have blocked signals.
    SigSet::empty().thread_set_mask().map_err(|e| LabError::KeeperStart(e.into()))?;
    std::env::set_current_dir("/").map_err(LabError::KeeperStart)
}

fn keep(spec: &LabSpec, told: &dyn Fn(&Event) -> io::Result<()>) -> Result<(), LabError> {
    let programs = Programs::of_this_process()?;
    let claim = Arc::new(Registry::system().claim(&spec.name)?);
    dup2_stderr(claim.log()?).map_err(|e| LabError::KeeperStart(e.into()))?;
    let shared = Shared::default();
    serve(claim.listen()?, Arc::clone(&shared));
    let wanted = watch_owner(Arc::clone(&claim));

    let made = make(spec, programs, &claim, told);
    let made = made.and_then(|playground| {
        let layout = playground.layout();
        claim.publish(&layout)?;
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(playground);
        told(&Event::Ready { layout: Box::new(layout) }).map_err(LabError::Ask)
    });
    if let Err(error) = made {
        // What was made is gone when `make` has returned an error; the name goes with it.
        drop(shared.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = claim.release();
        return Err(error);
    }
    // It does not return but when the lab is wanted; from then on only the server ends us.
    let _ = wanted.join();
    loop {
        thread::park();
    }
}

fn make(
    spec: &LabSpec,
    programs: Programs,
    claim: &Claim,
    told: &dyn Fn(&Event) -> io::Result<()>,
) -> Result<Playground, LabError> {
    let lab = Lab::new()?;
    claim.publish(&empty_layout(&lab, spec))?;
    told(&Event::Placed { dir: lab.dir().to_owned() }).map_err(LabError::Ask)?;
    let total = Playground::steps(spec);
    let mut number = 0;
    Playground::build(lab, spec, programs, |text| {
        number += 1;
        // Who does not listen any more is noticed by the watcher.
        let _ = told(&Event::Step { text, number, total });
    })
}

/// Waits for the word that the lab is wanted; ends the keeper if it does not come.
fn watch_owner(claim: Arc<Claim>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut byte = [0];
        if io::stdin().read_exact(&mut byte).is_err() || byte != [WANTED] {
            let _ = claim.release();
            exit(1);
        }
    })
}

/// Answers from now on, a thread for each who asks: only root can.
fn serve(listener: UnixListener, shared: Shared) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Who is gone before the answer wants none.
                let _ = answer(&stream, &shared);
            });
        }
    });
}

fn answer(stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    match receive(&mut BufReader::new(stream))? {
        Some(Request::Report) => {
            let mut playground = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = match playground.as_mut() {
                Some(playground) => Answer::Report(playground.report()),
                None => Answer::Starting,
            };
            send(stream, &answer)
        }
        Some(Request::Down) => exit(0),
        None => Ok(()),
    }
}
