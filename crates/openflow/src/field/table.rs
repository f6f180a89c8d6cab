//! The table of fields: one row each, as ovs-fields(7) describes them.
//!
//! The order of the rows is the order of fields in a canonical match, so a field stands behind
//! those that its prerequisite names.

use super::{Code, FieldInfo, Format, Needs};

/// Number of fields.
pub(super) const COUNT: usize = SCALARS_AT as usize + SCALARS.len();
/// Where the groups of numbered fields start.
pub(super) const REGS_AT: u8 = 0;
pub(super) const XREGS_AT: u8 = REGS_AT + 16;
pub(super) const XXREGS_AT: u8 = XREGS_AT + 8;
pub(super) const TUN_METADATA_AT: u8 = XXREGS_AT + 4;
/// Where the fields with a row of their own start.
pub(super) const SCALARS_AT: u8 = TUN_METADATA_AT + 64;

/// Experimenters that own OXM codes.
const NICIRA: u32 = 0x0000_2320;
const NSH: u32 = 0x005a_d650;
pub(super) const ONF: u32 = 0x4f4e_4600;

/// The code point behind an OXM or NXM name; the name's prefix says the class.
const fn code(name: &'static str, number: u8) -> Code {
    let (class, experimenter) = match name.as_bytes() {
        [b'N', b'X', b'M', b'_', b'O', ..] => (0x0000, 0),
        [b'N', b'X', b'M', b'_', b'N', ..] => (0x0001, 0),
        [b'O', b'X', b'M', b'_', b'O', b'F', b'_', b'P', b'K', b'T', ..] => (0x8001, 0),
        [b'O', b'X', b'M', ..] => (0x8000, 0),
        [b'E', b'R', b'I', b'C', ..] => (0x1000, 0),
        [b'N', b'X', b'O', b'X', b'M', b'_', b'N', ..] => (0xffff, NSH),
        [b'N', b'X', b'O', b'X', b'M', b'_', b'E', ..] => (0xffff, NICIRA),
        _ => unreachable!(),
    };
    Code { name, class, number, experimenter }
}

macro_rules! rows {
    ($($id:ident $name:literal $alias:literal $bytes:literal B $bits:literal b $format:ident
       $mask:ident $access:ident $needs:ident
       $(nxm $nxm:ident $nxm_no:literal)? $(oxm $oxm:ident $oxm_no:literal)?;)*) => {
        const SCALARS: &[FieldInfo] = &[$(FieldInfo {
            name: $name,
            alias: $alias,
            bytes: $bytes,
            bits: $bits,
            maskable: rows!(@mask $mask),
            writable: rows!(@access $access),
            format: Format::$format,
            needs: Needs::$needs,
            nxm: rows!(@code $($nxm $nxm_no)?),
            oxm: rows!(@code $($oxm $oxm_no)?),
        },)*];
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Position { $($id),* }
        impl super::Field {
            $(
                #[doc = concat!("`", $name, "`")]
                pub const $id: Self = Self(SCALARS_AT + Position::$id as u8);
            )*
        }
    };
    (@mask masks) => { true };
    (@mask exact) => { false };
    (@access write) => { true };
    (@access read) => { false };
    (@code) => { None };
    (@code $name:ident $number:literal) => { Some(code(stringify!($name), $number)) };
}

