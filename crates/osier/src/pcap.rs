//! Counting the packets of a pcap stream as it passes, whatever pieces it comes in.
//!
//! A file header of 24 bytes, then records: 16 bytes of header, of which bytes 8..12 say how many
//! follow (pcap-savefile(5)). The byte order is the writer's, told by the magic number.

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const LENGTH: std::ops::Range<usize> = 8..12;

/// How many packets have passed.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    packets: u64,
    /// A header that has begun.
    header: Vec<u8>,
    /// What is left of a packet.
    skip: usize,
    /// Of the writer, once it is known.
    is_big: Option<bool>,
}

impl Counter {
    /// All packets whose headers have passed.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// The next piece.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let whole = if self.is_big.is_some() { RECORD_HEADER } else { FILE_HEADER };
            let taken = (whole - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.header.len() == whole {
                self.header_ended();
            }
        }
    }

    fn header_ended(&mut self) {
        match self.is_big {
            None => self.is_big = Some(matches!(self.header[..2], [0xa1, _])),
            Some(is_big) => {
                let mut length = [0; 4];
                length.copy_from_slice(&self.header[LENGTH]);
                let length =
                    if is_big { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
                self.skip = length as usize;
                self.packets += 1;
            }
        }
        self.header.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream with packets of these lengths.
    fn stream(lengths: &[u32], is_big: bool) -> Vec<u8> {
        let word = |n: u32| if is_big { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut bytes = [word(0xa1b2_c3d4).as_slice(), &[0; 20]].concat();
        for length in lengths {
            bytes.extend([[0; 4], [0; 4], word(*length), word(9000)].concat());
            bytes.extend(vec![0xa1; *length as usize]);
        }
        bytes
    }

    #[test]
    fn packets_are_counted_in_pieces_of_any_size() {
        for is_big in [false, true] {
            let bytes = stream(&[60, 0, 1500], is_big);
            for piece in [1, 7, 24, 25, 64, 5000] {
                let mut counter = Counter::default();
                bytes.chunks(piece).for_each(|piece| counter.add(piece));
                assert_eq!(counter.packets(), 3, "{piece}");
            }
        }
        assert_eq!(Counter::default().packets(), 0);
    }
}
