//! The ways, one by one: a packet, the tables that it goes through, and where it ends.
//!
//! Pods a and b are on the default network; r (and r2 on the other node) in a bridged network of
//! the router red, s and t in one of the router blue, with the same addresses. Router red also has
//! pod g, in a routed network, and pod q, which has limits and a larger interface than the tunnel.

use osier_compiler::pipeline::Table::{self, *};

pub struct Way {
    pub name: &'static str,
    /// For `ofproto/trace`.
    pub packet: &'static str,
    pub tables: &'static [Table],
    pub end: End,
    /// What the datapath does on the way.
    pub with: &'static [&'static str],
}

/// Where a packet ends.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// At a port.
    Port(&'static str),
    /// At several ports.
    Ports(&'static [&'static str]),
    /// In the tunnel, under this key.
    Tunnel(u32),
    /// In the tunnel or, if it is too large, at the agent.
    Measured,
    /// At the agent.
    Agent,
    Dropped,
}

/// From a pod, to be routed, as far as the route.
const ROUTED: &[Table] = &[
    Ingress,
    SpoofGuard,
    Dispatch,
    Track,
    GatewayMac,
    Route,
    Hop,
    SenderGuard,
    ReceiverGuard,
    Connection,
    SourceNat,
    Egress,
];
/// Dropped by the spoof guard.
const REFUSED: &[Table] = &[Ingress, SpoofGuard];
/// Inside of a bridged network.
const BRIDGED: &[Table] = &[
    Ingress,
    SpoofGuard,
    Dispatch,
    Track,
    GatewayMac,
    Forward,
    SenderGuard,
    ReceiverGuard,
    Connection,
    SourceNat,
    Egress,
];
/// A neighbour solicitation that somebody answers.
const SOLICITED: &[Table] = &[Ingress, SpoofGuard, Dispatch, Neighbour, Egress];

macro_rules! ways {
    ($($name:literal: $packet:literal, $tables:expr => $end:expr $(, with $with:expr)?;)*) => {
        pub const WAYS: &[Way] = &[$(Way {
            name: $name,
            packet: $packet,
            tables: $tables,
            end: $end,
            with: { let with: &[&str] = &[]; $(let with: &[&str] = { let _ = with; &$with };)? with },
        },)*];
    };
}

