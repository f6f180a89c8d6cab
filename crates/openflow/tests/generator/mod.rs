//! Random flows over every field and action, valid by Open vSwitch's rules of consistency.
//!
//! A seed gives the same flows on every machine, so a failure names its seed and index.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::must_use_candidate,
    clippy::single_match_else,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "random numbers are cut on purpose, and only tests read this"
)]

use osier_openflow::action::{
    Action, Alg, Controller, Ct, Learn, LearnDst, LearnFlags, LearnSpec, LearnSrc, Nat, NatKind,
    NatRange, PacketInReason, SetField, Zone,
};
use osier_openflow::field::{Field, Format, IntoValue, Needs, Value};
use osier_openflow::flow::{Flow, FlowFlags};
use osier_openflow::group::{Bucket, Group, GroupType, SelectField, Selection};
use osier_openflow::instruction::Instructions;
use osier_openflow::matching::Match;
use osier_openflow::meter::{BandKind, Meter, MeterBand, MeterFlags};
use osier_openflow::port_no::PortNo;
use osier_openflow::subfield::Subfield;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// SplitMix64: small, and good enough to reach every branch.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()].clone()
    }

    pub fn u8(&mut self) -> u8 {
        self.next() as u8
    }

    pub fn u16(&mut self) -> u16 {
        // Small numbers and the ends are where bugs are.
        match self.below(4) {
            0 => self.below(10) as u16,
            1 => u16::MAX,
            _ => self.next() as u16,
        }
    }

    pub fn u32(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(10) as u32,
            1 => u32::MAX - self.below(300) as u32,
            _ => self.next() as u32,
        }
    }

    pub fn u128(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.u8()).collect()
    }

    /// A value of up to `bits` bits, often a short one.
    pub fn bits(&mut self, bits: u16) -> u128 {
        let v = match self.below(5) {
            0 => 0,
            1 => u128::from(self.below(16)),
            2 => u128::MAX,
            _ => self.u128(),
        };
        if bits >= 128 { v } else { v & ((1 << bits) - 1) }
    }
}

/// What the flow is about; fields and actions must agree with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Other(u16),
    Ip { v6: bool, proto: Option<u8> },
    Nd { advert: bool },
    Arp,
    Mpls,
    Nsh,
    Raw { eth_type: u16 },
}

fn kind(rng: &mut Rng) -> Kind {
    let proto = |rng: &mut Rng, v6: bool| {
        let icmp = if v6 { 58 } else { 1 };
        let other = 20 + rng.below(20) as u8;
        rng.pick(&[None, Some(6), Some(17), Some(132), Some(icmp), Some(other)])
    };
    match rng.below(16) {
        0 => Kind::Any,
        1 => {
            let eth_type = rng.pick(&[0x88cc, 0x1234, 0x05ff, 0x8848, 0x8035]);
            if eth_type == 0x8848 { Kind::Mpls } else { Kind::Other(eth_type) }
        }
        2..=5 => Kind::Ip { v6: false, proto: proto(rng, false) },
        6..=9 => Kind::Ip { v6: true, proto: proto(rng, true) },
        10 | 11 => Kind::Nd { advert: rng.chance(50) },
        12 => Kind::Arp,
        13 => Kind::Mpls,
        14 => Kind::Nsh,
        _ => Kind::Raw { eth_type: rng.pick(&[0x0800, 0x86dd]) },
    }
}

