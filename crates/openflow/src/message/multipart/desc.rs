//! Who made the switch.

use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// Who made the switch: five texts of 256, 256, 256, 32 and 256 bytes (`struct ofp_desc`,
/// 7.3.5.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchDesc {
    /// Who made it.
    pub manufacturer: String,
    /// The hardware.
    pub hardware: String,
    /// The software.
    pub software: String,
    /// The serial number.
    pub serial_number: String,
    /// What its operator calls it.
    pub datapath: String,
}

const WHAT: &str = "switch description";
const LONG: usize = 256;
const SHORT: usize = 32;

// === impl SwitchDesc ===

impl SwitchDesc {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.text(WHAT, &self.manufacturer, LONG)?;
        w.text(WHAT, &self.hardware, LONG)?;
        w.text(WHAT, &self.software, LONG)?;
        w.text(WHAT, &self.serial_number, SHORT)?;
        w.text(WHAT, &self.datapath, LONG)
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            manufacturer: r.text(WHAT, LONG)?,
            hardware: r.text(WHAT, LONG)?,
            software: r.text(WHAT, LONG)?,
            serial_number: r.text(WHAT, SHORT)?,
            datapath: r.text(WHAT, LONG)?,
        })
    }
}
