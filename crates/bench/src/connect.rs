//! TCP connections that are made and ended at once: how many of them in a second.

use crate::measure::Number;
use anyhow::{Context, Result, ensure};
use osier_testbed::Netns;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

/// Connections a second from one client, to each of these in turn.
pub(crate) fn rate(from: &Netns, to: &[SocketAddr]) -> Result<Number> {
    let (done, made, failed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let connect = |client: usize| {
        for to in to.iter().cycle().skip(client) {
            if done.load(Ordering::Relaxed) {
                return;
            }
            let counter = if once(to).is_ok() { &made } else { &failed };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    let begun = Instant::now();
    from.within(|| {
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || connect(client));
            }
            thread::sleep(Duration::from_secs(SECONDS.into()));
            done.store(true, Ordering::Relaxed);
        });
    })?;
    let (made, failed) = (made.into_inner(), failed.into_inner());
    ensure!(failed * 1000 <= made, "{failed} of {made} connections failed");
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
