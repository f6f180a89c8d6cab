//! Options as DHCP and DHCPv6 have them: a code, a length, and so many bytes. Both are read with an
//! end, and written as far as there is room.

/// Options of DHCP (RFC 2132): bytes, with padding, up to an end.
pub(crate) struct Options4<'a>(pub(crate) &'a [u8]);

/// Options of DHCPv6 (RFC 8415, 21.1): pairs of bytes.
pub(crate) struct Options6<'a>(pub(crate) &'a [u8]);

/// An option that says to be longer than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut;

const PAD: u8 = 0;
const END: u8 = 255;

impl<'a> Iterator for Options4<'a> {
    type Item = Result<(u8, &'a [u8]), Cut>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.0 {
                [] | [END, ..] => return None,
                [PAD, ref rest @ ..] => self.0 = rest,
                [code, len, ref rest @ ..] => {
                    let Some((value, rest)) = rest.split_at_checked(len.into()) else {
                        self.0 = &[];
                        return Some(Err(Cut));
                    };
                    self.0 = rest;
                    return Some(Ok((code, value)));
                }
                [_] => {
                    self.0 = &[];
                    return Some(Err(Cut));
                }
            }
        }
    }
}

impl<'a> Iterator for Options6<'a> {
    type Item = Result<(u16, &'a [u8]), Cut>;

    fn next(&mut self) -> Option<Self::Item> {
        let (header, rest) = match self.0 {
            [] => return None,
            bytes => bytes.split_at_checked(4).unzip(),
        };
        let value = header.zip(rest).and_then(|(header, rest)| {
            let code = u16::from_be_bytes([header[0], header[1]]);
            let len = u16::from_be_bytes([header[2], header[3]]);
            let (value, rest) = rest.split_at_checked(len.into())?;
            self.0 = rest;
            Some((code, value))
        });
        if value.is_none() {
            self.0 = &[];
        }
        Some(value.ok_or(Cut))
    }
}

/// Options of an answer of DHCP, within what the client takes.
pub(crate) struct Writer4 {
    pub(crate) bytes: Vec<u8>,
    most: usize,
}

impl Writer4 {
    /// As many bytes as this at most, with the end.
    pub(crate) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most }
    }

    /// Adds an option, if it says something and there is room.
    pub(crate) fn add(&mut self, code: u8, value: &[u8]) {
        let Ok(len) = u8::try_from(value.len()) else { return };
        if len > 0 && self.bytes.len() + 2 + value.len() < self.most {
            self.bytes.extend([code, len]);
            self.bytes.extend(value);
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        self.bytes
    }
}

/// Adds an option of DHCPv6.
pub(crate) fn put6(bytes: &mut Vec<u8>, code: u16, value: &[u8]) {
    let Ok(len) = u16::try_from(value.len()) else { return };
    bytes.extend(code.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes.extend(value);
}

/// A domain as DNS writes it (RFC 1035, 3.1): labels with their lengths, and the root.
pub(crate) fn domain_name(domain: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(domain.len() + 2);
    for label in domain.split('.') {
        // The model knows no label that is longer.
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn domains_are_as_dns_writes_them() {
        assert_eq!(domain_name("red.example"), b"\x03red\x07example\0");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(options in prop::collection::vec((1_u8..255, prop::collection::vec(any::<u8>(), 1..40)), 0..12)) {
            let mut four = Writer4::new(4096);
            let mut six = Vec::new();
            for (code, value) in &options {
                four.add(*code, value);
                put6(&mut six, (*code).into(), value);
            }
            let four = four.finish();
            let read: Result<Vec<_>, Cut> = Options4(&four).collect();
            let read: Vec<_> = read.unwrap().into_iter().map(|(c, v)| (c, v.to_vec())).collect();
            prop_assert_eq!(&read, &options);
            let read: Result<Vec<_>, Cut> = Options6(&six).collect();
            let read: Vec<_> =
                read.unwrap().into_iter().map(|(c, v)| (u8::try_from(c).unwrap(), v.to_vec())).collect();
            prop_assert_eq!(&read, &options);
        }

        #[test]
        fn whatever_comes_has_an_end(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(Options4(&bytes).count() <= bytes.len());
            prop_assert!(Options6(&bytes).count() <= bytes.len());
        }
    }
}
