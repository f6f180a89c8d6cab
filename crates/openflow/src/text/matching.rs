//! Matches as text.
//!
//! The order of printing is `ovs-ofctl`'s: metadata, then the packet's layers outside in, with
//! `tcp` or `arp` instead of the types that they stand for.

use super::token::{Item, ParseError};
use super::value::{self, flags, fragment, hex, hex_bytes};
use super::{TableNames, WriteText};
use crate::field::{Field, Value, ethertype, ip_proto};
use crate::matching::{Entry, Match};
use std::fmt;

/// How `ovs-ofctl` shows a field in a match, where it differs from `set_field`.
#[derive(Clone, Copy)]
enum Style {
    /// `%#x`, masks too.
    Hex,
    /// Decimal; value and mask in hexadecimal where there is a mask.
    Decimal,
    /// As `set_field` has it.
    Value,
    /// Bytes of any number.
    Bytes,
    /// `0x` and at least so many digits.
    Wide(usize),
}

/// What words stand for: Ethernet type and IP protocol.
const SHORTHANDS: [(&str, u128, Option<u128>); 17] = [
    ("icmp", ethertype::IPV4, Some(ip_proto::ICMP)),
    ("igmp", ethertype::IPV4, Some(ip_proto::IGMP)),
    ("tcp", ethertype::IPV4, Some(ip_proto::TCP)),
    ("udp", ethertype::IPV4, Some(ip_proto::UDP)),
    ("sctp", ethertype::IPV4, Some(ip_proto::SCTP)),
    ("ip", ethertype::IPV4, None),
    ("icmp6", ethertype::IPV6, Some(ip_proto::ICMPV6)),
    ("tcp6", ethertype::IPV6, Some(ip_proto::TCP)),
    ("udp6", ethertype::IPV6, Some(ip_proto::UDP)),
    ("sctp6", ethertype::IPV6, Some(ip_proto::SCTP)),
    ("ipv6", ethertype::IPV6, None),
    ("arp", ethertype::ARP, None),
    ("rarp", ethertype::RARP, None),
    ("mpls", ethertype::MPLS, None),
    ("mplsm", ethertype::MPLS_MULTICAST, None),
    ("ip4", ethertype::IPV4, None),
    ("icmpv6", ethertype::IPV6, Some(ip_proto::ICMPV6)),
];

/// Prints one match.
struct Printer<'a> {
    m: &'a Match,
    out: &'a mut dyn fmt::Write,
    commas: super::Commas,
}

super::display_as_text!(Match);

impl WriteText for Match {
    fn write_text(&self, out: &mut dyn fmt::Write, _: &TableNames) -> fmt::Result {
        Printer { m: self, out, commas: super::Commas::new() }.print()
    }
}

// === impl Printer ===

