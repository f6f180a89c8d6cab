//! Ways to Services and back, and how often the datapath begins anew on each. The model is
//! `tests/scenarios/services`, seen from n1.

/// A way: a packet, what the connection tracker says of it each time that it is asked, and what
/// the datapath does at last.
pub struct ServiceWay {
    pub name: &'static str,
    pub packet: &'static str,
    pub states: &'static [&'static str],
    /// One of these.
    pub ends: &'static [&'static str],
    pub recirculations: usize,
}

/// The switch traces no further than to the hash, which begins anew for the second time; the third
/// and last is the group's, which remembers the connection, as where there is one endpoint. The agent's
/// tests count it on real connections (`crates/agent/tests/services/spread.rs`).
const HASHED: &str = "hash(l4(0)),recirc(";

pub(crate) const NEW: &[&str] = &["trk,new", "trk,new"];

macro_rules! tracked_ways {
    ($all:ident: $($name:literal: $packet:literal, $states:expr, $recirculations:literal => $ends:expr;)*) => {
        pub const $all: &[$crate::services::ServiceWay] = &[$($crate::services::ServiceWay {
            name: $name,
            packet: $packet,
            states: $states,
            ends: &$ends,
            recirculations: $recirculations,
        },)*];
    };
}
pub(crate) use tracked_ways;

tracked_ways! { SERVICE_WAYS:
    "pod to a Service": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.10,tcp_src=40000,tcp_dst=80,tcp_flags=syn,nw_ttl=64",
        NEW, 1 => [HASHED];
    "pod to a Service, IPv6": "in_port=a,udp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd96::10,udp_src=40000,udp_dst=53,nw_ttl=64",
        NEW, 1 => [HASHED];
    "a pod to itself": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.13,tcp_src=40000,tcp_dst=80,tcp_flags=syn,nw_ttl=64",
        NEW, 2 => ["ct(commit,zone=1,nat(src=10.1.1.254)),a"];
    "pod to a Service that keeps it": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.15,tcp_src=40000,tcp_dst=80,tcp_flags=syn,nw_ttl=64",
        NEW, 2 => ["ct(commit,zone=1,nat(src=10.1.1.254)),a", "uplink"];
    "pod to a Service that keeps it, IPv6": "in_port=a,tcp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd96::15,tcp_src=40000,tcp_dst=80,tcp_flags=syn,nw_ttl=64",
        NEW, 2 => ["uplink"];
    "pod to SCTP at the node": "in_port=a,sctp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.16,sctp_src=40000,sctp_dst=2905,nw_ttl=64",
        NEW, 2 => ["osier0"];
    "a connection that is known": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.10,tcp_src=40000,tcp_dst=80,tcp_flags=syn,nw_ttl=64",
        &["trk,est,dnat"], 1 => ["osier0"];
    "nobody answers": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.11,tcp_src=40000,tcp_dst=80,tcp_flags=syn,nw_ttl=64",
        NEW, 1 => ["controller_id=28531"];
    "a port that the Service does not have": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.1,nw_dst=10.96.0.10,tcp_src=40000,tcp_dst=81,tcp_flags=syn,nw_ttl=64",
        NEW, 1 => ["controller_id=28531"];
    "nobody answers here": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.12,tcp_src=40000,tcp_dst=80,tcp_flags=syn,nw_ttl=64",
        NEW, 1 => ["drop"];
    "what belongs to no connection": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.10,tcp_src=40000,tcp_dst=80,tcp_flags=syn,nw_ttl=64",
        &["trk,inv"], 1 => ["drop"];
    "node to SCTP at itself": "in_port=osier0,sctp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.1,nw_dst=10.96.0.16,sctp_src=40000,sctp_dst=2905,nw_ttl=64",
        NEW, 2 => ["ct(commit,zone=1,nat(src=10.1.1.254)),osier0"];
    "outside to a port of the node, with its own address": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=192.0.2.9,nw_dst=169.254.111.2,tcp_src=40000,tcp_dst=30443,nw_ttl=64",
        NEW, 2 => [",a"];
    "the node to its own port, which may lead anywhere": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=198.51.100.1,nw_dst=169.254.111.2,tcp_src=40000,tcp_dst=30443,nw_ttl=64",
        NEW, 1 => [HASHED];
    "outside to a balanced address": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=192.0.2.9,nw_dst=203.0.113.2,tcp_src=40000,tcp_dst=443,nw_ttl=64",
        NEW, 2 => [",a"];
    "outside to it, who may not": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=198.51.100.9,nw_dst=203.0.113.2,tcp_src=40000,tcp_dst=443,nw_ttl=64",
        NEW, 1 => ["drop"];
    "an answer from another node": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=10.1.1.10,tcp_src=8080,tcp_dst=40000,nw_ttl=64",
        &["trk,est,rpl"], 1 => [",a"];
    "an answer to a node, by its port": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=169.254.111.2,nw_dst=198.51.100.2,tcp_src=30443,tcp_dst=40000,nw_ttl=64",
        &[], 0 => ["drop"];
    "an answer to the address that stands for others": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.1.254,tcp_src=8080,tcp_dst=40000,nw_ttl=64",
        &["trk,new"], 1 => ["drop"];
    "pod to pod, which Services do not slow": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.2.10,tcp_src=40000,tcp_dst=8080,nw_ttl=64",
        NEW, 0 => ["uplink"];
}
