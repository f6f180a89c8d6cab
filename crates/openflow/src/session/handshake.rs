//! The exchange of hellos (6.3.1). We speak OpenFlow 1.5 alone, so there is nothing to negotiate:
//! the peer speaks it, or it is told that it does not.

use super::error::SessionError;
use super::frame::Framer;
use super::protocol;
use crate::message::{ErrorCode, ErrorMessage, Hello, Message, VERSION};
use crate::wire::Writer;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Says hello and waits for the peer's; returns what came behind it.
pub(super) async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    patience: Duration,
) -> Result<Framer, SessionError> {
    match timeout(patience, exchange(stream)).await {
        Ok(greeted) => greeted,
        Err(_) => Err(SessionError::NoHello(patience)),
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
) -> Result<Framer, SessionError> {
    say(stream, &Message::Hello(Hello::default())).await?;
    let mut framer = Framer::new();
    let first = loop {
        if let Some(frame) = framer.next()? {
            break frame.decode()?;
        }
        let n = stream.read(framer.room()).await.map_err(SessionError::Io)?;
        if n == 0 {
            let (received, pending) = (framer.position(), framer.pending());
            return Err(SessionError::Closed { received, pending });
        }
        framer.received(n);
    };
    match first {
        (_, Message::Hello(hello)) if hello.supports(VERSION) => {
            framer.agree();
            Ok(framer)
        }
        (_, Message::Hello(hello)) => {
            let refusal = ErrorMessage {
                code: ErrorCode::HELLO_INCOMPATIBLE,
                data: b"only OpenFlow 1.5 is spoken here".to_vec(),
            };
            // If it does not hear it, it will see the connection go.
            let _ = say(stream, &Message::Error(refusal)).await;
            Err(SessionError::Version(hello))
        }
        (_, Message::Error(error)) => Err(SessionError::HelloRefused(error)),
        (_, other) => Err(SessionError::NotHello(protocol::name(other.kind()))),
    }
}

async fn say<S: AsyncWrite + Unpin>(stream: &mut S, message: &Message) -> Result<(), SessionError> {
    let mut w = Writer::new();
    let encoded = message.encode(0, &mut w);
    debug_assert_eq!(encoded, Ok(()), "messages of a handshake are short");
    stream.write_all(w.as_slice()).await.map_err(SessionError::Io)?;
    stream.flush().await.map_err(SessionError::Io)
}