/// The match that makes `kind` so.
fn base(kind: Kind) -> Match {
    let b = Match::builder();
    let b = match kind {
        Kind::Any => b,
        Kind::Other(t) => b.eq(Field::ETH_TYPE, t),
        Kind::Ip { v6, proto } => {
            let b = b.eq(Field::ETH_TYPE, if v6 { 0x86dd_u16 } else { 0x0800 });
            match proto {
                Some(p) => b.eq(Field::IP_PROTO, p),
                None => b,
            }
        }
        Kind::Nd { advert } => b
            .eq(Field::ETH_TYPE, 0x86dd_u16)
            .eq(Field::IP_PROTO, 58_u8)
            .eq(Field::ICMPV6_TYPE, if advert { 136_u8 } else { 135 })
            .eq(Field::ICMPV6_CODE, 0_u8),
        Kind::Arp => b.eq(Field::ETH_TYPE, 0x0806_u16),
        Kind::Mpls => b.eq(Field::ETH_TYPE, 0x8847_u16),
        Kind::Nsh => b.eq(Field::ETH_TYPE, 0x894f_u16),
        Kind::Raw { eth_type } => b.eq(Field::PACKET_TYPE, 0x1_0000_u32 | u32::from(eth_type)),
    };
    b.build().expect("a base match is valid")
}

fn met(m: &Match, field: Field) -> bool {
    field.needs().met_by(&|f| m.get_u128(f))
}

/// What the other side of a test can take.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// Tunnel metadata fields, with the sizes of their options.
    pub tun_metadata: &'static [(u8, usize)],
    /// Whether to match fields that `ovs-ofctl` does not print.
    pub unprinted: bool,
}

impl Scope {
    fn allows(self, field: Field) -> bool {
        let hidden = ["nsh_", "tun_erspan", "tun_gtpu"];
        self.unprinted || !hidden.iter().any(|name| field.name().starts_with(name))
    }
}

/// Fields that a random match may not name: the switch treats them apart.
fn left_out(field: Field, kind: Kind) -> bool {
    let raw = matches!(kind, Kind::Raw { .. });
    matches!(field, Field::PACKET_TYPE | Field::ACTSET_OUTPUT)
        || (raw && field.needs() == Needs::Ethernet)
        || (raw && field == Field::ETH_TYPE)
}

/// A match over random fields. `tun_metadata` only where the switch knows the option's size.
pub fn matching(rng: &mut Rng, scope: Scope) -> Match {
    let (m, _) = matching_of(rng, scope);
    m
}

fn matching_of(rng: &mut Rng, scope: Scope) -> (Match, Kind) {
    let kind = kind(rng);
    let mut m = base(kind);
    let fields: Vec<Field> = Field::all().collect();
    if rng.chance(20) {
        // State first: the tuple of a connection needs a valid one.
        let (value, mask) = rng.pick(&[(0x21, 0x21), (0x2a, 0x3f), (0x20, 0x30), (0x02, 0xff)]);
        m.insert(
            Field::CT_STATE,
            &value_of(Field::CT_STATE, value),
            Some(&value_of(Field::CT_STATE, mask)),
        )
        .expect("ct_state");
    }
    if rng.chance(15) && !matches!(kind, Kind::Raw { .. }) {
        let _ = m.insert(
            Field::VLAN_VID,
            &value_of(Field::VLAN_VID, 0x1000 | u128::from(rng.below(4096))),
            None,
        );
    }
    for _ in 0..rng.below(9) {
        let field = rng.pick(&fields);
        if left_out(field, kind)
            || !scope.allows(field)
            || !met(&m, field)
            || m.get(field).is_some()
        {
            continue;
        }
        if field.is_tun_metadata() {
            if let Some(&(n, size)) = pick_some(rng, scope.tun_metadata) {
                add_tun_metadata(rng, &mut m, Field::tun_metadata(n), size);
            }
            continue;
        }
        let (value, mask) = value_and_mask(rng, field);
        let before = m.clone();
        // Wide registers may meet single ones, and a later fragment has no ports.
        if m.insert(field, &value, mask.as_ref()).is_err() || m.check_prerequisites().is_err() {
            m = before;
        }
    }
    // Ports of a connection are shown behind its protocol only.
    if (m.get(Field::CT_TP_SRC).is_some() || m.get(Field::CT_TP_DST).is_some())
        && m.get(Field::CT_NW_PROTO).is_none()
    {
        m.insert(Field::CT_NW_PROTO, &value_of(Field::CT_NW_PROTO, 6), None).expect("ct_nw_proto");
    }
    m.check_prerequisites().expect("the generator keeps prerequisites");
    (m, kind)
}

