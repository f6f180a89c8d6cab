//! JSON-RPC 1.0 messages (RFC 7047 section 4): which kind they are, without looking into their
//! parameters, which stay raw bytes until someone who knows their form reads them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A message, borrowed from its bytes.
#[derive(Debug)]
pub enum Message<'a> {
    /// The peer asks; it wants a reply with this id.
    Request {
        /// Its id, any JSON.
        id: &'a RawValue,
        /// Its method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: &'a RawValue,
    },
    /// The peer tells.
    Notification {
        /// Its method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: &'a RawValue,
    },
    /// The peer answers.
    Reply {
        /// The id of the request.
        id: &'a RawValue,
        /// `result`, or `error` if that is not null.
        result: Result<&'a RawValue, &'a RawValue>,
    },
}

/// Bytes that are not a JSON-RPC message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// Not JSON, or not an object of the right types.
    #[error("not a JSON-RPC message")]
    Json(#[source] serde_json::Error),
    /// Neither a method nor a reply.
    #[error("a JSON-RPC message with neither method nor id")]
    Neither,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// The error member of a reply: a word, or an `<error>` object (RFC 7047 section 3.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}{}{details}", if details.is_empty() { "" } else { ": " })]
pub struct ServerError {
    /// The kind, such as "unknown method".
    pub error: String,
    /// For people; may be empty.
    pub details: String,
}

impl<'a> Message<'a> {
    /// Reads a message.
    pub fn parse(json: &'a [u8]) -> Result<Self, MessageError> {
        let raw: Raw<'a> = serde_json::from_slice(json).map_err(MessageError::Json)?;
        let params = raw.params.unwrap_or(RawValue::NULL);
        match (raw.method, raw.id) {
            (Some(method), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(method), None) => Ok(Self::Notification { method, params }),
            (None, Some(id)) => {
                let result = raw.error.map_or(Ok(raw.result.unwrap_or(RawValue::NULL)), Err);
                Ok(Self::Reply { id, result })
            }
            (None, None) => Err(MessageError::Neither),
        }
    }
}

impl ServerError {
    /// Reads the error member; what has no known form is kept as its text.
    pub fn parse(json: &RawValue) -> Self {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Word(String),
            Object { error: String, details: Option<String> },
        }
        match serde_json::from_str(json.get()) {
            Ok(Form::Word(error)) => Self { error, details: String::new() },
            Ok(Form::Object { error, details }) => {
                Self { error, details: details.unwrap_or_default() }
            }
            Err(_) => {
                Self { error: json.get().chars().take(256).collect(), details: String::new() }
            }
        }
    }
}

/// Appends a request to what is to be sent.
pub fn request(out: &mut Vec<u8>, id: u64, method: &str, params: &[u8]) {
    out.extend_from_slice(format!("{{\"id\":{id},\"method\":\"{method}\",\"params\":").as_bytes());
    out.extend_from_slice(params);
    out.push(b'}');
}

/// Appends a notification.
pub fn notification(out: &mut Vec<u8>, method: &str, params: &[u8]) {
    out.extend_from_slice(format!("{{\"id\":null,\"method\":\"{method}\",\"params\":").as_bytes());
    out.extend_from_slice(params);
    out.push(b'}');
}

/// Appends a reply: a result, or an error.
pub fn reply(out: &mut Vec<u8>, id: &RawValue, result: Result<&[u8], &[u8]>) {
    let (result, error) = match result {
        Ok(result) => (result, &b"null"[..]),
        Err(error) => (&b"null"[..], error),
    };
    for part in
        [b"{\"id\":", id.get().as_bytes(), b",\"error\":", error, b",\"result\":", result, b"}"]
    {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let parse = |json: &'static str| Message::parse(json.as_bytes());
        assert!(matches!(
            parse(r#"{"id":"echo","method":"echo","params":[]}"#),
            Ok(Message::Request { method, .. }) if method == "echo"
        ));
        assert!(matches!(
            parse(r#"{"id":null,"method":"update","params":[]}"#),
            Ok(Message::Notification { .. })
        ));
        assert!(
            matches!(parse(r#"{"id":1,"result":null,"error":null}"#), Ok(Message::Reply { result: Ok(r), .. }) if r.get() == "null")
        );
        let Ok(Message::Reply { result: Err(error), .. }) =
            parse(r#"{"id":2,"error":{"error":"unknown database","details":"d"}}"#)
        else {
            panic!("an error reply")
        };
        assert_eq!(ServerError::parse(error).to_string(), "unknown database: d");
        assert!(matches!(parse("{}"), Err(MessageError::Neither)));
        assert!(matches!(parse(r#"{"method":1}"#), Err(MessageError::Json(_))));
    }
}
