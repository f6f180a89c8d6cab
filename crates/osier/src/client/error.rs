//! What goes wrong between us and a controller, and what can be done.

use super::access::AccessError;
use serde::Deserialize;
use std::fmt;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// How long to wait before asking again, if nobody said.
const PAUSE: Duration = Duration::from_millis(300);

/// The field that tells which version a change is of.
const VERSION: &str = "resourceVersion";

/// Why a question has no answer.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("{origin} holds no certificate of an authority (PEM)")]
    Authority { origin: String },
    #[error("no controller answers at {server}")]
    Connect {
        server: String,
        #[source]
        source: io::Error,
    },
    #[error("no controller answers at any of {servers}")]
    Nobody { servers: String },
    #[error("{server} did not answer within {seconds} s")]
    Timeout { server: String, seconds: u64 },
    #[error("the certificate of {server} is not to be trusted")]
    Certificate {
        server: String,
        #[source]
        source: rustls::Error,
    },
    #[error("no TLS session with {server}")]
    Handshake {
        server: String,
        #[source]
        source: io::Error,
    },
    #[error("the connection to {server} broke")]
    Broken {
        server: String,
        #[source]
        source: super::BrokenBy,
    },
    #[error(transparent)]
    Cluster(Box<osier_kubernetes::PeopleError>),
    #[error("what was asked for makes no request")]
    Question {
        #[source]
        source: hyper::http::Error,
    },
    #[error("the answer of {server} is larger than {limit} bytes")]
    TooLarge { server: String, limit: usize },
    #[error("the answer of {server} is not what this version expects")]
    Answer {
        server: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("{refusal}")]
    Unauthorized { known_as: String, refusal: Refusal },
    #[error("{0}")]
    Refused(Refusal),
}

/// What a controller says when it does not do something.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    /// In one word.
    pub(crate) code: String,
    /// In a sentence.
    pub(crate) message: String,
    /// Each thing that is wrong.
    pub(crate) details: Vec<Detail>,
    /// The HTTP status.
    #[serde(skip)]
    pub(crate) status: u16,
    /// Seconds until one may ask again.
    #[serde(skip)]
    pub(crate) retry_after: Option<u64>,
    /// Whether it is a change that was refused.
    #[serde(skip)]
    pub(crate) is_change: bool,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Detail {
    /// Of what, such as `Network blue`.
    pub(crate) object: String,
    /// In which field.
    pub(crate) field: String,
    /// What.
    pub(crate) problem: String,
}

// === impl ClientError ===

impl ClientError {
    /// Of a TLS session that did not come about.
    pub(super) fn of_handshake(server: String, source: io::Error) -> Self {
        let inner = source.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
        match inner {
            Some(error @ rustls::Error::InvalidCertificate(_)) => {
                Self::Certificate { server, source: error.clone() }
            }
            _ => Self::Handshake { server, source },
        }
    }

    /// What a controller said, if it was one who said it.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Unauthorized { refusal, .. } | Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// What a controller said, to be told better.
    pub(crate) fn refusal_mut(&mut self) -> Option<&mut Refusal> {
        match self {
            Self::Unauthorized { refusal, .. } | Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether a change that the same client sent before may have been made all the same.
    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Timeout { .. } | Self::Answer { .. })
    }

    /// Whether nobody is there to say no, but somebody may be later.
    pub(crate) fn is_absence(&self) -> bool {
        let is_away = matches!(
            self,
            Self::Connect { .. }
                | Self::Nobody { .. }
                | Self::Timeout { .. }
                | Self::Broken { .. }
                | Self::Handshake { .. }
        );
        is_away || self.refusal().is_some_and(|refusal| matches!(refusal.status, 429 | 503))
    }

    /// Whether it may be otherwise the next time.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Broken { .. } => true,
            _ => self.refusal().is_some_and(|refusal| matches!(refusal.status, 429 | 503)),
        }
    }

    /// How long to wait before asking again.
    pub(super) fn pause(&self) -> Duration {
        let after = self.refusal().and_then(|refusal| refusal.retry_after);
        after.map_or(PAUSE, Duration::from_secs)
    }

    /// What the user can do, if that is not in the error already.
    pub(crate) fn advice(&self) -> Option<String> {
        let text = match self {
            Self::Connect { .. } => {
                "Is it running there (`systemctl status osier-controller`)? Is the address right \
                 (--server, `osier context list`)? Of several controllers only the one that leads \
                 answers: name all of them, with commas between. What is on the nodes goes on \
                 working meanwhile."
            }
            Self::Nobody { .. } => {
                "One that waits to lead answers nobody, so none of them leads now. Is any running \
                 (`systemctl status osier-controller` on each), and do most members of etcd answer \
                 (`no election now` in a controller's log: they do not)? Another leads some seconds \
                 after one has died. What is on the nodes goes on working meanwhile."
            }
            Self::Timeout { .. } => {
                "It is busy, or something between swallows packets. --timeout waits longer."
            }
            Self::Certificate { source, .. } => return Some(of_certificate(source)),
            Self::Handshake { .. } => {
                "Is this the port of a controller's API? It speaks HTTPS only."
            }
            Self::Answer { .. } => "Compare `osier version` with the controller's: `osier check`.",
            Self::Unauthorized { known_as, .. } => {
                return Some(format!(
                    "{known_as} is not known there, or no longer. `osier login` takes a new one."
                ));
            }
            Self::Refused(refusal) => return refusal.advice().map(str::to_owned),
            _ => return None,
        };
        Some(text.to_owned())
    }
}

