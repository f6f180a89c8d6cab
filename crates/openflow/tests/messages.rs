//! Round trips of random messages, and the limits of what can be encoded.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_openflow::action::{Action, PacketInReason};
use osier_openflow::field::{Field, Mac, Value};
use osier_openflow::flow::{Flow, FlowDesc, FlowMod, FlowStats};
use osier_openflow::group::*;
use osier_openflow::instruction::Instructions;
use osier_openflow::matching::Match;
use osier_openflow::message::*;
use osier_openflow::meter::*;
use osier_openflow::port::*;
use osier_openflow::port_no::PortNo;
use osier_openflow::wire::{EncodeError, Writer};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use std::net::IpAddr;
use std::time::Duration;

fn round_trip(message: &Message) -> Result<(), TestCaseError> {
    let mut w = Writer::new();
    message.encode(0x1234_5678, &mut w).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let decoded = Message::decode(w.as_slice());
    let (xid, decoded) = decoded.map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(xid, 0x1234_5678);
    prop_assert_eq!(&decoded, message);
    Ok(())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..100)
}

fn duration() -> impl Strategy<Value = Duration> {
    (any::<u32>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s.into(), n))
}

fn matching() -> impl Strategy<Value = Match> {
    (of(any::<u32>()), of(any::<u32>()), of(any::<u64>())).prop_map(|(port, reg, metadata)| {
        let mut m = Match::builder();
        if let Some(port) = port {
            m = m.eq(Field::IN_PORT, port);
        }
        if let Some(reg) = reg {
            m = m.eq(Field::reg(9), reg);
        }
        if let Some(metadata) = metadata {
            m = m.eq(Field::METADATA, metadata);
        }
        m.build().unwrap()
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0..0xffff_ff00_u32).prop_map(Action::output),
        any::<u32>().prop_map(Action::Group),
        (0..254_u8).prop_map(Action::resubmit),
        Just(Action::CtClear),
        bytes().prop_map(|note| Action::note(&note)),
    ]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    vec(action(), 0..4)
}

fn instructions() -> impl Strategy<Value = Instructions> {
    (actions(), of(any::<u8>()))
        .prop_map(|(apply, goto_table)| Instructions { goto_table, ..Instructions::from(apply) })
}

fn flow() -> impl Strategy<Value = Flow> {
    let numbers = (any::<u8>(), any::<u16>(), any::<u64>(), any::<[u16; 3]>());
    (numbers, matching(), instructions()).prop_map(
        |((table, priority, cookie, [idle_timeout, hard_timeout, importance]), matching, i)| Flow {
            table,
            priority,
            matching,
            cookie,
            idle_timeout,
            hard_timeout,
            importance,
            instructions: i,
            ..Flow::default()
        },
    )
}

fn flow_stats() -> impl Strategy<Value = FlowStats> {
    (of(duration()), of(duration()), of(any::<u32>()), of(any::<u64>()), of(any::<u64>())).prop_map(
        |(duration, idle, flows, packets, bytes)| FlowStats {
            duration,
            idle,
            flows,
            packets,
            bytes,
        },
    )
}

fn group() -> impl Strategy<Value = Group> {
    let kind = prop_oneof![
        Just(GroupType::All),
        Just(GroupType::Select),
        Just(GroupType::Indirect),
        Just(GroupType::FastFailover),
    ];
    let watch = (of(0..0xffff_ff00_u32), of(0..0xffff_ff00_u32));
    let bucket = (0..BUCKET_MAX, any::<u16>(), watch, actions());
    let mask = any::<[u8; 4]>().prop_map(|mask| Value::from_bytes(&mask));
    let field = mask.prop_map(|mask| SelectField { field: Field::IPV4_SRC, mask });
    let selection = ("[a-z_]{0,15}", any::<u64>(), vec(field, 0..2));
    (any::<u32>(), kind, of(selection), vec(bucket, 0..4)).prop_map(|(id, kind, s, buckets)| {
        let selection = s.map(|(method, param, fields)| Selection { method, param, fields });
        let bucket = |(id, weight, (port, watch_group), actions): (_, _, (Option<u32>, _), _)| {
            let weight = if kind == GroupType::Select { weight } else { 1 };
            Bucket { id, weight, watch_port: port.map(PortNo), watch_group, actions }
        };
        Group { id, kind, selection, buckets: buckets.into_iter().map(bucket).collect() }
    })
}

