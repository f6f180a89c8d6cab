//! Against policies: what they do not grant is not granted behind other headers, in pieces, or with the
//! node's help.

use crate::deck::Deck;
use crate::frame::{DESTINATION, Ends, HOP_BY_HOP, Mac, Piece, ROUTING, TCP, UDP, framed};
use crate::frame::{padding_header, routing_header};
use crate::lab::{PATIENCE, rewrite_view};
use crate::stage::{Side, Stage};
use crate::talk::Echo;
use osier_testbed::{Netns, wait_until};
use serde_json::json;
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

const GATEWAY: Mac = osier_model::Mac::GATEWAY.0;
/// The port that is granted, and one that is not.
const GRANTED: (u16, u16) = (4000, 7777);
const DENIED: (u16, u16) = (4000, 8888);

/// Who is what to policies.
const WORKLOADS: &str = "\
- { kind: workload, device: 'shop:mallory', node: n1, identity: 301 }
- { kind: workload, device: 'shop:bob', node: n1, identity: 300 }
- { kind: workload, device: 'shop:carol', node: n2, identity: 300 }
- { kind: selection, id: 1, members: [300] }
- { kind: selection, id: 2, members: [301] }
";
/// `mallory` may send to one port of the others, and nothing else; they take that, and nothing else.
const LAW: &str = "\
- { kind: policy, name: 'shop:in', subjects: 1, ingress: [{ peers: [{ selection: 2 }], ports: [
    { range: { first: 7777, last: 7777 } }, { transport: udp, range: { first: 7777, last: 7777 } }] }] }
- { kind: policy, name: 'shop:out', subjects: 2, egress: [{ peers: [{ selection: 1 }], ports: [
    { range: { first: 7777, last: 7777 } }, { transport: udp, range: { first: 7777, last: 7777 } }] }] }
";

#[test]
fn nothing_is_granted_behind_headers_or_in_pieces() {
    let stage = Stage::with(|view| view + WORKLOADS + LAW);
    let [mallory, bob, carol] = stage.guests.each_ref().map(|guest| &guest.routed);
    for victim in [bob, carol] {
        let mut deck = Deck::default();
        for ipv6 in [false, true] {
            plain(&mut deck, mallory, Ends::new(mallory.at(ipv6), victim.at(ipv6)));
            pieces(&mut deck, mallory, Ends::new(mallory.at(ipv6), victim.at(ipv6)));
        }
        headers(&mut deck, mallory, victim.v6);
        deck.play(&mallory.socket, &[&bob.socket, &carol.socket]);
    }
}

fn family(ends: Ends) -> &'static str {
    if ends.src.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn plain(deck: &mut Deck, own: &Side, ends: Ends) {
    let family = family(ends);
    let to_router = |packet: &[u8]| framed(GATEWAY, own.mac, packet);
    deck.honest(format!("a datagram, {family}"), |t| to_router(&ends.udp(GRANTED, t)));
    deck.honest(format!("a connection, {family}"), |t| {
        to_router(&ends.packet(TCP, &ends.syn(GRANTED, t)))
    });
    deck.lie(format!("a datagram to another port, {family}"), |t| to_router(&ends.udp(DENIED, t)));
    deck.lie(format!("a connection to another port, {family}"), |t| {
        to_router(&ends.packet(TCP, &ends.syn(DENIED, t)))
    });
    deck.lie(format!("an echo request, {family}"), |t| {
        to_router(&ends.icmp(if ends.src.is_ipv4() { 8 } else { 128 }, 0, t))
    });
    // GRE, and protocols that nobody knows.
    for protocol in [47, 253] {
        deck.lie(format!("protocol {protocol}, {family}"), |t| {
            to_router(&ends.packet(protocol, &[&[0; 8][..], t].concat()))
        });
    }
}

fn headers(deck: &mut Deck, own: &Side, victim: Ipv6Addr) {
    let ends = Ends::new(own.v6, victim);
    for (name, header, route) in [
        ("hop-by-hop options", HOP_BY_HOP, padding_header(UDP).to_vec()),
        ("destination options", DESTINATION, padding_header(UDP).to_vec()),
        ("a routing header", ROUTING, routing_header(UDP, victim)),
    ] {
        let behind = |ports, t: &[u8]| {
            let inner = [&route, &ends.datagram(ports, t)[..]].concat();
            framed(GATEWAY, own.mac, &ends.packet(header, &inner))
        };
        deck.honest(format!("a datagram behind {name}"), |t| behind(GRANTED, t));
        deck.lie(format!("a datagram to another port behind {name}"), |t| behind(DENIED, t));
    }
}

