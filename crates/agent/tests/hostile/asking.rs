//! Clients that lie, and one that asks without end, where the node answers who asks for its address.

use crate::frame::{BROADCAST, Ends, Mac, framed};
use crate::lab::PATIENCE;
use crate::stage::{Side, Stage};
use osier_testbed::wait_until;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Long enough for an answer that comes.
const SHORT: Duration = Duration::from_millis(700);

fn stage() -> Stage {
    let gateway = "gateway: 'fd05::1' }]";
    Stage::with(|view| view.replace(gateway, &format!("{gateway}, dhcp: {{}}")))
}

/// A discover of this Ethernet address, with more options (RFC 2131).
fn discover(client: Mac, transaction: u8, more: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 236];
    bytes[..8].copy_from_slice(&[1, 1, 6, 0, 0, 0, 0, transaction]);
    bytes[28..34].copy_from_slice(&client);
    bytes.extend([99, 130, 83, 99, 53, 1, 1]);
    bytes.extend(more);
    bytes.push(255);
    bytes
}

/// To all, from this address.
fn asks(source: Ipv4Addr, from: Mac, content: &[u8]) -> Vec<u8> {
    framed(BROADCAST, from, &Ends::new(source, Ipv4Addr::BROADCAST).udp((68, 67), content))
}

/// Whether a frame is an answer of this transaction, and the address that it gives.
fn offered(frame: &[u8], transaction: u8) -> Option<Ipv4Addr> {
    // Ethernet, IP and UDP; a reply; the transaction's number.
    let message = frame.get(42..).filter(|_| frame[12..14] == [8, 0] && frame[23] == 17)?;
    let is_it = message.len() > 240 && message[0] == 2 && message[7] == transaction;
    is_it.then(|| Ipv4Addr::from(<[u8; 4]>::try_from(&message[16..20]).unwrap()))
}

fn answer(side: &Side, transaction: u8, patience: Duration) -> Option<Ipv4Addr> {
    let mut found = None;
    let wanted = |frame: &[u8]| {
        found = found.or(offered(frame, transaction));
        found.is_some()
    };
    let _ = side.socket.receive(patience, wanted);
    found
}

#[test]
fn who_lies_gets_no_address_and_who_is_honest_its_own() {
    let stage = stage();
    let [mallory, bob, _] = stage.guests.each_ref().map(|guest| &guest.bridged);
    let none = Ipv4Addr::UNSPECIFIED;
    let honest = |n| asks(none, mallory.mac, &discover(mallory.mac, n, &[]));
    wait_until("an answer", PATIENCE, || {
        mallory.socket.send(&honest(1)).unwrap();
        answer(mallory, 1, SHORT).filter(|given| *given == mallory.v4).ok_or("none")
    })
    .unwrap();
    let mut relayed = discover(mallory.mac, 2, &[]);
    relayed[24..28].copy_from_slice(&bob.v4.octets());
    for (what, lie) in [
        ("as another, behind its back", asks(none, mallory.mac, &discover(bob.mac, 2, &[]))),
        ("as another", asks(none, bob.mac, &discover(bob.mac, 2, &[]))),
        ("from another's address", asks(bob.v4, mallory.mac, &discover(mallory.mac, 2, &[]))),
        ("as a relay", asks(none, mallory.mac, &relayed)),
        (
            "with an option that is cut",
            asks(none, mallory.mac, &discover(mallory.mac, 2, &[61, 200, 1])),
        ),
        ("cut", asks(none, mallory.mac, &discover(mallory.mac, 2, &[])[..200])),
    ] {
        mallory.socket.send(&lie).unwrap();
        assert_eq!(answer(mallory, 2, SHORT), None, "{what}");
        assert_eq!(answer(bob, 2, Duration::from_millis(1)), None, "{what}");
    }
    // Nobody hears what the others ask.
    mallory.socket.send(&honest(3)).unwrap();
    let mut heard = false;
    let _ = bob.socket.receive(SHORT, |frame| {
        heard |= frame[6..12] == mallory.mac;
        heard
    });
    assert!(!heard, "bob hears what is for the node");
}

#[test]
fn who_asks_without_end_holds_up_nobody() {
    let stage = stage();
    let [mallory, bob, _] = stage.guests.each_ref().map(|guest| &guest.bridged);
    let none = Ipv4Addr::UNSPECIFIED;
    let flood = asks(none, mallory.mac, &discover(mallory.mac, 9, &[]));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = mallory.socket.send(&flood);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let asked = wait_until("an answer to bob", PATIENCE, || {
            bob.socket.send(&asks(none, bob.mac, &discover(bob.mac, 7, &[]))).unwrap();
            answer(bob, 7, SHORT).filter(|given| *given == bob.v4).ok_or("none")
        });
        over.store(true, Ordering::Relaxed);
        asked.unwrap();
    });
}
