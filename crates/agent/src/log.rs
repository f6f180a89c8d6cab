//! The last lines of the log, for who asks the agent how it is.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Lines that are kept, and the longest of them.
const LINES: usize = 2000;
const LONGEST: usize = 2000;

static RECENT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Standard error, which remembers the last lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tee;

/// A writer, as `tracing_subscriber` makes one for each line.
pub fn tee() -> Tee {
    Tee
}

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
        for line in String::from_utf8_lossy(bytes).lines().filter(|line| !line.is_empty()) {
            if recent.len() >= LINES {
                recent.pop_front();
            }
            recent.push_back(line.chars().take(LONGEST).collect());
        }
        drop(recent);
        io::stderr().write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The last lines, oldest first.
pub fn recent() -> String {
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}