fn pick_some<'a, T>(rng: &mut Rng, from: &'a [T]) -> Option<&'a T> {
    match from.len() {
        0 => None,
        n => from.get(usize::try_from(rng.below(n as u64)).unwrap()),
    }
}

fn add_tun_metadata(rng: &mut Rng, m: &mut Match, field: Field, size: usize) {
    let value = Value::from_bytes(&rng.bytes(size));
    let mask = match rng.below(3) {
        0 => Some(Value::from_bytes(&rng.bytes(size))),
        1 if rng.chance(30) => Some(Value::from_bytes(&[])),
        _ => None,
    };
    let value = if mask.as_ref().is_some_and(|m| m.as_bytes().is_empty()) {
        Value::from_bytes(&[])
    } else {
        value
    };
    let _ = m.insert(field, &value, mask.as_ref());
}

fn value_of(field: Field, v: u128) -> Value {
    v.into_value(field).expect("the value fits")
}

fn valid(field: Field, v: u128) -> u128 {
    let bits = match field {
        Field::CT_STATE => 8,
        _ => field.bits(),
    };
    if bits >= 128 { v } else { v & ((1 << bits) - 1) }
}

fn value_and_mask(rng: &mut Rng, field: Field) -> (Value, Option<Value>) {
    let v = valid(field, rng.bits(field.bits()));
    let v = match field {
        Field::IN_PORT => u128::from(rng.pick(&[1_u32, 7, 0xfefe, 0xffff_fffe])),
        Field::IN_PORT_NXM => u128::from(rng.pick(&[1_u16, 7, 0xfeff, 0xfffe])),
        Field::VLAN_VID | Field::VLAN_TCI => v | 0x1000,
        Field::IP_TOS => v & 0xfc,
        Field::ARP_OP => v & 0xff,
        Field::NSH_TTL => v & 0x3f,
        // Open vSwitch 3.1 forgets a protocol of zero.
        Field::CT_NW_PROTO => v.max(1),
        // A switch refuses to commit what it knows to be invalid.
        Field::CT_STATE => v & !0x10,
        Field::IP_FRAG => return fragment(rng),
        Field::ETH_TYPE => u128::from(rng.pick(&[0x88cc_u16, 0x1234])),
        Field::TUN_FLAGS => return (value_of(field, v & 1), Some(value_of(field, 1))),
        Field::TCP_FLAGS => v & 0x1ff,
        _ => v,
    };
    if !field.maskable() || rng.chance(50) {
        return (value_of(field, v), None);
    }
    let mask = valid(field, mask(rng, field));
    let mask = match field {
        Field::VLAN_TCI => 0x1fff,
        Field::TCP_FLAGS => mask & 0x1ff,
        // Of ERSPAN and GTP-U `ovs-ofctl` shows no masks.
        f if f.name().contains("erspan") || f.name().contains("gtpu") => valid(f, u128::MAX),
        Field::TUN_GBP_FLAGS => 0xff,
        // `ovs-ofctl` takes an IPv6 mask that starts with a decimal digit for a prefix length.
        f if f.format() == Format::Ipv6 => mask | 0xf << 124,
        _ => mask,
    };
    (value_of(field, v), Some(value_of(field, mask)))
}

fn fragment(rng: &mut Rng) -> (Value, Option<Value>) {
    let (v, m) = rng.pick(&[(0, 3), (1, 1), (1, 3), (3, 3), (0, 2)]);
    (value_of(Field::IP_FRAG, v), Some(value_of(Field::IP_FRAG, m)))
}

