//! What a keeper says while it makes a lab, and what it is asked afterwards: JSON, one a line.

use crate::health::Report;
use crate::layout::Layout;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;

/// The longest line that is read, in bytes: a lab of the largest size fits.
const LONGEST_LINE: u64 = 4 << 20;

/// Said while a lab is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// It has a directory: from now on there is something to remove.
    Placed {
        /// Where.
        dir: PathBuf,
    },
    /// A step begins.
    Step {
        /// What is made.
        text: String,
        /// Which step, from 1.
        number: u16,
        /// Of how many.
        total: u16,
    },
    /// All is there.
    Ready {
        /// What is where.
        layout: Box<Layout>,
    },
    /// It cannot be made.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Asked of a keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// How is the lab?
    Report,
    /// Go; the answer is the end of the connection.
    Down,
}

/// A keeper's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// How the lab is.
    Report(Report),
    /// It is still being made.
    Starting,
}

/// Writes a value and a line's end.
pub(crate) fn send(mut to: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads a line; `None` at the end.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    match from.take(LONGEST_LINE).read_until(b'\n', &mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_slice(&line)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_and_nonsense_is_an_error() {
        let mut bytes = Vec::new();
        send(&mut bytes, &Request::Report).unwrap();
        send(&mut bytes, &Request::Down).unwrap();
        let mut from = bytes.as_slice();
        let read: Option<Request> = receive(&mut from).unwrap();
        assert_eq!(read, Some(Request::Report));
        assert_eq!(receive(&mut from).unwrap(), Some(Request::Down));
        assert_eq!(receive::<Request>(&mut from).unwrap(), None);
        assert!(receive::<Request>(&mut &b"\"up\"\n"[..]).is_err());
        assert!(receive::<Request>(&mut &b"\xff"[..]).is_err());
    }
}