fn meter() -> impl Strategy<Value = Meter> {
    let other = (3..0xffff_u16, vec(any::<u8>(), 0..9));
    let kind = prop_oneof![
        Just(BandKind::Drop),
        any::<u8>().prop_map(|level| BandKind::DscpRemark { level }),
        other.prop_map(|(kind, body)| BandKind::Other { kind, body }),
    ];
    let band = (any::<u32>(), any::<u32>(), kind);
    let band = band.prop_map(|(rate, burst, kind)| MeterBand { rate, burst, kind });
    let flags =
        any::<u16>().prop_map(|bits| MeterFlags::from_bits_retain(bits) | MeterFlags::BURST);
    (any::<u32>(), flags, vec(band, 0..4)).prop_map(|(id, flags, bands)| Meter { id, flags, bands })
}

fn port() -> impl Strategy<Value = Port> {
    let link = any::<[u32; 6]>().prop_map(|[a, b, c, d, e, f]| EthernetLink {
        current: a,
        advertised: b,
        supported: c,
        peer: d,
        current_speed: e,
        max_speed: f,
    });
    let head = (any::<u32>(), any::<[u8; 6]>(), "[a-zA-Z0-9.-]{0,15}");
    (head, any::<u32>(), any::<u32>(), of(link)).prop_map(
        |((number, mac, name), config, state, ethernet)| Port {
            number: PortNo(number),
            mac: Mac(mac),
            name,
            config: PortConfig::from_bits_retain(config),
            state: PortState::from_bits_retain(state),
            ethernet,
        },
    )
}

fn port_stats() -> impl Strategy<Value = PortStats> {
    let counter = || of(0..u64::MAX);
    let pair = move || (counter(), counter());
    let ethernet = (pair(), pair()).prop_map(|((a, b), (c, d))| EthernetStats {
        rx_frame_err: a,
        rx_over_err: b,
        rx_crc_err: c,
        collisions: d,
    });
    let pairs = (pair(), pair(), pair(), pair());
    (any::<u32>(), duration(), pairs, of(ethernet)).prop_map(|(port, duration, p, ethernet)| {
        let ((rx_packets, tx_packets), (rx_bytes, tx_bytes), dropped, errors) = p;
        PortStats {
            port: PortNo(port),
            duration,
            rx_packets,
            tx_packets,
            rx_bytes,
            tx_bytes,
            rx_dropped: dropped.0,
            tx_dropped: dropped.1,
            rx_errors: errors.0,
            tx_errors: errors.1,
            ethernet,
        }
    })
}

fn packet_in2() -> impl Strategy<Value = PacketIn2> {
    let reason = (0..8_u8).prop_map(|code| PacketInReason::from_u8(code).unwrap());
    let numbers = (of(any::<u32>()), of(any::<u8>()), of(any::<u64>()), reason);
    (bytes(), numbers, matching(), bytes(), of(bytes())).prop_map(
        |(packet, (full_len, table, cookie, reason), metadata, userdata, continuation)| PacketIn2 {
            packet,
            full_len,
            table,
            cookie,
            reason,
            metadata,
            userdata,
            continuation,
        },
    )
}

fn masks() -> impl Strategy<Value = AsyncMasks> {
    vec(of(any::<u32>()), 6).prop_map(|m| AsyncMasks {
        packet_in: m[0],
        port_status: m[1],
        flow_removed: m[2],
        role_status: m[3],
        table_status: m[4],
        request_forward: m[5],
    })
}

fn tuple() -> impl Strategy<Value = CtTuple> {
    let address = || of(any::<IpAddr>().prop_map(|ip| ip.to_canonical()));
    let port = || of(any::<u16>());
    (address(), address(), port(), port(), port(), of(any::<u8>()), of(any::<u8>())).prop_map(
        |(src, dst, src_port, dst_port, icmp_id, icmp_type, icmp_code)| CtTuple {
            src,
            dst,
            src_port,
            dst_port,
            icmp_id,
            icmp_type,
            icmp_code,
        },
    )
}

fn tables() -> impl Strategy<Value = (u8, TableConfig, TableProperties)> {
    let vacancy = any::<[u8; 3]>();
    let vacancy = vacancy.prop_map(|[down, up, current]| Vacancy { down, up, current });
    let eviction = any::<u32>().prop_map(Eviction::from_bits_retain);
    (any::<u8>(), any::<u32>(), of(eviction), of(vacancy)).prop_map(
        |(table, config, eviction, vacancy)| {
            let properties = TableProperties { eviction, vacancy };
            (table, TableConfig::from_bits_retain(config), properties)
        },
    )
}

