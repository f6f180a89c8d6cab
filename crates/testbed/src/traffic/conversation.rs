//! A TCP connection in use, over plain sockets: whether it breaks, and how long it stalls.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use super::TrafficError;
use crate::netns::Netns;

/// Longer than any restart: what takes longer is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a conversation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Talk {
    /// Questions answered.
    pub exchanges: u64,
    /// The longest time from a question to its answer.
    pub longest_pause: Duration,
}

type Threads = (JoinHandle<io::Result<Talk>>, JoinHandle<io::Result<()>>);

/// One connection on which numbers go to and fro without pause; a guard.
#[derive(Debug)]
pub struct Conversation {
    stop: Arc<AtomicBool>,
    exchanges: Arc<AtomicU64>,
    /// Taken when it is stopped.
    threads: Option<Threads>,
}

impl Conversation {
    /// The time between an answer and the next question.
    pub const INTERVAL: Duration = Duration::from_millis(5);

    /// Connects from one namespace to the address `to` of another.
    pub fn start(from: &Netns, server: &Netns, to: IpAddr) -> Result<Self, TrafficError> {
        let failed =
            |source| TrafficError::Conversation { from: from.name().to_owned(), to, source };
        let listener = server.tcp_listen(SocketAddr::new(to, 0))?;
        let address = listener.local_addr().map_err(failed)?;
        let answers = spawn(move || answer(&listener));
        let stream = from.tcp_connect(address)?;
        let (stop, exchanges) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&exchanges));
        let questions = spawn(move || ask(stream, &stopped, &counted));
        Ok(Self { stop, exchanges, threads: Some((questions, answers)) })
    }

    /// Questions answered so far, to wait for.
    pub fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Relaxed)
    }

    /// Ends it; fails if it has broken.
    pub fn stop(mut self) -> io::Result<Talk> {
        let Some((questions, answers)) = self.halt() else {
            return Err(ErrorKind::NotConnected.into());
        };
        let panicked = |_| io::Error::other("one side panicked");
        let talk = questions.join().map_err(panicked)??;
        answers.join().map_err(panicked)??;
        Ok(talk)
    }

    fn halt(&mut self) -> Option<Threads> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.take()
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // They end by themselves, at the latest when patience does.
        drop(self.halt());
    }
}

fn ask(mut stream: TcpStream, stop: &AtomicBool, counted: &AtomicU64) -> io::Result<Talk> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut talk = Talk { exchanges: 0, longest_pause: Duration::ZERO };
    while !stop.load(Ordering::Relaxed) {
        let (question, mut answer) = (talk.exchanges.to_be_bytes(), [0; 8]);
        let asked = Instant::now();
        stream.write_all(&question)?;
        stream.read_exact(&mut answer)?;
        if question != answer {
            return Err(io::Error::new(ErrorKind::InvalidData, "another answer than expected"));
        }
        talk.exchanges += 1;
        talk.longest_pause = talk.longest_pause.max(asked.elapsed());
        counted.store(talk.exchanges, Ordering::Relaxed);
        sleep(Conversation::INTERVAL);
    }
    Ok(talk)
}

fn answer(listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut question = [0; 8];
    loop {
        match stream.read_exact(&mut question) {
            Ok(()) => stream.write_all(&question)?,
            Err(end) if end.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
