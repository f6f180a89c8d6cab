//! In the network of all pods: others' addresses, our own reserved ones, what no router forwards, ways
//! around the switch and through the node, and tunnels of a pod's own.

use crate::deck::Deck;
use crate::frame::{
    ARP, BROADCAST, DESTINATION, Ends, HOP_BY_HOP, Mac, ROUTING, UDP, arp, ethernet, framed,
    link_layer, multicast, neighbour, padding_header, routing_header, tagged,
};
use crate::stage::{Side, Stage, mac_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const GATEWAY: Mac = osier_model::Mac::GATEWAY.0;
const FABRIC: Mac = osier_model::Mac::FABRIC.0;
const DISCARD: (u16, u16) = (9, 9);
/// The first node's gateway.
const NODE: [&str; 2] = ["10.1.1.1", "fd01:0:0:1::1"];

fn parse(address: &str) -> IpAddr {
    address.parse().unwrap()
}

/// A datagram to the router, by whichever of its Ethernet addresses.
fn datagram(own: &Side, ends: Ends, token: &[u8]) -> Vec<u8> {
    framed(GATEWAY, own.mac, &ends.udp(DISCARD, token))
}

fn own_ends(own: &Side, dst: IpAddr) -> Ends {
    Ends::new(own.at(dst.is_ipv6()), dst)
}

#[test]
fn nobody_is_somebody_else() {
    let stage = Stage::new();
    let [mallory, bob, carol] = stage.guests.each_ref().map(|guest| &guest.routed);
    let gateways = [stage.gateway(0), stage.gateway(1)];
    let mut deck = Deck::default();
    let others = [
        // The gateways, the nodes, their Services' addresses, and addresses that are ours alone.
        "10.1.1.1",
        "10.1.2.1",
        "198.51.100.1",
        "198.51.100.2",
        "10.1.1.254",
        "10.1.2.254",
        "169.254.111.1",
        "169.254.111.2",
        "169.254.111.3",
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "198.51.100.254",
        "10.1.1.99",
        "fd01:0:0:1::1",
        "fd01:0:0:2::1",
        "2001:db8::1",
        "2001:db8::2",
        "fd6f:7369:6572::2",
        "::1",
        "::",
        "ff02::1",
        "fe80::1",
        "fd01:0:0:1::99",
        "fd01::1:ffff:ffff:ffff:fffe",
    ];
    let others = others.map(parse).into_iter();
    let pods = [bob, carol].into_iter().flat_map(|side| [side.at(false), side.at(true)]);
    let own = IpAddr::V6(mallory.link_local());
    let others: Vec<IpAddr> = others.chain(pods).chain([own]).collect();
    let ways = [false, true].into_iter().flat_map(|ipv6| {
        let n = usize::from(ipv6);
        [bob.at(ipv6), carol.at(ipv6), parse(NODE[n]), parse(["198.51.100.2", "2001:db8::2"][n])]
    });
    for dst in ways {
        let ends = own_ends(mallory, dst);
        deck.honest(format!("to {dst}"), |t| datagram(mallory, ends, t));
        deck.honest(format!("to {dst} by the other address"), |t| {
            framed(FABRIC, mallory.mac, &ends.udp(DISCARD, t))
        });
        deck.lie(format!("to {dst} from another Ethernet address"), |t| {
            framed(GATEWAY, bob.mac, &ends.udp(DISCARD, t))
        });
        deck.lie(format!("to {dst} with a tag"), |t| {
            tagged(&datagram(mallory, ends, t), &[(0x8100, 5)])
        });
        for other in others.iter().filter(|other| other.is_ipv6() == dst.is_ipv6()) {
            let forged = Ends::new(*other, dst);
            deck.lie(format!("to {dst} from {other}"), |t| datagram(mallory, forged, t));
            if !dst.is_ipv6() {
                continue;
            }
            for header in [HOP_BY_HOP, DESTINATION] {
                deck.lie(format!("to {dst} from {other} behind header {header}"), |t| {
                    let inner = [&padding_header(UDP)[..], &forged.datagram(DISCARD, t)].concat();
                    framed(GATEWAY, mallory.mac, &forged.packet(header, &inner))
                });
            }
        }
    }
    around_the_router(&mut deck, mallory, bob);
    let receivers = [&bob.socket, &carol.socket, &gateways[0], &gateways[1]];
    deck.play(&mallory.socket, &receivers);
}

/// Where pods have no neighbours, nothing but the router is reached by Ethernet.
fn around_the_router(deck: &mut Deck, own: &Side, bob: &Side) {
    for (what, to) in [("its Ethernet address", bob.mac), ("broadcast", BROADCAST)] {
        for ipv6 in [false, true] {
            let ends = own_ends(own, bob.at(ipv6));
            deck.lie(format!("to a pod by {what}, ipv6 {ipv6}"), |t| {
                framed(to, own.mac, &ends.udp(DISCARD, t))
            });
        }
        for (op, sender) in [(1, own.v4), (2, own.v4), (1, bob.v4), (2, Ipv4Addr::new(10, 1, 1, 1))]
        {
            deck.lie(format!("ARP {op} from {sender} to {what}"), |t| {
                ethernet(to, own.mac, ARP, &arp(op, (own.mac, sender), (bob.mac, bob.v4), t))
            });
        }
    }
    let gateway: Ipv6Addr = NODE[1].parse().unwrap();
    for (what, to, dst) in [
        ("a pod", bob.mac, bob.v6),
        ("all", multicast("ff02::1".parse().unwrap()), "ff02::1".parse().unwrap()),
        ("the node", GATEWAY, gateway),
    ] {
        let tll = link_layer(2, own.mac);
        deck.lie(format!("advertises the gateway to {what}"), |t| {
            let packet = Ends::new(own.v6, dst).icmp(136, 0, &neighbour(0x60, gateway, &tll));
            framed(to, own.mac, &[&packet, &t[..]].concat())
        });
        for src in [own.v6, own.link_local()] {
            for kind in [134, 137] {
                deck.lie(format!("ICMPv6 {kind} from {src} to {what}"), |t| {
                    let packet = Ends::new(src, dst).icmp(kind, 0, &[&[0; 40][..], t].concat());
                    framed(to, own.mac, &packet)
                });
            }
        }
    }
    deck.lie("redirects the node", |t| {
        let ends = own_ends(own, parse(NODE[0]));
        framed(GATEWAY, own.mac, &ends.icmp(5, 1, &[&[0; 32][..], t].concat()))
    });
}

/// What no router takes further (RFC 1812, 5.3.7; RFC 4291, 2.5.6 and 2.7), and addresses of ours.
#[test]
fn nothing_is_routed_that_is_for_a_link_or_a_machine_alone() {
    let stage = Stage::new();
    let [mallory, bob, carol] = stage.guests.each_ref().map(|guest| &guest.routed);
    let gateways = [stage.gateway(0), stage.gateway(1)];
    let osier0 = osier_model::Mac(mac_of(stage.node(0), "osier0")).link_local();
    let mut deck = Deck::default();
    let nowhere = [
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "239.1.2.3",
        "255.255.255.255",
        "169.254.111.2",
        "::1",
        "::",
        "ff02::1",
        "ff05::2",
        "ff0e::1",
        "fe80::1",
        "fe80::2",
        "fd6f:7369:6572::2",
    ];
    for dst in nowhere.map(parse).into_iter().chain([osier0.into()]) {
        let ends = own_ends(mallory, dst);
        for (what, to) in [("the gateway", GATEWAY), ("the machine", FABRIC)] {
            deck.lie(format!("to {dst} by {what}"), |t| {
                framed(to, mallory.mac, &ends.udp(DISCARD, t))
            });
        }
    }
    for dst in NODE.map(parse) {
        deck.honest(format!("to {dst}"), |t| datagram(mallory, own_ends(mallory, dst), t));
    }
    // What is local to a link at the machine may be meant: a name server of the node, say.
    deck.honest("to a service of the node", |t| {
        datagram(mallory, own_ends(mallory, parse("169.254.20.10")), t)
    });
    let receivers = [&bob.socket, &carol.socket, &gateways[0], &gateways[1]];
    deck.play(&mallory.socket, &receivers);
}

/// Addresses of ours that answers may go to, by the machine: nobody else hears what is sent to them.
#[test]
fn what_is_for_nobody_reaches_no_pod_and_no_other_node() {
    let stage = Stage::new();
    let [mallory, bob, carol] = stage.guests.each_ref().map(|guest| &guest.routed);
    let mut deck = Deck::default();
    for last in [1, 3, 4] {
        for dst in [format!("169.254.111.{last}"), format!("fd6f:7369:6572::{last}")] {
            let ends = own_ends(mallory, parse(&dst));
            for (what, to) in
                [("the gateway", GATEWAY), ("the machine", FABRIC), ("a pod", bob.mac)]
            {
                deck.lie(format!("to {dst} by {what}"), |t| {
                    framed(to, mallory.mac, &ends.udp(DISCARD, t))
                });
            }
        }
    }
    for victim in [bob, carol] {
        for ipv6 in [false, true] {
            let ends = own_ends(mallory, victim.at(ipv6));
            deck.honest(format!("to a pod, ipv6 {ipv6}"), |t| datagram(mallory, ends, t));
        }
    }
    deck.play(&mallory.socket, &[&bob.socket, &carol.socket, &stage.gateway(1)]);
}

/// The machine neither forwards by what a packet says itself, nor takes frames past the switch.
#[test]
fn nothing_goes_around_the_switch() {
    let stage = Stage::new();
    let [mallory, bob, carol] = &stage.guests;
    let (own, host_end) = (&mallory.routed, mac_of(stage.node(0), &mallory.host_end));
    let mut deck = Deck::default();
    for (name, victim) in [("bob", &bob.routed), ("carol", &carol.routed)] {
        for ipv6 in [false, true] {
            let dst = victim.at(ipv6);
            deck.honest(format!("to {name}, ipv6 {ipv6}"), |t| {
                datagram(own, own_ends(own, dst), t)
            });
            for src in [own.at(ipv6), parse(NODE[usize::from(ipv6)]), bob.routed.at(ipv6)] {
                deck.lie(format!("to {name} by the switch's end, from {src}"), |t| {
                    framed(host_end, own.mac, &Ends::new(src, dst).udp(DISCARD, t))
                });
            }
        }
        // Loose source routes (RFC 791): type 131, and strict ones, 137.
        for kind in [131, 137] {
            let ends = own_ends(own, parse(NODE[0]));
            deck.lie(format!("to {name} by a source route {kind}"), |t| {
                let route = [&[kind, 7, 4][..], &victim.v4.octets(), &[0]].concat();
                let packet = ends.with_options(&route, 0, UDP, &ends.datagram(DISCARD, t));
                framed(GATEWAY, own.mac, &packet)
            });
        }
        deck.lie(format!("to {name} by a routing header"), |t| {
            let ends = own_ends(own, parse(NODE[1]));
            // The checksum is that of the last destination.
            let last = own_ends(own, victim.v6.into());
            let route = [&routing_header(UDP, victim.v6), &last.datagram(DISCARD, t)[..]].concat();
            framed(GATEWAY, own.mac, &ends.packet(ROUTING, &route))
        });
    }
    deck.play(&own.socket, &[&bob.routed.socket, &carol.routed.socket]);
}

/// What listens on the machine hears a pod by the switch only.
#[test]
fn the_machine_hears_nothing_past_the_switch() {
    let stage = Stage::new();
    let mallory = &stage.guests[0];
    let (own, host_end) = (&mallory.routed, mac_of(stage.node(0), &mallory.host_end));
    let socket = stage.node(0).udp_bind("[::]:9".parse::<SocketAddr>().unwrap()).unwrap();
    let mut deck = Deck::default();
    deck.honest("to the node", |t| datagram(own, own_ends(own, parse(NODE[0])), t));
    deck.honest("to the node, IPv6", |t| datagram(own, own_ends(own, parse(NODE[1])), t));
    let all = [0x01, 0, 0x5e, 0, 0, 1];
    for (to, dst) in [
        (host_end, "10.1.1.1"),
        (host_end, "198.51.100.1"),
        (host_end, "127.0.0.1"),
        (BROADCAST, "255.255.255.255"),
        (all, "224.0.0.1"),
        (BROADCAST, "10.1.1.1"),
        (host_end, "fd01:0:0:1::1"),
        (host_end, "::1"),
        ([0x33, 0x33, 0, 0, 0, 1], "ff02::1"),
    ] {
        for (what, src) in [
            ("itself", own.at(dst.contains(':'))),
            ("another", parse(if dst.contains(':') { "fd01:0:0:1::99" } else { "10.1.1.99" })),
        ] {
            deck.lie(format!("to {dst} past the switch as {what}"), |t| {
                framed(to, own.mac, &Ends::new(src, parse(dst)).udp(DISCARD, t))
            });
        }
    }
    deck.play_to(&own.socket, |time| {
        socket.set_read_timeout(Some(time)).unwrap();
        let mut buffer = [0; 2048];
        let next = || socket.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec());
        std::iter::from_fn(next).collect()
    });
}