impl Printer<'_> {
    fn print(&mut self) -> fmt::Result {
        let (eth_type, proto) = self.types();
        self.metadata()?;
        let word = self.packet_type_and_word(eth_type, proto)?;
        (0..16).try_for_each(|n| self.field(Field::reg(n), None, Style::Hex))?;
        self.tunnel()?;
        self.field(Field::METADATA, None, Style::Hex)?;
        self.field(Field::IN_PORT, Some("in_port"), Style::Value)?;
        self.vlan()?;
        self.field(Field::ETH_SRC, Some("dl_src"), Style::Value)?;
        self.field(Field::ETH_DST, Some("dl_dst"), Style::Value)?;
        if word.is_none() {
            self.field(Field::ETH_TYPE, Some("dl_type"), Style::Wide(4))?;
        }
        self.network(word.is_some_and(|has_proto| has_proto))?;
        self.transport()
    }

    fn number(&self, field: Field) -> Option<u128> {
        self.m.get_u128(field).map(|(v, _)| v)
    }

    /// The Ethernet type and IP protocol.
    fn types(&self) -> (Option<u128>, Option<u128>) {
        let of_packet = self.number(Field::PACKET_TYPE).filter(|t| t >> 16 == 1);
        let eth_type = self.number(Field::ETH_TYPE).or(of_packet.map(|t| t & 0xffff));
        (eth_type, self.number(Field::IP_PROTO))
    }

    fn item(&mut self, name: &str) -> fmt::Result {
        self.commas.next(self.out)?;
        self.out.write_str(name)
    }

    fn field(&mut self, field: Field, name: Option<&str>, style: Style) -> fmt::Result {
        let Some(Entry { value, mask, .. }) = self.m.get(field) else { return Ok(()) };
        let (number, number_mask) = self.m.get_u128(field).unwrap_or_default();
        self.item(name.unwrap_or(field.name()))?;
        self.out.write_char('=')?;
        let out = &mut *self.out;
        match (style, mask) {
            (Style::Value, _) => value::write(out, field, value, mask),
            (Style::Bytes, _) => {
                hex_bytes(out, value)?;
                let Some(mask) = mask else { return Ok(()) };
                out.write_char('/')?;
                hex_bytes(out, mask)
            }
            (Style::Decimal, None) => write!(out, "{number}"),
            (Style::Wide(n), None) => write!(out, "{number:#0width$x}", width = n + 2),
            (Style::Wide(n), Some(_)) => {
                write!(out, "{number:#0width$x}/{number_mask:#0width$x}", width = n + 2)
            }
            (Style::Hex, None) => hex(out, number),
            (Style::Decimal, Some(_)) => write!(out, "{number:#x}/{number_mask:#x}"),
            (Style::Hex, Some(_)) => {
                hex(out, number)?;
                out.write_char('/')?;
                hex(out, number_mask)
            }
        }
    }

    fn metadata(&mut self) -> fmt::Result {
        self.field(Field::PKT_MARK, None, Style::Hex)?;
        self.field(Field::CONJ_ID, None, Style::Decimal)?;
        self.field(Field::ACTSET_OUTPUT, None, Style::Value)?;
        self.field(Field::CT_STATE, None, Style::Value)?;
        self.field(Field::CT_ZONE, None, Style::Decimal)?;
        self.field(Field::CT_MARK, None, Style::Hex)?;
        self.field(Field::CT_LABEL, None, Style::Hex)?;
        self.field(Field::CT_NW_SRC, None, Style::Value)?;
        self.field(Field::CT_IPV6_SRC, None, Style::Value)?;
        self.field(Field::CT_NW_DST, None, Style::Value)?;
        self.field(Field::CT_IPV6_DST, None, Style::Value)?;
        self.field(Field::CT_NW_PROTO, None, Style::Decimal)?;
        self.field(Field::CT_TP_SRC, None, Style::Decimal)?;
        self.field(Field::CT_TP_DST, None, Style::Decimal)
    }

    /// `tcp` and the like: `Some` if the Ethernet type was said, and whether the protocol was.
    fn packet_type_and_word(
        &mut self,
        eth_type: Option<u128>,
        proto: Option<u128>,
    ) -> Result<Option<bool>, fmt::Error> {
        if self.number(Field::PACKET_TYPE).is_some_and(|t| t != 0) {
            self.field(Field::PACKET_TYPE, None, Style::Value)?;
            // It says the Ethernet type, and a word for the protocol would say it twice.
            return Ok(Some(false));
        }
        let find = |proto: Option<u128>| {
            SHORTHANDS.iter().find(|(_, t, p)| Some(*t) == eth_type && *p == proto)
        };
        let Some((word, _, with_proto)) = find(proto).or_else(|| find(None)) else {
            return Ok(None);
        };
        self.item(word)?;
        Ok(Some(with_proto.is_some()))
    }

    fn tunnel(&mut self) -> fmt::Result {
        self.field(Field::TUN_ID, None, Style::Hex)?;
        self.field(Field::TUN_SRC, None, Style::Value)?;
        self.field(Field::TUN_DST, None, Style::Value)?;
        self.field(Field::TUN_IPV6_SRC, None, Style::Value)?;
        self.field(Field::TUN_IPV6_DST, None, Style::Value)?;
        self.field(Field::TUN_GBP_ID, None, Style::Decimal)?;
        self.field(Field::TUN_GBP_FLAGS, None, Style::Hex)?;
        self.field(Field::TUN_ERSPAN_VER, None, Style::Decimal)?;
        self.field(Field::TUN_ERSPAN_IDX, None, Style::Hex)?;
        self.field(Field::TUN_ERSPAN_DIR, None, Style::Decimal)?;
        self.field(Field::TUN_ERSPAN_HWID, None, Style::Hex)?;
        self.field(Field::TUN_GTPU_FLAGS, Some("gtpu_flags"), Style::Hex)?;
        self.field(Field::TUN_GTPU_MSGTYPE, Some("gtpu_msgtype"), Style::Decimal)?;
        if let Some((value, _)) = self.m.get_u128(Field::TUN_FLAGS) {
            self.item("tun_flags=")?;
            flags(self.out, &[(1, "oam")], value, Some(1))?;
        }
        (0..64).try_for_each(|n| self.tun_metadata(Field::tun_metadata(n)))
    }

    fn tun_metadata(&mut self, field: Field) -> fmt::Result {
        match self.m.get(field) {
            // Present, with any value.
            Some(Entry { mask: Some([]), .. }) => self.item(field.name()),
            _ => self.field(field, None, Style::Bytes),
        }
    }

    fn vlan(&mut self) -> fmt::Result {
        let pcp = self.number(Field::VLAN_PCP);
        let Some((vid, mask)) = self.m.get_u128(Field::VLAN_VID) else { return Ok(()) };
        let (vid_mask, tagged) = (mask & 0xfff, mask & vid & 0x1000 != 0);
        if tagged && matches!(vid_mask, 0 | 0xfff) && (vid_mask != 0 || pcp.is_some()) {
            if vid_mask != 0 {
                self.item("dl_vlan=")?;
                write!(self.out, "{}", vid & 0xfff)?;
            }
            if let Some(pcp) = pcp {
                self.item("dl_vlan_pcp=")?;
                write!(self.out, "{pcp}")?;
            }
            return Ok(());
        }
        let tci = vid | pcp.unwrap_or(0) << 13;
        let tci_mask = mask | pcp.map_or(0, |_| 0xe000);
        self.item("vlan_tci=")?;
        match tci_mask {
            0xffff => write!(self.out, "{tci:#06x}"),
            _ => write!(self.out, "{tci:#06x}/{tci_mask:#06x}"),
        }
    }

    /// IP, ARP, MPLS and NSH.
    fn network(&mut self, proto_said: bool) -> fmt::Result {
        self.field(Field::IPV6_SRC, None, Style::Value)?;
        self.field(Field::IPV6_DST, None, Style::Value)?;
        self.field(Field::IPV6_LABEL, None, Style::Wide(5))?;
        self.field(Field::ARP_SPA, None, Style::Value)?;
        self.field(Field::ARP_TPA, None, Style::Value)?;
        self.field(Field::IPV4_SRC, Some("nw_src"), Style::Value)?;
        self.field(Field::IPV4_DST, Some("nw_dst"), Style::Value)?;
        if !proto_said {
            self.field(Field::IP_PROTO, None, Style::Decimal)?;
        }
        self.field(Field::ARP_OP, None, Style::Decimal)?;
        self.field(Field::ARP_SHA, None, Style::Value)?;
        self.field(Field::ARP_THA, None, Style::Value)?;
        for nsh in [Field::NSH_FLAGS, Field::NSH_TTL, Field::NSH_MDTYPE, Field::NSH_NP] {
            self.field(nsh, None, Style::Decimal)?;
        }
        self.field(Field::NSH_SPI, None, Style::Hex)?;
        self.field(Field::NSH_SI, None, Style::Decimal)?;
        for nsh in [Field::NSH_C1, Field::NSH_C2, Field::NSH_C3, Field::NSH_C4] {
            self.field(nsh, None, Style::Hex)?;
        }
        if let Some(dscp) = self.number(Field::IP_DSCP) {
            self.item("nw_tos=")?;
            write!(self.out, "{}", dscp << 2)?;
        }
        self.field(Field::IP_ECN, None, Style::Decimal)?;
        self.field(Field::IP_TTL, None, Style::Decimal)?;
        self.field(Field::MPLS_LABEL, None, Style::Decimal)?;
        self.field(Field::MPLS_TC, None, Style::Decimal)?;
        self.field(Field::MPLS_TTL, None, Style::Decimal)?;
        self.field(Field::MPLS_BOS, None, Style::Decimal)?;
        if let Some((value, mask)) = self.m.get_u128(Field::IP_FRAG) {
            self.item("nw_frag=")?;
            self.out.write_str(fragment(value, mask))?;
        }
        Ok(())
    }

    fn transport(&mut self) -> fmt::Result {
        for (field, name) in [
            (Field::ICMP_TYPE, "icmp_type"),
            (Field::ICMPV6_TYPE, "icmp_type"),
            (Field::ICMP_CODE, "icmp_code"),
            (Field::ICMPV6_CODE, "icmp_code"),
            (Field::TCP_SRC, "tp_src"),
            (Field::UDP_SRC, "tp_src"),
            (Field::SCTP_SRC, "tp_src"),
            (Field::TCP_DST, "tp_dst"),
            (Field::UDP_DST, "tp_dst"),
            (Field::SCTP_DST, "tp_dst"),
        ] {
            self.field(field, Some(name), Style::Decimal)?;
        }
        self.field(Field::ND_TARGET, None, Style::Value)?;
        self.field(Field::ND_SLL, None, Style::Value)?;
        self.field(Field::ND_TLL, None, Style::Value)?;
        self.field(Field::ND_RESERVED, None, Style::Decimal)?;
        self.field(Field::ND_OPTIONS_TYPE, None, Style::Decimal)?;
        self.field(Field::TCP_FLAGS, None, Style::Value)
    }
}

