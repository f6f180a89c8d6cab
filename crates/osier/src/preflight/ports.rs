//! Ports that Osier listens at, and that somebody may have taken.

use super::{failed, skipped, well};
use crate::client::answers::Check;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// Port, whether it is UDP's, and what it is for.
const PORTS: [(u16, bool, &str); 5] = [
    (6645, false, "the controller's API"),
    (6646, false, "agents at the controller"),
    (9476, false, "the agent's metrics"),
    (6647, true, "echoes between nodes"),
    (6081, true, "tunnels"),
];

pub(super) fn check() -> Vec<Check> {
    let bind = |port, udp| match udp {
        true => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).map(drop),
        false => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).map(drop),
    };
    PORTS.iter().map(|&(port, udp, what)| judge(port, udp, what, bind(port, udp))).collect()
}

fn judge(port: u16, udp: bool, what: &str, bound: io::Result<()>) -> Check {
    let name = format!("{} {port}", if udp { "UDP" } else { "TCP" });
    let flag = if udp { "u" } else { "t" };
    match bound {
        Ok(()) => well(&name, format!("free, for {what}")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => failed(
            &name,
            format!("taken, which {what} would need"),
            format!("see who has it: ss -{flag}lnp 'sport = :{port}' (if it is Osier, it is well)"),
        ),
        Err(error) => skipped(&name, error.to_string()),
    }
}
