//! Tracked connections as `dpctl/dump-conntrack` prints them, and which of them
//! `dpctl/flush-conntrack` is to forget (ovs-vswitchd(8), "CONNECTION TRACKING TABLE COMMANDS").

use std::net::IpAddr;
use std::str::FromStr;

use super::TextError;

const COMMAND: &str = "dpctl/dump-conntrack";

/// A tracked connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The IP protocol number.
    pub protocol: u8,
    /// The packets that opened it.
    pub orig: Tuple,
    /// The packets that answer.
    pub reply: Tuple,
    /// Its zone.
    pub zone: u16,
    /// Its mark.
    pub mark: u32,
    /// Its labels.
    pub labels: u128,
    /// The state of its protocol, such as `ESTABLISHED`.
    pub state: Option<String>,
    /// Seconds it has left, if they were asked for.
    pub timeout: Option<u32>,
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// From.
    pub src: IpAddr,
    /// To.
    pub dst: IpAddr,
    /// Ports, or what ICMP has in their place.
    pub transport: Transport,
    /// What came this way, if the tracker counts it: Linux' does if it is told to, Open vSwitch's own
    /// does not.
    pub counted: Option<Counted>,
}

/// What came one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What tells connections between two addresses apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP, UDP, SCTP and whatever else has ports.
    Ports {
        /// From.
        src: u16,
        /// To.
        dst: u16,
    },
    /// ICMP and ICMPv6.
    Icmp {
        /// The identifier.
        id: u16,
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
    },
}

/// Which connections to forget: those that all given parts fit. Nothing given means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flush {
    /// The datapath, if there are several.
    pub datapath: Option<String>,
    /// In this zone.
    pub zone: Option<u16>,
    /// Opened by such packets, before address translation. Without a zone, in zone 0.
    pub orig: Option<TupleMatch>,
}

/// Parts of a [`Tuple`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TupleMatch {
    /// From.
    pub src: Option<IpAddr>,
    /// To.
    pub dst: Option<IpAddr>,
    /// The IP protocol number.
    pub protocol: Option<u8>,
    /// Ports, or what ICMP has in their place.
    pub transport: Option<Transport>,
}

/// The names that Open vSwitch has for protocols.
const PROTOCOLS: [(&str, u8); 8] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("icmpv6", 58),
    ("sctp", 132),
    ("udplite", 136),
];

/// Reads the whole text.
pub fn parse_connections(text: &str) -> Result<Vec<Connection>, TextError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| Line { number: number + 1, line }.connection()).collect()
}

struct Line<'a> {
    number: usize,
    line: &'a str,
}

impl<'a> Line<'a> {
    fn wrong(&self, expected: &'static str) -> TextError {
        TextError::new(COMMAND, self.number, expected, self.line)
    }

    fn connection(&self) -> Result<Connection, TextError> {
        let (name, rest) = self.line.trim().split_once(',').unwrap_or((self.line, ""));
        let known = PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        let protocol =
            known.or_else(|| name.parse().ok()).ok_or_else(|| self.wrong("a protocol"))?;
        let members = self.members(rest)?;
        let get = |key: &str| members.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
        let tuple = |key, expected| {
            let text = get(key).ok_or_else(|| self.wrong(expected))?;
            self.tuple(text, expected)
        };
        let state = get("protoinfo").and_then(|info| {
            self.members(info)
                .ok()?
                .iter()
                .find(|(k, _)| *k == "state")
                .map(|(_, v)| (*v).to_owned())
        });
        Ok(Connection {
            protocol,
            orig: tuple("orig", "an original tuple")?,
            reply: tuple("reply", "a reply tuple")?,
            zone: self.number(get("zone"), "a zone")?.unwrap_or(0),
            mark: self.number(get("mark"), "a mark")?.unwrap_or(0),
            labels: get("labels")
                .map_or(Ok(0), |hex| {
                    u128::from_str_radix(hex.strip_prefix("0x").unwrap_or(hex), 16)
                })
                .map_err(|_| self.wrong("labels in hex"))?,
            state,
            timeout: self.number(get("timeout"), "a timeout")?,
        })
    }

    fn tuple(&self, text: &'a str, expected: &'static str) -> Result<Tuple, TextError> {
        let members = self.members(text)?;
        let get = |key: &str| members.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
        let required = |key| self.number(get(key), expected)?.ok_or_else(|| self.wrong(expected));
        let address = |key| self.number(get(key), expected)?.ok_or_else(|| self.wrong(expected));
        let octet = |key| self.number(get(key), expected)?.ok_or_else(|| self.wrong(expected));
        let transport = if get("type").is_some() {
            Transport::Icmp { id: required("id")?, kind: octet("type")?, code: octet("code")? }
        } else {
            Transport::Ports { src: required("sport")?, dst: required("dport")? }
        };
        let packets = self.number(get("packets"), "a number of packets")?;
        let bytes = self.number(get("bytes"), "a number of bytes")?;
        let counted = packets.zip(bytes).map(|(packets, bytes)| Counted { packets, bytes });
        Ok(Tuple { src: address("src")?, dst: address("dst")?, transport, counted })
    }

    fn number<T: FromStr>(
        &self,
        text: Option<&str>,
        expected: &'static str,
    ) -> Result<Option<T>, TextError> {
        text.map(|text| text.parse().map_err(|_| self.wrong(expected))).transpose()
    }

