//! Messages: the header that all have, and one variant for each that we speak.
//!
//! ```text
//!  0         1      2        4       8
//! +---------+------+--------+-------+------- ··
//! | version | type | length | xid   | body       struct ofp_header, 7.1.1
//! +---------+------+--------+-------+------- ··   length: header included
//! ```
//!
//! [`Message::decode`] takes one whole message. A type that we do not know is kept as
//! [`Message::Unknown`], so that a newer switch does not end a session. Which message answers
//! which is not known here: that is the session's business.

mod async_config;
mod bundle;
mod ct_flush;
mod error;
mod experimenter;
mod flow_removed;
mod header;
mod hello;
mod multipart;
mod packet_in;
mod packet_in2;
mod packet_out;
mod request_forward;
mod role;
mod switch;
mod table;
mod tlv_table;

pub use async_config::{AsyncConfig, AsyncMasks};
#[cfg(feature = "session")]
pub(crate) use bundle::put_prefix;
pub use bundle::{BundleAdd, BundleBody, BundleControl, BundleFlags, BundleStep};
pub use ct_flush::{CtFlush, CtTuple};
pub use error::{ErrorCode, ErrorMessage};
pub use experimenter::Experimenter;
pub use flow_removed::{FlowRemoved, FlowRemovedReason};
pub use header::{HEADER, Header, VERSION};
pub use hello::Hello;
pub use multipart::{
    FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowRequest, FlowUpdate, MonitoredFlow,
    MultipartKind, MultipartReply, MultipartRequest, ReplyBody, SwitchDesc, TableDesc, TableStats,
};
pub use packet_in::PacketIn;
pub use packet_in2::{PacketIn2, PacketInFormat};
pub use packet_out::PacketOut;
pub use request_forward::RequestForward;
pub use role::{Role, RoleReason, RoleRequest, RoleStatus};
pub use switch::{Capabilities, ConfigFlags, Features, SwitchConfig};
pub use table::{Eviction, TableConfig, TableMod, TableProperties, Vacancy};
pub use tlv_table::{TlvCommand, TlvMap, TlvTable, TlvTableMod};

