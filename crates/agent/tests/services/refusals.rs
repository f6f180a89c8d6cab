//! Where nobody answers, that is said at once.

use crate::ask;
use crate::stage::{Stage, at, eventually, node_port, service, slice};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[test]
fn a_service_without_endpoints_refuses() {
    let stage = Stage::new();
    stage.tell(&[service("empty", &["10.96.0.10", "fd96::10"], ""), slice("empty", &[])]);
    let refused = |said: &io::Result<ask::Answer>| {
        said.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
    };
    for address in ["10.96.0.10", "fd96::10"] {
        // Also a port that no Service has, and an address that none has.
        let other = if address.contains(':') { "fd96::99" } else { "10.96.0.99" };
        for to in [at(address, 80), at(address, 81), at(other, 80)] {
            for from in [&stage.client.netns, stage.node(0), stage.node(1)] {
                eventually("a reset", from, || ask::tcp(to), refused);
                eventually("port unreachable", from, || ask::udp(to), refused);
            }
        }
    }
    let (first, _) = stage.cluster.addressing.outer(1)[0];
    let to = SocketAddr::new(first, node_port("empty"));
    for from in [&stage.outside.netns, stage.node(0), &stage.client.netns] {
        eventually("a reset", from, || ask::tcp(to), refused);
        let before = Instant::now();
        let said = from.within(|| ask::tcp(to)).unwrap();
        assert!(refused(&said), "{said:?}");
        assert!(before.elapsed() < Duration::from_secs(3), "at once, not after a retry");
    }
}