/// Prefixes as often as any bits.
fn mask(rng: &mut Rng, field: Field) -> u128 {
    let bits = u64::from(field.bits().min(128));
    match rng.below(3) {
        0 => {
            let len = rng.below(bits + 1);
            let all = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
            all & !(all.checked_shr(u32::try_from(len).unwrap()).unwrap_or(0))
        }
        1 => 1 << rng.below(bits),
        _ => rng.u128(),
    }
}

/// A flow over random fields and actions.
pub fn flow(rng: &mut Rng, scope: Scope) -> Flow {
    let (matching, kind) = matching_of(rng, scope);
    let table = rng.below(250) as u8;
    let flags = rng.pick(&[FlowFlags::empty(), FlowFlags::empty(), FlowFlags::SEND_FLOW_REM]);
    let instructions = Actions { rng, m: &matching, kind, scope }.instructions(table);
    Flow {
        table,
        priority: rng.u16(),
        matching,
        cookie: if rng.chance(50) { 0 } else { rng.next().max(1) & !(1 << 63) },
        idle_timeout: if rng.chance(80) { 0 } else { rng.u16() },
        hard_timeout: if rng.chance(80) { 0 } else { rng.u16() },
        importance: if rng.chance(90) { 0 } else { rng.u16() },
        flags,
        instructions,
    }
}

/// A group of random buckets.
pub fn group(rng: &mut Rng, id: u32, scope: Scope) -> Group {
    let kind = rng.pick(&[
        GroupType::All,
        GroupType::Select,
        GroupType::Select,
        GroupType::Indirect,
        GroupType::FastFailover,
    ]);
    let count = if kind == GroupType::Indirect { 1 } else { rng.below(12) as u32 };
    let buckets = (0..count).map(|id| bucket(rng, id, kind, scope)).collect();
    let selection = (kind == GroupType::Select && rng.chance(60)).then(|| selection(rng));
    Group { id, kind, selection, buckets }
}

fn bucket(rng: &mut Rng, id: u32, kind: GroupType, scope: Scope) -> Bucket {
    let failover = kind == GroupType::FastFailover;
    let weight = if kind == GroupType::Select { rng.pick(&[1, 1, 0, 100, u16::MAX]) } else { 1 };
    let watch_port = failover.then(|| PortNo(1 + rng.below(100) as u32));
    let watch_group = (failover && rng.chance(30)).then(|| 1 + rng.below(100) as u32);
    // A bucket has no match of its own: what it may do is known to the flow that uses it.
    let ip = base(Kind::Ip { v6: false, proto: Some(6) });
    let mut maker = Actions { rng, m: &ip, kind: Kind::Ip { v6: false, proto: Some(6) }, scope };
    let count = maker.rng.below(4);
    let actions = (0..count).filter_map(|_| maker.action(0)).collect();
    Bucket { id, weight, watch_port, watch_group, actions }
}

fn selection(rng: &mut Rng) -> Selection {
    if rng.chance(50) {
        return Selection { method: "dp_hash".to_owned(), ..Selection::default() };
    }
    let mut fields = Vec::new();
    for field in [Field::ETH_SRC, Field::IPV4_SRC, Field::IPV4_DST, Field::IP_PROTO, Field::TCP_DST]
    {
        if rng.chance(50) {
            let all = valid(field, u128::MAX);
            let mask = if field.maskable() && rng.chance(40) {
                valid(field, rng.u128()).max(1)
            } else {
                all
            };
            fields.push(SelectField { field, mask: value_of(field, mask) });
        }
    }
    Selection { method: "hash".to_owned(), param: rng.below(9), fields }
}

/// A meter of random bands.
pub fn meter(rng: &mut Rng, id: u32) -> Meter {
    let mut flags = rng.pick(&[MeterFlags::KBPS, MeterFlags::PKTPS]);
    flags.set(MeterFlags::BURST, rng.chance(50));
    flags.set(MeterFlags::STATS, rng.chance(50));
    let burst = flags.contains(MeterFlags::BURST);
    let band = |rng: &mut Rng| MeterBand {
        rate: rng.u32().max(1),
        burst: if burst { rng.u32().max(1) } else { 0 },
        kind: match rng.chance(70) {
            true => BandKind::Drop,
            false => BandKind::DscpRemark { level: 1 + rng.below(3) as u8 },
        },
    };
    let bands = (0..=rng.below(3)).map(|_| band(rng)).collect();
    Meter { id, flags, bands }
}