use crate::flow::FlowMod;
use crate::group::GroupMod;
use crate::meter::MeterMod;
use crate::port::{PortMod, PortStatus};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// Types of messages (7.1.1).
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 0;
    pub(crate) const ERROR: u8 = 1;
    pub(crate) const ECHO_REQUEST: u8 = 2;
    pub(crate) const ECHO_REPLY: u8 = 3;
    pub(crate) const EXPERIMENTER: u8 = 4;
    pub(crate) const FEATURES_REQUEST: u8 = 5;
    pub(crate) const FEATURES_REPLY: u8 = 6;
    pub(crate) const GET_CONFIG_REQUEST: u8 = 7;
    pub(crate) const GET_CONFIG_REPLY: u8 = 8;
    pub(crate) const SET_CONFIG: u8 = 9;
    pub(crate) const PACKET_IN: u8 = 10;
    pub(crate) const FLOW_REMOVED: u8 = 11;
    pub(crate) const PORT_STATUS: u8 = 12;
    pub(crate) const PACKET_OUT: u8 = 13;
    pub(crate) const FLOW_MOD: u8 = 14;
    pub(crate) const GROUP_MOD: u8 = 15;
    pub(crate) const PORT_MOD: u8 = 16;
    pub(crate) const TABLE_MOD: u8 = 17;
    pub(crate) const MULTIPART_REQUEST: u8 = 18;
    pub(crate) const MULTIPART_REPLY: u8 = 19;
    pub(crate) const BARRIER_REQUEST: u8 = 20;
    pub(crate) const BARRIER_REPLY: u8 = 21;
    pub(crate) const ROLE_REQUEST: u8 = 24;
    pub(crate) const ROLE_REPLY: u8 = 25;
    pub(crate) const GET_ASYNC_REQUEST: u8 = 26;
    pub(crate) const GET_ASYNC_REPLY: u8 = 27;
    pub(crate) const SET_ASYNC: u8 = 28;
    pub(crate) const METER_MOD: u8 = 29;
    pub(crate) const ROLE_STATUS: u8 = 30;
    pub(crate) const REQUEST_FORWARD: u8 = 32;
    pub(crate) const BUNDLE_CONTROL: u8 = 33;
    pub(crate) const BUNDLE_ADD_MESSAGE: u8 = 34;
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// The first message of both sides: which versions it speaks.
    Hello(Hello),
    /// The request of the same xid failed.
    Error(ErrorMessage),
    /// Asks for its own bytes back.
    EchoRequest(Vec<u8>),
    /// The bytes of an echo request.
    EchoReply(Vec<u8>),
    /// An extension that we have no type for.
    Experimenter(Experimenter),
    /// Asks who the switch is.
    FeaturesRequest,
    /// Who the switch is.
    FeaturesReply(Features),
    /// Asks for the switch's configuration.
    GetConfigRequest,
    /// The switch's configuration.
    GetConfigReply(SwitchConfig),
    /// Changes the switch's configuration.
    SetConfig(SwitchConfig),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A packet for the controller, in Open vSwitch's form with user data.
    PacketIn2(PacketIn2),
    /// Goes on with a paused packet.
    Resume(PacketIn2),
    /// In which form packets shall come.
    SetPacketInFormat(PacketInFormat),
    /// The number by which `controller` actions name this session.
    SetControllerId(u16),
    /// A flow is gone.
    FlowRemoved(FlowRemoved),
    /// A port came, went or changed.
    PortStatus(PortStatus),
    /// Sends a packet.
    PacketOut(PacketOut),
    /// Changes flows.
    FlowMod(FlowMod),
    /// Changes a group.
    GroupMod(GroupMod),
    /// Changes a meter.
    MeterMod(MeterMod),
    /// Changes a port.
    PortMod(PortMod),
    /// Changes a table.
    TableMod(TableMod),
    /// Asks for something that may take several replies.
    MultipartRequest(MultipartRequest),
    /// One part of the answer.
    MultipartReply(MultipartReply),
    /// Asks for a reply once all requests before it are done.
    BarrierRequest,
    /// All requests before the barrier are done.
    BarrierReply,
    /// Asks for a role.
    RoleRequest(RoleRequest),
    /// The role that this session has.
    RoleReply(RoleRequest),
    /// The switch changed the role.
    RoleStatus(RoleStatus),
    /// What another controller did to groups and meters.
    RequestForward(RequestForward),
    /// Asks which messages come unasked.
    GetAsyncRequest,
    /// Which messages come unasked.
    GetAsyncReply(AsyncConfig),
    /// Sets which messages come unasked.
    SetAsync(AsyncConfig),
    /// Opens, closes, commits or discards a bundle, or says that it was done.
    BundleControl(BundleControl),
    /// Adds a message to a bundle.
    BundleAdd(BundleAdd),
    /// Changes which Geneve option is which `tun_metadata` field.
    TlvTableMod(TlvTableMod),
    /// Asks which Geneve option is which `tun_metadata` field.
    TlvTableRequest,
    /// Which Geneve option is which `tun_metadata` field.
    TlvTableReply(TlvTable),
    /// Forgets all connections of a conntrack zone.
    CtFlushZone(u16),
    /// Forgets those connections that match.
    CtFlush(CtFlush),
    /// One that we do not know.
    Unknown {
        /// Its type.
        kind: u8,
        /// What is behind the header.
        body: Vec<u8>,
    },
}

// === impl Message ===

