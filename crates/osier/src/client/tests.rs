//! The client against servers that misbehave: real TLS on loopback, answers by hand.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n";
const NOTHING: &str = "";

/// A server that gives each connection the next of these answers, and the last one for ever.
struct Scripted {
    client: Client,
    asked: Arc<AtomicUsize>,
}

async fn scripted(answers: &'static [&'static str]) -> Scripted {
    let names = ["127.0.0.1".to_owned()];
    let signed = rcgen::generate_simple_self_signed(names).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(signed.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key.unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let turn = counter.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let answer = answers[turn.min(answers.len() - 1)];
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let access = Access {
        server: server.parse().unwrap(),
        authority: signed.cert.pem(),
        authority_origin: "test".to_owned(),
        credential: Credential::new("s3cret", "test").unwrap(),
        origin: "test".to_owned(),
    };
    Scripted { client: Client::new(access, Duration::from_secs(30)).unwrap(), asked }
}

impl Scripted {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn questions_are_asked_again_and_changes_are_not() {
    let server = scripted(&[NOTHING, BUSY, OK]).await;
    server.client.get::<Value>("/status").await.unwrap();
    assert_eq!(server.asked(), 3);

    let server = scripted(&[NOTHING, NOTHING, NOTHING, OK]).await;
    let error = server.client.get::<Value>("/status").await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }), "{error:?}");
    assert_eq!(server.asked(), 3);

    for first in [&[NOTHING, OK], &[BUSY, OK]] {
        let server = scripted(first).await;
        server.client.post::<Value>("/apply", &Value::Null).await.unwrap_err();
        assert_eq!(server.asked(), 1);
    }
}

#[tokio::test]
async fn nonsense_is_told_and_survived() {
    let server = scripted(&["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n<htm>"]).await;
    let error = server.client.get::<Value>("/status").await.unwrap_err();
    assert!(matches!(error, ClientError::Answer { .. }), "{error:?}");
    let server = scripted(&["SSH-2.0-OpenSSH\r\n"]).await;
    let error = server.client.get::<Value>("/status").await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }), "{error:?}");
    // More is promised than comes.
    let server = scripted(&["HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}"]).await;
    let error = server.client.get::<Value>("/status").await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }), "{error:?}");
}

#[tokio::test]
async fn lines_come_whole_whatever_pieces_they_are_sent_in() {
    const CHUNKS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                  3\r\n[1,\r\n4\r\n2]\n\n\r\n3\r\n{}\n\r\n0\r\n\r\n";
    let server = scripted(&[CHUNKS]).await;
    let body = server.client.stream("/ports?watch=true").await.unwrap();
    let mut lines = Lines::new("test".to_owned(), body);
    assert_eq!(lines.next::<Value>().await.unwrap(), Some(serde_json::json!([1, 2])));
    assert_eq!(lines.next::<Value>().await.unwrap(), Some(serde_json::json!({})));
    assert_eq!(lines.next::<Value>().await.unwrap(), None);
}

#[test]
fn text_is_escaped_for_paths() {
    assert_eq!(escaped("shop:web@1"), "shop:web@1");
    assert_eq!(escaped("a=b,c/ä"), "a%3Db%2Cc%2F%C3%A4");
}