fn update() -> impl Strategy<Value = FlowUpdate> {
    let reason = (0..6_u8).prop_map(|code| FlowRemovedReason::from_u8(code).unwrap());
    let monitored = || {
        flow().prop_map(|flow| MonitoredFlow {
            table: flow.table,
            priority: flow.priority,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            cookie: flow.cookie,
            matching: flow.matching,
            instructions: flow.instructions,
        })
    };
    prop_oneof![
        monitored().prop_map(FlowUpdate::Initial),
        monitored().prop_map(FlowUpdate::Added),
        monitored().prop_map(FlowUpdate::Modified),
        (monitored(), reason).prop_map(|(flow, reason)| FlowUpdate::Removed { flow, reason }),
        any::<u32>().prop_map(|xid| FlowUpdate::Abbreviated { xid }),
        Just(FlowUpdate::Paused),
        Just(FlowUpdate::Resumed),
    ]
}

fn request() -> impl Strategy<Value = MultipartRequest> {
    let flows = (any::<u8>(), any::<[u32; 2]>(), any::<[u64; 2]>(), matching()).prop_map(
        |(table, [out_port, out_group], [cookie, cookie_mask], matching)| FlowRequest {
            table,
            out_port: PortNo(out_port),
            out_group,
            cookie,
            cookie_mask,
            matching,
        },
    );
    let flows = flows.boxed();
    let command = prop_oneof![
        Just(FlowMonitorCommand::Add),
        Just(FlowMonitorCommand::Modify),
        Just(FlowMonitorCommand::Delete),
    ];
    let monitor = (any::<[u32; 3]>(), any::<u16>(), any::<u8>(), command, matching()).prop_map(
        |([id, out_port, out_group], flags, table, command, matching)| FlowMonitor {
            id,
            command,
            flags: FlowMonitorFlags::from_bits_retain(flags),
            table,
            out_port: PortNo(out_port),
            out_group,
            matching,
        },
    );
    prop_oneof![
        Just(MultipartRequest::Desc),
        Just(MultipartRequest::TableStats),
        Just(MultipartRequest::TableDesc),
        Just(MultipartRequest::GroupFeatures),
        Just(MultipartRequest::MeterFeatures),
        flows.clone().prop_map(MultipartRequest::FlowDesc),
        flows.prop_map(MultipartRequest::Aggregate),
        any::<u32>().prop_map(|port| MultipartRequest::PortStats(PortNo(port))),
        any::<u32>().prop_map(|port| MultipartRequest::PortDesc(PortNo(port))),
        any::<u32>().prop_map(MultipartRequest::GroupStats),
        any::<u32>().prop_map(MultipartRequest::GroupDesc),
        any::<u32>().prop_map(MultipartRequest::MeterStats),
        any::<u32>().prop_map(MultipartRequest::MeterDesc),
        vec(monitor, 0..3).prop_map(MultipartRequest::FlowMonitor),
        (100..=u16::MAX, bytes()).prop_map(|(kind, body)| MultipartRequest::Unknown { kind, body }),
    ]
}

fn counters() -> impl Strategy<Value = (u32, u32, u64, u64, Duration)> {
    (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), duration())
}