    /// `key=value` and `key=(…)`, separated by commas; parentheses do not nest deeper than one.
    fn members(&self, text: &'a str) -> Result<Vec<(&'a str, &'a str)>, TextError> {
        let mut members = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let word_end = rest.find([',', '=']).unwrap_or(rest.len());
            let key = &rest[..word_end];
            let Some(after) = rest[word_end..].strip_prefix('=') else {
                rest = rest[word_end..].trim_start_matches(',');
                continue;
            };
            let (value, tail) = match after.strip_prefix('(') {
                Some(inner) => inner.split_once(')').ok_or_else(|| self.wrong("')'"))?,
                None => after.split_at(after.find(',').unwrap_or(after.len())),
            };
            members.push((key, value));
            rest = tail.trim_start_matches(',');
        }
        Ok(members)
    }
}

// === impl Flush ===

impl Flush {
    /// Everything in a zone.
    pub fn zone(zone: u16) -> Self {
        Self { zone: Some(zone), ..Self::default() }
    }

    /// Exactly one connection.
    pub fn connection(connection: &Connection) -> Self {
        let orig = &connection.orig;
        Self {
            datapath: None,
            zone: Some(connection.zone),
            orig: Some(TupleMatch {
                src: Some(orig.src),
                dst: Some(orig.dst),
                protocol: Some(connection.protocol),
                transport: Some(orig.transport),
            }),
        }
    }

    /// The command's arguments.
    pub fn arguments(&self) -> Vec<String> {
        let zone = self.zone.map(|zone| format!("zone={zone}"));
        let orig = self.orig.as_ref().map(TupleMatch::text);
        self.datapath.clone().into_iter().chain(zone).chain(orig).collect()
    }
}

impl TupleMatch {
    fn text(&self) -> String {
        let mut fields = Vec::new();
        for (address, end) in [(self.src, "src"), (self.dst, "dst")] {
            match address {
                Some(IpAddr::V4(v4)) => fields.push(format!("ct_nw_{end}={v4}")),
                Some(IpAddr::V6(v6)) => fields.push(format!("ct_ipv6_{end}={v6}")),
                None => {}
            }
        }
        fields.extend(self.protocol.map(|protocol| format!("ct_nw_proto={protocol}")));
        match self.transport {
            Some(Transport::Ports { src, dst }) => {
                fields.push(format!("ct_tp_src={src},ct_tp_dst={dst}"));
            }
            Some(Transport::Icmp { id, kind, code }) => {
                fields.push(format!("icmp_type={kind},icmp_code={code},icmp_id={id}"));
            }
            None => {}
        }
        fields.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "\
tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=40000,dport=80),reply=(src=10.0.0.3,dst=10.0.0.1,sport=8080,dport=40000),zone=5,timeout=86399,mark=7,labels=0x1000000000000000000000000000000a,protoinfo=(state=ESTABLISHED)
icmpv6,orig=(src=fe80::1,dst=fe80::2,id=9,type=128,code=0),reply=(src=fe80::2,dst=fe80::1,id=9,type=129,code=0)
47,orig=(src=10.0.0.1,dst=10.0.0.2,sport=0,dport=0),reply=(src=10.0.0.2,dst=10.0.0.1,sport=0,dport=0)
";

    #[test]
    fn lines_become_connections() {
        let found = parse_connections(DUMP).unwrap();
        assert_eq!(found.len(), 3);
        let tcp = &found[0];
        assert_eq!((tcp.protocol, tcp.zone, tcp.mark, tcp.timeout), (6, 5, 7, Some(86399)));
        assert_eq!(tcp.labels, 0x1000_0000_0000_0000_0000_0000_0000_000a);
        assert_eq!(tcp.state.as_deref(), Some("ESTABLISHED"));
        assert_eq!(tcp.reply.transport, Transport::Ports { src: 8080, dst: 40000 });
        assert_eq!(found[1].orig.transport, Transport::Icmp { id: 9, kind: 128, code: 0 });
        assert_eq!(found[2].protocol, 47);
        assert_eq!(
            Flush::connection(tcp).arguments(),
            [
                "zone=5",
                "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=6,ct_tp_src=40000,ct_tp_dst=80"
            ]
        );
        assert!(Flush::default().arguments().is_empty());
    }

    /// As `dpctl/dump-conntrack -s` prints them where the kernel's tracker counts.
    #[test]
    fn what_was_counted_is_read() {
        let line = "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=53,packets=2,bytes=120),\
                    reply=(src=10.0.0.2,dst=10.0.0.1,sport=53,dport=1,packets=1,bytes=300),zone=2";
        let found = parse_connections(line).unwrap();
        assert_eq!(found[0].orig.counted, Some(Counted { packets: 2, bytes: 120 }));
        assert_eq!(found[0].reply.counted, Some(Counted { packets: 1, bytes: 300 }));
    }

    #[test]
    fn what_is_not_a_connection() {
        for (text, expected) in [
            ("what,orig=()", "a protocol"),
            ("tcp", "an original tuple"),
            ("tcp,orig=(src=1.2.3.4", "')'"),
            ("tcp,orig=(src=1.2.3.4,dst=1.2.3.4,sport=1)", "an original tuple"),
            ("tcp,orig=(src=x,dst=1.2.3.4,sport=1,dport=2)", "an original tuple"),
            (
                "udp,orig=(src=1.2.3.4,dst=1.2.3.4,sport=1,dport=2),reply=(src=1.2.3.4,dst=1.2.3.4,sport=1,dport=2),zone=70000",
                "a zone",
            ),
        ] {
            let error = parse_connections(text).unwrap_err();
            assert_eq!((error.line, error.expected), (1, expected), "{text}");
        }
    }
}
