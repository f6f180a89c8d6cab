//! The pipeline, declared once: tables with their numbers, names, and what they do.
//!
//! Numbers are those of OpenDaylight Netvirt where a role is the same, so that its operators find
//! their way. Nobody writes a table's number elsewhere. Packets go forward by `goto_table` and
//! back by `resubmit`; both are free once a flow is in the datapath's cache.

use osier_openflow::text::TableNames;

/// What happens to a packet that no flow of a table matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// It is dropped.
    Drop,
    /// It goes on in another table.
    Continue(Table),
}

macro_rules! tables {
    ($($(#[doc = $doc:literal])* $table:ident = $number:literal $name:literal $miss:expr;)*) => {
        /// A table of the pipeline.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Table {
            $($(#[doc = $doc])* $table = $number,)*
        }

        impl Table {
            /// All tables, by number.
            pub const ALL: &[Self] = &[$(Self::$table,)*];

            /// Its name, as text and traces show it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$table => $name,)*
                }
            }

            /// What happens to what no flow matches.
            pub fn miss(self) -> Miss {
                match self {
                    $(Self::$table => $miss,)*
                }
            }

            /// What it is for.
            pub fn describe(self) -> &'static str {
                match self {
                    $(Self::$table => concat!($($doc),*).trim_ascii_start(),)*
                }
            }
        }
    };
}

tables! {
    /// Where a packet comes from: a port, the tunnel, the gateway.
    Ingress = 0 "ingress" Miss::Drop;
    /// What kind of packet it is: ARP, neighbour discovery, or one to forward.
    Dispatch = 17 "dispatch" Miss::Continue(Table::Track);
    /// What has to do with Services goes through the connection tracker: packets to their addresses,
    /// and what may be an answer of an endpoint. Nothing else does.
    Track = 18 "track" Miss::Continue(Table::GatewayMac);
    /// Whether it is to be routed: it is if it goes to the gateway's Ethernet address.
    GatewayMac = 19 "gateway-mac" Miss::Continue(Table::Forward);
    /// Where to, by address: ports, networks and nodes of its router.
    Route = 21 "route" Miss::Drop;
    /// Which Service a new connection is to, and by its group to which endpoint.
    Service = 24 "service" Miss::Continue(Table::Route);
    /// How fast a port begins connections that are tracked: gone through, and left again.
    Admission = 25 "admission" Miss::Drop;
    /// Which endpoint a client had before; learned, for Services that keep their clients.
    Affinity = 26 "affinity" Miss::Drop;
    /// To an endpoint of a Service that keeps its clients, which is learned.
    Endpoint = 27 "endpoint" Miss::Drop;
    /// What endpoints of Services answer, counted by Service where the fabric says so.
    Account = 28 "account" Miss::Continue(Table::GatewayMac);
    /// What came through the tunnel, by its key.
    TunnelIn = 36 "tunnel-in" Miss::Drop;
    /// ARP: requests are answered here, replies are forwarded.
    Arp = 43 "arp" Miss::Continue(Table::Forward);
    /// Neighbour discovery: solicitations go to whom they ask for, those for routers to the agent.
    Neighbour = 45 "neighbour" Miss::Continue(Table::Forward);
    /// Where to, by Ethernet address, inside of a network.
    Forward = 51 "forward" Miss::Continue(Table::Flood);
    /// To all of a network: broadcast and multicast.
    Flood = 52 "flood" Miss::Drop;
    /// One hop less to live, for what was routed here; what has none left goes to the agent.
    Hop = 80 "hop" Miss::Continue(Table::SenderGuard);
    /// Answers to ARP requests.
    ArpResponder = 81 "arp-responder" Miss::Continue(Table::Flood);
    /// Another source for who would not be answered through here otherwise: a port that reaches
    /// itself by a Service, or who comes from outside to an endpoint elsewhere.
    SourceNat = 84 "source-nat" Miss::Continue(Table::Egress);
    /// Only a port's own addresses may come from it.
    SpoofGuard = 210 "spoof-guard" Miss::Drop;
    /// Whether the port that it comes from is under policies, or sends to itself.
    SenderGuard = 211 "sender-guard" Miss::Continue(Table::ReceiverGuard);
    /// Whether the port that it goes to is under policies.
    ReceiverGuard = 212 "receiver-guard" Miss::Continue(Table::Connection);
    /// What policies have a say in goes through the connection tracker. Nothing else does.
    Connection = 213 "connection" Miss::Continue(Table::SourceNat);
    /// Connections that were judged before, with their answers, and those that nobody judges.
    Known = 214 "known" Miss::Continue(Table::EgressPolicy);
    /// Whether its sender may send it.
    EgressPolicy = 215 "egress-policy" Miss::Drop;
    /// Out: to a port, the gateway or the tunnel.
    Egress = 220 "egress" Miss::Drop;
    /// Into the tunnel, if it is not too large for it; else to the agent, which says so.
    TunnelOut = 221 "tunnel-out" Miss::Drop;
    /// Whether its receiver may receive it.
    IngressPolicy = 244 "ingress-policy" Miss::Drop;
    /// Remembers what was granted, and by which rules.
    Grant = 247 "grant" Miss::Drop;
}

// === impl Table ===

impl Table {
    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// The tables in which rules of policies are.
pub const POLICIES: [Table; 2] = [Table::EgressPolicy, Table::IngressPolicy];

/// The names of all tables, for text.
pub fn table_names() -> TableNames {
    Table::ALL.iter().map(|t| (t.number(), t.name())).collect()
}
