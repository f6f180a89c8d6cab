//! Conversations over plain sockets. Who answers says its name and whom it saw, so that neither a
//! translated address nor another one with the same address goes unseen.

use osier_testbed::Netns;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

const PORT: u16 = 7007;
/// How often who answers looks whether to stop.
const BREATH: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(10);
/// The first datagram may meet a tunnel whose far end is not resolved yet; then it is sent again.
const AGAIN: Duration = Duration::from_millis(500);
const TRIES: usize = 20;

/// Answers on TCP and UDP at addresses of a namespace; a guard.
pub(crate) struct Echo {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Echo {
    pub(crate) fn start(name: &str, netns: &Netns, addresses: &[IpAddr]) -> Self {
        let mut echo = Self { stop: Arc::default(), threads: Vec::new() };
        for address in addresses {
            let address = SocketAddr::new(*address, PORT);
            let tcp = netns.tcp_listen(address).unwrap();
            tcp.set_nonblocking(true).unwrap();
            let (stop, own) = (Arc::clone(&echo.stop), name.to_owned());
            echo.threads.push(spawn(move || accept(&tcp, &own, &stop)));
            let udp = netns.udp_bind(address).unwrap();
            udp.set_read_timeout(Some(BREATH)).unwrap();
            let (stop, own) = (Arc::clone(&echo.stop), name.to_owned());
            echo.threads.push(spawn(move || answer(&udp, &own, &stop)));
        }
        echo
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One that panicked has said so.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn accept(listener: &TcpListener, name: &str, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, peer)) => {
                let seen = format!("{name} {}", peer.ip());
                // A peer that goes away in the middle knows it best.
                drop(spawn(move || judge(stream, &seen)));
            }
            Err(_) => sleep(BREATH),
        }
    }
}

/// Reads all that comes, then says from whom it was and what it amounts to.
fn judge(mut stream: TcpStream, seen: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    stream.write_all(format!("{seen} {:x}", digest(&received)).as_bytes())
}

/// Sends datagrams back, with who answers and whom they came from in front.
fn answer(socket: &UdpSocket, name: &str, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
        let seen = format!("{name} {}\n", peer.ip());
        buffer[..seen.len()].copy_from_slice(seen.as_bytes());
        // What does not arrive is asked for again.
        let _ = socket.send_to(&buffer[..length], peer);
    }
}

/// What who answered says: its own name, and the address that it saw.
pub(crate) type Answer = (String, IpAddr);

/// Sends `size` bytes over TCP: what is answered, if all arrived as it was. For a thread in a
/// namespace.
pub(crate) fn tcp(to: IpAddr, size: usize) -> io::Result<Answer> {
    let sent = bytes(size);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(to, PORT), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&sent)?;
    stream.shutdown(Shutdown::Write)?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    match said.rsplit_once(' ') {
        Some((peer, arrived)) if arrived == format!("{:x}", digest(&sent)) => parse(peer),
        _ => Err(odd(format!("{size} bytes were sent, and it was said: {said:?}"))),
    }
}

/// Sends a datagram of `size` bytes and waits for it to come back: what is answered. For a thread
/// in a namespace.
pub(crate) fn udp(to: IpAddr, size: usize) -> io::Result<Answer> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(SocketAddr::new(to, PORT))?;
    socket.set_read_timeout(Some(AGAIN))?;
    let sent = bytes(size);
    let mut received = vec![0; 1 << 16];
    let mut last = odd("nothing was tried".to_owned());
    for _ in 0..TRIES {
        // "Message too long" is how a smaller path is learned; the next one is in pieces.
        match socket.send(&sent).and_then(|_| socket.recv(&mut received)) {
            Ok(length) => {
                let received = &received[..length];
                let seen = received.iter().position(|byte| *byte == b'\n').unwrap_or_default();
                if length != size || received[seen + 1..] != sent[seen + 1..] {
                    return Err(odd(format!("{length} bytes came back, not the {size} sent")));
                }
                return parse(&String::from_utf8_lossy(&received[..seen]));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn parse(seen: &str) -> io::Result<Answer> {
    let parts = seen.split_once(' ').and_then(|(name, peer)| Some((name, peer.parse().ok()?)));
    let (name, peer) = parts.ok_or_else(|| odd(format!("{seen:?} is no name and address")))?;
    Ok((name.to_owned(), peer))
}

fn odd(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Bytes that differ from their neighbours, so that lost, doubled and swapped pieces show.
fn bytes(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8 | 0x80
    };
    (0..size).map(next).collect()
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
