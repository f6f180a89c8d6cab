//! Hello: which versions of OpenFlow a peer speaks.

use super::VERSION;
use crate::wire::{DecodeError, Reader, Writer};

/// The first message of both sides.
///
/// ```text
/// +--------------+--------+-------------------+
/// | 1 = versions | length | bitmap, 32 each   |   struct ofp_hello_elem_versionbitmap, 7.5.1
/// +--------------+--------+-------------------+   bit n: version n
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The highest version that the sender speaks: the one in the message's header.
    pub version: u8,
    /// Bit n is set if the sender speaks version n. Older peers send none.
    pub bitmap: Option<u32>,
}

/// The element that holds the bitmap.
const VERSION_BITMAP: u16 = 1;

impl Default for Hello {
    /// OpenFlow 1.5 alone.
    fn default() -> Self {
        Self { version: VERSION, bitmap: Some(1 << VERSION) }
    }
}

// === impl Hello ===

impl Hello {
    /// Whether the sender speaks this version. Without a bitmap that is every one up to its
    /// own (6.3.1).
    pub fn supports(self, version: u8) -> bool {
        match self.bitmap {
            Some(bitmap) => bitmap.checked_shr(version.into()).unwrap_or(0) & 1 != 0,
            None => version <= self.version,
        }
    }

    pub(super) fn encode(self, w: &mut Writer) {
        if let Some(bitmap) = self.bitmap {
            w.u16(VERSION_BITMAP);
            w.u16(8);
            w.u32(bitmap);
        }
    }

    pub(super) fn decode(version: u8, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "hello element";
        let mut bitmap = None;
        while !r.is_empty() {
            let (kind, mut body) = r.tlv(WHAT)?;
            if kind == VERSION_BITMAP && !body.is_empty() {
                bitmap = Some(body.u32(WHAT)?);
            }
        }
        Ok(Self { version, bitmap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_bitmap_all_versions_up_to_the_header_s_are_meant() {
        let old = Hello { version: 4, bitmap: None };
        assert!(old.supports(1) && old.supports(4) && !old.supports(VERSION));
        let new = Hello { version: 7, bitmap: Some(0x82) };
        assert!(new.supports(1) && new.supports(7) && !new.supports(VERSION));
        assert!(!new.supports(200));
    }
}