fn pieces(deck: &mut Deck, own: &Side, ends: Ends) {
    /// More than the least that all must take whole (RFC 8200, 5): Open vSwitch takes no smaller pieces.
    const CUT: u16 = 1280;
    let (family, cut, filler) = (family(ends), usize::from(CUT), [0x55; CUT as usize]);
    let part = |id, offset, more, bytes: &[u8]| {
        framed(GATEWAY, own.mac, &ends.piece(Piece { id, offset, more }, UDP, bytes))
    };
    // The token is in both of its pieces.
    let whole = |ports, t: &[u8]| ends.datagram(ports, &[t, &filler[..], t].concat());
    let both = |id, whole: &[u8]| {
        vec![part(id, 0, true, &whole[..cut]), part(id, CUT, false, &whole[cut..])]
    };
    deck.all_honest(format!("a datagram in pieces, {family}"), |t| {
        // Only in the last: that it arrives is what counts.
        both(1, &ends.datagram(GRANTED, &[&filler[..], t].concat()))
    });
    deck.lies(format!("a datagram in pieces to another port, {family}"), |t| {
        both(2, &whole(DENIED, t))
    });
    deck.lie(format!("a last piece alone, {family}"), |t| {
        part(3, CUT, false, &whole(GRANTED, t)[cut..])
    });
    // One that says another port over the first, and one that reaches back into it.
    deck.lies(format!("a piece over another, {family}"), |t| {
        let (granted, denied) = (whole(GRANTED, &[0; 6]), whole(DENIED, t));
        let ends = [part(4, 0, true, &granted[..cut]), part(4, 0, true, &denied[..cut])];
        ends.into_iter().chain([part(4, CUT, false, &denied[cut..])]).collect()
    });
    deck.lies(format!("a piece into another, {family}"), |t| {
        let granted = whole(GRANTED, &[0; 6]);
        let back = [&DENIED.1.to_be_bytes()[..], t].concat();
        vec![part(5, 0, true, &granted[..cut]), part(5, 8, false, &back)]
    });
    deck.lies(format!("half a header, {family}"), |t| {
        let segment = ends.syn(DENIED, t);
        let half = |offset: u16, more, bytes: &[u8]| {
            framed(GATEWAY, own.mac, &ends.piece(Piece { id: 6, offset, more }, TCP, bytes))
        };
        vec![half(0, true, &segment[..8]), half(8, false, &segment[8..])]
    });
}

fn connects(from: &Netns, to: SocketAddr) -> bool {
    from.within(|| TcpStream::connect_timeout(&to, Duration::from_millis(700)).is_ok()).unwrap()
}

/// By ports of the node, which it leads to pods, nobody is taken for the node.
#[test]
fn the_node_lends_its_name_to_nobody() {
    const SERVICE: &str = "\
- { kind: service, name: 'shop:bob', addresses: [10.96.0.10, 'fd96::10'], ports: [
    { name: t, port: 80, node_port: 30080 }] }
";
    let ranged = |view: String| {
        view.replace("'fd01::/48']", "'fd01::/48'], services: [10.96.0.0/16, 'fd96::/112']")
    };
    let mappings = json!({"portMappings": [
        {"hostPort": 8080, "containerPort": 7007, "protocol": "tcp"}]});
    let stage = Stage::with_wishes(ranged, &[("bob", mappings)]);
    let [mallory, bob, _] = &stage.guests;
    let addresses = [bob.routed.at(false), bob.routed.at(true)];
    let _echo = Echo::start("bob", &bob.pod.netns, &addresses);
    let mut view = stage.view(ranged) + WORKLOADS + SERVICE;
    let slice = |(n, address)| {
        format!(
            "- {{ kind: endpoints, service: 'shop:bob', slice: 's{n}', ports: [{{ name: t, port: \
             7007 }}], endpoints: [{{ address: '{address}' }}] }}\n"
        )
    };
    view.extend(addresses.iter().enumerate().map(slice));
    let tell =
        |view: &str| stage.cluster.fabric.nodes().iter().for_each(|node| rewrite_view(node, view));
    tell(&view);
    let ways: Vec<SocketAddr> = [
        "198.51.100.1:30080",
        "198.51.100.2:30080",
        "10.1.1.1:30080",
        "198.51.100.1:8080",
        "10.1.1.1:8080",
        "[2001:db8::1]:30080",
        "[2001:db8::2]:30080",
        "[2001:db8::1]:8080",
        "[fd01:0:0:1::1]:8080",
        "10.96.0.10:80",
        "[fd96::10]:80",
    ]
    .iter()
    .map(|way| way.parse().unwrap())
    .chain(addresses.map(|address| SocketAddr::new(address, 7007)))
    .collect();
    let from = &mallory.pod.netns;
    for way in &ways {
        wait_until(&format!("{way} to lead to it"), PATIENCE, || {
            if connects(from, *way) { Ok(()) } else { Err("nobody answers") }
        })
        .unwrap();
    }
    tell(&(view + "- { kind: policy, name: 'shop:in', subjects: 1, ingress: [] }\n"));
    wait_until("it to be isolated", PATIENCE, || {
        let direct = addresses.map(|address| SocketAddr::new(address, 7007));
        if direct.iter().any(|way| connects(from, *way)) { Err("it answers") } else { Ok(()) }
    })
    .unwrap();
    let passed: Vec<&SocketAddr> = ways.iter().filter(|way| connects(from, **way)).collect();
    assert!(passed.is_empty(), "passed: {passed:?}");
    // The node itself always does.
    for address in addresses {
        assert!(connects(stage.node(0), SocketAddr::new(address, 7007)), "its node to {address}");
    }
}
