//! Moves bytes between a connection and its [`Protocol`], and watches the clock. Reading never
//! waits for writing, so two peers with full buffers cannot block each other.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::core::{Command, Core};
use super::error::SessionError;
use super::protocol::Protocol;
use super::remote::Stream;
use crate::frame::Framer;

/// Commands wait while this much is unsent.
const UNSENT: usize = 1 << 20;

/// How much to read at once.
const READ: usize = 64 << 10;

/// A buffer this large is not kept once it is sent.
const KEEP: usize = 1 << 20;

/// Why a connection was left.
pub(super) enum Ended {
    /// It broke, or will not do.
    Error(SessionError),
    /// Nobody holds a handle any more.
    Abandoned,
}

/// Runs a connection to its end.
pub(super) async fn run(
    stream: Stream,
    core: &mut Core,
    commands: &mut mpsc::Receiver<Command>,
) -> Ended {
    let probe = core.config.probe;
    let patience = core.config.patience;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut framer = Framer::new(core.config.limits);
    let mut protocol = Protocol::start(core);
    let mut sent = 0;
    let mut life = Life::new(probe);
    loop {
        let unsent = protocol.out.len() - sent;
        let read = async {
            let buffer = framer.buffer();
            buffer.reserve(READ);
            reader.read_buf(buffer).await
        };
        tokio::select! {
            read = read => match read {
                Ok(0) => {
                    let mid_message = !framer.is_between_messages();
                    return Ended::Error(SessionError::Closed { mid_message });
                }
                Ok(count) => match take_messages(&mut framer, &mut protocol) {
                    Ok(whole) => life.heard(count, whole),
                    Err(error) => return Ended::Error(error),
                },
                Err(error) => return Ended::Error(SessionError::Io(error)),
            },
            written = writer.write(&protocol.out[sent..]), if unsent > 0 => match written {
                Ok(count) => sent += count,
                Err(error) => return Ended::Error(SessionError::Io(error)),
            },
            command = commands.recv(), if unsent < UNSENT => match command {
                Some(command) => protocol.command(command),
                None => return Ended::Abandoned,
            },
            () = sleep_until(life.until), if !probe.is_zero() => {
                if life.is_over() {
                    return Ended::Error(SessionError::Silent(probe * 2));
                }
                protocol.echo();
            },
            method = late(protocol.deadline) => {
                return Ended::Error(SessionError::NoAnswer { method, patience });
            },
        }
        if sent > 0 && sent == protocol.out.len() {
            sent = 0;
            protocol.out.clear();
            if protocol.out.capacity() > KEEP {
                protocol.out = Vec::new();
            }
        }
    }
}

/// Takes what is complete, and says whether there was any.
fn take_messages(framer: &mut Framer, protocol: &mut Protocol<'_>) -> Result<bool, SessionError> {
    let mut any = false;
    while let Some(message) = framer.next_message()? {
        protocol.message(message)?;
        any = true;
    }
    Ok(any)
}

/// Returns the method when its answer is overdue; never if nothing is due.
async fn late(deadline: Option<(Instant, &'static str)>) -> &'static str {
    match deadline {
        Some((at, method)) => {
            sleep_until(at).await;
            method
        }
        None => std::future::pending().await,
    }
}

/// Bytes of an unfinished message that are a sign of life. A large answer on its way brings that
/// much in the time of a probe; a message that never ends, into which the peer's answers to our
/// probes vanish, does not.
const PROGRESS: usize = 64 << 10;

/// The inactivity probe.
struct Life {
    probe: Duration,
    /// When to probe, or to give up.
    until: Instant,
    probed: bool,
    /// Bytes since the last sign of life.
    unfinished: usize,
}

impl Life {
    fn new(probe: Duration) -> Self {
        Self { probe, until: Instant::now() + probe, probed: false, unfinished: 0 }
    }

    /// Bytes came, and whether a whole message is among them.
    fn heard(&mut self, bytes: usize, whole: bool) {
        self.unfinished += bytes;
        if whole || self.unfinished >= PROGRESS {
            self.until = Instant::now() + self.probe;
            self.probed = false;
            self.unfinished = 0;
        }
    }

    /// Whether the probe was not answered; else this is the time to probe.
    fn is_over(&mut self) -> bool {
        self.until = Instant::now() + self.probe;
        std::mem::replace(&mut self.probed, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_message_that_never_ends_is_not_life() {
        let probe = Duration::from_secs(5);
        let mut life = Life::new(probe);
        // Answers to probes, inside of a message that a stray brace has opened.
        for second in 0..10 {
            tokio::time::advance(Duration::from_secs(1)).await;
            life.heard(40, false);
            if Instant::now() >= life.until {
                assert_eq!(life.is_over(), second > 5, "after {second} s");
            }
        }
        assert!(life.probed);
        // A large answer is life while it comes, a whole message at once.
        life.heard(PROGRESS, false);
        assert!(!life.probed);
        assert!(!life.is_over());
        life.heard(2, true);
        assert!(!life.probed);
    }
}
