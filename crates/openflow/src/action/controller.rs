//! `controller(…)`: send the packet to the controller, with a word for it.

use super::Action;
use crate::port_no::PortNo;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// Why a packet comes to the controller (OpenFlow 1.5.1, 7.4.1; the last two are Open vSwitch's).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs, reason = "named as in the specification")]
pub enum PacketInReason {
    NoMatch,
    #[default]
    Action,
    InvalidTtl,
    ActionSet,
    Group,
    PacketOut,
    ExplicitMiss,
    ImplicitMiss,
}

/// What to send to the controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller {
    /// How much of the packet.
    pub max_len: u16,
    /// Which controller, by the id it gave itself.
    pub id: u16,
    /// The reason to tell.
    pub reason: PacketInReason,
    /// Bytes that come with the packet-in.
    pub userdata: Vec<u8>,
    /// Whether the switch waits for a resume.
    pub pause: bool,
    /// A meter that limits how many such packets come.
    pub meter: Option<u32>,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            max_len: u16::MAX,
            id: 0,
            reason: PacketInReason::Action,
            userdata: Vec::new(),
            pause: false,
            meter: None,
        }
    }
}

mod property {
    pub(super) const MAX_LEN: u16 = 0;
    pub(super) const CONTROLLER_ID: u16 = 1;
    pub(super) const REASON: u16 = 2;
    pub(super) const USERDATA: u16 = 3;
    pub(super) const PAUSE: u16 = 4;
    pub(super) const METER_ID: u16 = 5;
}

// === impl PacketInReason ===

const REASONS: [(PacketInReason, &str); 8] = [
    (PacketInReason::NoMatch, "no_match"),
    (PacketInReason::Action, "action"),
    (PacketInReason::InvalidTtl, "invalid_ttl"),
    (PacketInReason::ActionSet, "action_set"),
    (PacketInReason::Group, "group"),
    (PacketInReason::PacketOut, "packet_out"),
    (PacketInReason::ExplicitMiss, "explicit_miss"),
    (PacketInReason::ImplicitMiss, "implicit_miss"),
];

impl PacketInReason {
    /// The reason of this number.
    pub fn from_u8(code: u8) -> Option<Self> {
        REASONS.get(usize::from(code)).map(|(reason, _)| *reason)
    }

    /// Its number.
    pub fn to_u8(self) -> u8 {
        self as u8
    }

    /// Its name, as ovs-ofctl writes it.
    pub fn name(self) -> &'static str {
        REASONS[self as usize].1
    }

    /// The reason of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        REASONS.iter().find(|(_, n)| *n == name).map(|(reason, _)| *reason)
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        let code = r.u8("packet-in reason")?;
        let unknown = || start.error("packet-in reason", Problem::Unknown(code.into()));
        Self::from_u8(code).ok_or_else(unknown)
    }
}

// === impl Controller ===

impl Controller {
    /// Whether `output:CONTROLLER` says the same.
    fn is_plain(&self) -> bool {
        let plain = Self { max_len: self.max_len, ..Self::default() };
        *self == plain
    }

    /// As an action, in its simplest form.
    pub fn into_action(self) -> Action {
        match self.is_plain() {
            true => Action::Output { port: PortNo::CONTROLLER, max_len: self.max_len },
            false => Action::Controller(Box::new(self)),
        }
    }

    /// Whether it needs the newer action.
    pub(super) fn needs_properties(&self) -> bool {
        !self.userdata.is_empty() || self.pause || self.meter.is_some()
    }

    /// NXAST_CONTROLLER's body: max_len 16, id 16, reason 8, pad 8.
    pub(super) fn put_simple(&self, w: &mut Writer) {
        w.u16(self.max_len);
        w.u16(self.id);
        w.u8(self.reason.to_u8());
        w.zeros(1);
    }

    pub(super) fn read_simple(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let max_len = r.u16("controller")?;
        let id = r.u16("controller")?;
        Ok(Self { max_len, id, reason: PacketInReason::read(r)?, ..Self::default() })
    }

    /// NXAST_CONTROLLER2's body: pad 48, then properties, each padded to eight bytes.
    pub(super) fn put_properties(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let mut property = |kind: u16, body: &[u8]| {
            let start = w.len();
            w.u16(kind);
            w.u16(0);
            w.put(body);
            w.patch_len("controller property", start, start + 2)?;
            w.align8(start);
            Ok(())
        };
        if self.max_len != u16::MAX {
            property(property::MAX_LEN, &self.max_len.to_be_bytes())?;
        }
        if self.id != 0 {
            property(property::CONTROLLER_ID, &self.id.to_be_bytes())?;
        }
        if self.reason != PacketInReason::Action {
            property(property::REASON, &[self.reason.to_u8()])?;
        }
        if !self.userdata.is_empty() {
            property(property::USERDATA, &self.userdata)?;
        }
        if self.pause {
            property(property::PAUSE, &[])?;
        }
        if let Some(meter) = self.meter {
            property(property::METER_ID, &meter.to_be_bytes())?;
        }
        Ok(())
    }

    pub(super) fn read_properties(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "controller property";
        let mut c = Self::default();
        r.skip(WHAT, 6)?;
        while !r.is_empty() {
            let start = r.clone();
            let (kind, mut body) = r.tlv(WHAT)?;
            match kind {
                property::MAX_LEN => c.max_len = body.u16(WHAT)?,
                property::CONTROLLER_ID => c.id = body.u16(WHAT)?,
                property::REASON => c.reason = PacketInReason::read(&mut body)?,
                property::USERDATA => c.userdata = body.rest().to_vec(),
                property::PAUSE => c.pause = true,
                property::METER_ID => c.meter = Some(body.u32(WHAT)?),
                _ => return Err(start.error(WHAT, Problem::Unknown(kind.into()))),
            }
        }
        Ok(c)
    }
}