fn reply() -> impl Strategy<Value = ReplyBody> {
    let flows = (flow(), flow_stats()).prop_map(|(flow, stats)| FlowDesc { flow, stats });
    let table = (any::<u8>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(
        |(table, active, lookups, matched)| TableStats { table, active, lookups, matched },
    );
    let table_desc =
        tables().prop_map(|(table, config, properties)| TableDesc { table, config, properties });
    let each = vec((any::<u64>(), any::<u64>()), 0..4);
    let groups =
        (counters(), each.clone()).prop_map(|((id, ref_count, packets, bytes, duration), each)| {
            let bucket = |(packets, bytes)| BucketStats { packets, bytes };
            let buckets = each.into_iter().map(bucket).collect();
            GroupStats { id, ref_count, packets, bytes, duration, buckets }
        });
    let meters =
        (counters(), each).prop_map(|((id, ref_count, packets, bytes, duration), each)| {
            let band = |(packets, bytes)| BandStats { packets, bytes };
            let bands = each.into_iter().map(band).collect();
            MeterStats { id, ref_count, packets, bytes, duration, bands }
        });
    let desc = vec("[ -~]{0,31}", 5).prop_map(|mut texts| SwitchDesc {
        manufacturer: texts.remove(0),
        hardware: texts.remove(0),
        software: texts.remove(0),
        serial_number: texts.remove(0),
        datapath: texts.remove(0),
    });
    let features = (any::<[u32; 2]>(), any::<[u32; 4]>(), any::<[u32; 4]>());
    prop_oneof![
        desc.prop_map(|desc| ReplyBody::Desc(Box::new(desc))),
        vec(flows, 0..4).prop_map(ReplyBody::FlowDesc),
        flow_stats().prop_map(ReplyBody::Aggregate),
        vec(table, 0..4).prop_map(ReplyBody::TableStats),
        vec(table_desc, 0..4).prop_map(ReplyBody::TableDesc),
        vec(port_stats(), 0..4).prop_map(ReplyBody::PortStats),
        vec(port(), 0..4).prop_map(ReplyBody::PortDesc),
        vec(groups, 0..4).prop_map(ReplyBody::GroupStats),
        vec(group(), 0..4).prop_map(ReplyBody::GroupDesc),
        features.prop_map(|([types, capabilities], max_groups, actions)| {
            let capabilities = GroupCapabilities::from_bits_retain(capabilities);
            let all = GroupFeatures { types, capabilities, max_groups, actions };
            ReplyBody::GroupFeatures(Box::new(all))
        }),
        vec(meters, 0..4).prop_map(ReplyBody::MeterStats),
        vec(meter(), 0..4).prop_map(ReplyBody::MeterDesc),
        (any::<[u32; 3]>(), any::<[u8; 2]>()).prop_map(|(n, [max_bands, max_color])| {
            let [max_meters, band_types, capabilities] = n;
            let all = MeterFeatures { max_meters, band_types, capabilities, max_bands, max_color };
            ReplyBody::MeterFeatures(all)
        }),
        vec(update(), 0..4).prop_map(ReplyBody::FlowMonitor),
        (100..=u16::MAX, bytes()).prop_map(|(kind, body)| ReplyBody::Unknown { kind, body }),
    ]
}

fn change() -> impl Strategy<Value = Message> {
    let group_command = prop_oneof![
        Just(GroupCommand::Add),
        Just(GroupCommand::Modify),
        Just(GroupCommand::AddOrModify),
        Just(GroupCommand::Delete),
        Just(GroupCommand::InsertBucket),
        Just(GroupCommand::RemoveBucket),
    ];
    let meter_command = prop_oneof![
        Just(MeterCommand::Add),
        Just(MeterCommand::Modify),
        Just(MeterCommand::Delete),
    ];
    let port_mod = (any::<u32>(), any::<[u8; 6]>(), any::<[u32; 2]>(), of(any::<u32>()));
    prop_oneof![
        flow().prop_map(|flow| Message::FlowMod(FlowMod::add(flow))),
        (group_command, group(), any::<u32>()).prop_map(|(command, group, bucket)| {
            Message::GroupMod(GroupMod { command, group, bucket })
        }),
        (meter_command, meter())
            .prop_map(|(command, meter)| Message::MeterMod(MeterMod { command, meter })),
        port_mod.prop_map(|(port, mac, [config, mask], advertise)| {
            let config = PortConfig::from_bits_retain(config);
            let mask = PortConfig::from_bits_retain(mask);
            Message::PortMod(PortMod { port: PortNo(port), mac: Mac(mac), config, mask, advertise })
        }),
    ]
}

fn handshake() -> impl Strategy<Value = Message> {
    let role = prop_oneof![
        Just(Role::NoChange),
        Just(Role::Equal),
        Just(Role::Primary),
        Just(Role::Secondary),
    ];
    let features = (any::<u64>(), any::<u32>(), any::<[u8; 2]>(), any::<u32>());
    let code = prop_oneof![
        (0..0xffff_u16, any::<u16>()).prop_map(|(kind, code)| ErrorCode::Standard { kind, code }),
        (any::<u32>(), any::<u16>())
            .prop_map(|(experimenter, kind)| ErrorCode::Experimenter { experimenter, kind }),
    ];
    prop_oneof![
        (any::<u8>(), of(any::<u32>()))
            .prop_map(|(version, bitmap)| Message::Hello(Hello { version, bitmap })),
        (code, bytes()).prop_map(|(code, data)| Message::Error(ErrorMessage { code, data })),
        bytes().prop_map(Message::EchoRequest),
        bytes().prop_map(Message::EchoReply),
        features.prop_map(|(datapath_id, buffers, [tables, auxiliary_id], bits)| {
            let capabilities = Capabilities::from_bits_retain(bits);
            let all = Features { datapath_id, buffers, tables, auxiliary_id, capabilities };
            Message::FeaturesReply(all)
        }),
        (any::<u16>(), any::<u16>()).prop_map(|(flags, miss_send_len)| {
            let flags = ConfigFlags::from_bits_retain(flags);
            Message::SetConfig(SwitchConfig { flags, miss_send_len })
        }),
        (role.clone(), any::<u64>()).prop_map(|(role, generation_id)| {
            Message::RoleReply(RoleRequest { role, generation_id })
        }),
        (role, any::<u64>()).prop_map(|(role, generation_id)| {
            let reason = RoleReason::Config;
            Message::RoleStatus(RoleStatus { role, reason, generation_id })
        }),
        (any::<u32>(), meter()).prop_map(|(xid, meter)| {
            let request = Box::new(Message::MeterMod(MeterMod::add(meter)));
            Message::RequestForward(RequestForward { xid, request })
        }),
        (masks(), masks()).prop_map(|(secondary, primary)| {
            Message::SetAsync(AsyncConfig { secondary, primary })
        }),
    ]
}

fn event() -> impl Strategy<Value = Message> {
    let reason = (0..6_u8).prop_map(|code| FlowRemovedReason::from_u8(code).unwrap());
    let port_reason =
        prop_oneof![Just(PortReason::Add), Just(PortReason::Delete), Just(PortReason::Modify),];
    prop_oneof![
        (flow(), flow_stats(), reason).prop_map(|(flow, stats, reason)| {
            Message::FlowRemoved(FlowRemoved {
                table: flow.table,
                reason,
                priority: flow.priority,
                idle_timeout: flow.idle_timeout,
                hard_timeout: flow.hard_timeout,
                cookie: flow.cookie,
                matching: flow.matching,
                stats,
            })
        }),
        (port_reason, port())
            .prop_map(|(reason, port)| Message::PortStatus(PortStatus { reason, port })),
        (matching(), actions(), bytes()).prop_map(|(metadata, actions, packet)| {
            Message::PacketOut(PacketOut { metadata, actions, packet })
        }),
        (any::<u16>(), any::<u8>(), any::<u64>(), matching(), bytes()).prop_map(
            |(full_len, table, cookie, metadata, packet)| {
                let reason = PacketInReason::Group;
                let all = PacketIn { full_len, reason, table, cookie, metadata, packet };
                Message::PacketIn(all)
            }
        ),
        packet_in2().prop_map(Message::PacketIn2),
        packet_in2().prop_map(Message::Resume),
    ]
}

fn extension() -> impl Strategy<Value = Message> {
    let map = (any::<u16>(), any::<u8>(), 0..=31_u8, 0..64_u16);
    let map =
        map.prop_map(|(class, kind, words, index)| TlvMap { class, kind, len: 4 * words, index });
    let command =
        prop_oneof![Just(TlvCommand::Add), Just(TlvCommand::Delete), Just(TlvCommand::Clear)];
    prop_oneof![
        (command, vec(map.clone(), 0..5))
            .prop_map(|(command, maps)| Message::TlvTableMod(TlvTableMod { command, maps })),
        (any::<u32>(), any::<u16>(), vec(map, 0..5)).prop_map(|(space, max_fields, maps)| {
            let max_option_space = space;
            Message::TlvTableReply(TlvTable { max_option_space, max_fields, maps })
        }),
        any::<u16>().prop_map(Message::CtFlushZone),
        any::<u16>().prop_map(Message::SetControllerId),
        (of(any::<u16>()), any::<u8>(), tuple(), tuple()).prop_map(
            |(zone, ip_proto, original, reply)| {
                Message::CtFlush(CtFlush { zone, ip_proto, original, reply })
            }
        ),
        tables().prop_map(|(table, config, properties)| {
            Message::TableMod(TableMod { table, config, properties })
        }),
        (any::<u32>(), any::<u32>(), bytes()).prop_map(|(experimenter, kind, body)| {
            let experimenter = experimenter | 1 << 31;
            Message::Experimenter(Experimenter { experimenter, kind, body })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes(message in change()) {
        round_trip(&message)?;
    }

    #[test]
    fn changes_in_bundles(message in change(), bundle_id: u32, flags: u16) {
        let flags = BundleFlags::from_bits_retain(flags);
        round_trip(&Message::BundleAdd(BundleAdd { bundle_id, flags, message: Box::new(message) }))?;
        let step = BundleStep::CommitReply;
        round_trip(&Message::BundleControl(BundleControl { bundle_id, step, flags }))?;
    }

    #[test]
    fn handshakes(message in handshake()) {
        round_trip(&message)?;
    }

    #[test]
    fn packets_and_events(message in event()) {
        round_trip(&message)?;
    }

    #[test]
    fn extensions(message in extension()) {
        round_trip(&message)?;
    }

    #[test]
    fn multipart(request in request(), body in reply(), more: bool) {
        round_trip(&Message::MultipartRequest(request))?;
        round_trip(&Message::MultipartReply(MultipartReply { more, body }))?;
    }

    #[test]
    fn any_bytes_decode_to_an_error_or_a_message(kind in 0..36_u8, body in vec(any::<u8>(), 0..300)) {
        let length = u16::try_from(8 + body.len()).unwrap();
        let mut bytes = vec![6, kind];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0, 1]);
        bytes.extend(body);
        let _ = Message::decode(&bytes);
    }
}

/// What cannot be said whole is refused, and leaves nothing behind.
fn assert_refused(message: &Message, said: &str) {
    let mut w = Writer::appending(vec![1, 2, 3]);
    let e = message.encode(1, &mut w).unwrap_err();
    assert_eq!(e.to_string(), said);
    assert_eq!(w.as_slice(), [1, 2, 3]);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let message = "message takes 65544 bytes, but its length field holds at most 65535";
    assert_refused(&Message::EchoRequest(vec![0; 65_536]), message);
    let code = ErrorCode::TABLE_FULL;
    let error = ErrorMessage { code, data: vec![0; 65_532] };
    assert_refused(&Message::Error(error), message);

    let bands = vec![MeterBand::drop(1, 1); 5000];
    let meter = Meter { id: 1, flags: MeterFlags::KBPS, bands };
    let said = "message takes 80016 bytes, but its length field holds at most 65535";
    assert_refused(&Message::MeterMod(MeterMod::add(meter)), said);

    let buckets = (0..4000).map(|id| Bucket { id, ..Bucket::from(vec![Action::output(1)]) });
    let group = Group { id: 1, buckets: buckets.collect(), ..Group::default() };
    let said = "buckets takes 96000 bytes, but its length field holds at most 65535";
    assert_refused(&Message::GroupMod(GroupMod::set(group.clone())), said);
    let body = ReplyBody::GroupDesc(vec![group]);
    assert_refused(&Message::MultipartReply(MultipartReply { more: false, body }), said);

    let out = PacketOut::new(vec![Action::output(1)], vec![0; 65_500]);
    let said = "message takes 65548 bytes, but its length field holds at most 65535";
    assert_refused(&Message::PacketOut(out), said);
    let packet_in = PacketIn2 { userdata: vec![0; 65_532], ..PacketIn2::default() };
    let said = "packet-in2 property takes 65536 bytes, but its length field holds at most 65535";
    assert_refused(&Message::PacketIn2(packet_in), said);
}

#[test]
fn what_the_protocol_cannot_say_is_an_error() {
    let change = |bucket| {
        let group = Group { id: 1, buckets: vec![bucket], ..Group::default() };
        Message::GroupMod(GroupMod::set(group))
    };
    let said = "bucket id is 4294967295, but its wire field holds at most 4294967040";
    assert_refused(&change(Bucket { id: u32::MAX, ..Bucket::default() }), said);
    let said = "bucket: only select groups weigh their buckets";
    assert_refused(&change(Bucket { weight: 2, ..Bucket::default() }), said);

    let selection = Some(Selection { method: "a".repeat(16), ..Selection::default() });
    let group = Group { id: 1, kind: GroupType::Select, selection, ..Group::default() };
    let said = "selection method takes 16 bytes, but its length field holds at most 15";
    assert_refused(&Message::GroupMod(GroupMod::set(group)), said);

    let map = TlvMap { class: 1, kind: 1, len: 6, index: 0 };
    let change = TlvTableMod { command: TlvCommand::Add, maps: vec![map] };
    let said = "TLV map: the value of a Geneve option is a multiple of 4 and at most 124 bytes";
    assert_refused(&Message::TlvTableMod(change), said);

    let serial_number = "1".repeat(32);
    let desc = SwitchDesc { serial_number, ..SwitchDesc::default() };
    let body = ReplyBody::Desc(Box::new(desc));
    let mut w = Writer::new();
    let reply = Message::MultipartReply(MultipartReply { more: false, body });
    assert!(matches!(reply.encode(1, &mut w), Err(EncodeError::TooLong { max: 31, .. })));
}