// === reading ===

/// What a match's text says, before ports and types are known to belong to TCP, UDP or ICMPv6.
#[derive(Debug, Default)]
pub(super) struct MatchText<'a> {
    items: Vec<Item<'a>>,
}

impl<'a> MatchText<'a> {
    /// Takes the item if it is of a match.
    pub(super) fn take(&mut self, item: Item<'a>) {
        self.items.push(item);
    }

    /// The match that was said.
    pub(super) fn build(self) -> Result<Match, ParseError> {
        let mut m = Match::default();
        // What other names depend on comes first.
        let (types, rest): (Vec<_>, Vec<_>) = self.items.into_iter().partition(is_type);
        for item in types.into_iter().chain(rest) {
            add(&mut m, item)?;
        }
        m.check_prerequisites().map_err(|e| ParseError::new(e.to_string()))?;
        Ok(m)
    }
}

fn is_type(item: &Item<'_>) -> bool {
    let types = ["dl_type", "eth_type", "nw_proto", "ip_proto", "packet_type"];
    types.contains(&item.key) || shorthand(item).is_some()
}

fn shorthand(item: &Item<'_>) -> Option<(u128, Option<u128>)> {
    let (_, eth_type, proto) = SHORTHANDS.iter().find(|(word, ..)| *word == item.key)?;
    item.value.is_empty().then_some((*eth_type, *proto))
}