fn of_certificate(error: &rustls::Error) -> String {
    use rustls::CertificateError as C;
    let rustls::Error::InvalidCertificate(error) = error else {
        return "Look at who answers there.".to_owned();
    };
    let text = match error {
        C::UnknownIssuer | C::BadSignature => {
            "It is of another authority than the pinned one: another cluster's, a new \
             installation, or somebody between. If you know why, `osier login` with the new --ca."
        }
        C::Expired | C::ExpiredContext { .. } => {
            "It has expired: the controller renews it by itself if its clock and ours are right."
        }
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "It is not valid yet: compare the clocks of both machines."
        }
        C::NotValidForName | C::NotValidForNameContext { .. } => {
            "It is for other names: use one of those as --server, or add this one to the \
             controller's configuration."
        }
        _ => "Look at who answers there.",
    };
    text.to_owned()
}

// === impl Refusal ===

impl Refusal {
    /// Reads an error's body; whatever it is, something sensible comes out.
    pub(super) fn read(status: u16, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Envelope {
            error: Refusal,
        }
        // What the API server of a cluster itself says.
        #[derive(Deserialize)]
        struct Status {
            message: String,
        }
        let envelope = serde_json::from_slice::<Envelope>(body);
        let mut refusal = envelope.map_or_else(
            |_| {
                if let Ok(Status { message }) = serde_json::from_slice(body) {
                    return Self { message, ..Self::default() };
                }
                let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
                let message = format!("the server answers with status {status}: {}", text.trim());
                Self { message: message.trim_end_matches(": ").to_owned(), ..Self::default() }
            },
            |envelope| envelope.error,
        );
        refusal.status = status;
        if refusal.message.is_empty() {
            refusal.message = format!("the server answers with status {status} {}", refusal.code);
        }
        refusal
    }

    /// Tells each thing that is wrong with its place, where one is known.
    pub(crate) fn locate(&mut self, place: impl Fn(&str) -> Option<String>) {
        let located = |detail: &Detail| Some(format!("{}: {detail}", place(&detail.object)?));
        let lines: Vec<String> = self.details.iter().filter_map(located).collect();
        if !lines.is_empty() {
            self.message = lines.join("\n");
        }
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match self.status {
            403 => {
                "Your credential's role is read; changes need one of role write \
                 (`osier login`, or --credential-file)."
            }
            404 => "`osier get KIND` lists what there is.",
            409 if self.details.iter().any(|detail| detail.field.ends_with(VERSION)) => {
                "Nothing was changed. `osier get KIND NAME -o yaml` shows it as it is now; make \
                 your change there, and apply it again."
            }
            410 => "Begin again: what happened since then is no longer kept.",
            400 | 409 | 413 | 422 if self.is_change => "Nothing was changed.",
            429 => "Too many requests at once: wait a little.",
            503 => "Try again a little later; `osier status` tells who is away.",
            507 => "Its disk is full. Nothing was changed; nodes go on working.",
            _ => return None,
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for detail in self.details.iter().filter(|d| !self.message.contains(&d.problem)) {
            write!(f, "\n  {detail}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.object, &self.field].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_whatever_they_are() {
        let body = br#"{"error":{"code":"Invalid","message":"2 things are wrong","details":[
            {"object":"Network blue","field":"spec.router","problem":"there is no router red"}]}}"#;
        let refusal = Refusal::read(422, body);
        let said = "2 things are wrong\n  Network blue: spec.router: there is no router red";
        assert_eq!(refusal.to_string(), said);
        for (status, body, said) in [
            (502, &b"<html>"[..], "the server answers with status 502: <html>"),
            (500, b"", "the server answers with status 500"),
            (404, br#"{"error":{}}"#, "the server answers with status 404 "),
        ] {
            assert_eq!(Refusal::read(status, body).to_string(), said);
        }
    }

    #[test]
    fn what_is_wrong_is_told_once_with_its_place_and_what_to_do() {
        let detail = |field: &str, problem: &str| Detail {
            object: "Network blue".to_owned(),
            field: field.to_owned(),
            problem: problem.to_owned(),
        };
        let mut refusal = Refusal {
            message: "Network blue: spec.vni: 7 is taken".to_owned(),
            details: vec![detail("spec.vni", "7 is taken")],
            status: 409,
            is_change: true,
            ..Refusal::default()
        };
        assert_eq!(refusal.to_string(), "Network blue: spec.vni: 7 is taken");
        assert_eq!(refusal.advice(), Some("Nothing was changed."));
        refusal.locate(|object| (object == "Network blue").then(|| "net.yaml:9".to_owned()));
        assert_eq!(refusal.to_string(), "net.yaml:9: Network blue: spec.vni: 7 is taken");
        refusal.details = vec![detail("metadata.resourceVersion", "old")];
        assert!(refusal.advice().is_some_and(|advice| advice.contains("osier get")));
    }

    #[test]
    fn only_what_may_pass_is_asked_again() {
        let refused = |status| ClientError::Refused(Refusal::read(status, b""));
        assert!(refused(503).may_pass() && refused(429).may_pass());
        assert!(!refused(409).may_pass() && !refused(401).may_pass());
        let away = ClientError::Timeout { server: "x".to_owned(), seconds: 1 };
        assert!(!away.may_pass());
    }
}
