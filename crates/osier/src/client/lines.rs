//! A stream of lines, each a JSON document: how watches come.

use super::Body;
use super::error::ClientError;
use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

/// The longest line.
const MAX_LINE: usize = 16 << 20;

/// Lines of an answer, as they come.
pub(crate) struct Lines {
    server: String,
    body: Body,
    rest: BytesMut,
    /// How much of the rest has no end of a line.
    searched: usize,
}

impl Lines {
    pub(crate) fn new(server: String, body: Body) -> Self {
        Self { server, body, rest: BytesMut::new(), searched: 0 }
    }

    /// The next one; none if the server ended the stream.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        loop {
            if let Some(line) = self.take_line() {
                if line.is_empty() {
                    continue;
                }
                let server = self.server.clone();
                let read = serde_json::from_slice(&line);
                return read.map(Some).map_err(|source| ClientError::Answer { server, source });
            }
            if self.rest.len() > MAX_LINE {
                return Err(ClientError::TooLarge { server: self.server.clone(), limit: MAX_LINE });
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.rest.extend_from_slice(bytes);
                    }
                }
                Some(Err(source)) => {
                    return Err(ClientError::Broken { server: self.server.clone(), source });
                }
            }
        }
    }

    /// The first whole line of what has come, without its end.
    fn take_line(&mut self) -> Option<BytesMut> {
        let found = self.rest[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(at) = found.map(|at| at + self.searched) else {
            self.searched = self.rest.len();
            return None;
        };
        let line = self.rest.split_to(at);
        self.rest.advance(1);
        self.searched = 0;
        Some(line)
    }
}