impl Message {
    /// The message's type.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => kind::HELLO,
            Self::Error(_) => kind::ERROR,
            Self::EchoRequest(_) => kind::ECHO_REQUEST,
            Self::EchoReply(_) => kind::ECHO_REPLY,
            Self::Experimenter(_)
            | Self::PacketIn2(_)
            | Self::Resume(_)
            | Self::SetPacketInFormat(_)
            | Self::SetControllerId(_)
            | Self::TlvTableMod(_)
            | Self::TlvTableRequest
            | Self::TlvTableReply(_)
            | Self::CtFlushZone(_)
            | Self::CtFlush(_) => kind::EXPERIMENTER,
            Self::FeaturesRequest => kind::FEATURES_REQUEST,
            Self::FeaturesReply(_) => kind::FEATURES_REPLY,
            Self::GetConfigRequest => kind::GET_CONFIG_REQUEST,
            Self::GetConfigReply(_) => kind::GET_CONFIG_REPLY,
            Self::SetConfig(_) => kind::SET_CONFIG,
            Self::PacketIn(_) => kind::PACKET_IN,
            Self::FlowRemoved(_) => kind::FLOW_REMOVED,
            Self::PortStatus(_) => kind::PORT_STATUS,
            Self::PacketOut(_) => kind::PACKET_OUT,
            Self::FlowMod(_) => kind::FLOW_MOD,
            Self::GroupMod(_) => kind::GROUP_MOD,
            Self::MeterMod(_) => kind::METER_MOD,
            Self::PortMod(_) => kind::PORT_MOD,
            Self::TableMod(_) => kind::TABLE_MOD,
            Self::MultipartRequest(_) => kind::MULTIPART_REQUEST,
            Self::MultipartReply(_) => kind::MULTIPART_REPLY,
            Self::BarrierRequest => kind::BARRIER_REQUEST,
            Self::BarrierReply => kind::BARRIER_REPLY,
            Self::RoleRequest(_) => kind::ROLE_REQUEST,
            Self::RoleReply(_) => kind::ROLE_REPLY,
            Self::RoleStatus(_) => kind::ROLE_STATUS,
            Self::RequestForward(_) => kind::REQUEST_FORWARD,
            Self::GetAsyncRequest => kind::GET_ASYNC_REQUEST,
            Self::GetAsyncReply(_) => kind::GET_ASYNC_REPLY,
            Self::SetAsync(_) => kind::SET_ASYNC,
            Self::BundleControl(_) => kind::BUNDLE_CONTROL,
            Self::BundleAdd(_) => kind::BUNDLE_ADD_MESSAGE,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// Appends the message. On an error `w` is as it was.
    pub fn encode(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError> {
        let version = match self {
            Self::Hello(hello) => hello.version,
            _ => VERSION,
        };
        header::frame(w, version, self.kind(), xid, |w| self.encode_body(xid, w))
    }

    fn encode_body(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError> {
        match self {
            Self::Hello(m) => m.encode(w),
            Self::Error(m) => m.encode(w),
            Self::EchoRequest(body) | Self::EchoReply(body) | Self::Unknown { body, .. } => {
                w.put(body);
            }
            Self::FeaturesReply(m) => m.encode(w),
            Self::GetConfigReply(m) | Self::SetConfig(m) => m.encode(w),
            Self::PacketIn(m) => m.encode(w)?,
            Self::FlowRemoved(m) => m.encode(w)?,
            Self::PortStatus(m) => m.encode(w)?,
            Self::PacketOut(m) => m.encode(w)?,
            Self::FlowMod(m) => m.encode(w)?,
            Self::GroupMod(m) => m.encode(w)?,
            Self::MeterMod(m) => m.encode(w)?,
            Self::PortMod(m) => m.encode(w),
            Self::TableMod(m) => m.encode(w)?,
            Self::MultipartRequest(m) => m.encode(w)?,
            Self::MultipartReply(m) => m.encode(w)?,
            Self::RoleRequest(m) | Self::RoleReply(m) => m.encode(w),
            Self::RoleStatus(m) => m.encode(w),
            Self::RequestForward(m) => m.encode(w)?,
            Self::GetAsyncReply(m) | Self::SetAsync(m) => m.encode(w)?,
            Self::BundleControl(m) => m.encode(w),
            Self::BundleAdd(m) => m.encode(xid, w)?,
            Self::FeaturesRequest
            | Self::GetConfigRequest
            | Self::BarrierRequest
            | Self::BarrierReply
            | Self::GetAsyncRequest => {}
            extension => experimenter::encode(extension, w)?,
        }
        Ok(())
    }

    /// Reads one whole message and its transaction id.
    pub fn decode(bytes: &[u8]) -> Result<(u32, Self), DecodeError> {
        let mut r = Reader::new(bytes);
        let header = Header::decode(&r.array("header")?)?;
        if usize::from(header.length) != bytes.len() {
            let problem = Problem::Length {
                found: header.length.into(),
                expected: "the size of the message",
            };
            return Err(Reader::new(bytes).error("header", problem));
        }
        header.check_version()?;
        Ok((header.xid, Self::decode_body(header, &mut r)?))
    }

    fn decode_body(header: Header, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match header.kind {
            kind::HELLO => Self::Hello(Hello::decode(header.version, r)?),
            kind::ERROR => Self::Error(ErrorMessage::decode(r)?),
            kind::ECHO_REQUEST => Self::EchoRequest(r.rest().to_vec()),
            kind::ECHO_REPLY => Self::EchoReply(r.rest().to_vec()),
            kind::EXPERIMENTER => experimenter::decode(r)?,
            kind::FEATURES_REQUEST => Self::FeaturesRequest,
            kind::FEATURES_REPLY => Self::FeaturesReply(Features::decode(r)?),
            kind::GET_CONFIG_REQUEST => Self::GetConfigRequest,
            kind::GET_CONFIG_REPLY => Self::GetConfigReply(SwitchConfig::decode(r)?),
            kind::SET_CONFIG => Self::SetConfig(SwitchConfig::decode(r)?),
            kind::PACKET_IN => Self::PacketIn(PacketIn::decode(r)?),
            kind::FLOW_REMOVED => Self::FlowRemoved(FlowRemoved::decode(r)?),
            kind::PORT_STATUS => Self::PortStatus(PortStatus::decode(r)?),
            kind::PACKET_OUT => Self::PacketOut(PacketOut::decode(r)?),
            kind::FLOW_MOD => Self::FlowMod(FlowMod::decode(r)?),
            kind::GROUP_MOD => Self::GroupMod(GroupMod::decode(r)?),
            kind::METER_MOD => Self::MeterMod(MeterMod::decode(r)?),
            kind::PORT_MOD => Self::PortMod(PortMod::decode(r)?),
            kind::TABLE_MOD => Self::TableMod(TableMod::decode(r)?),
            kind::MULTIPART_REQUEST => Self::MultipartRequest(MultipartRequest::decode(r)?),
            kind::MULTIPART_REPLY => Self::MultipartReply(MultipartReply::decode(r)?),
            kind::BARRIER_REQUEST => Self::BarrierRequest,
            kind::BARRIER_REPLY => Self::BarrierReply,
            kind::ROLE_REQUEST => Self::RoleRequest(RoleRequest::decode(r)?),
            kind::ROLE_REPLY => Self::RoleReply(RoleRequest::decode(r)?),
            kind::ROLE_STATUS => Self::RoleStatus(RoleStatus::decode(r)?),
            kind::REQUEST_FORWARD => Self::RequestForward(RequestForward::decode(r)?),
            kind::GET_ASYNC_REQUEST => Self::GetAsyncRequest,
            kind::GET_ASYNC_REPLY => Self::GetAsyncReply(AsyncConfig::decode(r)?),
            kind::SET_ASYNC => Self::SetAsync(AsyncConfig::decode(r)?),
            kind::BUNDLE_CONTROL => Self::BundleControl(BundleControl::decode(r)?),
            kind::BUNDLE_ADD_MESSAGE => Self::BundleAdd(BundleAdd::decode(header.xid, r)?),
            kind => Self::Unknown { kind, body: r.rest().to_vec() },
        })
    }
}
