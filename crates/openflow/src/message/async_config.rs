//! Which messages a switch sends unasked (7.3.10).

use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// Which messages come unasked, by the role that the session has.
///
/// ```text
/// +---------------------------+-----+--------------+
/// | 2 × message [+ 1 primary] | 8   | reasons 32   |   struct ofp_async_config_prop_reasons
/// +---------------------------+-----+--------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsyncConfig {
    /// While it is secondary.
    pub secondary: AsyncMasks,
    /// While it is primary or equal.
    pub primary: AsyncMasks,
}

/// For each message a set of reasons: bit n lets reason n through. `None` leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "named as the messages")]
pub struct AsyncMasks {
    pub packet_in: Option<u32>,
    pub port_status: Option<u32>,
    pub flow_removed: Option<u32>,
    pub role_status: Option<u32>,
    pub table_status: Option<u32>,
    pub request_forward: Option<u32>,
}

// === impl AsyncMasks ===

impl AsyncMasks {
    /// In the order of the properties' types.
    fn in_order(self) -> [Option<u32>; 6] {
        [
            self.packet_in,
            self.port_status,
            self.flow_removed,
            self.role_status,
            self.table_status,
            self.request_forward,
        ]
    }

    fn at(&mut self, message: u16) -> Option<&mut Option<u32>> {
        Some(match message {
            0 => &mut self.packet_in,
            1 => &mut self.port_status,
            2 => &mut self.flow_removed,
            3 => &mut self.role_status,
            4 => &mut self.table_status,
            5 => &mut self.request_forward,
            _ => return None,
        })
    }
}

// === impl AsyncConfig ===

impl AsyncConfig {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let pairs = self.secondary.in_order().into_iter().zip(self.primary.in_order());
        let masks = pairs.flat_map(|(secondary, primary)| [secondary, primary]);
        for (kind, mask) in (0_u16..).zip(masks) {
            let Some(mask) = mask else { continue };
            w.tlv("async property", kind, |w| {
                w.u32(mask);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Properties that we do not know are left out.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "async property";
        let mut config = Self::default();
        while !r.is_empty() {
            let (kind, mut body) = r.tlv(WHAT)?;
            let masks = if kind % 2 == 0 { &mut config.secondary } else { &mut config.primary };
            if let Some(mask) = masks.at(kind / 2) {
                *mask = Some(body.u32(WHAT)?);
            }
        }
        Ok(config)
    }
}