// field          name           alias     wire  used    format   masks  access  prerequisite    codes
#[rustfmt::skip]
rows! {
    PACKET_TYPE "packet_type" "" 4 B 32 b PacketType exact read None oxm OXM_OF_PACKET_TYPE 44;
    IN_PORT "in_port_oxm" "" 4 B 32 b Port exact read None oxm OXM_OF_IN_PORT 0;
    IN_PORT_NXM "in_port" "" 2 B 16 b Port exact write None nxm NXM_OF_IN_PORT 0;
    METADATA "metadata" "" 8 B 64 b Hexadecimal masks write None oxm OXM_OF_METADATA 2;
    TUN_ID "tun_id" "tunnel_id" 8 B 64 b Hexadecimal masks write None nxm NXM_NX_TUN_ID 16 oxm OXM_OF_TUNNEL_ID 38;
    TUN_SRC "tun_src" "" 4 B 32 b Ipv4 masks write None nxm NXM_NX_TUN_IPV4_SRC 31;
    TUN_DST "tun_dst" "" 4 B 32 b Ipv4 masks write None nxm NXM_NX_TUN_IPV4_DST 32;
    TUN_IPV6_SRC "tun_ipv6_src" "" 16 B 128 b Ipv6 masks write None nxm NXM_NX_TUN_IPV6_SRC 109;
    TUN_IPV6_DST "tun_ipv6_dst" "" 16 B 128 b Ipv6 masks write None nxm NXM_NX_TUN_IPV6_DST 110;
    TUN_FLAGS "tun_flags" "" 2 B 1 b TunnelFlags masks write None nxm NXM_NX_TUN_FLAGS 104;
    TUN_GBP_ID "tun_gbp_id" "" 2 B 16 b Decimal masks write None nxm NXM_NX_TUN_GBP_ID 38;
    TUN_GBP_FLAGS "tun_gbp_flags" "" 1 B 8 b Hexadecimal masks write None nxm NXM_NX_TUN_GBP_FLAGS 39;
    TUN_ERSPAN_VER "tun_erspan_ver" "" 1 B 4 b Decimal masks write None nxm NXOXM_ET_ERSPAN_VER 12;
    TUN_ERSPAN_IDX "tun_erspan_idx" "" 4 B 20 b Hexadecimal masks write None nxm NXOXM_ET_ERSPAN_IDX 11;
    TUN_ERSPAN_DIR "tun_erspan_dir" "" 1 B 1 b Decimal masks write None nxm NXOXM_ET_ERSPAN_DIR 13;
    TUN_ERSPAN_HWID "tun_erspan_hwid" "" 1 B 6 b Hexadecimal masks write None nxm NXOXM_ET_ERSPAN_HWID 14;
    TUN_GTPU_FLAGS "tun_gtpu_flags" "" 1 B 8 b Hexadecimal masks read None nxm NXOXM_ET_GTPU_FLAGS 15;
    TUN_GTPU_MSGTYPE "tun_gtpu_msgtype" "" 1 B 8 b Decimal masks read None nxm NXOXM_ET_GTPU_MSGTYPE 16;
    PKT_MARK "pkt_mark" "" 4 B 32 b Hexadecimal masks write None nxm NXM_NX_PKT_MARK 33;
    CONJ_ID "conj_id" "" 4 B 32 b Decimal exact read None nxm NXM_NX_CONJ_ID 37;
    ACTSET_OUTPUT "actset_output" "" 4 B 32 b Port exact read None oxm OXM_OF_ACTSET_OUTPUT 43;
    CT_STATE "ct_state" "" 4 B 32 b CtState masks read None nxm NXM_NX_CT_STATE 105;
    CT_ZONE "ct_zone" "" 2 B 16 b Hexadecimal exact read None nxm NXM_NX_CT_ZONE 106;
    CT_MARK "ct_mark" "" 4 B 32 b Hexadecimal masks write None nxm NXM_NX_CT_MARK 107;
    CT_LABEL "ct_label" "" 16 B 128 b Hexadecimal masks write None nxm NXM_NX_CT_LABEL 108;
    ETH_SRC "eth_src" "dl_src" 6 B 48 b Ethernet masks write Ethernet nxm NXM_OF_ETH_SRC 2 oxm OXM_OF_ETH_SRC 4;
    ETH_DST "eth_dst" "dl_dst" 6 B 48 b Ethernet masks write Ethernet nxm NXM_OF_ETH_DST 1 oxm OXM_OF_ETH_DST 3;
    ETH_TYPE "eth_type" "dl_type" 2 B 16 b Hexadecimal exact read Ethernet nxm NXM_OF_ETH_TYPE 3 oxm OXM_OF_ETH_TYPE 5;
    VLAN_TCI "vlan_tci" "" 2 B 16 b Hexadecimal masks write Ethernet nxm NXM_OF_VLAN_TCI 4;
    VLAN_VID "vlan_vid" "" 2 B 12 b Decimal masks write Ethernet oxm OXM_OF_VLAN_VID 6;
    VLAN_PCP "vlan_pcp" "" 1 B 3 b Decimal exact write Vlan oxm OXM_OF_VLAN_PCP 7;
    MPLS_LABEL "mpls_label" "" 4 B 20 b Decimal exact write Mpls oxm OXM_OF_MPLS_LABEL 34;
    MPLS_TC "mpls_tc" "" 1 B 3 b Decimal exact write Mpls oxm OXM_OF_MPLS_TC 35;
    MPLS_BOS "mpls_bos" "" 1 B 1 b Decimal exact read Mpls oxm OXM_OF_MPLS_BOS 36;
    MPLS_TTL "mpls_ttl" "" 1 B 8 b Decimal exact write Mpls nxm NXM_NX_MPLS_TTL 30;
    IPV4_SRC "ip_src" "nw_src" 4 B 32 b Ipv4 masks write Ipv4 nxm NXM_OF_IP_SRC 7 oxm OXM_OF_IPV4_SRC 11;
    IPV4_DST "ip_dst" "nw_dst" 4 B 32 b Ipv4 masks write Ipv4 nxm NXM_OF_IP_DST 8 oxm OXM_OF_IPV4_DST 12;
    IPV6_SRC "ipv6_src" "" 16 B 128 b Ipv6 masks write Ipv6 nxm NXM_NX_IPV6_SRC 19 oxm OXM_OF_IPV6_SRC 26;
    IPV6_DST "ipv6_dst" "" 16 B 128 b Ipv6 masks write Ipv6 nxm NXM_NX_IPV6_DST 20 oxm OXM_OF_IPV6_DST 27;
    IPV6_LABEL "ipv6_label" "" 4 B 20 b Hexadecimal masks write Ipv6 nxm NXM_NX_IPV6_LABEL 27 oxm OXM_OF_IPV6_FLABEL 28;
    IP_PROTO "nw_proto" "ip_proto" 1 B 8 b Decimal exact read Ip nxm NXM_OF_IP_PROTO 6 oxm OXM_OF_IP_PROTO 10;
    IP_TOS "nw_tos" "" 1 B 8 b Decimal exact write Ip nxm NXM_OF_IP_TOS 5;
    IP_DSCP "ip_dscp" "" 1 B 6 b Decimal exact write Ip oxm OXM_OF_IP_DSCP 8;
    IP_ECN "nw_ecn" "ip_ecn" 1 B 2 b Decimal exact write Ip nxm NXM_NX_IP_ECN 28 oxm OXM_OF_IP_ECN 9;
    IP_TTL "nw_ttl" "" 1 B 8 b Decimal exact write Ip nxm NXM_NX_IP_TTL 29;
    IP_FRAG "ip_frag" "nw_frag" 1 B 2 b Fragment masks read Ip nxm NXM_NX_IP_FRAG 26;
    ARP_OP "arp_op" "" 2 B 16 b Decimal exact write Arp nxm NXM_OF_ARP_OP 15 oxm OXM_OF_ARP_OP 21;
    ARP_SPA "arp_spa" "" 4 B 32 b Ipv4 masks write Arp nxm NXM_OF_ARP_SPA 16 oxm OXM_OF_ARP_SPA 22;
    ARP_TPA "arp_tpa" "" 4 B 32 b Ipv4 masks write Arp nxm NXM_OF_ARP_TPA 17 oxm OXM_OF_ARP_TPA 23;
    ARP_SHA "arp_sha" "" 6 B 48 b Ethernet masks write Arp nxm NXM_NX_ARP_SHA 17 oxm OXM_OF_ARP_SHA 24;
    ARP_THA "arp_tha" "" 6 B 48 b Ethernet masks write Arp nxm NXM_NX_ARP_THA 18 oxm OXM_OF_ARP_THA 25;
    NSH_FLAGS "nsh_flags" "" 1 B 8 b Decimal masks write Nsh nxm NXOXM_NSH_FLAGS 1;
    NSH_TTL "nsh_ttl" "" 1 B 8 b Decimal exact write Nsh nxm NXOXM_NSH_TTL 10;
    NSH_MDTYPE "nsh_mdtype" "" 1 B 8 b Decimal exact read Nsh nxm NXOXM_NSH_MDTYPE 2;
    NSH_NP "nsh_np" "" 1 B 8 b Decimal exact read Nsh nxm NXOXM_NSH_NP 3;
    NSH_SPI "nsh_spi" "nsp" 4 B 24 b Hexadecimal exact write Nsh nxm NXOXM_NSH_SPI 4;
    NSH_SI "nsh_si" "nsi" 1 B 8 b Decimal exact write Nsh nxm NXOXM_NSH_SI 5;
    NSH_C1 "nsh_c1" "nshc1" 4 B 32 b Hexadecimal masks write Nsh nxm NXOXM_NSH_C1 6;
    NSH_C2 "nsh_c2" "nshc2" 4 B 32 b Hexadecimal masks write Nsh nxm NXOXM_NSH_C2 7;
    NSH_C3 "nsh_c3" "nshc3" 4 B 32 b Hexadecimal masks write Nsh nxm NXOXM_NSH_C3 8;
    NSH_C4 "nsh_c4" "nshc4" 4 B 32 b Hexadecimal masks write Nsh nxm NXOXM_NSH_C4 9;
    TCP_SRC "tcp_src" "" 2 B 16 b Decimal masks write Tcp nxm NXM_OF_TCP_SRC 9 oxm OXM_OF_TCP_SRC 13;
    TCP_DST "tcp_dst" "" 2 B 16 b Decimal masks write Tcp nxm NXM_OF_TCP_DST 10 oxm OXM_OF_TCP_DST 14;
    TCP_FLAGS "tcp_flags" "" 2 B 12 b TcpFlags masks read Tcp nxm NXM_NX_TCP_FLAGS 34 oxm OXM_OF_TCP_FLAGS 42;
    UDP_SRC "udp_src" "" 2 B 16 b Decimal masks write Udp nxm NXM_OF_UDP_SRC 11 oxm OXM_OF_UDP_SRC 15;
    UDP_DST "udp_dst" "" 2 B 16 b Decimal masks write Udp nxm NXM_OF_UDP_DST 12 oxm OXM_OF_UDP_DST 16;
    SCTP_SRC "sctp_src" "" 2 B 16 b Decimal masks write Sctp oxm OXM_OF_SCTP_SRC 17;
    SCTP_DST "sctp_dst" "" 2 B 16 b Decimal masks write Sctp oxm OXM_OF_SCTP_DST 18;
    ICMP_TYPE "icmp_type" "icmpv4_type" 1 B 8 b Decimal exact write Icmp nxm NXM_OF_ICMP_TYPE 13 oxm OXM_OF_ICMPV4_TYPE 19;
    ICMP_CODE "icmp_code" "icmpv4_code" 1 B 8 b Decimal exact write Icmp nxm NXM_OF_ICMP_CODE 14 oxm OXM_OF_ICMPV4_CODE 20;
    ICMPV6_TYPE "icmpv6_type" "" 1 B 8 b Decimal exact write Icmpv6 nxm NXM_NX_ICMPV6_TYPE 21 oxm OXM_OF_ICMPV6_TYPE 29;
    ICMPV6_CODE "icmpv6_code" "" 1 B 8 b Decimal exact write Icmpv6 nxm NXM_NX_ICMPV6_CODE 22 oxm OXM_OF_ICMPV6_CODE 30;
    ND_TARGET "nd_target" "" 16 B 128 b Ipv6 masks write Nd nxm NXM_NX_ND_TARGET 23 oxm OXM_OF_IPV6_ND_TARGET 31;
    ND_SLL "nd_sll" "" 6 B 48 b Ethernet masks write NdSolicit nxm NXM_NX_ND_SLL 24 oxm OXM_OF_IPV6_ND_SLL 32;
    ND_TLL "nd_tll" "" 6 B 48 b Ethernet masks write NdAdvert nxm NXM_NX_ND_TLL 25 oxm OXM_OF_IPV6_ND_TLL 33;
    ND_RESERVED "nd_reserved" "" 4 B 32 b Decimal exact write Nd nxm ERICOXM_OF_ICMPV6_ND_RESERVED 1;
    ND_OPTIONS_TYPE "nd_options_type" "" 1 B 8 b Decimal exact write Nd nxm ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE 2;
    CT_NW_SRC "ct_nw_src" "" 4 B 32 b Ipv4 masks read TrackedIpv4 nxm NXM_NX_CT_NW_SRC 120;
    CT_NW_DST "ct_nw_dst" "" 4 B 32 b Ipv4 masks read TrackedIpv4 nxm NXM_NX_CT_NW_DST 121;
    CT_IPV6_SRC "ct_ipv6_src" "" 16 B 128 b Ipv6 masks read TrackedIpv6 nxm NXM_NX_CT_IPV6_SRC 122;
    CT_IPV6_DST "ct_ipv6_dst" "" 16 B 128 b Ipv6 masks read TrackedIpv6 nxm NXM_NX_CT_IPV6_DST 123;
    CT_NW_PROTO "ct_nw_proto" "" 1 B 8 b Decimal exact read Tracked nxm NXM_NX_CT_NW_PROTO 119;
    CT_TP_SRC "ct_tp_src" "" 2 B 16 b Decimal masks read Tracked nxm NXM_NX_CT_TP_SRC 124;
    CT_TP_DST "ct_tp_dst" "" 2 B 16 b Decimal masks read Tracked nxm NXM_NX_CT_TP_DST 125;
}

