//! Ways by the service gateway, which leads pods to Services by the machine, and back. The model is
//! `tests/scenarios/service-gateway`, seen from n1. A packet is traced from port to port: what goes into
//! the machine comes out of it as another one.

use crate::policies::DENIED;
use crate::services::{NEW, tracked_ways};

/// An answer of a connection that is known.
const ANSWER: &[&str] = &["trk,est,rpl"];

tracked_ways! { GATEWAY_WAYS:
    // Pods ask, and the machine is told.
    "pod to a Service": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.10,tcp_src=40000,tcp_dst=80,nw_ttl=64",
        NEW, 2 => [",osier-svc"];
    "pod to a Service, IPv6": "in_port=a,udp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd96::10,udp_src=40000,udp_dst=80,nw_ttl=64",
        NEW, 2 => [",osier-svc"];
    "pod to a Service, by an address beside the range": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=203.0.113.1,tcp_src=40000,tcp_dst=80,nw_ttl=64",
        NEW, 2 => [",osier-svc"];
    "a connection that the machine leads": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.10,tcp_src=40000,tcp_dst=80,nw_ttl=64",
        &["trk,est"], 1 => [",osier-svc"];
    "one that the switch led, before there was a gateway": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.96.0.10,tcp_src=40000,tcp_dst=80,nw_ttl=64",
        &["trk,new", "trk,est,dnat"], 2 => [",osier0"];
    "the end of one whose beginning nobody saw": "in_port=a,tcp6,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd96::10,tcp_src=40000,tcp_dst=80,tcp_flags=fin|ack,nw_ttl=64",
        &["trk,inv", "trk,inv"], 2 => [",osier-svc"];

    // The machine has chosen, and gives the pod's packets back.
    "to an endpoint here that may be asked": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.10,nw_dst=10.1.1.11,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => [",b"];
    "to an endpoint here that may be asked, IPv6": "in_port=osier-svc,tcp6,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd01:0:0:1::11,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => [",b"];
    "who may not ask it": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.12,nw_dst=10.1.1.11,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => [DENIED];
    "who may not ask it, IPv6": "in_port=osier-svc,tcp6,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,ipv6_src=fd01:0:0:1::12,ipv6_dst=fd01:0:0:1::11,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => [DENIED];
    "the endpoint by itself": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.11,nw_dst=10.1.1.11,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => ["ct(commit,zone=1,nat(src=10.1.1.254)),b"];
    "to an endpoint elsewhere, as the pod": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.10,nw_dst=10.1.2.10,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => ["len=4,0x12c}"];
    "to an endpoint elsewhere, IPv6": "in_port=osier-svc,tcp6,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,ipv6_src=fd01:0:0:1::10,ipv6_dst=fd01:0:0:2::10,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => ["len=4,0x12c}"];
    "to another machine": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.10,nw_dst=198.51.100.2,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => ["uplink"];
    "to the outside": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.10,nw_dst=192.0.2.9,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        NEW, 1 => [",osier0"];
    "what nobody led anywhere": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.10,nw_dst=10.96.0.10,tcp_src=40000,tcp_dst=80,nw_ttl=63",
        &[], 0 => ["drop"];
    "what no pod sent": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=192.0.2.9,nw_dst=10.1.1.11,tcp_src=40000,tcp_dst=8080,nw_ttl=63",
        &[], 0 => ["drop"];

    // Endpoints answer: to the machine, which translates back.
    "an answer from here": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.1.10,tcp_src=8080,tcp_dst=40000,nw_ttl=64,ct_mark=0xa",
        ANSWER, 1 => [",osier-svc"];
    "an answer from here, IPv6": "in_port=b,tcp6,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:1::11,ipv6_dst=fd01:0:0:1::10,tcp_src=8080,tcp_dst=40000,nw_ttl=64,ct_mark=0xa",
        ANSWER, 1 => [",osier-svc"];
    "an answer through the tunnel": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tcp,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.2.10,nw_dst=10.1.1.10,tcp_src=8080,tcp_dst=40000,nw_ttl=64,ct_mark=0x8",
        ANSWER, 1 => [",osier-svc"];
    "an answer through the tunnel, IPv6": "in_port=osier-tun,tun_src=198.51.100.2,tun_dst=198.51.100.1,tun_id=1,tcp6,dl_dst=0e:6f:73:69:65:72,ipv6_src=fd01:0:0:2::10,ipv6_dst=fd01:0:0:1::10,tcp_src=8080,tcp_dst=40000,nw_ttl=64,ct_mark=0x8",
        ANSWER, 1 => [",osier-svc"];
    "an answer to who asked the pod itself": "in_port=b,tcp,dl_src=0a:00:00:00:00:0b,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.11,nw_dst=10.1.1.10,tcp_src=8080,tcp_dst=40001,nw_ttl=64,ct_mark=0x2",
        ANSWER, 1 => [",a"];
    "an answer, translated back": "in_port=osier-svc,tcp,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,nw_src=10.96.0.10,nw_dst=10.1.1.10,tcp_src=80,tcp_dst=40000,nw_ttl=63",
        &[], 0 => [",a"];
    "an answer, translated back, IPv6": "in_port=osier-svc,tcp6,dl_src=0e:6f:73:69:65:74,dl_dst=0e:6f:73:69:65:73,ipv6_src=fd96::10,ipv6_dst=fd01:0:0:1::10,tcp_src=80,tcp_dst=40000,nw_ttl=63",
        &[], 0 => [",a"];
    "an answer of the machine itself": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=10.96.0.10,nw_dst=10.1.1.10,tcp_src=80,tcp_dst=40000,nw_ttl=64",
        &[], 0 => [",a"];

    // Machines ask: kube-proxy has led them before the switch sees anything.
    "the node to an endpoint here": "in_port=osier0,tcp,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,nw_src=10.1.1.1,nw_dst=10.1.1.11,tcp_src=40000,tcp_dst=8080,nw_ttl=64",
        NEW, 1 => [",b"];
    "the node to an endpoint elsewhere": "in_port=osier0,tcp6,dl_src=0e:6f:73:69:65:72,dl_dst=0e:6f:73:69:65:73,ipv6_src=fd01:0:0:1::1,ipv6_dst=fd01:0:0:2::10,tcp_src=40000,tcp_dst=8080,nw_ttl=64",
        NEW, 0 => ["uplink"];

    // Those who need no Service go as ever.
    "pod to pod": "in_port=a,tcp,dl_src=0a:00:00:00:00:0a,dl_dst=0e:6f:73:69:65:72,nw_src=10.1.1.10,nw_dst=10.1.1.12,tcp_src=40000,tcp_dst=8080,nw_ttl=64",
        NEW, 0 => [",c"];
}