/// A Geneve (RFC 8926) or VXLAN (RFC 7348) packet around a frame, as nodes send it.
fn tunnelled(geneve: bool, frame: &[u8]) -> Vec<u8> {
    let header: &[u8] = match geneve {
        // The identity of a node, in our option.
        true => &[2, 0, 0x65, 0x58, 0, 0, 1, 0, 0xff, 0xff, 0x81, 1, 0, 0, 0, 2],
        false => &[8, 0, 0, 0, 0, 0, 1, 0],
    };
    [header, frame].concat()
}

/// Also where the nodes' tunnels have addresses that are not among those of the nodes: there pods'
/// packets leave as others do that leave the cluster, as the machine's own.
#[test]
fn tunnels_are_for_nodes() {
    for apart in [false, true] {
        let stage = Stage::with(|view| match apart {
            true => view.replace("addresses: ['198.51.100.", "addresses: ['203.0.113."),
            false => view,
        });
        let [mallory, bob, carol] = stage.guests.each_ref().map(|guest| &guest.routed);
        let mut deck = Deck::default();
        for (name, victim, ends) in [
            ("bob", bob, ["198.51.100.1", "10.1.1.1"]),
            ("carol", carol, ["198.51.100.2", "10.1.2.1"]),
        ] {
            deck.honest(format!("to {name}"), |t| {
                datagram(mallory, own_ends(mallory, victim.v4.into()), t)
            });
            for end in ends {
                for (geneve, port) in [(true, 6081), (false, 4789)] {
                    deck.lie(format!("to {name} by a tunnel to {end}:{port}"), |t| {
                        let forged = Ends::new(parse("10.1.1.1"), victim.v4);
                        let inner = framed(GATEWAY, FABRIC, &forged.udp(DISCARD, t));
                        let packet = own_ends(mallory, parse(end))
                            .udp((4000, port), &tunnelled(geneve, &inner));
                        framed(GATEWAY, mallory.mac, &packet)
                    });
                }
            }
        }
        deck.play(&mallory.socket, &[&bob.socket, &carol.socket]);
    }
}
