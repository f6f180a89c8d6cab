//! Who shows a token of a service account: the API server is asked, and asked again after a minute.

use crate::error::failed;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For whom tokens have to be.
pub(crate) const AUDIENCE: &str = "osier-controller";
/// How long an answer is believed.
const BELIEVED: Duration = Duration::from_mins(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Answers that are remembered.
const MOST: usize = 1024;
/// Questions of people in a second, and at once: strangers' nonsense is not the API server's to judge.
const RATE: (f64, f64) = (10.0, 50.0);
/// The longest token, in bytes.
const LONGEST: usize = 16 << 10;

/// Who a token says that its bearer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub(crate) user: String,
    /// The node of the pod that the token is of.
    pub(crate) node: Option<String>,
    /// The pod that the token is of.
    pub(crate) pod: Option<String>,
}

/// What was answered, by the hashes of tokens.
type Known = HashMap<[u8; 32], (Instant, Option<Arc<Bearer>>)>;

/// Who asks the API server.
pub(crate) struct Reviewer {
    reviews: Api<TokenReview>,
    known: Mutex<Known>,
    /// How many questions are left, and when that was so.
    left: Mutex<(f64, Instant)>,
}

// === impl Reviewer ===

impl Reviewer {
    pub(crate) fn new(client: Client) -> Self {
        let left = Mutex::new((RATE.1, Instant::now()));
        Self { reviews: Api::all(client), known: Mutex::default(), left }
    }

    /// Whose a token is; not told from memory.
    pub(crate) async fn review(&self, token: &str) -> Result<Option<Bearer>, String> {
        if token.is_empty() || token.len() > LONGEST {
            return Ok(None);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![AUDIENCE.to_owned()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let parameters = PostParams::default();
        let asked = self.reviews.create(&parameters, &review);
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(review)) => Ok(review.status.and_then(bearer)),
            Ok(Err(error)) => Err(format!("the token could not be reviewed: {}", failed(&error))),
            Err(_) => Err("the token could not be reviewed: no answer".to_owned()),
        }
    }

    /// Whose a token is, perhaps from memory. Nobody's if the API server cannot be asked.
    pub(crate) async fn recall(&self, token: &str) -> Option<Arc<Bearer>> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let now = Instant::now();
        let known = self.lock().get(&hash).cloned();
        if let Some((since, known)) = known
            && now - since < BELIEVED
        {
            return known;
        }
        // A token of a service account is a JWT (RFC 7519): three parts.
        if token.split('.').count() != 3 || !self.may_ask(now) {
            return None;
        }
        match self.review(token).await {
            Ok(found) => {
                let found = found.map(Arc::new);
                let mut known = self.lock();
                if known.len() >= MOST {
                    known.retain(|_, (since, _)| now - *since < BELIEVED);
                }
                if known.len() < MOST {
                    known.insert(hash, (now, found.clone()));
                }
                found
            }
            Err(why) => {
                tracing::warn!(why, "a caller could not be known");
                None
            }
        }
    }

    fn may_ask(&self, now: Instant) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let gained = now.saturating_duration_since(left.1).as_secs_f64() * RATE.0;
        *left = ((left.0 + gained).min(RATE.1), now);
        let may = left.0 >= 1.0;
        if may {
            left.0 -= 1.0;
        }
        may
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who it is, if it is somebody, and the token is for us.
fn bearer(status: TokenReviewStatus) -> Option<Bearer> {
    let is_ours = status.audiences.iter().flatten().any(|audience| audience == AUDIENCE);
    if !status.authenticated.unwrap_or(false) || !is_ours {
        return None;
    }
    let user = status.user?;
    let extra = user.extra.unwrap_or_default();
    let one =
        |key: &str| extra.get(&format!("authentication.kubernetes.io/{key}"))?.first().cloned();
    Some(Bearer { user: user.username?, node: one("node-name"), pod: one("pod-name") })
}
