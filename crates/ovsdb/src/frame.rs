//! Finds the ends of JSON objects in a byte stream. OVSDB has no delimiter between messages
//! (RFC 7047 section 4), so the framer counts brackets outside of strings, each byte once, and
//! leaves all else to the parser. Size and depth are limited here, before anything is parsed:
//! whatever a peer sends, memory stays bounded and nothing recurses.

/// What one message may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message.
    pub message: usize,
    /// Nesting of arrays and objects.
    pub depth: usize,
}

impl Default for Limits {
    /// 256 MiB holds some 250,000 rows of a first reply; no OVSDB message nests deeper than 12.
    fn default() -> Self {
        Self { message: 256 << 20, depth: 32 }
    }
}

/// The stream is not a sequence of JSON objects within the limits; it cannot be read further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A message does not begin with `{`.
    #[error("byte {byte:#04x} at stream offset {offset} begins no JSON object")]
    NotAnObject {
        /// The byte found.
        byte: u8,
        /// Where in the stream.
        offset: u64,
    },
    /// Longer than allowed, complete or not.
    #[error("message longer than {limit} bytes at stream offset {offset}")]
    TooLong {
        /// [`Limits::message`].
        limit: usize,
        /// Where the message begins in the stream.
        offset: u64,
    },
    /// Too deep.
    #[error("JSON nested deeper than {limit} at stream offset {offset}")]
    TooDeep {
        /// [`Limits::depth`].
        limit: usize,
        /// Where in the stream.
        offset: u64,
    },
}

/// Splits a byte stream into messages.
#[derive(Debug)]
pub struct Framer {
    limits: Limits,
    buffer: Vec<u8>,
    /// Where the current message begins in `buffer`.
    start: usize,
    /// How far `buffer` is scanned.
    scanned: usize,
    /// Stream offset of `buffer[0]`.
    offset: u64,
    depth: usize,
    string: Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    Escaped,
}

/// A buffer that once held a huge message is given back when it is this much too large.
const KEEP: usize = 1 << 20;

impl Framer {
    /// An empty framer.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            offset: 0,
            depth: 0,
            string: Text::Outside,
        }
    }

    /// Where to append received bytes. Call [`Framer::next_message`] until `None` after each read.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.offset += self.start as u64;
            self.scanned -= self.start;
            self.start = 0;
            if self.buffer.is_empty() && self.buffer.capacity() > KEEP {
                self.buffer = Vec::new();
            }
        }
        &mut self.buffer
    }

    /// The next whole message, if it has arrived.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, FrameError> {
        if self.depth == 0 {
            self.skip_space()?;
        }
        match self.find_end()? {
            Some(end) => {
                let begin = std::mem::replace(&mut self.start, end);
                Ok(Some(&self.buffer[begin..end]))
            }
            None => Ok(None),
        }
    }

    /// Whether the stream may end here: not in the middle of a message.
    pub fn is_between_messages(&self) -> bool {
        self.depth == 0 && self.buffer[self.start..].iter().all(u8::is_ascii_whitespace)
    }

    fn skip_space(&mut self) -> Result<(), FrameError> {
        let rest = &self.buffer[self.scanned..];
        let skip = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.scanned += skip;
        self.start = self.scanned;
        match self.buffer.get(self.scanned) {
            None | Some(b'{') => Ok(()),
            Some(&byte) => Err(FrameError::NotAnObject { byte, offset: self.at(self.scanned) }),
        }
    }

    fn find_end(&mut self) -> Result<Option<usize>, FrameError> {
        while let Some(&byte) = self.buffer.get(self.scanned) {
            self.scanned += 1;
            match (self.string, byte) {
                (Text::Outside, b'{' | b'[') => {
                    self.depth += 1;
                    if self.depth > self.limits.depth {
                        let offset = self.at(self.scanned - 1);
                        return Err(FrameError::TooDeep { limit: self.limits.depth, offset });
                    }
                }
                (Text::Outside, b'}' | b']') => {
                    // A mismatched bracket ends the frame early; the parser then refuses it.
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.check_length()?;
                        return Ok(Some(self.scanned));
                    }
                }
                (Text::Outside, b'"') | (Text::Escaped, _) => self.string = Text::Inside,
                (Text::Inside, b'"') => self.string = Text::Outside,
                (Text::Inside, b'\\') => self.string = Text::Escaped,
                _ => {}
            }
        }
        self.check_length()?;
        Ok(None)
    }

    fn check_length(&self) -> Result<(), FrameError> {
        if self.scanned - self.start > self.limits.message {
            let offset = self.at(self.start);
            return Err(FrameError::TooLong { limit: self.limits.message, offset });
        }
        Ok(())
    }

    fn at(&self, index: usize) -> u64 {
        self.offset + index as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(limits: Limits, chunks: &[&[u8]]) -> Result<Vec<String>, FrameError> {
        let mut framer = Framer::new(limits);
        let mut found = Vec::new();
        for chunk in chunks {
            framer.buffer().extend_from_slice(chunk);
            while let Some(message) = framer.next_message()? {
                found.push(String::from_utf8_lossy(message).into_owned());
            }
        }
        Ok(found)
    }

    #[test]
    fn any_cut_gives_the_same_messages() {
        let stream = br#" {"a":"}{\"[","b":[1,{}]}{} {"c":"\\"}"#;
        let expected = vec![r#"{"a":"}{\"[","b":[1,{}]}"#, "{}", r#"{"c":"\\"}"#];
        assert_eq!(split(Limits::default(), &[stream]).unwrap(), expected);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(split(Limits::default(), &bytes).unwrap(), expected);
    }

    #[test]
    fn limits_hold() {
        let limits = Limits { message: 8, depth: 2 };
        assert_eq!(
            split(limits, &[b"{}", b"{\"aaaaaaaaa"]),
            Err(FrameError::TooLong { limit: 8, offset: 2 })
        );
        assert_eq!(split(limits, &[b"{[[[["]), Err(FrameError::TooDeep { limit: 2, offset: 2 }));
        assert_eq!(
            split(limits, &[b"{} GET /"]),
            Err(FrameError::NotAnObject { byte: b'G', offset: 3 })
        );
        assert_eq!(split(limits, &[b"]"]), Err(FrameError::NotAnObject { byte: b']', offset: 0 }));
    }
}
