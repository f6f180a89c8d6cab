//! In a network with neighbours: Ethernet addresses, ARP, neighbour discovery, routers and servers
//! that are none, tags.

use crate::deck::Deck;
use crate::frame::{
    ARP, BROADCAST, DESTINATION, Ends, HOP_BY_HOP, ICMPV6, Mac, Piece, UDP, arp, ethernet, framed,
};
use crate::frame::{link_layer, multicast, neighbour, padding_header, tagged};
use crate::stage::{Side, Stage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const REQUEST: u16 = 1;
const REPLY: u16 = 2;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Of an advertisement: it was asked for, and what was known before is wrong.
const OVERRIDE: u8 = 0x60;
const NOBODY: Mac = [2, 0, 0, 0, 0, 0x66];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfd05, 0, 0, 0, 0, 0, 0, 1);
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(10, 5, 0, 1);
/// A packet in one piece.
const WHOLE: Piece = Piece { id: 7, offset: 0, more: false };
const DISCARD: (u16, u16) = (9, 9);

#[test]
fn neighbours_are_who_they_are() {
    let stage = Stage::new();
    let [mallory, bob, carol] = stage.guests.each_ref().map(|guest| &guest.bridged);
    for victim in [bob, carol] {
        let mut deck = Deck::default();
        addresses(&mut deck, mallory, victim);
        arps(&mut deck, mallory, victim);
        neighbours(&mut deck, mallory, victim);
        routers(&mut deck, mallory, victim);
        servers(&mut deck, mallory, victim);
        tags(&mut deck, mallory, victim);
        pieces(&mut deck, mallory, victim);
        deck.play(&mallory.socket, &[&bob.socket, &carol.socket]);
    }
}

/// Another's Ethernet address, another's address.
fn addresses(deck: &mut Deck, own: &Side, victim: &Side) {
    for ipv6 in [false, true] {
        let (src, dst) = (own.at(ipv6), victim.at(ipv6));
        let honest = Ends::new(src, dst);
        let to =
            |mac| move |ends: Ends, token: &[u8]| framed(mac, own.mac, &ends.udp(DISCARD, token));
        deck.honest(format!("a datagram, ipv6 {ipv6}"), |t| to(victim.mac)(honest, t));
        deck.lie(format!("another's Ethernet address, ipv6 {ipv6}"), |t| {
            framed(victim.mac, NOBODY, &honest.udp(DISCARD, t))
        });
        let others: [IpAddr; 4] = match ipv6 {
            false => ["10.5.0.1", "10.5.0.99", "0.0.0.0", "127.0.0.1"],
            true => ["fd05::1", "fd05::99", "::", "fe80::1"],
        }
        .map(|address| address.parse().unwrap());
        for other in others {
            deck.lie(format!("from {other}"), |t| to(victim.mac)(Ends::new(other, dst), t));
        }
        deck.lie(format!("from its receiver, ipv6 {ipv6}"), |t| {
            to(victim.mac)(Ends::new(dst, dst), t)
        });
    }
    let all = Ends::new(own.v4, Ipv4Addr::BROADCAST);
    deck.honest("a broadcast", |t| framed(BROADCAST, own.mac, &all.udp(DISCARD, t)));
    deck.lie("another's broadcast", |t| {
        framed(BROADCAST, own.mac, &Ends::new(ROUTER_V4, Ipv4Addr::BROADCAST).udp(DISCARD, t))
    });
    let all = Ends::new(own.link_local(), ALL_NODES);
    deck.honest("a multicast", |t| framed(multicast(ALL_NODES), own.mac, &all.udp(DISCARD, t)));
    deck.honest("a report of multicast groups", |t| {
        let report = all.icmp(143, 0, &[&[0, 0, 0, 0][..], t].concat());
        framed(multicast(ALL_NODES), own.mac, &report)
    });
}