fn add(m: &mut Match, item: Item<'_>) -> Result<(), ParseError> {
    let mut insert = |field: Field, value: &Value, mask: Option<&Value>| {
        m.insert(field, value, mask).map_err(|e| ParseError::new(e.to_string()))
    };
    let exact = |field: Field, v: u128| Value::from_u128(v, field.bytes());
    if let Some((eth_type, proto)) = shorthand(&item) {
        insert(Field::ETH_TYPE, &exact(Field::ETH_TYPE, eth_type), None)?;
        return match proto {
            Some(p) => insert(Field::IP_PROTO, &exact(Field::IP_PROTO, p), None),
            None => Ok(()),
        };
    }
    match item.key {
        "eth" if item.value.is_empty() => return Ok(()),
        "dl_vlan" => return add_vlan_id(m, item.value),
        "dl_vlan_pcp" => return add_vlan_priority(m, item.value),
        _ => {}
    }
    let field = field_of(m, item.key)
        .ok_or_else(|| ParseError::new(format!("there is no field {:?}", item.key)))?;
    if field.is_tun_metadata() && item.value.is_empty() {
        let empty = Value::from_bytes(&[]);
        return m.insert(field, &empty, Some(&empty)).map_err(|e| ParseError::new(e.to_string()));
    }
    if item.value == "*" {
        return Ok(());
    }
    let (value, mask) = value::parse(field, item.value)?;
    m.insert(field, &value, mask.as_ref()).map_err(|e| ParseError::new(e.to_string()))
}