/// The names of a numbered field: `(ovs-fields(7) name, OXM name)` for each number.
macro_rules! numbered {
    ($name:literal $code:literal: $($n:literal)*) => {
        [$((concat!($name, $n), concat!($code, $n))),*]
    };
}

const REGS: [(&str, &str); 16] =
    numbered!("reg" "NXM_NX_REG": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
const XREGS: [(&str, &str); 8] = numbered!("xreg" "OXM_OF_PKT_REG": 0 1 2 3 4 5 6 7);
const XXREGS: [(&str, &str); 4] = numbered!("xxreg" "NXM_NX_XXREG": 0 1 2 3);
const TUN_METADATA: [(&str, &str); 64] = numbered!("tun_metadata" "NXM_NX_TUN_METADATA":
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);

/// A row of a numbered field: always writable, maskable, hexadecimal, without prerequisites.
const fn numbered(names: (&'static str, &'static str), bytes: u8, number: u8) -> FieldInfo {
    let code = Some(code(names.1, number));
    let is_oxm = bytes == 8;
    FieldInfo {
        name: names.0,
        alias: "",
        bytes,
        bits: bytes as u16 * 8,
        maskable: true,
        writable: true,
        format: Format::Hexadecimal,
        needs: Needs::None,
        nxm: if is_oxm { None } else { code },
        oxm: if is_oxm { code } else { None },
    }
}

/// All fields, by index.
#[allow(clippy::cast_possible_truncation, reason = "every count is below 65")]
pub(super) static FIELDS: [FieldInfo; COUNT] = {
    let mut all = [SCALARS[0]; COUNT];
    let mut i = 0;
    while i < 64 {
        if i < REGS.len() {
            all[REGS_AT as usize + i] = numbered(REGS[i], 4, i as u8);
        }
        if i < XREGS.len() {
            all[XREGS_AT as usize + i] = numbered(XREGS[i], 8, i as u8);
        }
        if i < XXREGS.len() {
            all[XXREGS_AT as usize + i] = numbered(XXREGS[i], 16, 111 + i as u8);
        }
        all[TUN_METADATA_AT as usize + i] = numbered(TUN_METADATA[i], 124, 40 + i as u8);
        i += 1;
    }
    let mut i = 0;
    while i < SCALARS.len() {
        all[SCALARS_AT as usize + i] = SCALARS[i];
        i += 1;
    }
    all
};