fn arps(deck: &mut Deck, own: &Side, victim: &Side) {
    let told = |op, from: Mac, sender, token: &[u8]| {
        ethernet(victim.mac, from, ARP, &arp(op, sender, (victim.mac, victim.v4), token))
    };
    // Requests are answered by the switch: those for what nobody has go to all.
    let asked = |from: Mac, sender, token: &[u8]| {
        let target = ([0; 6], Ipv4Addr::new(10, 5, 0, 200));
        ethernet(BROADCAST, from, ARP, &arp(REQUEST, sender, target, token))
    };
    deck.honest("an ARP reply", |t| told(REPLY, own.mac, (own.mac, own.v4), t));
    deck.honest("an ARP request", |t| asked(own.mac, (own.mac, own.v4), t));
    for (what, from, mac, address) in [
        ("the router's address", own.mac, own.mac, ROUTER_V4),
        ("its receiver's address", own.mac, own.mac, victim.v4),
        ("an address that nobody has", own.mac, own.mac, Ipv4Addr::new(10, 5, 0, 99)),
        ("another hardware address inside", own.mac, NOBODY, own.v4),
        ("another hardware address outside", NOBODY, own.mac, own.v4),
    ] {
        deck.lie(format!("an ARP reply: {what}"), |t| told(REPLY, from, (mac, address), t));
        deck.lie(format!("an ARP request: {what}"), |t| asked(from, (mac, address), t));
    }
    deck.lie("a reverse ARP reply", |t| {
        let message = arp(4, (own.mac, ROUTER_V4), (victim.mac, victim.v4), t);
        ethernet(victim.mac, own.mac, 0x8035, &message)
    });
}

fn neighbours(deck: &mut Deck, own: &Side, victim: &Side) {
    let ends = Ends::new(own.v6, victim.v6);
    let says = |ends: Ends, kind, body: &[u8], token: &[u8]| {
        let packet = ends.icmp(kind, 0, body);
        framed(victim.mac, own.mac, &[&packet, token].concat())
    };
    let advertises = |flags, target, options: &[u8]| neighbour(flags, target, options);
    let tll = |mac| link_layer(2, mac);
    let sll = |mac| link_layer(1, mac);
    deck.honest("an advertisement", |t| {
        says(ends, ADVERTISEMENT, &advertises(OVERRIDE, own.v6, &tll(own.mac)), t)
    });
    // What answers a question that was for itself alone need not say it again (RFC 4861, 4.4).
    deck.honest("an advertisement without an Ethernet address", |t| {
        says(ends, ADVERTISEMENT, &advertises(OVERRIDE, own.v6, &[]), t)
    });
    deck.honest("a solicitation", |t| {
        says(ends, SOLICITATION, &neighbour(0, victim.v6, &sll(own.mac)), t)
    });
    for (what, target, options) in [
        ("the router's address", ROUTER, tll(own.mac)),
        ("its receiver's address", victim.v6, tll(own.mac)),
        ("nobody's address", "fd05::99".parse().unwrap(), tll(own.mac)),
        ("the router's address, without an Ethernet address", ROUTER, Vec::new()),
        ("another Ethernet address", own.v6, tll(NOBODY)),
        ("two Ethernet addresses", own.v6, [tll(own.mac), tll(NOBODY)].concat()),
        (
            "its own behind another option",
            own.v6,
            [vec![14, 1, 0, 0, 0, 0, 0, 0], tll(NOBODY)].concat(),
        ),
    ] {
        let body = advertises(OVERRIDE, target, &options);
        deck.lie(format!("advertises {what}"), |t| says(ends, ADVERTISEMENT, &body, t));
        for (name, header) in [("hop-by-hop", HOP_BY_HOP), ("destination", DESTINATION)] {
            deck.lie(format!("advertises {what} behind {name} options"), |t| {
                let inner = ends.icmpv6(ADVERTISEMENT, 0, &body);
                let packet = ends.packet(header, &[&padding_header(ICMPV6)[..], &inner].concat());
                framed(victim.mac, own.mac, &[&packet, &t[..]].concat())
            });
        }
        deck.lie(format!("advertises {what} in one piece"), |t| {
            let packet = ends.piece(WHOLE, ICMPV6, &ends.icmpv6(ADVERTISEMENT, 0, &body));
            framed(victim.mac, own.mac, &[&packet, &t[..]].concat())
        });
    }
    deck.lie("solicits with another's Ethernet address", |t| {
        says(ends, SOLICITATION, &neighbour(0, victim.v6, &sll(NOBODY)), t)
    });
    deck.lie("solicits from the router's address", |t| {
        let ends = Ends::new(ROUTER, victim.v6);
        says(ends, SOLICITATION, &neighbour(0, victim.v6, &sll(own.mac)), t)
    });
    deck.lie("looks for a duplicate of what is its receiver's", |t| {
        let ends = Ends::new(Ipv6Addr::UNSPECIFIED, victim.v6);
        says(ends, SOLICITATION, &neighbour(0, victim.v6, &[]), t)
    });
    deck.lie("advertises to all what is the router's", |t| {
        let ends = Ends::new(own.link_local(), ALL_NODES);
        let packet = ends.icmp(ADVERTISEMENT, 0, &advertises(0x20, ROUTER, &tll(own.mac)));
        framed(multicast(ALL_NODES), own.mac, &[&packet, &t[..]].concat())
    });
    // The first piece does not reach as far as what it is (RFC 7112).
    deck.lie("a first piece that ends before its last header", |t| {
        let packet =
            ends.piece(Piece { more: true, ..WHOLE }, DESTINATION, &[ICMPV6, 1, 1, 4, 0, 0, 0, 0]);
        framed(victim.mac, own.mac, &[&packet, &t[..]].concat())
    });
}

