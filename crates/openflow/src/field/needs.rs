//! Prerequisites: what a match must say before it may name a field (OpenFlow 1.5.1, 7.2.3.6).

use super::Field;

/// A prerequisite of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in ovs-fields(7)")]
pub enum Needs {
    None,
    Ethernet,
    Vlan,
    Mpls,
    Ipv4,
    Ipv6,
    Ip,
    Arp,
    Nsh,
    Tracked,
    TrackedIpv4,
    TrackedIpv6,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
    Nd,
    NdSolicit,
    NdAdvert,
}

/// Ethernet types and IP protocols that prerequisites name.
pub(crate) mod ethertype {
    pub(crate) const IPV4: u128 = 0x0800;
    pub(crate) const IPV6: u128 = 0x86dd;
    pub(crate) const ARP: u128 = 0x0806;
    pub(crate) const RARP: u128 = 0x8035;
    pub(crate) const MPLS: u128 = 0x8847;
    pub(crate) const MPLS_MULTICAST: u128 = 0x8848;
    pub(crate) const NSH: u128 = 0x894f;
}
pub(crate) mod ip_proto {
    pub(crate) const ICMP: u128 = 1;
    pub(crate) const IGMP: u128 = 2;
    pub(crate) const TCP: u128 = 6;
    pub(crate) const UDP: u128 = 17;
    pub(crate) const ICMPV6: u128 = 58;
    pub(crate) const SCTP: u128 = 132;
}

/// `packet_type` of namespace 1, which carries Ethernet types of packets without Ethernet header.
const ETHERTYPE_NAMESPACE: u128 = 1 << 16;

/// ct_state bits that only a tracked, valid packet can have: new, est, rel, rpl, snat, dnat.
const CT_VALID: u128 = 0x01 | 0x02 | 0x04 | 0x08 | 0x40 | 0x80;
const CT_INVALID: u128 = 0x10;
const CT_TRACKED: u128 = 0x20;

// === impl Needs ===

impl Needs {
    /// The field that this prerequisite is about.
    pub fn field(self) -> Option<Field> {
        Some(match self {
            Self::None => return None,
            Self::Ethernet => Field::PACKET_TYPE,
            Self::Vlan => Field::VLAN_VID,
            Self::Mpls | Self::Ipv4 | Self::Ipv6 | Self::Ip | Self::Arp | Self::Nsh => {
                Field::ETH_TYPE
            }
            Self::Tracked | Self::TrackedIpv4 | Self::TrackedIpv6 => Field::CT_STATE,
            Self::Tcp | Self::Udp | Self::Sctp | Self::Icmp | Self::Icmpv6 => Field::IP_PROTO,
            Self::Nd | Self::NdSolicit | Self::NdAdvert => Field::ICMPV6_TYPE,
        })
    }

    /// Whether a match meets it; `get` tells a field's value and mask in that match.
    pub fn met_by(self, get: &impl Fn(Field) -> Option<(u128, u128)>) -> bool {
        let exact = |f: Field| get(f).map(|(v, _)| v);
        let eth_type = || match exact(Field::PACKET_TYPE) {
            None | Some(0) => exact(Field::ETH_TYPE),
            Some(t) if t & ETHERTYPE_NAMESPACE != 0 => Some(t & 0xffff),
            Some(_) => None,
        };
        let ip = || matches!(eth_type(), Some(ethertype::IPV4 | ethertype::IPV6));
        // Of a datagram's fragments only the first has ports.
        let later_fragment = || get(Field::IP_FRAG).is_some_and(|(v, _)| v & 2 != 0);
        let proto = |p: u128| ip() && exact(Field::IP_PROTO) == Some(p) && !later_fragment();
        let icmp6 = || eth_type() == Some(ethertype::IPV6) && proto(ip_proto::ICMPV6);
        let nd = |types: &[u128]| {
            icmp6()
                && exact(Field::ICMPV6_TYPE).is_some_and(|t| types.contains(&t))
                && exact(Field::ICMPV6_CODE).is_none_or(|c| c == 0)
        };
        let tracked = || {
            get(Field::CT_STATE).is_some_and(|(v, m)| {
                let not_invalid = m & CT_INVALID != 0 && v & CT_INVALID == 0;
                v & CT_VALID != 0 || (v & CT_TRACKED != 0 && not_invalid)
            })
        };
        match self {
            Self::None => true,
            Self::Ethernet => exact(Field::PACKET_TYPE).is_none_or(|t| t == 0),
            Self::Vlan => get(Field::VLAN_VID).is_some_and(|(v, m)| v & m & 0x1000 != 0),
            Self::Mpls => {
                matches!(eth_type(), Some(ethertype::MPLS | ethertype::MPLS_MULTICAST))
            }
            Self::Ipv4 => eth_type() == Some(ethertype::IPV4),
            Self::Ipv6 => eth_type() == Some(ethertype::IPV6),
            Self::Ip => ip(),
            Self::Arp => matches!(eth_type(), Some(ethertype::ARP | ethertype::RARP)),
            Self::Nsh => eth_type() == Some(ethertype::NSH),
            Self::Tracked => tracked(),
            // Here the switch looks at the Ethernet header itself.
            Self::TrackedIpv4 => tracked() && exact(Field::ETH_TYPE) == Some(ethertype::IPV4),
            Self::TrackedIpv6 => tracked() && exact(Field::ETH_TYPE) == Some(ethertype::IPV6),
            Self::Tcp => proto(ip_proto::TCP),
            Self::Udp => proto(ip_proto::UDP),
            Self::Sctp => proto(ip_proto::SCTP),
            Self::Icmp => eth_type() == Some(ethertype::IPV4) && proto(ip_proto::ICMP),
            Self::Icmpv6 => icmp6(),
            Self::Nd => nd(&[135, 136]),
            Self::NdSolicit => nd(&[135]),
            Self::NdAdvert => nd(&[136]),
        }
    }

    /// The prerequisite in the words of a match.
    pub fn describe(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Ethernet => "an Ethernet packet",
            Self::Vlan => "a VLAN tag (dl_vlan)",
            Self::Mpls => "mpls or mplsm",
            Self::Ipv4 => "ip",
            Self::Ipv6 => "ipv6",
            Self::Ip => "ip or ipv6",
            Self::Arp => "arp or rarp",
            Self::Nsh => "dl_type=0x894f",
            Self::Tracked => "ct_state with a valid connection (such as +trk-inv)",
            Self::TrackedIpv4 => "ip, and ct_state with a valid connection (such as +trk-inv)",
            Self::TrackedIpv6 => "ipv6, and ct_state with a valid connection (such as +trk-inv)",
            Self::Tcp => "tcp or tcp6",
            Self::Udp => "udp or udp6",
            Self::Sctp => "sctp or sctp6",
            Self::Icmp => "icmp",
            Self::Icmpv6 => "icmp6",
            Self::Nd => "icmp6,icmp_type=135 or 136,icmp_code=0",
            Self::NdSolicit => "icmp6,icmp_type=135,icmp_code=0",
            Self::NdAdvert => "icmp6,icmp_type=136,icmp_code=0",
        }
    }
}
