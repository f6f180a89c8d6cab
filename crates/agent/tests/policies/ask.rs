//! Questions that are answered, or not: a policy drops and says nothing.

use osier_testbed::{Netns, wait_until};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::lab::PATIENCE;

/// How long nobody answers until that is the answer.
const SILENCE: Duration = Duration::from_millis(700);

/// How to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Tcp,
    Udp,
}

pub(crate) fn ask(by: By, to: SocketAddr) -> io::Result<String> {
    match by {
        By::Tcp => tcp(to),
        By::Udp => udp(to),
    }
}

fn tcp(to: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, SILENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.shutdown(Shutdown::Write)?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}

fn udp(to: SocketAddr) -> io::Result<String> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(SILENCE))?;
    socket.send(&[b'?'; 200])?;
    let mut answer = [0; 200];
    let length = socket.recv(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

/// Whether somebody answers, asked once.
pub(crate) fn reaches(from: &Netns, by: By, to: SocketAddr) -> bool {
    from.within(|| ask(by, to)).unwrap().is_ok()
}

/// Waits until somebody answers.
pub(crate) fn until_reached(from: &Netns, by: By, to: SocketAddr) {
    wait_until(&format!("{to} to answer"), PATIENCE, || {
        from.within(|| ask(by, to)).unwrap().map_err(|e| e.to_string())
    })
    .unwrap();
}

/// Waits until nobody answers any more.
pub(crate) fn until_denied(from: &Netns, by: By, to: SocketAddr) {
    wait_until(&format!("{to} to be silent"), PATIENCE, || {
        match from.within(|| ask(by, to)).unwrap() {
            Ok(said) => Err(said),
            Err(_) => Ok(()),
        }
    })
    .unwrap();
}