/// Who says that it is a router.
fn routers(deck: &mut Deck, own: &Side, victim: &Side) {
    let link = Ends::new(own.link_local(), ALL_NODES);
    let to_all = |packet: &[u8]| framed(multicast(ALL_NODES), own.mac, packet);
    deck.honest("asks for routers", |t| to_all(&link.icmp(133, 0, &[&[0; 4][..], t].concat())));
    let advertisement = |token: &[u8]| [&[64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0][..], token].concat();
    deck.lie("a router's advertisement", |t| to_all(&link.icmp(134, 0, &advertisement(t))));
    deck.lie("a router's advertisement to one", |t| {
        let ends = Ends::new(own.link_local(), victim.link_local());
        framed(victim.mac, own.mac, &ends.icmp(134, 0, &advertisement(t)))
    });
    deck.lie("a router's advertisement behind options", |t| {
        let inner = link.icmpv6(134, 0, &advertisement(t));
        to_all(&link.packet(DESTINATION, &[&padding_header(ICMPV6)[..], &inner].concat()))
    });
    deck.lie("renumbers routers", |t| to_all(&link.icmp(138, 0, &[&[0; 12][..], t].concat())));
    for (src, dst) in [(own.link_local(), victim.link_local()), (own.v6, victim.v6)] {
        deck.lie(format!("redirects from {src}"), |t| {
            let body = [&[0; 4][..], &own.v6.octets(), &victim.v6.octets(), t].concat();
            framed(victim.mac, own.mac, &Ends::new(src, dst).icmp(137, 0, &body))
        });
    }
    let ends = Ends::new(own.v4, victim.v4);
    for code in 0..2 {
        deck.lie(format!("redirects, code {code}, IPv4"), |t| {
            let body = [&own.v4.octets()[..], &[0; 28], t].concat();
            framed(victim.mac, own.mac, &ends.icmp(5, code, &body))
        });
    }
    deck.lie("a router's advertisement, IPv4", |t| {
        let body = [&[1, 2, 7, 8][..], &own.v4.octets(), &[0; 4], t].concat();
        framed(victim.mac, own.mac, &ends.icmp(9, 0, &body))
    });
    deck.honest("an echo request", |t| framed(victim.mac, own.mac, &ends.icmp(8, 0, t)));
    deck.honest("a packet that is too big", |t| {
        let ends = Ends::new(own.v6, victim.v6);
        framed(victim.mac, own.mac, &ends.icmp(2, 0, &[&[0, 0, 5, 0][..], t].concat()))
    });
}

