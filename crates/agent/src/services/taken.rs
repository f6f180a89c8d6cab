//! Ports of the machine that programs listen on, so that a Service's port of the node that hides one of
//! them is told.

use super::NodePort;
use osier_model::Transport;
use std::collections::BTreeSet;
use std::path::Path;

/// Where the kernel lists sockets, and the state of those that wait for whoever comes.
const LISTS: [(&str, Transport, &str); 4] = [
    ("tcp", Transport::Tcp, "0A"),
    ("tcp6", Transport::Tcp, "0A"),
    ("udp", Transport::Udp, "07"),
    ("udp6", Transport::Udp, "07"),
];

/// Those of these ports that a program has, too. What cannot be read has none.
pub(crate) async fn taken(ports: &BTreeSet<NodePort>) -> BTreeSet<NodePort> {
    let mut taken = BTreeSet::new();
    if ports.is_empty() {
        return taken;
    }
    for (name, transport, waits) in LISTS {
        let list = tokio::fs::read_to_string(Path::new("/proc/self/net").join(name)).await;
        let found = listening(list.as_deref().unwrap_or_default(), waits);
        taken.extend(found.map(|port| NodePort { transport, port }).filter(|p| ports.contains(p)));
    }
    taken
}

/// Ports of sockets in a state. A line: number, local address and port in hexadecimal, remote one, state.
fn listening<'a>(list: &'a str, state: &'a str) -> impl Iterator<Item = u16> + 'a {
    list.lines().skip(1).filter_map(move |line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, found) = (words.next()?, words.next()?, words.next()?);
        let (address, port) = local.split_once(':')?;
        // By the loopback address there are no ports of the node.
        let loopback = address.len() == 8 && address.ends_with("7F")
            || address == "00000000000000000000000001000000";
        (found == state && !loopback).then(|| u16::from_str_radix(port, 16).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:7531 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   2: 0100A8C0:7532 0200A8C0:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
";

    #[test]
    fn only_who_waits_for_others_has_a_port() {
        assert_eq!(listening(TCP, "0A").collect::<Vec<_>>(), [30000]);
        assert_eq!(listening("", "0A").count(), 0);
    }

    #[tokio::test]
    async fn a_program_that_listens_is_found() {
        let tcp = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let udp = tokio::net::UdpSocket::bind("[::]:0").await.unwrap();
        let port = |transport, port| NodePort { transport, port };
        let tcp_port = port(Transport::Tcp, tcp.local_addr().unwrap().port());
        let udp_port = port(Transport::Udp, udp.local_addr().unwrap().port());
        let other = port(Transport::Sctp, tcp_port.port);
        let asked = BTreeSet::from([tcp_port, udp_port, other]);
        assert_eq!(taken(&asked).await, BTreeSet::from([tcp_port, udp_port]));
        drop(tcp);
        assert_eq!(taken(&asked).await, BTreeSet::from([udp_port]));
    }
}