/// Makes actions that agree with a match.
struct Actions<'a> {
    rng: &'a mut Rng,
    m: &'a Match,
    kind: Kind,
    scope: Scope,
}

impl Actions<'_> {
    fn instructions(&mut self, table: u8) -> Instructions {
        let mut i = Instructions::default();
        if self.rng.chance(10) {
            return i;
        }
        if self.rng.chance(5) {
            let clauses = 2 + self.rng.below(63) as u8;
            let n = 1 + self.rng.below(3);
            i.apply = (0..n)
                .map(|_| Action::Conjunction {
                    id: self.rng.u32(),
                    clause: 1 + self.rng.below(clauses.into()) as u8,
                    clauses,
                })
                .collect();
            return i;
        }
        if self.rng.chance(5) {
            i.apply.push(Action::Meter(1 + self.rng.below(1000) as u32));
        }
        for _ in 0..self.rng.below(6) {
            let action = self.action(0);
            i.apply.extend(action);
        }
        // What changes the packet's type comes last: later fields would not be there.
        if self.rng.chance(8) {
            i.apply.extend(self.retype());
        }
        i.clear = self.rng.chance(5);
        if self.rng.chance(5) {
            i.write = vec![
                Action::SetField(SetField::new(Field::METADATA, self.rng.next()).unwrap()),
                Action::output(1 + self.rng.below(100) as u32),
            ];
        }
        if self.rng.chance(10) {
            let mask = self.rng.pick(&[u64::MAX, 0xff, 0xffff_0000_0000_0000]);
            i.write_metadata = Some((self.rng.next() & mask, mask));
        }
        if self.rng.chance(20) {
            i.goto_table = Some(table + 1 + self.rng.below(u64::from(253 - table)) as u8);
        }
        i
    }

    fn tagged(&self) -> bool {
        self.m.get_u128(Field::VLAN_VID).is_some_and(|(v, m)| v & m & 0x1000 != 0)
    }

    fn retype(&mut self) -> Vec<Action> {
        let tagged = self.tagged();
        match self.kind {
            Kind::Raw { .. } => vec![],
            Kind::Mpls => vec![Action::PopMpls(self.rng.pick(&[0x0800, 0x86dd, 0x8847]))],
            _ if tagged => vec![Action::PopVlan],
            Kind::Ip { .. } if self.rng.chance(50) => {
                vec![Action::PushMpls(self.rng.pick(&[0x8847, 0x8848]))]
            }
            _ => vec![Action::PushVlan(self.rng.pick(&[0x8100, 0x88a8]))],
        }
    }

    fn action(&mut self, depth: usize) -> Option<Action> {
        let ip = matches!(self.kind, Kind::Ip { .. } | Kind::Nd { .. });
        let rng = &mut *self.rng;
        Some(match rng.below(31) {
            0 => Action::output(1 + rng.below(0xfefe) as u32),
            1 => Action::Output { port: PortNo::CONTROLLER, max_len: rng.u16() },
            2 => Action::output(rng.pick(&[
                PortNo::LOCAL,
                PortNo::IN_PORT,
                PortNo::NORMAL,
                PortNo::FLOOD,
                PortNo::ALL,
            ])),
            3 => Action::OutputTruncated {
                port: PortNo(1 + rng.below(1000) as u32),
                max_len: 14 + rng.below(9000) as u32,
            },
            4 => Action::OutputReg { src: self.readable(64)?, max_len: u16::MAX },
            5 => Action::Group(1 + rng.below(1000) as u32),
            6 => Action::SetQueue(rng.below(1000) as u32),
            7 => Action::PopQueue,
            8..=11 => Action::SetField(self.set_field()?),
            12 | 13 => {
                let (src, dst) = self.pair()?;
                Action::Move { src, dst }
            }
            14 => Action::Push(self.readable(1024)?),
            15 => Action::Pop(self.writable(1024)?),
            16 if ip => Action::SetTtl(rng.u8()),
            17 if ip => Action::DecTtl,
            18 if ip => Action::DecTtlControllers((0..=rng.below(4)).map(|_| rng.u16()).collect()),
            16..=18 if self.kind == Kind::Mpls => {
                rng.pick(&[Action::DecMplsTtl, Action::SetMplsTtl(9)])
            }
            19 | 20 => self.resubmit(),
            21 | 22 if ip => Action::Ct(Box::new(self.ct())),
            23 => Action::CtClear,
            24 => Action::Learn(Box::new(self.learn())),
            25 => self.controller(),
            26 if depth < 2 => {
                let n = 1 + self.rng.below(3);
                Action::Clone((0..n).filter_map(|_| self.action(depth + 1)).collect())
            }
            27 => Action::CheckPktLarger { len: rng.u16(), dst: self.bit()? },
            28 => {
                let n = rng.below(30);
                Action::note(&rng.bytes(usize::try_from(n).unwrap()))
            }
            29 => {
                let n = pick_some(rng, self.scope.tun_metadata)?.0;
                Action::DeleteField(Field::tun_metadata(n))
            }
            30 => match self.kind {
                Kind::Ip { proto: Some(6), .. } => {
                    Action::FinTimeout { idle: 1 + rng.below(9) as u16, hard: rng.below(9) as u16 }
                }
                _ => Action::Exit,
            },
            _ => return None,
        })
    }

    /// Fields that can be read here.
    fn fields(&self, writable: bool) -> Vec<Field> {
        Field::all()
            .filter(|f| !f.is_tun_metadata() && !left_out(*f, self.kind) && met(self.m, *f))
            .filter(|f| {
                !writable || (f.writable() && !matches!(*f, Field::CT_MARK | Field::CT_LABEL))
            })
            .filter(|f| {
                f.name() != "conj_id" && (!writable || *f != Field::VLAN_VID || self.tagged())
            })
            .collect()
    }

    fn subfield(&mut self, field: Field, max: u16) -> Option<Subfield> {
        let width = field.bits();
        if self.rng.chance(40) && width <= max {
            return Some(Subfield::whole(field));
        }
        let bits = 1 + self.rng.below(u64::from(width.min(max))) as u16;
        let offset = self.rng.below(u64::from(width - bits + 1)) as u16;
        Subfield::new(field, offset, bits).ok()
    }

    fn readable(&mut self, max: u16) -> Option<Subfield> {
        let fields = self.fields(false);
        let field = self.rng.pick(&fields);
        self.subfield(field, max)
    }

    fn writable(&mut self, max: u16) -> Option<Subfield> {
        let fields = self.fields(true);
        let field = self.rng.pick(&fields);
        self.subfield(field, max)
    }

    fn bit(&mut self) -> Option<Subfield> {
        let n = self.rng.below(16) as u8;
        Subfield::new(Field::reg(n), self.rng.below(32) as u16, 1).ok()
    }

    fn pair(&mut self) -> Option<(Subfield, Subfield)> {
        let src = self.readable(1024)?;
        let dst = self.writable(1024)?;
        let bits = src.bits().min(dst.bits());
        let cut = |s: Subfield| Subfield::new(s.field(), s.offset(), bits).ok();
        Some((cut(src)?, cut(dst)?))
    }

    fn set_field(&mut self) -> Option<SetField> {
        if let Some(&(n, size)) = pick_some(self.rng, self.scope.tun_metadata)
            && self.rng.chance(10)
        {
            let field = Field::tun_metadata(n);
            let value = Value::from_bytes(&self.rng.bytes(size));
            let mask = Value::from_bytes(&self.rng.bytes(size));
            return match self.rng.chance(50) {
                true => SetField::new(field, value).ok(),
                false => SetField::masked(field, value, mask).ok(),
            };
        }
        let fields = self.fields(true);
        let field = self.rng.pick(&fields);
        self.set_of(field)
    }

    fn set_of(&mut self, field: Field) -> Option<SetField> {
        if field == Field::VLAN_VID {
            // A switch takes it with "has a tag" set, whatever else is masked.
            return SetField::new(field, 0x1000 | self.rng.below(4096)).ok();
        }
        let (value, mask) = value_and_mask(self.rng, field);
        match mask.filter(|m| !m.is_zero()) {
            Some(mask) => SetField::masked(field, value, mask).ok(),
            None => SetField::new(field, value).ok(),
        }
    }

    fn resubmit(&mut self) -> Action {
        let tracked = Needs::Tracked.met_by(&|f| self.m.get_u128(f));
        let rng = &mut *self.rng;
        let port = rng.chance(40).then(|| PortNo(1 + rng.below(100) as u32));
        let table = (port.is_none() || rng.chance(50)).then(|| rng.below(254) as u8);
        Action::Resubmit { port, table, ct: tracked && table.is_some() && rng.chance(50) }
    }

    fn ct(&mut self) -> Ct {
        let commit = self.rng.chance(50);
        let zone = match self.rng.below(3) {
            0 => Zone::default(),
            1 => Zone::Value(self.rng.u16()),
            _ => {
                let n = self.rng.below(16) as u8;
                let at = self.rng.below(17) as u16;
                Zone::Field(Subfield::new(Field::reg(n), at, 16).unwrap())
            }
        };
        let mut exec = Vec::new();
        if commit {
            for _ in 0..self.rng.below(3) {
                let field = self.rng.pick(&[Field::CT_MARK, Field::CT_LABEL]);
                exec.extend(self.set_of(field).map(Action::SetField));
            }
            if self.rng.chance(20) {
                let src = Subfield::whole(Field::reg(self.rng.below(16) as u8));
                exec.push(Action::Move { src, dst: Subfield::whole(Field::CT_MARK) });
            }
        }
        let tcp = matches!(self.kind, Kind::Ip { proto: Some(6), .. });
        let udp = matches!(self.kind, Kind::Ip { proto: Some(17), .. });
        let nat = self.rng.chance(40).then(|| self.nat(commit));
        let alg = match self.rng.chance(20) {
            true if tcp => Some(Alg::Ftp),
            true if udp => Some(Alg::Tftp),
            _ => None,
        };
        let table = self.rng.chance(50).then(|| self.rng.below(254) as u8);
        Ct { commit, force: commit && self.rng.chance(20), zone, table, nat, exec, alg }
    }

    fn nat(&mut self, commit: bool) -> Nat {
        let v6 = matches!(self.kind, Kind::Ip { v6: true, .. } | Kind::Nd { .. });
        let with_ports = matches!(self.kind, Kind::Ip { proto: Some(6 | 17 | 132), .. });
        let rng = &mut *self.rng;
        if !commit || rng.chance(20) {
            return Nat::default();
        }
        let mut range = NatRange::default();
        if rng.chance(80) {
            let (lo, n) = (rng.next() >> 1, rng.below(1000) + 1);
            let (min, max): (IpAddr, IpAddr) = match v6 {
                true => {
                    let at = |v: u64| Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(v)).into();
                    (at(lo), at(lo + n))
                }
                false => {
                    let at = |v: u64| Ipv4Addr::from((v & 0x7fff_ffff) as u32 + 1).into();
                    let lo = lo & 0x3fff_ffff;
                    (at(lo), at(lo + n))
                }
            };
            range.addresses = Some((min, rng.chance(50).then_some(max)));
            if with_ports && rng.chance(50) {
                let first = 1 + rng.below(30000) as u16;
                range.ports =
                    Some((first, rng.chance(50).then_some(first + 1 + rng.below(30000) as u16)));
            }
        }
        let kind = Some(rng.pick(&[NatKind::Src, NatKind::Dst]));
        // The flags are about how to choose from a range.
        let choose = range.addresses.is_some();
        let how = if choose { rng.below(4) } else { 0 };
        Nat { kind, range, persistent: choose && rng.chance(30), hash: how == 1, random: how == 2 }
    }

    fn learn(&mut self) -> Learn {
        let mut specs = Vec::new();
        // Constants for what the learned match needs, then bits of this packet.
        for field in [Field::ETH_TYPE, Field::IP_PROTO] {
            if let Some((v, _)) = self.m.get_u128(field)
                && !matches!(self.kind, Kind::Raw { .. })
            {
                let src = LearnSrc::Value(value_of(field, v));
                specs.push(LearnSpec { src, dst: LearnDst::Match(Subfield::whole(field)) });
            }
        }
        let reg = Subfield::whole(Field::reg(self.rng.below(16) as u8));
        let mac = LearnDst::Match(Subfield::whole(Field::ETH_DST));
        if !matches!(self.kind, Kind::Raw { .. }) {
            specs.push(LearnSpec {
                src: LearnSrc::Field(Subfield::whole(Field::ETH_SRC)),
                dst: mac,
            });
        }
        if self.rng.chance(50) {
            specs.push(LearnSpec { src: LearnSrc::Field(reg), dst: LearnDst::Match(reg) });
        }
        if self.rng.chance(50) {
            let part = Subfield::new(Field::reg(3), 4, 9).unwrap();
            let value = Value::from_bytes(&self.rng.below(512).to_be_bytes()[6..]);
            specs.push(LearnSpec { src: LearnSrc::Value(value), dst: LearnDst::Match(part) });
        }
        if self.rng.chance(50) {
            let dst = Subfield::whole(Field::xreg(self.rng.below(8) as u8));
            let value = Value::from_bytes(&self.rng.next().to_be_bytes());
            specs.push(LearnSpec { src: LearnSrc::Value(value), dst: LearnDst::Load(dst) });
        }
        if self.rng.chance(50) {
            specs.push(LearnSpec {
                src: LearnSrc::Field(reg),
                dst: LearnDst::Load(Subfield::whole(Field::reg(5))),
            });
        }
        if self.rng.chance(50) {
            let src = LearnSrc::Field(Subfield::whole(Field::IN_PORT_NXM));
            specs.push(LearnSpec { src, dst: LearnDst::Output });
        }
        let result_dst = self.rng.chance(20).then(|| self.bit()).flatten();
        let rng = &mut *self.rng;
        Learn {
            idle_timeout: rng.u16(),
            hard_timeout: rng.below(3) as u16,
            priority: rng.u16(),
            cookie: rng.below(3),
            table: rng.below(254) as u8,
            flags: rng.pick(&[
                LearnFlags::empty(),
                LearnFlags::SEND_FLOW_REM,
                LearnFlags::all() - LearnFlags::WRITE_RESULT,
            ]),
            fin_idle_timeout: rng.below(3) as u16,
            fin_hard_timeout: rng.below(3) as u16,
            limit: rng.pick(&[0, 0, 77]),
            result_dst,
            specs,
        }
    }

    fn controller(&mut self) -> Action {
        let rng = &mut *self.rng;
        let n = rng.below(20);
        Controller {
            max_len: rng.u16(),
            id: rng.pick(&[0, 0, 9]),
            reason: rng.pick(&[
                PacketInReason::Action,
                PacketInReason::NoMatch,
                PacketInReason::InvalidTtl,
            ]),
            userdata: rng.bytes(usize::try_from(n).unwrap()),
            pause: rng.chance(30),
            meter: rng.chance(30).then(|| 1 + rng.below(100) as u32),
        }
        .into_action()
    }
}