/// Who gives addresses to others.
fn servers(deck: &mut Deck, own: &Side, victim: &Side) {
    for (to, address) in [(victim.mac, victim.v4), (BROADCAST, Ipv4Addr::BROADCAST)] {
        deck.lie(format!("a DHCP server's answer to {address}"), |t| {
            framed(to, own.mac, &Ends::new(own.v4, address).udp((67, 68), t))
        });
    }
    for src in [own.link_local(), own.v6] {
        let ends = Ends::new(src, victim.link_local());
        deck.lie(format!("a DHCPv6 server's answer from {src}"), |t| {
            framed(victim.mac, own.mac, &ends.udp((547, 546), t))
        });
    }
    deck.honest("a client's question", |t| {
        framed(BROADCAST, own.mac, &Ends::new(own.v4, Ipv4Addr::BROADCAST).udp((68, 67), t))
    });
}

fn tags(deck: &mut Deck, own: &Side, victim: &Side) {
    for ipv6 in [false, true] {
        let ends = Ends::new(own.at(ipv6), victim.at(ipv6));
        for (name, tags) in [
            ("a tag", &[(0x8100, 7)][..]),
            ("a tag of priority alone", &[(0x8100, 0x2000)]),
            ("a service tag", &[(0x88a8, 7)]),
            ("two tags", &[(0x8100, 7), (0x8100, 8)]),
            ("a service tag and a tag", &[(0x88a8, 7), (0x8100, 8)]),
        ] {
            deck.lie(format!("{name}, ipv6 {ipv6}"), |t| {
                tagged(&framed(victim.mac, own.mac, &ends.udp(DISCARD, t)), tags)
            });
        }
    }
    deck.lie("an ARP reply with a tag", |t| {
        let message = arp(REPLY, (own.mac, own.v4), (victim.mac, victim.v4), t);
        tagged(&ethernet(victim.mac, own.mac, ARP, &message), &[(0x8100, 7)])
    });
}

/// What is a lie whole is one in pieces, too.
fn pieces(deck: &mut Deck, own: &Side, victim: &Side) {
    let first = Piece { more: true, ..WHOLE };
    let piece = |ends: Ends, protocol, message: &[u8]| {
        framed(victim.mac, own.mac, &ends.piece(first, protocol, message))
    };
    for ipv6 in [false, true] {
        let ends = Ends::new(own.at(ipv6), victim.at(ipv6));
        let (client, icmp) = if ipv6 { (546, ICMPV6) } else { (68, 1) };
        deck.honest(format!("a datagram in pieces, ipv6 {ipv6}"), |t| {
            piece(ends, UDP, &ends.datagram(DISCARD, &padded(t)))
        });
        deck.lie(format!("a server's answer in pieces, ipv6 {ipv6}"), |t| {
            piece(ends, UDP, &ends.datagram((67, client), &padded(t)))
        });
        let message = |kind, t: &[u8]| {
            piece(ends, icmp, &[&[kind, 0, 0, 0][..], &[0; 4], &padded(t)].concat())
        };
        deck.honest(format!("an echo request in pieces, ipv6 {ipv6}"), |t| {
            message(if ipv6 { 128 } else { 8 }, t)
        });
        let kinds: &[u8] = if ipv6 { &[134, 135, 136, 137] } else { &[5, 9] };
        for kind in kinds {
            deck.lie(format!("kind {kind} in pieces, ipv6 {ipv6}"), |t| message(*kind, t));
        }
    }
    let ends = Ends::new(own.v6, victim.v6);
    deck.lie("its own address in pieces", |t| {
        let body = neighbour(OVERRIDE, own.v6, &[]);
        piece(ends, ICMPV6, &[&ends.icmpv6(ADVERTISEMENT, 0, &body)[..], &padded(t)].concat())
    });
}

/// The lengths of all pieces but the last are multiples of eight.
fn padded(token: &[u8]) -> Vec<u8> {
    [token, &[0; 2]].concat()
}
