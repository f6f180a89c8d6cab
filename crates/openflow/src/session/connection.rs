//! The task that owns a connection: moves bytes and time between the socket and [`Dispatch`].

use super::command::Command;
use super::dispatch::Dispatch;
use super::error::SessionError;
use super::frame::Framer;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves a connection until it ends, and says why it did.
pub(super) async fn serve<S: AsyncRead + AsyncWrite>(
    stream: S,
    mut framer: Framer,
    mut state: Dispatch,
    mut commands: mpsc::Receiver<Command>,
) -> SessionError {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reason = exchange(&mut reader, &mut writer, &mut framer, &mut state, &mut commands).await;
    // The peer learns of the end in any case when the socket goes.
    let _ = timeout(GOODBYE, writer.shutdown()).await;
    match reason {
        Ok(never) => match never {},
        Err(reason) => reason,
    }
}

async fn exchange<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    reader: &mut R,
    writer: &mut W,
    framer: &mut Framer,
    state: &mut Dispatch,
    commands: &mut mpsc::Receiver<Command>,
) -> Result<std::convert::Infallible, SessionError> {
    let mut alarm = pin!(sleep_until(state.deadline()));
    // Why to end once all is written.
    let mut ending = None;
    loop {
        while state.is_open()
            && let Some(frame) = framer.next()?
        {
            state.message(frame, Instant::now())?;
        }
        if ending.is_some()
            && state.out.is_idle()
            && let Some(reason) = ending.take()
        {
            return Err(reason);
        }
        let deadline = state.deadline();
        // A deadline that moved away is noticed when the old one rings: cheaper than to set the
        // alarm with each message.
        if deadline < alarm.deadline() {
            alarm.as_mut().reset(deadline);
        }
        let (open, writing, room) = (state.is_open(), !state.out.is_idle(), state.wait_for_room());
        tokio::select! {
            read = reader.read(framer.room()), if open => {
                let n = read.map_err(SessionError::Io)?;
                if n == 0 {
                    let (received, pending) = (framer.position(), framer.pending());
                    return Err(SessionError::Closed { received, pending });
                }
                framer.received(n);
                state.heard(Instant::now());
            }
            written = state.out.advance(writer), if writing => {
                written.map_err(SessionError::Io)?;
            }
            room = room, if !open => {
                state.release(room, Instant::now());
            }
            command = commands.recv(), if ending.is_none() => {
                let command = command.unwrap_or(Command::End(SessionError::Ended));
                if let Err(reason) = state.command(command, Instant::now()) {
                    ending = Some(reason);
                }
            }
            () = alarm.as_mut() => {
                state.tick(Instant::now())?;
                alarm.as_mut().reset(state.deadline());
            }
        }
    }
}
