//! Steps of something that takes a while, on standard error: a line each where nobody watches, one
//! line that lives on a terminal.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const TICK: Duration = Duration::from_millis(80);
/// Back to the start of the line, and clear it.
const REWIND: &str = "\r\x1b[2K";
const BAR: usize = 24;

/// Shows steps until it is dropped.
pub(crate) enum Progress {
    Lines,
    Live { steps: Sender<Step>, painter: Option<JoinHandle<()>> },
}

pub(crate) struct Step {
    text: String,
    number: u16,
    total: u16,
}

impl Progress {
    /// For where standard error goes.
    pub(crate) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let (steps, received) = mpsc::channel();
        let painter = std::thread::spawn(move || paint(&received));
        Self::Live { steps, painter: Some(painter) }
    }

    /// A step begins.
    pub(crate) fn step(&self, text: &str, number: u16, total: u16) {
        match self {
            Self::Lines => {
                let width = total.to_string().len();
                // Who closed standard error does not want to know.
                let _ = writeln!(std::io::stderr(), "[{number:width$}/{total}] {text}");
            }
            Self::Live { steps, .. } => {
                // The painter lives as long as we do.
                let _ = steps.send(Step { text: text.to_owned(), number, total });
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self::Live { steps, painter } = self {
            *steps = mpsc::channel().0;
            if let Some(painter) = painter.take() {
                let _ = painter.join();
            }
        }
    }
}

/// Repaints the line until no more steps can come, then wipes it.
fn paint(steps: &mpsc::Receiver<Step>) {
    let started = Instant::now();
    let mut current: Option<Step> = None;
    let mut frame = FRAMES.iter().cycle();
    let mut stderr = std::io::stderr();
    loop {
        match steps.recv_timeout(TICK) {
            Ok(step) => current = Some(step),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let (Some(Step { text, number, total }), Some(frame)) = (&current, frame.next()) {
            let done = usize::from(number - 1) * BAR / usize::from((*total).max(1));
            let bar = "━".repeat(done) + &"┄".repeat(BAR.saturating_sub(done));
            let seconds = started.elapsed().as_secs_f32();
            let _ =
                write!(stderr, "{REWIND}{frame} {bar} {number}/{total} {seconds:4.1} s  {text}");
            let _ = stderr.flush();
        }
    }
    let _ = write!(stderr, "{REWIND}");
    let _ = stderr.flush();
}