ways! {
    // Pod to pod.
    "pod to pod": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.1.11,nw_ttl=64",
        ROUTED => End::Port("b"), with ["dst=0a:00:00:00:00:0b", "ttl=63"];
    "pod to pod, IPv6": "in_port=a,tcp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd01:0:0:1::11,nw_ttl=64",
        ROUTED => End::Port("b"), with ["dst=0a:00:00:00:00:0b", "hlimit=63"];
    "pod to pod of another node": "in_port=a,udp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.2.10,nw_ttl=64",
        ROUTED => End::Tunnel(1), with ["dst=198.51.100.2", "{class=0xffff,type=0x81,len=4,0x1}", "ttl=63"];
    "pod to pod of another node, IPv6": "in_port=a,udp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd01:0:0:2::10,nw_ttl=64",
        ROUTED => End::Tunnel(1), with ["dst=198.51.100.2", "hlimit=63"];
    "from the tunnel to a pod": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=10.1.1.11,nw_ttl=64",
        &[Ingress, TunnelIn, Track, GatewayMac, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("b"), with ["dst=0a:00:00:00:00:0b"];
    "from the tunnel, IPv6": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tcp6,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:2::10,ipv6_dst=fd01:0:0:1::11,nw_ttl=64",
        &[Ingress, TunnelIn, Track, GatewayMac, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("b");
    "from a tunnel of a stranger": "in_port=osier-tun,tun_src=198.51.100.77,tun_dst=198.51.100.1,tun_id=1,tcp,nw_src=10.1.2.10,nw_dst=10.1.1.11",
        &[Ingress] => End::Dropped;
    "from the tunnel under an unknown key": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=77,tcp,nw_src=10.1.2.10,nw_dst=10.1.1.11",
        &[Ingress, TunnelIn] => End::Dropped;
    "from the tunnel back into it": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=10.1.2.11,nw_ttl=64",
        &[Ingress, TunnelIn, Track, GatewayMac, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Dropped;

    // Pods, the machine and the outside.
    "pod pings its gateway": "in_port=a,icmp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.1.1,icmp_type=8,nw_ttl=64",
        ROUTED => End::Port("osier0"), with ["src=0e:6f:73:69:65:73"];
    "pod pings its gateway, IPv6": "in_port=a,icmp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd01:0:0:1::1,icmpv6_type=128,nw_ttl=64",
        ROUTED => End::Port("osier0");
    "pod to its node": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=198.51.100.1,nw_ttl=64",
        ROUTED => End::Port("osier0");
    "pod to another node": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=198.51.100.2,nw_ttl=64",
        ROUTED => End::Tunnel(1);
    "pod to the outside": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=203.0.113.9,nw_ttl=64",
        ROUTED => End::Port("osier0");
    "pod to the outside, IPv6": "in_port=a,tcp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=2001:db8:ffff::9,nw_ttl=64",
        ROUTED => End::Port("osier0");
    "node to pod": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=198.51.100.1,nw_dst=10.1.1.10,nw_ttl=64",
        &[Ingress, Dispatch, Track, GatewayMac, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("a");
    "node to pod of another node": "in_port=osier0,tcp6,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,ipv6_src=fd01:0:0:1::1,ipv6_dst=fd01:0:0:2::10,nw_ttl=64",
        &[Ingress, Dispatch, Track, GatewayMac, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Tunnel(1), with ["len=4,0x2}"];
    "to an address of the node's block that no pod has": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.1.99,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route] => End::Dropped;
    "to an Ethernet address that nobody has": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0a:00:00:00:00:99,nw_src=10.1.1.10,nw_dst=10.1.1.11,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Forward, Flood] => End::Dropped;

    // Lies.
    "another's address": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.2.10", REFUSED => End::Dropped;
    "another's address, IPv6": "in_port=a,tcp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::11,ipv6_dst=fd01:0:0:2::10", REFUSED => End::Dropped;
    "another's Ethernet address": "in_port=a,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.2.10", REFUSED => End::Dropped;
    "another's address in ARP": "in_port=a,arp,dl_src=0a:00:00:00:00:0a,dl_dst=ff:ff:ff:ff:ff:ff,arp_op=2,arp_spa=10.1.1.1,arp_tpa=10.1.1.11,arp_sha=0a:00:00:00:00:0a", REFUSED => End::Dropped;
    "another's address advertised": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,ipv6_src=fd16::10,ipv6_dst=fd16::11,icmpv6_type=136,icmpv6_code=0,nd_target=fd16::1,nd_tll=0a:00:00:00:03:0a", REFUSED => End::Dropped;
    "an Ethernet type that nobody speaks": "in_port=a,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,dl_type=0x88cc", REFUSED => End::Dropped;
    "another's address advertised without an Ethernet address": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,ipv6_src=fd16::10,ipv6_dst=fd16::11,icmpv6_type=136,icmpv6_code=0,nd_target=fd16::1", REFUSED => End::Dropped;
    "its own address advertised in pieces": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,ipv6_src=fd16::10,ipv6_dst=fd16::11,nw_frag=first,icmpv6_type=136,icmpv6_code=0,nd_target=fd16::10", REFUSED => End::Dropped;
    "a router's advertisement": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=33:33:00:00:00:01,ipv6_src=fe80::800:ff:fe00:30a,ipv6_dst=ff02::1,icmpv6_type=134", REFUSED => End::Dropped;
    "a redirect": "in_port=r,icmp,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,nw_src=172.16.0.10,nw_dst=172.16.0.11,icmp_type=5", REFUSED => End::Dropped;
    "a redirect, IPv6": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,ipv6_src=fe80::800:ff:fe00:30a,ipv6_dst=fd16::11,icmpv6_type=137", REFUSED => End::Dropped;
    "a tag": "in_port=r,tcp,dl_vlan=7,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,nw_src=172.16.0.10,nw_dst=172.16.0.11", REFUSED => End::Dropped;
    "what has no last header": "in_port=r,ipv6,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,ipv6_src=fd16::10,ipv6_dst=fd16::11,nw_proto=59", REFUSED => End::Dropped;
    "an answer to who wants an address": "in_port=r,udp,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,nw_src=172.16.0.10,nw_dst=172.16.0.11,udp_src=67,udp_dst=68", REFUSED => End::Dropped;
    "an answer to who wants an address, IPv6": "in_port=r,udp6,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,ipv6_src=fd16::10,ipv6_dst=fd16::11,udp_src=547,udp_dst=546", REFUSED => End::Dropped;
    "to what only a node says to itself": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=169.254.111.2", REFUSED => End::Dropped;
    "to a machine itself": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=127.0.0.1",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route] => End::Dropped;
    "to a link, by the router": "in_port=a,tcp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fe80::c6f:73ff:fe69:6572",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route] => End::Dropped;
    "from a port that nobody has": "in_port=LOCAL,tcp,nw_src=10.1.1.10,nw_dst=10.1.2.10", &[Ingress] => End::Dropped;

    // Who has no address yet.
    "a server's answer": "in_port=t,udp,dl_src=0a:00:00:00:04:0b,dl_dst=0a:00:00:00:04:0a,nw_src=172.16.0.11,nw_dst=172.16.0.10,nw_ttl=64,udp_src=67,udp_dst=68", BRIDGED => End::Port("s");
    "asks for an address": "in_port=s,udp,dl_src=0a:00:00:00:04:0a,dl_dst=ff:ff:ff:ff:ff:ff,nw_src=0.0.0.0,nw_dst=255.255.255.255,udp_src=68,udp_dst=67",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Forward, Flood, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("t");
    "asks for a name from no address": "in_port=s,udp,dl_src=0a:00:00:00:04:0a,dl_dst=ff:ff:ff:ff:ff:ff,nw_src=0.0.0.0,nw_dst=255.255.255.255,udp_src=68,udp_dst=53", REFUSED => End::Dropped;
    "asks for an address where none is given": "in_port=a,udp,dl_src=0a:00:00:00:00:0a,dl_dst=ff:ff:ff:ff:ff:ff,nw_src=0.0.0.0,nw_dst=255.255.255.255,udp_src=68,udp_dst=67", REFUSED => End::Dropped;

    // Neighbours.
    "ARP for the gateway": "in_port=a,arp,dl_src=0a:00:00:00:00:0a,dl_dst=ff:ff:ff:ff:ff:ff,arp_op=1,arp_spa=10.1.1.10,arp_tpa=10.1.1.1,arp_sha=0a:00:00:00:00:0a",
        &[Ingress, SpoofGuard, Dispatch, Arp, ArpResponder, Egress] => End::Port("a"), with ["arp(sip=10.1.1.1,tip=10.1.1.10,op=2,sha=0e:6f:73:69:65:72"];
    "ARP for a neighbour on another node": "in_port=r,arp,dl_src=0a:00:00:00:03:0a,dl_dst=ff:ff:ff:ff:ff:ff,arp_op=1,arp_spa=172.16.0.10,arp_tpa=172.16.0.11,arp_sha=0a:00:00:00:03:0a",
        &[Ingress, SpoofGuard, Dispatch, Arp, ArpResponder, Egress] => End::Port("r"), with ["sha=0a:00:00:00:03:0b"];
    "neighbour solicitation for the router": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=33:33:ff:00:00:01,ipv6_src=fd16::10,ipv6_dst=ff02::1:ff00:1,icmpv6_type=135,icmpv6_code=0,nd_target=fd16::1,nd_sll=0a:00:00:00:03:0a",
        &[Ingress, SpoofGuard, Dispatch, Neighbour] => End::Agent;
    "neighbour solicitation for the gateway of the default network": "in_port=a,icmp6,dl_src=0a:00:00:00:00:0a,dl_dst=33:33:ff:00:00:01,ipv6_src=fd01:0:0:1::10,ipv6_dst=ff02::1:ff00:1,icmpv6_type=135,icmpv6_code=0,nd_target=fd01:0:0:1::1,nd_sll=0a:00:00:00:00:0a",
        &[Ingress, SpoofGuard, Dispatch, Neighbour] => End::Agent;
    "neighbour solicitation from a link-local address": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=33:33:ff:00:00:01,ipv6_src=fe80::800:ff:fe00:30a,ipv6_dst=ff02::1:ff00:1,icmpv6_type=135,icmpv6_code=0,nd_target=fd16::1,nd_sll=0a:00:00:00:03:0a",
        &[Ingress, SpoofGuard, Dispatch, Neighbour] => End::Agent;
    "neighbour solicitation for a port of another node": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=33:33:ff:00:00:11,ipv6_src=fd16::10,ipv6_dst=ff02::1:ff00:11,icmpv6_type=135,icmpv6_code=0,nd_target=fd16::11,nd_sll=0a:00:00:00:03:0a",
        SOLICITED => End::Tunnel(300);
    "neighbour solicitation for its link-local address": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=33:33:ff:00:03:0b,ipv6_src=fd16::10,ipv6_dst=ff02::1:ff00:30b,icmpv6_type=135,icmpv6_code=0,nd_target=fe80::800:ff:fe00:30b,nd_sll=0a:00:00:00:03:0a",
        SOLICITED => End::Tunnel(300);
    "its own address, looked for as a duplicate": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=33:33:ff:00:00:10,ipv6_src=::,ipv6_dst=ff02::1:ff00:10,icmpv6_type=135,icmpv6_code=0,nd_target=fd16::10", REFUSED => End::Dropped;

    // Too large, too old.
    "what may be too large for the tunnel": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.2.10,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress, TunnelOut, TunnelOut] => End::Measured, with ["le(tnl_push"];
    "what may be too large for the tunnel, IPv6": "in_port=b,tcp6,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::11,ipv6_dst=fd01:0:0:2::10,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress, TunnelOut, TunnelOut] => End::Measured, with ["le(tnl_push"];
    "the same to the same node, which nobody measures": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.1.10,nw_ttl=64", ROUTED => End::Port("a");
    "the last hop": "in_port=a,udp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.2.10,nw_ttl=1",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Hop] => End::Agent;
    "the last hop, IPv6, to the same node": "in_port=a,udp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd01:0:0:1::11,nw_ttl=1",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Hop] => End::Agent;
    "the last hop to the outside, which the machine counts": "in_port=a,udp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=203.0.113.9,nw_ttl=1", ROUTED => End::Port("osier0");

    // Two routers with the same addresses.
    "red to its neighbour, on another node": "in_port=r,tcp,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0b,nw_src=172.16.0.10,nw_dst=172.16.0.11,nw_ttl=64", BRIDGED => End::Tunnel(300);
    "blue to its neighbour, on this node": "in_port=s,tcp,dl_src=0a:00:00:00:04:0a,dl_dst=0a:00:00:00:04:0b,nw_src=172.16.0.10,nw_dst=172.16.0.11,nw_ttl=64", BRIDGED => End::Port("t");
    "red by its router": "in_port=r,tcp,dl_src=0a:00:00:00:03:0a,dl_dst=0e:6f:73:69:65:72,nw_src=172.16.0.10,nw_dst=172.16.0.11,nw_ttl=64", ROUTED => End::Tunnel(300), with ["dst=0a:00:00:00:03:0b"];
    "blue by its router": "in_port=s,tcp,dl_src=0a:00:00:00:04:0a,dl_dst=0e:6f:73:69:65:72,nw_src=172.16.0.10,nw_dst=172.16.0.11,nw_ttl=64", ROUTED => End::Port("t"), with ["dst=0a:00:00:00:04:0b"];
    "red to a pod of the default network": "in_port=r,tcp,dl_src=0a:00:00:00:03:0a,dl_dst=0e:6f:73:69:65:72,nw_src=172.16.0.10,nw_dst=10.1.1.10,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route] => End::Dropped;
    "ping of a router": "in_port=r,icmp,dl_src=0a:00:00:00:03:0a,dl_dst=0e:6f:73:69:65:72,nw_src=172.16.0.10,nw_dst=172.16.0.1,icmp_type=8,nw_ttl=1",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("r"), with ["src=172.16.0.1,dst=172.16.0.10", "icmp(type=0"];
    "ping of a router, IPv6": "in_port=r,icmp6,dl_src=0a:00:00:00:03:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd16::10,ipv6_dst=fd16::1,icmpv6_type=128,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("r"), with ["src=fd16::1,dst=fd16::10", "icmpv6(type=129"];

    // Between networks of a router, and a routed network's own router.
    "from a bridged network to a routed one": "in_port=r,tcp,dl_src=0a:00:00:00:03:0a,dl_dst=0e:6f:73:69:65:72,nw_src=172.16.0.10,nw_dst=172.18.0.10,nw_ttl=64", ROUTED => End::Port("g"), with ["src=0e:6f:73:69:65:72,dst=0a:00:00:00:05:0a", "ttl=63"];
    "and back, over the tunnel, IPv6": "in_port=g,tcp6,dl_src=0a:00:00:00:05:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd18::10,ipv6_dst=fd16::11,nw_ttl=64", ROUTED => End::Tunnel(300), with ["hlimit=63"];
    "ping of a router from a routed network": "in_port=g,icmp,dl_src=0a:00:00:00:05:0a,dl_dst=0e:6f:73:69:65:72,nw_src=172.18.0.10,nw_dst=172.18.0.1,icmp_type=8,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("g"), with ["src=172.18.0.1,dst=172.18.0.10", "icmp(type=0"];
    "ping of the same router's address elsewhere, IPv6": "in_port=g,icmp6,dl_src=0a:00:00:00:05:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd18::10,ipv6_dst=fd16::1,icmpv6_type=128,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("g"), with ["src=fd16::1,dst=fd18::10", "icmpv6(type=129"];
    "ARP for the router of a routed network": "in_port=g,arp,dl_src=0a:00:00:00:05:0a,dl_dst=ff:ff:ff:ff:ff:ff,arp_op=1,arp_spa=172.18.0.10,arp_tpa=172.18.0.1,arp_sha=0a:00:00:00:05:0a",
        &[Ingress, SpoofGuard, Dispatch, Arp, ArpResponder, Egress] => End::Port("g"), with ["sha=0e:6f:73:69:65:72"];

    // Limits.
    "from a pod with a limit, to the router's ping": "in_port=q,icmp,dl_src=0a:00:00:00:03:0c,dl_dst=0e:6f:73:69:65:72,nw_src=172.16.0.12,nw_dst=172.16.0.1,icmp_type=8,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Route, Route, Hop, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("q"), with ["meter("];
    "to a pod with a limit": "in_port=r,tcp,dl_src=0a:00:00:00:03:0a,dl_dst=0a:00:00:00:03:0c,nw_src=172.16.0.10,nw_dst=172.16.0.12,nw_ttl=64", BRIDGED => End::Port("q"), with ["meter("];
    "to a pod with a limit, by the router": "in_port=g,tcp6,dl_src=0a:00:00:00:05:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd18::10,ipv6_dst=fd16::12,nw_ttl=64", ROUTED => End::Port("q"), with ["meter("];
    "what may be too large, inside of a network": "in_port=q,tcp,dl_src=0a:00:00:00:03:0c,dl_dst=0a:00:00:00:03:0b,nw_src=172.16.0.12,nw_dst=172.16.0.11,nw_ttl=64",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Forward, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress, TunnelOut, TunnelOut] => End::Measured, with ["le(tnl_push", "meter("];

    // To all of a network.
    "broadcast to neighbours here and there": "in_port=r,udp,dl_src=0a:00:00:00:03:0a,dl_dst=ff:ff:ff:ff:ff:ff,nw_src=172.16.0.10,nw_dst=255.255.255.255",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Forward, Flood, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Ports(&["q", "uplink"]), with ["meter(", "vni=0x12c"];
    "broadcast to a neighbour on this node": "in_port=s,udp,dl_src=0a:00:00:00:04:0a,dl_dst=ff:ff:ff:ff:ff:ff,nw_src=172.16.0.10,nw_dst=255.255.255.255",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Forward, Flood, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Port("t"), with ["meter("];
    "multicast from the tunnel": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=400,udp,dl_src=0a:00:00:00:04:77,dl_dst=01:00:5e:00:00:fb,nw_src=172.16.0.77,nw_dst=224.0.0.251",
        &[Ingress, TunnelIn, Track, GatewayMac, Forward, Flood, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress, SenderGuard, ReceiverGuard, Connection, SourceNat, Egress] => End::Ports(&["s", "t"]);
    "broadcast on the default network, which has none": "in_port=a,udp,dl_src=0a:00:00:00:00:0a,dl_dst=ff:ff:ff:ff:ff:ff,nw_src=10.1.1.10,nw_dst=255.255.255.255",
        &[Ingress, SpoofGuard, Dispatch, Track, GatewayMac, Forward, Flood] => End::Dropped;
}
