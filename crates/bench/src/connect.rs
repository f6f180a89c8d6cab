//! TCP connections that are made and ended at once: how many of them in a second.

use crate::measure::Number;
use anyhow::{Context, Result, ensure};
use osier_testbed::Netns;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long one measurement takes.
pub(crate) const SECONDS: u32 = 2;
/// Who connects at once.
pub(crate) const CLIENTS: usize = 4;
/// What takes longer has failed.
const LOST: Duration = Duration::from_secs(1);

/// Takes connections, and ends them.
pub(crate) fn serve(netns: &Netns, at: SocketAddr) -> Result<()> {
    let listener = netns.tcp_listen(at).context("a server")?;
    thread::spawn(move || listener.incoming().for_each(drop));
    Ok(())
}

/// Connections a second, to each of these in turn, from clients in turn.
pub(crate) fn rate(from: &[Netns], to: &[SocketAddr]) -> Result<Number> {
    let (done, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (failed, failures) = mpsc::channel();
    let connect = |client: usize, failed: &mpsc::Sender<io::Error>| {
        for to in to.iter().cycle().skip(client) {
            if done.load(Ordering::Relaxed) {
                return;
            }
            match once(to) {
                Ok(()) => drop(made.fetch_add(1, Ordering::Relaxed)),
                Err(error) => drop(failed.send(error)),
            }
        }
    };
    let begun = Instant::now();
    thread::scope(|scope| {
        let clients = (0..CLIENTS).zip(from.iter().cycle()).map(|(client, netns)| {
            let failed = failed.clone();
            scope.spawn(move || netns.within(|| connect(client, &failed)))
        });
        let clients: Vec<_> = clients.collect();
        thread::sleep(Duration::from_secs(SECONDS.into()));
        done.store(true, Ordering::Relaxed);
        clients.into_iter().try_for_each(|client| {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?.context("a client")
        })
    })?;
    drop(failed);
    let (made, failures) = (made.into_inner(), failures.iter().collect::<Vec<_>>());
    let failed = failures.len();
    ensure!(failed * 1000 <= made, "{failed} of {made} connections failed: {:?}", failures.first());
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    Ok(Number(made as f64 / begun.elapsed().as_secs_f64()))
}

/// Who ends a connection first keeps its port for a while, and that is not to be the client, which would
/// soon have none left. So it waits until the server has.
fn once(to: &SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(to, LOST)?;
    stream.set_read_timeout(Some(LOST))?;
    stream.read(&mut [0]).map(drop)
}
