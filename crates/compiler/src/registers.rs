//! What the registers hold, declared once. Nobody writes `reg5` elsewhere.
//!
//! `metadata` stays free for others.

use osier_openflow::action::{Action, SetField, SetFieldError};
use osier_openflow::field::Field;
use osier_openflow::subfield::Subfield;

/// Some bits of a register that have a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// What it is called.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    number: u8,
    offset: u16,
    bits: u16,
}

macro_rules! registers {
    ($($(#[doc = $doc:literal])* $register:ident: $name:literal, reg $number:literal [$offset:literal + $bits:literal];)*) => {
        impl Register {
            $($(#[doc = $doc])*
            pub const $register: Self = Self {
                name: $name,
                meaning: concat!($($doc),*).trim_ascii_start(),
                number: $number,
                offset: $offset,
                bits: $bits,
            };)*

            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$register,)*];
        }
    };
}

registers! {
    /// Where the packet comes from: see [`Origin`].
    FROM: "from", reg 0 [0 + 4];
    /// Where it goes: see [`Destination`].
    TO: "to", reg 0 [4 + 4];
    /// It goes back to the port that it came from.
    HAIRPIN: "hairpin", reg 0 [8 + 1];
    /// It went to a Service.
    FROM_SERVICE: "from-service", reg 0 [9 + 1];
    /// Its source is to be translated.
    NEEDS_SNAT: "needs-snat", reg 0 [10 + 1];
    /// It may be, or is, too large for the tunnel.
    LARGE: "large", reg 0 [11 + 1];
    /// Policies have a say in it.
    GUARDED: "guarded", reg 0 [12 + 1];
    /// Its sender may send only what policies grant.
    SENDER_ISOLATED: "sender-isolated", reg 0 [13 + 1];
    /// Its receiver may receive only what policies grant.
    RECEIVER_ISOLATED: "receiver-isolated", reg 0 [14 + 1];
    /// Whether its sender may send it is for the receiver's node to say.
    UNJUDGED: "unjudged", reg 0 [15 + 1];
    /// The machine has led it to an endpoint of a Service, by the service gateway.
    BY_GATEWAY: "by-gateway", reg 0 [16 + 1];
    /// The tag of the port that it came in by.
    IN_TAG: "in-tag", reg 1 [0 + 32];
    /// The number of the port to send it out of.
    OUT_PORT: "out-port", reg 2 [0 + 32];
    /// The network that it is in.
    NETWORK: "network", reg 3 [0 + 24];
    /// The router whose addresses it uses.
    VRF: "vrf", reg 4 [0 + 16];
    /// What its sender is to policies.
    SOURCE: "source", reg 5 [0 + 32];
    /// What its receiver is to policies.
    TARGET: "target", reg 6 [0 + 32];
    /// The Service that it goes to.
    SERVICE: "service", reg 7 [0 + 32];
    /// The policy rule that let it out.
    EGRESS_RULE: "egress-rule", reg 12 [0 + 32];
    /// The policy rule that let it in.
    INGRESS_RULE: "ingress-rule", reg 13 [0 + 32];
    /// The node to send it to, if tunnels are IPv4.
    TUNNEL: "tunnel", reg 15 [0 + 32];
    /// What policies are now, if connections are judged again when that changes.
    EPOCH: "epoch", reg 14 [0 + 24];
}

/// Where a packet comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Origin {
    /// A port of this node.
    Port = 1,
    /// Another node.
    Tunnel = 2,
    /// This node itself, or through it from outside.
    Gateway = 4,
    /// A Service, as an answer that the machine has translated back.
    Service = 8,
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Destination {
    /// A port of this node.
    Port = 1,
    /// Another node.
    Tunnel = 2,
    /// This node itself, or through it to the outside.
    Gateway = 4,
}

// === impl Register ===

impl Register {
    /// The node to send it to, if tunnels are IPv6: where the endpoint's address was.
    pub const TUNNEL_IPV6: Field = Field::xxreg(2);

    /// The bits as a subfield.
    pub fn subfield(self) -> Subfield {
        Subfield::new(Field::reg(self.number), self.offset, self.bits)
            .expect("every declared range is inside of its register")
    }

    /// The register's field.
    pub fn field(self) -> Field {
        Field::reg(self.number)
    }

    /// Value and mask of a match on these bits.
    pub fn matching(self, value: u32) -> (u32, u32) {
        let ones = u32::MAX >> (32 - self.bits);
        ((value & ones) << self.offset, ones << self.offset)
    }

    /// Sets these bits.
    pub fn load(self, value: u32) -> Result<Action, SetFieldError> {
        SetField::load(self.subfield(), value.into()).map(Action::SetField)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_registers_share_a_bit() {
        let mut taken = std::collections::HashSet::new();
        for register in Register::ALL {
            for bit in register.offset..register.offset + register.bits {
                assert!(taken.insert((register.number, bit)), "{}", register.name);
            }
            assert!(register.subfield().bits() == register.bits);
        }
        // Registers 8 to 11 are one address of 128 bits: a Service's endpoint, then a tunnel's.
        assert!((8..12).all(|n| taken.iter().all(|(number, _)| *number != n)));
    }
}
