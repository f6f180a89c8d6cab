//! Questions to Services from a machine whose own addresses are the endpoints that answer.

use super::{ANSWERING, PORT, TARGET, address};
use anyhow::{Context, Result};
use osier_testbed::Netns;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer may take: no longer than between two processes of a machine.
const ANSWER: Duration = Duration::from_millis(20);
/// Behind a question that nobody answers.
const PAUSE: Duration = Duration::from_micros(500);

/// Ports that are asked from, one after the other: a tracker leads who asks again from the same one to who
/// answered before, and remembers that for half a minute.
const FIRST_PORT: u16 = 8192;
const PORTS: usize = 57_344;

/// What answers on a machine's addresses; it ends with its owner.
pub(super) struct Answering {
    done: Arc<AtomicBool>,
    netns: Netns,
    asked: AtomicUsize,
}

impl Answering {
    /// Gives a machine the addresses, and a way to those of Services if it has none.
    pub(super) fn start(netns: &Netns) -> Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        for (name, text) in ANSWERING.iter().enumerate() {
            netns.ip(&format!("address add {text}/32 dev lo"))?;
            let socket = netns.udp_bind(SocketAddr::new(text.parse()?, TARGET))?;
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            let done = Arc::clone(&done);
            thread::spawn(move || answer(&socket, u8::try_from(name).unwrap_or(u8::MAX), &done));
        }
        Ok(Self { done, netns: netns.clone(), asked: AtomicUsize::new(0) })
    }

    /// Asks a Service until one of the machine's addresses answers.
    pub(super) fn wait(&self, service: usize, answering: usize, patience: Duration) -> Result<()> {
        let to = SocketAddr::new(address(service).parse::<IpAddr>()?, PORT);
        let begun = Instant::now();
        let ask = || loop {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed) % PORTS;
            let port = FIRST_PORT + u16::try_from(asked).unwrap_or_default();
            if ask(port, to) == Some(answering) {
                return Ok(());
            }
            if begun.elapsed() > patience {
                anyhow::bail!("no answer of {} by Service {service}", ANSWERING[answering]);
            }
            thread::sleep(PAUSE);
        };
        self.netns.within(ask).context("the machine is gone")?
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

fn answer(socket: &UdpSocket, name: u8, done: &AtomicBool) {
    let mut question = [0; 16];
    while !done.load(Ordering::Relaxed) {
        if let Ok((_, from)) = socket.recv_from(&mut question) {
            // Who is not reached asks again.
            let _ = socket.send_to(&[name], from);
        }
    }
}

/// Who answers a new connection, if somebody does.
fn ask(from: u16, to: SocketAddr) -> Option<usize> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, from)).ok()?;
    socket.set_read_timeout(Some(ANSWER)).ok()?;
    socket.connect(to).ok()?;
    socket.send(b"?").ok()?;
    let mut name = [0];
    let length = socket.recv(&mut name).ok()?;
    (length == 1).then_some(usize::from(name[0]))
}