/// `dl_vlan=0xffff` is "no tag".
fn add_vlan_id(m: &mut Match, text: &str) -> Result<(), ParseError> {
    let vid: u16 = value::bounded("dl_vlan", text)?;
    let vid = match vid {
        0xffff => 0,
        0..=0xfff => vid | 0x1000,
        _ => return Err(ParseError::new(format!("dl_vlan: {text} does not fit 12 bits"))),
    };
    // A priority may have said already that there is a tag.
    let pcp = m.get_u128(Field::VLAN_PCP).map(|(v, _)| v);
    *m = without(m, &[Field::VLAN_VID, Field::VLAN_PCP]);
    let insert = |m: &mut Match, field: Field, v: u128| {
        m.insert(field, &Value::from_u128(v, field.bytes()), None)
            .map_err(|e| ParseError::new(e.to_string()))
    };
    insert(m, Field::VLAN_VID, vid.into())?;
    pcp.map_or(Ok(()), |pcp| insert(m, Field::VLAN_PCP, pcp))
}

fn add_vlan_priority(m: &mut Match, text: &str) -> Result<(), ParseError> {
    let pcp: u8 = value::bounded("dl_vlan_pcp", text)?;
    let failed = |e: crate::matching::MatchError| ParseError::new(e.to_string());
    if m.get(Field::VLAN_VID).is_none() {
        let tag = Value::from_u128(0x1000, 2);
        m.insert(Field::VLAN_VID, &tag, Some(&tag)).map_err(failed)?;
    }
    if pcp > 7 {
        return Err(ParseError::new(format!("dl_vlan_pcp: {pcp} does not fit 3 bits")));
    }
    m.insert(Field::VLAN_PCP, &Value::from_u128(pcp.into(), 1), None).map_err(failed)
}

/// The same match less some fields.
fn without(m: &Match, fields: &[Field]) -> Match {
    let mut out = Match::default();
    for Entry { field, value, mask } in m.entries().filter(|e| !fields.contains(&e.field)) {
        let mask = mask.map(Value::from_bytes);
        // It was in a match already.
        let _ = out.insert(field, &Value::from_bytes(value), mask.as_ref());
    }
    out
}

/// The field that a name means here: `tp_dst` is a port of whatever protocol was said.
fn field_of(m: &Match, name: &str) -> Option<Field> {
    let proto = m.get_u128(Field::IP_PROTO).map(|(v, _)| v);
    let eth_type = m.get_u128(Field::ETH_TYPE).map(|(v, _)| v);
    let by_proto = |tcp, udp, sctp| match proto {
        Some(ip_proto::UDP) => udp,
        Some(ip_proto::SCTP) => sctp,
        _ => tcp,
    };
    let arp = matches!(eth_type, Some(ethertype::ARP | ethertype::RARP));
    Some(match name {
        "tp_src" => by_proto(Field::TCP_SRC, Field::UDP_SRC, Field::SCTP_SRC),
        "tp_dst" => by_proto(Field::TCP_DST, Field::UDP_DST, Field::SCTP_DST),
        "icmp_type" if eth_type == Some(ethertype::IPV6) => Field::ICMPV6_TYPE,
        "icmp_code" if eth_type == Some(ethertype::IPV6) => Field::ICMPV6_CODE,
        "nw_src" | "ip_src" if arp => Field::ARP_SPA,
        "nw_dst" | "ip_dst" if arp => Field::ARP_TPA,
        "nw_proto" | "ip_proto" if arp => Field::ARP_OP,
        "gtpu_flags" => Field::TUN_GTPU_FLAGS,
        "gtpu_msgtype" => Field::TUN_GTPU_MSGTYPE,
        "in_port" => Field::IN_PORT,
        _ => return Field::by_name(name),
    })
}

#[cfg(test)]
mod tests {
    use crate::field::Field;
    use crate::flow::Flow;

    #[test]
    fn a_star_matches_all_and_any_is_a_port() {
        // As ovs-ofctl reads them; found by fuzzing.
        let star: Flow = "in_port=*,actions=drop".parse().unwrap();
        assert!(star.matching.is_any());
        let any: Flow = "in_port=ANY,actions=drop".parse().unwrap();
        assert_eq!(any.matching.get_u128(Field::IN_PORT), Some((0xffff_ffff, 0xffff_ffff)));
        assert!("reg0=ANY,actions=drop".parse::<Flow>().is_err());
    }
}
