//! Who may call, how often and how long; and the audit log of it.

use super::Api;
use super::error::{ApiError, Code};
use crate::audit::{Line, Note};
use crate::credentials::{Credential, Role};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tries without a good credential, from one address: in a second, and at once.
const STRANGERS: (u32, u32) = (10, 50);
/// Where tokens are that are reviewed elsewhere: a proxy on the way keeps `Authorization` for itself.
const REVIEWED: &str = "x-osier-authorization";
/// Buckets that are kept at most; a stranger can make many.
const BUCKETS: usize = 4096;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody.
    Open,
    /// Who has a credential of this role, or of more.
    Role(Role),
    /// Who may write; nobody where the model is another's.
    Model,
}

/// A route that is guarded.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) api: Arc<Api>,
    pub(crate) access: Access,
    pub(crate) path: Arc<str>,
}

/// From where a connection comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// How many requests everyone has left.
#[derive(Debug, Default)]
pub(crate) struct Buckets(Mutex<HashMap<Whose, Bucket>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Whose {
    Credential(String),
    Stranger(Option<IpAddr>),
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

/// Lets a request through, or not.
pub(crate) async fn guard(State(on): State<Guarded>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let api = &on.api;
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let caller = find(api, Shown::in_head(request.headers())).await;
    let mut request = request;
    if let Some(caller) = &caller {
        request.extensions_mut().insert(Arc::clone(caller));
    }
    let limit = Duration::from_secs(api.config.limits.request_seconds.into());
    let response = match on.admit(caller.as_deref(), peer) {
        Ok(()) => match tokio::time::timeout(limit, next.run(request)).await {
            Ok(response) => response,
            Err(_) => ApiError::timeout(limit.as_secs()).into_response(),
        },
        Err(error) => {
            super::drain(request.into_body()).await;
            error.into_response()
        }
    };
    let status = response.status();
    api.metrics.request(method.as_str(), &on.path, status.as_u16(), begun.elapsed());
    let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let is_change =
        on.access.needs() == Some(Role::Write) || !matches!(method, Method::GET | Method::HEAD);
    if is_change || refused {
        let note = response.extensions().get::<Note>().cloned();
        api.audit.log(&Line {
            time: crate::engine::now(),
            who: caller.map(|caller| format!("{} ({})", caller.name, caller.id)),
            from: peer.map(|peer| peer.ip().to_canonical().to_string()),
            method: method.as_str(),
            path: path.get(..1024).unwrap_or(&path),
            status: status.as_u16(),
            code: response.extensions().get::<Code>().map(|code| code.0),
            note,
        });
    }
    response
}

/// What a caller shows.
struct Shown {
    plain: Option<String>,
    reviewed: Option<String>,
    /// With the name, as clients do that know only passwords.
    basic: Option<(String, String)>,
}

impl Shown {
    fn in_head(head: &HeaderMap) -> Self {
        let shown = |header: &str| -> Option<String> {
            let (scheme, credential) = head.get(header)?.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| credential.trim().to_owned())
        };
        let basic = || -> Option<(String, String)> {
            let (scheme, both) = head.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
            let both = scheme.eq_ignore_ascii_case("basic").then(|| BASE64.decode(both.trim()))?;
            let both = String::from_utf8(both.ok()?).ok()?;
            both.split_once(':').map(|(name, password)| (name.to_owned(), password.to_owned()))
        };
        let plain = shown(header::AUTHORIZATION.as_str());
        Self { plain, reviewed: shown(REVIEWED), basic: basic() }
    }
}

async fn find(api: &Api, Shown { plain, reviewed, basic }: Shown) -> Option<Arc<Credential>> {
    if let Some((name, password)) = basic {
        return api.credentials.find(&password).filter(|found| found.name == name);
    }
    if let Some(found) = plain.as_ref().and_then(|credential| api.credentials.find(credential)) {
        return Some(found);
    }
    let token = reviewed.or(plain)?;
    let caller = api.northbound.as_ref()?.review(&token).await?;
    Some(Arc::new(Credential::reviewed(caller.name, caller.role)))
}

// === impl Access ===

impl Access {
    /// The role that it takes.
    pub(crate) fn needs(self) -> Option<Role> {
        match self {
            Self::Open => None,
            Self::Role(role) => Some(role),
            Self::Model => Some(Role::Write),
        }
    }
}

// === impl Guarded ===

impl Guarded {
    fn admit(&self, caller: Option<&Credential>, peer: Option<SocketAddr>) -> Result<(), ApiError> {
        let Some(needed) = self.access.needs() else { return Ok(()) };
        let limits = &self.api.config.limits;
        let (whose, rate) = match caller {
            Some(caller) => {
                let rate = (limits.requests_per_second, limits.burst);
                (Whose::Credential(caller.id.clone()), rate)
            }
            None => (Whose::Stranger(peer.map(|peer| peer.ip())), STRANGERS),
        };
        if let Err(wait) = self.api.buckets.take(whose, rate, Instant::now()) {
            self.api.metrics.limited();
            let said = format!("too many requests: at most {} in a second", rate.0);
            return Err(ApiError::too_many(said, wait.as_secs() + 1));
        }
        let caller = caller.ok_or_else(ApiError::unauthorized)?;
        if caller.role < needed {
            let Credential { name, role, .. } = caller;
            let said = format!("credential {name} may {role}, but this needs {needed}");
            return Err(ApiError::forbidden(said));
        }
        match &self.api.northbound {
            Some(northbound) if self.access == Access::Model => {
                Err(ApiError::read_only(northbound.read_only()))
            }
            _ => Ok(()),
        }
    }
}

// === impl Buckets ===

impl Buckets {
    /// Takes one, or tells how long to wait.
    fn take(&self, whose: Whose, (rate, burst): (u32, u32), now: Instant) -> Result<(), Duration> {
        let (rate, burst) = (f64::from(rate), f64::from(burst));
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS && !buckets.contains_key(&whose) {
            // Those who were here long ago have all of theirs again.
            buckets.retain(|_, bucket| now - bucket.at < Duration::from_mins(1));
            if buckets.len() >= BUCKETS {
                return Err(Duration::from_secs(1));
            }
        }
        let bucket = buckets.entry(whose).or_insert(Bucket { left: burst, at: now });
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * rate;
        bucket.left = (bucket.left + gained).min(burst);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / rate));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_fill_again() {
        let (buckets, begin) = (Buckets::default(), Instant::now());
        let take = |at: u64| {
            let whose = Whose::Credential("one".to_owned());
            buckets.take(whose, (10, 3), begin + Duration::from_millis(at))
        };
        assert!((0..3).all(|_| take(0).is_ok()));
        assert_eq!(take(0), Err(Duration::from_millis(100)));
        assert!(take(100).is_ok());
        assert!(take(100).is_err());
        assert!((0..3).all(|_| take(10_000).is_ok()));
        assert!(take(10_000).is_err());
        assert!(buckets.take(Whose::Stranger(None), (10, 3), begin).is_ok());
    }
}
