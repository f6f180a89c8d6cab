//! Port numbers, with OpenFlow's reserved ones by name.

/// A port of the switch, or one of OpenFlow's reserved ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortNo(pub u32);

/// Ports of OpenFlow 1.0, which some Nicira structures still use, end here.
const MAX_16: u32 = 0xff00;

// === impl PortNo ===

impl PortNo {
    /// The packet's own ingress port.
    pub const IN_PORT: Self = Self(0xffff_fff8);
    /// The flow tables (packet-out only).
    pub const TABLE: Self = Self(0xffff_fff9);
    /// Ordinary L2 switching.
    pub const NORMAL: Self = Self(0xffff_fffa);
    /// All ports that flood, save the ingress port.
    pub const FLOOD: Self = Self(0xffff_fffb);
    /// All ports, save the ingress port.
    pub const ALL: Self = Self(0xffff_fffc);
    /// The controller.
    pub const CONTROLLER: Self = Self(0xffff_fffd);
    /// The bridge's own port.
    pub const LOCAL: Self = Self(0xffff_fffe);
    /// No port, or any port, where a request asks for one.
    pub const ANY: Self = Self(0xffff_ffff);
    /// Not set (in `actset_output`).
    pub const UNSET: Self = Self(0xffff_fff7);

    /// The reserved port's name, as ovs-ofctl writes it.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::IN_PORT => "IN_PORT",
            Self::TABLE => "TABLE",
            Self::NORMAL => "NORMAL",
            Self::FLOOD => "FLOOD",
            Self::ALL => "ALL",
            Self::CONTROLLER => "CONTROLLER",
            Self::LOCAL => "LOCAL",
            Self::ANY => "ANY",
            Self::UNSET => "UNSET",
            _ => return None,
        })
    }

    /// The reserved port of this name, in either case.
    pub fn by_name(name: &str) -> Option<Self> {
        (Self::UNSET.0..=Self::ANY.0)
            .map(Self)
            .find(|p| p.name().is_some_and(|n| n.eq_ignore_ascii_case(name)))
    }

    /// From OpenFlow 1.0's 16 bits.
    pub fn from_16(port: u16) -> Self {
        let port = u32::from(port);
        Self(if port >= MAX_16 { port | 0xffff_0000 } else { port })
    }

    /// In OpenFlow 1.0's 16 bits, if it has a number there.
    pub fn to_16(self) -> Option<u16> {
        match self.0 {
            port if port < MAX_16 => u16::try_from(port).ok(),
            port if port >= MAX_16 | 0xffff_0000 => Some((port & 0xffff) as u16),
            _ => None,
        }
    }
}

impl std::fmt::Display for PortNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl std::fmt::Debug for PortNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
