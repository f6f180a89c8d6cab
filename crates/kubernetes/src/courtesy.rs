//! Courtesy towards the API server: what it asks for is done before more is asked of it.
//!
//! A server that is busy answers 429 or 503, and says for how long it wants to be left alone (RFC 9110,
//! section 10.2.3): so long nothing is sent. A watch that ends as soon as it began is not begun again
//! at once. And lists that come as streams are asked for as things are *now*: a server that is behind
//! the others must not tell the past as if it were the present.

use axum::http::{Request, Response, StatusCode, Uri, header};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tower::{Layer, Service};

/// The longest that is waited for because the server says so.
const MOST: Duration = Duration::from_secs(30);
/// The least time between two beginnings of the same watch.
const PACE: Duration = Duration::from_secs(1);
/// What makes a list a watch.
const WATCH: &str = "watch=true";

/// What is known of one API server's wishes; a cheap handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Courtesy(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Until when it wants to be left alone.
    until: Option<Instant>,
    /// Watches, by their paths: there are as many as kinds that we watch.
    watches: BTreeMap<String, Watch>,
    refusals: Refusals,
}

#[derive(Debug, Default)]
struct Watch {
    /// When it was asked for last, or is to be.
    asked: Option<Instant>,
    /// When that was granted last.
    granted: Option<Instant>,
}

/// How often the server was too busy, and when last; and how often somebody else was faster (409).
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    pub(crate) counts: BTreeMap<u16, u64>,
    pub(crate) last: Option<Instant>,
}

/// Requests, each at its time.
pub(crate) struct Courteous<S> {
    inner: S,
    courtesy: Courtesy,
}

// === impl Courtesy ===

impl Courtesy {
    /// How often it has refused so far.
    pub(crate) fn refusals(&self) -> Refusals {
        self.lock().refusals.clone()
    }

    /// When a watch began last.
    pub(crate) fn began(&self, path: &str) -> Option<Instant> {
        self.lock().watches.get(path)?.granted
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a request may be sent.
    fn time_for(&self, uri: &Uri) -> Instant {
        let mut known = self.lock();
        let now = Instant::now();
        let time = known.until.filter(|until| *until > now).unwrap_or(now);
        if !asks(uri, WATCH) {
            return time;
        }
        let watch = known.watches.entry(uri.path().to_owned()).or_default();
        let time = watch.asked.map_or(time, |last| time.max(last + PACE));
        watch.asked = Some(time);
        time
    }

    /// Hears an answer.
    fn heard<B>(&self, watch: Option<&str>, answer: &Response<B>) {
        let status = answer.status();
        let now = Instant::now();
        let mut known = self.lock();
        if let Some(watch) = watch.and_then(|path| known.watches.get_mut(path))
            && status.is_success()
        {
            watch.granted = Some(now);
        }
        let is_busy =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if !is_busy && status != StatusCode::CONFLICT {
            return;
        }
        *known.refusals.counts.entry(status.as_u16()).or_default() += 1;
        if !is_busy {
            return;
        }
        known.refusals.last = Some(now);
        let said = answer.headers().get(header::RETRY_AFTER);
        let seconds = said.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let wait = seconds.map_or(Duration::ZERO, Duration::from_secs).min(MOST);
        known.until = known.until.max(Some(now + wait));
    }
}

impl<S> Layer<S> for Courtesy {
    type Service = Courteous<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Courteous { inner, courtesy: self.clone() }
    }
}

// === impl Courteous ===

impl<S, A, B> Service<Request<A>> for Courteous<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        if let Some(uri) = as_of_now(request.uri()) {
            *request.uri_mut() = uri;
        }
        let time = self.courtesy.time_for(request.uri());
        let watch = asks(request.uri(), WATCH).then(|| request.uri().path().to_owned());
        // Nothing is sent before somebody asks for the answer.
        let answer = self.inner.call(request);
        let courtesy = self.courtesy.clone();
        Box::pin(async move {
            sleep_until(time).await;
            let answer = answer.await?;
            courtesy.heard(watch.as_deref(), &answer);
            Ok(answer)
        })
    }
}

fn asks(uri: &Uri, what: &str) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| part == what))
}

/// The same list as a stream, consistent: with version 0 it would be from whichever cache there is.
fn as_of_now(uri: &Uri) -> Option<Uri> {
    if !asks(uri, "sendInitialEvents=true") {
        return None;
    }
    let parts = uri.query()?.split('&').filter(|part| *part != "resourceVersion=0");
    let query = parts.collect::<Vec<_>>().join("&");
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{}?{query}", uri.path()).parse().ok();
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, after: Option<&str>) -> Response<()> {
        let mut builder = Response::builder().status(status);
        if let Some(after) = after {
            builder = builder.header(header::RETRY_AFTER, after);
        }
        builder.body(()).unwrap()
    }

    /// How many whole seconds a request has to wait.
    fn wait(courtesy: &Courtesy, uri: &'static str) -> f64 {
        let time = courtesy.time_for(&Uri::from_static(uri));
        time.saturating_duration_since(Instant::now()).as_secs_f64().ceil()
    }

    #[test]
    fn a_busy_server_is_left_alone_for_as_long_as_it_says() {
        let courtesy = Courtesy::default();
        let is = |seconds: f64| {
            let found = wait(&courtesy, "/api/v1/nodes");
            assert!((found - seconds).abs() < 0.5, "{found} instead of {seconds}");
        };
        is(0.0);
        for (said, seconds) in [("7", 7.0), ("3", 7.0), ("later", 7.0), ("-1", 7.0), ("99", 30.0)] {
            courtesy.heard(None, &answer(429, Some(said)));
            is(seconds);
        }
        courtesy.heard(None, &answer(503, None));
        courtesy.heard(None, &answer(404, Some("60")));
        courtesy.heard(None, &answer(409, Some("60")));
        is(30.0);
        assert_eq!(courtesy.refusals().counts, BTreeMap::from([(409, 1), (429, 5), (503, 1)]));
    }

    #[test]
    fn a_watch_is_not_begun_twice_at_once() {
        let courtesy = Courtesy::default();
        let time = |uri| courtesy.time_for(&Uri::from_static(uri));
        let (nodes, pods) = ("/api/v1/nodes?watch=true", "/api/v1/pods?watch=true");
        let first = time(nodes);
        assert_eq!([time(nodes), time(nodes)], [first + PACE, first + 2 * PACE]);
        assert!(time(pods) < first + PACE && time("/api/v1/nodes") < first + PACE);
    }

    #[test]
    fn lists_as_streams_are_of_now() {
        let now = |uri| as_of_now(&Uri::from_static(uri)).map(|uri| uri.to_string());
        let list = "/api/v1/pods?&watch=true&sendInitialEvents=true&resourceVersion=0";
        assert_eq!(now(list).unwrap(), "/api/v1/pods?&watch=true&sendInitialEvents=true");
        assert_eq!(now("/api/v1/pods?&watch=true&resourceVersion=0"), None);
        assert_eq!(now("/api/v1/pods"), None);
    }
}
