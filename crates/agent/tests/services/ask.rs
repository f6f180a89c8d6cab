//! Questions to Services: who answers, and whom it saw.

use osier_testbed::Netns;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Who answered and whom it saw.
pub(crate) type Answer = (String, IpAddr);

/// Connects, and hears who is there. For a thread in a namespace.
pub(crate) fn tcp(to: SocketAddr) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.shutdown(Shutdown::Write)?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    parse(&said)
}

/// Sends a datagram, and hears who is there.
pub(crate) fn udp(to: SocketAddr) -> io::Result<Answer> {
    datagram(to, 200)
}

/// One of so many bytes, which comes back whole.
pub(crate) fn datagram(to: SocketAddr, size: usize) -> io::Result<Answer> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    exchange(&socket, size)
}

/// The same over a socket that was used before.
pub(crate) fn ask_again(socket: &UdpSocket) -> io::Result<Answer> {
    exchange(socket, 200)
}

fn exchange(socket: &UdpSocket, size: usize) -> io::Result<Answer> {
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send(&vec![b'?'; size])?;
    let mut answer = vec![0; size + 1];
    let length = socket.recv(&mut answer)?;
    let odd = || io::Error::new(io::ErrorKind::InvalidData, format!("{length} of {size} bytes"));
    (length == size).then_some(()).ok_or_else(odd)?;
    let text = String::from_utf8_lossy(&answer[..length]);
    parse(text.split('\n').next().unwrap_or_default())
}

/// Asks by HTTP: the answer's status.
pub(crate) fn http_status(to: SocketAddr) -> io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    let odd = || io::Error::new(io::ErrorKind::InvalidData, format!("it was said: {said:?}"));
    said.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(odd)
}

fn parse(said: &str) -> io::Result<Answer> {
    let mut words = said.split(' ');
    let answer = words.next().zip(words.next().and_then(|seen| seen.parse().ok()));
    let odd = || io::Error::new(io::ErrorKind::InvalidData, format!("it was said: {said:?}"));
    answer.map(|(name, seen)| (name.to_owned(), seen)).ok_or_else(odd)
}

/// Asks so often, by new connections: how often who answered whom. An error counts by its kind, and
/// is the last.
pub(crate) fn count(
    from: &Netns,
    times: usize,
    ask: impl Fn() -> io::Result<Answer> + Send + Sync,
) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let asked = || {
        for _ in 0..times {
            let said = match ask() {
                Ok((name, seen)) => format!("{name} {seen}"),
                Err(error) => format!("{:?}", error.kind()),
            };
            let failed = !said.contains(' ');
            *counts.entry(said).or_default() += 1;
            if failed {
                break;
            }
        }
    };
    from.within(asked).unwrap();
    counts
}
