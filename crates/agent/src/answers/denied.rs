//! The log of what policies denied: who, to whom, and which policies are about it. So many lines in a
//! second; the rest is counted. All of it is remembered for a while, for who asks.

use crate::denied::{Attempt, DeniedLately};
use osier_answers::IpPacket;
use osier_compiler::conntrack::{zone_in, zone_of};
use osier_compiler::registers::Register;
use osier_compiler::{Compiler, Question};
use osier_model::{Direction, Identity, PolicyName, View, VrfId};
use osier_openflow::message::PacketIn2;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::info;

/// Lines in a second.
const RATE: u32 = 20;

/// How much was said lately.
#[derive(Debug)]
pub(super) struct Denials {
    since: Instant,
    said: u32,
    unsaid: u32,
    lately: DeniedLately,
}

// === impl Denials ===

impl Denials {
    pub(super) fn new(lately: DeniedLately) -> Self {
        Self { since: Instant::now(), said: 0, unsaid: 0, lately }
    }

    /// Logs a packet that was denied, if it is one.
    pub(super) fn log(&mut self, compiler: &Compiler, asked: &PacketIn2) {
        let Some(Question::Denied { direction }) = Question::decode(&asked.userdata) else {
            return;
        };
        let Some(packet) = IpPacket::parse(&asked.packet) else { return };
        let number = |register: Register| {
            let value = asked.metadata.get_u128(register.field()).map(|(value, _)| value);
            value.and_then(|value| u32::try_from(value).ok()).unwrap_or_default()
        };
        let side = match direction {
            Direction::Egress => Identity(number(Register::SOURCE)),
            Direction::Ingress => Identity(number(Register::TARGET)),
        };
        let view = compiler.view();
        let law = view.law();
        let (protocol, port) = match packet.payload {
            Some((protocol @ (6 | 17 | 132), [_, _, high, low, ..])) => {
                (Some(protocol), Some(u16::from_be_bytes([*high, *low])))
            }
            Some((protocol, _)) => (Some(protocol), None),
            None => (None, None),
        };
        let about = || law.about(side, direction).map(|policy| policy.name.clone()).collect();
        self.lately.add(
            Attempt {
                zone: zone(view, number(Register::NETWORK), number(Register::VRF)),
                protocol: protocol.unwrap_or_default(),
                source: packet.source,
                target: packet.destination,
                port,
                direction,
            },
            about,
        );
        if !self.may_say() {
            return;
        }
        let policies: Vec<PolicyName> = about();
        let policies: Vec<&str> = policies.iter().map(PolicyName::as_str).collect();
        info!(
            %direction,
            from = called(view, packet.source),
            to = called(view, packet.destination),
            protocol,
            port,
            identity = number(Register::SOURCE),
            policies = policies.join(", "),
            "denied"
        );
    }

    fn may_say(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            if self.unsaid > 0 {
                info!(more = self.unsaid, "denied, and not logged");
            }
            *self = Self::new(self.lately.clone());
        }
        match self.said < RATE {
            true => self.said += 1,
            false => self.unsaid += 1,
        }
        self.unsaid == 0
    }
}

/// Where a packet's connection would be tracked.
fn zone(view: &View, vni: u32, vrf: u32) -> u16 {
    let network = view.networks().values().find(|network| network.vni.get() == vni);
    let vrf = VrfId(u16::try_from(vrf).unwrap_or_default());
    network.map_or(zone_of(vrf), |network| zone_in(view, network))
}

/// A port of this node by its name, with its address; others by their address.
fn called(view: &View, address: IpAddr) -> String {
    let own = view.ports_at(view.node()).filter_map(|key| view.ports().get(key));
    match own.into_iter().find(|port| port.addresses.contains(&address)) {
        Some(port) => format!("{} ({address})", port.key),
        None => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_said_than_a_log_can_bear() {
        let mut denials = Denials::new(DeniedLately::default());
        let said = (0..1000).filter(|_| denials.may_say()).count();
        assert_eq!(said, 20);
        assert_eq!(denials.unsaid, 980);
    }
}
