//! One client's connection: moves bytes, and keeps time for transactions that wait.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::world::{Silence, World};
use crate::frame::{Framer, Limits};
use crate::session::Stream;

/// Serves a connection to its end.
pub(super) async fn run(world: Arc<Mutex<World>>, stream: Stream) {
    let lock = || world.lock().unwrap_or_else(PoisonError::into_inner);
    let (id, wake) = lock().join();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut framer = Framer::new(Limits::default());
    let mut out: Vec<u8> = Vec::new();
    'connection: loop {
        let (closing, silent, deadline) = {
            let mut world = lock();
            let silent = world.faults.silence == Silence::All;
            let Some(client) = world.clients.get_mut(&id) else { break };
            out.append(&mut client.outbox);
            let deadline = client.blocked.iter().filter_map(|blocked| blocked.deadline).min();
            (client.closing, silent, deadline)
        };
        if closing && out.is_empty() {
            break;
        }
        let overdue = async {
            match deadline {
                Some(deadline) => sleep_until(deadline.max(Instant::now())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = async {
                let buffer = framer.buffer();
                buffer.reserve(64 << 10);
                reader.read_buf(buffer).await
            } => {
                if !matches!(read, Ok(1..)) {
                    break;
                }
                loop {
                    match framer.next_message() {
                        Ok(Some(message)) if lock().message(id, message) => {}
                        Ok(None) => break,
                        _ => break 'connection,
                    }
                }
            },
            written = writer.write(&out), if !out.is_empty() && !silent => match written {
                Ok(count) => drop(out.drain(..count)),
                Err(_) => break,
            },
            () = wake.notified() => {},
            () = overdue => lock().retry_blocked(),
        }
    }
    let _ = writer.shutdown().await;
    lock().leave(id);
}
