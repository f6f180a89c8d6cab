//! What policies let through and what not, and how often the datapath begins anew for it. The model
//! is `tests/scenarios/policies`, seen from n1.

use crate::services::{NEW, tracked_ways};

/// The agent hears of it, and nobody else.
pub(crate) const DENIED: &str = "controller_id=28531";

tracked_ways! { POLICY_WAYS:
    // Between ports of this node.
    "shop to web, as both may": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.1.10,tcp_dst=8082,nw_ttl=64", NEW, 1 => [",a"];
    "shop to web, IPv6": "in_port=b,tcp6,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::11,ipv6_dst=fd01:0:0:1::10,tcp_dst=8080,nw_ttl=64", NEW, 1 => [",a"];
    "shop to web by its Service, after one endpoint was chosen": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.96.0.10,tcp_dst=80,tcp_flags=syn,nw_ttl=64", NEW, 2 => [",a"];
    "shop to web at another port": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.1.10,tcp_dst=8084,nw_ttl=64", NEW, 1 => [DENIED];
    "shop to web by UDP": "in_port=b,udp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.1.10,udp_dst=8080,nw_ttl=64", NEW, 1 => [DENIED];
    "another to web": "in_port=c,tcp,dl_src=0a:00:00:00:00:0c,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.12,nw_dst=10.1.1.10,tcp_dst=8080,nw_ttl=64", NEW, 1 => [DENIED];
    "another to web by its Service": "in_port=c,tcp,dl_src=0a:00:00:00:00:0c,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.12,nw_dst=10.96.0.10,tcp_dst=80,tcp_flags=syn,nw_ttl=64", NEW, 2 => [DENIED];
    "web to itself by its Service": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.10,tcp_dst=80,tcp_flags=syn,nw_ttl=64", NEW, 2 => [",a"];
    "shop to another, whom nobody isolates, but no rule names": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.1.12,tcp_dst=8080,nw_ttl=64", NEW, 1 => [DENIED];
    "another to the shop, whom nobody isolates for that": "in_port=c,tcp,dl_src=0a:00:00:00:00:0c,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.12,nw_dst=10.1.1.11,tcp_dst=8080,nw_ttl=64", NEW, 1 => [",b"];
    "answers of the shop to another": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.1.12,tcp_src=8080,ct_mark=0,nw_ttl=64", &["trk,est,rpl"], 1 => [DENIED];
    "a packet of no connection": "in_port=c,tcp,dl_src=0a:00:00:00:00:0c,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.12,nw_dst=10.1.1.10,tcp_dst=8080,nw_ttl=64", &["trk,inv"], 1 => [",drop"];
    "those whom no policy is about": "in_port=c,tcp,dl_src=0a:00:00:00:00:0c,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.12,nw_dst=10.1.2.10,tcp_dst=8080,nw_ttl=64", NEW, 0 => [",uplink"];

    // Whose labels are not known.
    "quarantined to the outside": "in_port=d,tcp,dl_src=0a:00:00:00:00:0d,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.13,nw_dst=203.0.113.9,tcp_dst=80,nw_ttl=64", NEW, 1 => [DENIED];
    "another to the quarantined": "in_port=c,tcp,dl_src=0a:00:00:00:00:0c,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.12,nw_dst=10.1.1.13,tcp_dst=80,nw_ttl=64", NEW, 1 => [DENIED];
    "its node to the quarantined": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.1,nw_dst=10.1.1.13,tcp_dst=80,nw_ttl=64", NEW, 1 => [",d"];

    // The node, other nodes, the outside.
    "the node to web": "in_port=osier0,icmp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=198.51.100.1,nw_dst=10.1.1.10,nw_ttl=64", NEW, 1 => [",a"];
    "the node's gateway to web, IPv6": "in_port=osier0,tcp6,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,ipv6_src=fd01:0:0:1::1,ipv6_dst=fd01:0:0:1::10,tcp_dst=22,nw_ttl=64", NEW, 1 => [",a"];
    "who was given the node's address for Services": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.254,nw_dst=10.1.1.10,tcp_dst=22,nw_ttl=64", NEW, 1 => [DENIED];
    "the outside to web at a port by name": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=192.0.2.77,nw_dst=10.1.1.10,tcp_dst=443,nw_ttl=64", NEW, 1 => [",a"];
    "the outside to web at another port": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=192.0.2.77,nw_dst=10.1.1.10,tcp_dst=80,nw_ttl=64", NEW, 1 => [DENIED];
    "who is excepted": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=10.9.9.9,nw_dst=10.1.1.10,tcp_dst=443,nw_ttl=64", NEW, 1 => [DENIED];
    "a ping from a network that may": "in_port=osier0,icmp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=203.0.113.7,nw_dst=10.1.1.10,nw_ttl=64", NEW, 1 => [",a"];
    "shop to a network outside": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=192.0.2.9,tcp_dst=80,nw_ttl=64", NEW, 1 => [",osier0"];
    "shop to another network outside": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=203.0.113.9,tcp_dst=80,nw_ttl=64", NEW, 1 => [DENIED];
    "shop asks for a name": "in_port=b,udp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=203.0.113.9,udp_dst=53,nw_ttl=64", NEW, 1 => [",osier0"];

    // Other nodes' ports: who sends is known by its identity, and judged where the receiver is.
    "shop to a pod elsewhere, unjudged": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.2.10,tcp_dst=5432,nw_ttl=64", NEW, 1 => ["len=4,0x8000012d}"];
    "shop asks for a name elsewhere, judged": "in_port=b,udp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.2.10,udp_dst=53,nw_ttl=64", NEW, 1 => ["len=4,0x12d}"];
    "judged, from who may": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tun_metadata0=0x130,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=10.1.1.10,tcp_dst=8080,nw_ttl=64", NEW, 1 => [",a"];
    "unjudged, from who may not send": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tun_metadata0=0x8000012f,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=10.1.1.12,tcp_dst=8080,nw_ttl=64", NEW, 1 => [DENIED];
    "unjudged, from who may send, but not be received": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tun_metadata0=0x8000012e,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=10.1.1.10,tcp_dst=8080,nw_ttl=64", NEW, 1 => [DENIED];
    "unjudged, from who may both": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tun_metadata0=0x80000130,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=10.1.1.10,tcp_dst=8081,nw_ttl=64", NEW, 1 => [",a"];
    "unjudged, to the node": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tun_metadata0=0x80000130,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=198.51.100.1,tcp_dst=22,nw_ttl=64", NEW, 1 => [DENIED];
    "another node to web": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tun_metadata0=0x2,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.1,nw_dst=10.1.1.10,tcp_dst=8080,nw_ttl=64", NEW, 1 => [DENIED];
}
