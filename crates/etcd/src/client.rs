//! Requests to one of etcd's members; to the next when one does not answer.

use crate::access::{Access, Link, Login};
use crate::proto::compare::{Result as Holds, Target, TargetUnion};
use crate::proto::kv_client::KvClient;
use crate::proto::lease_client::LeaseClient;
use crate::proto::request_op::Request as Op;
use crate::proto::{
    Compare, DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thiserror::Error;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// How long one request may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// The largest answer that is read: a page of the largest documents.
const MAX_ANSWER: usize = 64 << 20;
/// Documents of one page.
const PAGE: i64 = 500;

/// A handle on all members; cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    members: Arc<[Channel]>,
    /// The member that answered last.
    at: Arc<AtomicUsize>,
    names: Arc<str>,
    login: Login,
}

/// Why etcd has not answered.
#[derive(Debug, Clone, Error)]
pub enum EtcdError {
    /// An address that is none.
    #[error("{0:?} is no address of etcd: http://HOST:PORT, or https")]
    Address(String),
    /// Nothing says whom to trust.
    #[error("{0} is reached over TLS, and no authority is named for it")]
    NoAuthority(String),
    /// Certificates that are none.
    #[error("TLS cannot be used with {member}")]
    Tls {
        /// With which member.
        member: String,
        /// Why.
        source: Arc<tonic::transport::Error>,
    },
    /// No member has answered; what was asked may have been done.
    #[error("etcd at {names} has not answered")]
    Unanswered {
        /// Its members.
        names: String,
        /// What the last one said.
        #[source]
        source: Box<Status>,
    },
    /// It has refused; nothing was done.
    #[error("etcd at {names} has refused")]
    Refused {
        /// Its members.
        names: String,
        /// Why.
        #[source]
        source: Box<Status>,
    },
}

/// What has to hold for a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Guard {
    /// The key was changed last by this revision of etcd; 0: it is not there.
    Modified(Bytes, i64),
}

/// A step of a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Put(Bytes, Bytes),
    /// Until a lease ends.
    PutFor(Bytes, Bytes, i64),
    Delete(Bytes),
    /// All with this prefix.
    DeleteUnder(Bytes),
}

// === impl Client ===

impl Client {
    /// To members that are connected when they are needed.
    pub fn new(access: &Access) -> Result<Self, EtcdError> {
        match access.channels()? {
            channels if channels.is_empty() => Err(EtcdError::Address(String::new())),
            channels => Ok(Self {
                members: channels.into(),
                at: Arc::default(),
                names: access.members.join(", ").into(),
                login: Login::new(access.login.clone()),
            }),
        }
    }

    /// Where etcd is, for people.
    pub fn names(&self) -> &str {
        &self.names
    }

    /// Asks each member once, beginning with the one that answered last.
    async fn ask<T, F>(&self, mut ask: impl FnMut(Link) -> F) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let names = self.names.to_string();
        let first = self.at.load(Ordering::Relaxed);
        let mut last = Status::unavailable("nobody was asked");
        for i in 0..self.members.len() {
            let at = (first + i) % self.members.len();
            match self.ask_one(at, &mut ask).await {
                Ok(answer) => {
                    self.at.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(status) if is_final(&status) => {
                    return Err(EtcdError::Refused { names, source: Box::new(status) });
                }
                Err(status) => last = status,
            }
        }
        Err(EtcdError::Unanswered { names, source: Box::new(last) })
    }

    /// Asks one member; again if it has forgotten who we are.
    async fn ask_one<T, F>(&self, at: usize, ask: &mut impl FnMut(Link) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let member = &self.members[at];
        let asked = async {
            if self.login.is_new() {
                self.login.renew(member.clone()).await?;
            }
            match ask(self.login.link(member.clone())).await {
                Err(status) if self.login.is_due(&status) => {
                    self.login.renew(member.clone()).await?;
                    ask(self.login.link(member.clone())).await
                }
                answer => answer,
            }
        };
        let answer = tokio::time::timeout(PATIENCE * 2, asked).await;
        answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("too slow")))
    }

    /// One key.
    pub(crate) async fn get(&self, key: &Bytes) -> Result<Option<KeyValue>, EtcdError> {
        let request = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let answer = self.ask(|channel| range(channel, request.clone())).await?;
        Ok(answer.kvs.into_iter().next())
    }

    /// All with a prefix, as they were at one moment.
    pub(crate) async fn list(&self, prefix: &Bytes) -> Result<Vec<KeyValue>, EtcdError> {
        let (end, mut all) = (after(prefix), Vec::<KeyValue>::new());
        let (mut key, mut revision, mut limit) = (prefix.clone(), 0, PAGE);
        loop {
            let request =
                RangeRequest { key: key.clone(), range_end: end.clone(), limit, revision };
            let answer = match self.ask(|channel| range(channel, request.clone())).await {
                Err(EtcdError::Refused { source, .. })
                    if source.message().contains("compacted") =>
                {
                    // What it was is forgotten: what it is now is as good.
                    (key, revision) = (prefix.clone(), 0);
                    all.clear();
                    continue;
                }
                // Large documents: fewer at once.
                Err(EtcdError::Refused { source, .. })
                    if source.code() == Code::OutOfRange && limit > 1 =>
                {
                    limit /= 2;
                    continue;
                }
                answer => answer?,
            };
            revision = answer.header.map_or(revision, |header| match revision {
                0 => header.revision,
                kept => kept,
            });
            all.extend(answer.kvs);
            match all.last() {
                Some(last) if answer.more => key = [&last.key[..], &[0]].concat().into(),
                _ => return Ok(all),
            }
        }
    }

    /// Makes steps together if all guards hold; the revision that made them.
    pub(crate) async fn transact(
        &self,
        guards: &[Guard],
        steps: &[Step],
    ) -> Result<Option<i64>, EtcdError> {
        let request = TxnRequest {
            compare: guards.iter().map(Guard::message).collect(),
            success: steps.iter().map(Step::message).collect(),
            failure: Vec::new(),
        };
        let answer = self
            .ask(|channel| {
                let request = request.clone();
                async move { Ok(KvClient::new(channel).txn(request).await?.into_inner()) }
            })
            .await?;
        let revision = answer.header.map_or(0, |header| header.revision);
        Ok(answer.succeeded.then_some(revision))
    }

    /// A lease of so many seconds.
    pub(crate) async fn grant(&self, seconds: i64) -> Result<i64, EtcdError> {
        let request = LeaseGrantRequest { ttl: seconds };
        self.ask(|channel| async move {
            Ok(LeaseClient::new(channel).lease_grant(request).await?.into_inner().id)
        })
        .await
    }

    /// Renews a lease, if it is still there.
    pub(crate) async fn renew(&self, id: i64) -> Result<bool, EtcdError> {
        self.ask(|channel| async move {
            let one = tokio_stream::once(LeaseKeepAliveRequest { id });
            let mut answers = LeaseClient::new(channel).lease_keep_alive(one).await?.into_inner();
            let answer = answers.message().await?;
            answer
                .map(|answer| answer.ttl > 0)
                .ok_or_else(|| Status::unavailable("the renewal was not answered"))
        })
        .await
    }

    /// Ends a lease.
    pub(crate) async fn revoke(&self, id: i64) -> Result<(), EtcdError> {
        self.ask(|channel| async move {
            LeaseClient::new(channel).lease_revoke(LeaseRevokeRequest { id }).await.map(drop)
        })
        .await
    }
}

async fn range(
    channel: Link,
    request: RangeRequest,
) -> Result<crate::proto::RangeResponse, Status> {
    let mut client = KvClient::new(channel).max_decoding_message_size(MAX_ANSWER);
    Ok(client.range(request).await?.into_inner())
}

/// Whether asking another member, or again, cannot help.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::OutOfRange
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::NotFound
            | Code::ResourceExhausted
    )
}

/// The first key behind all with a prefix.
fn after(prefix: &Bytes) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end.into();
        }
    }
    // All keys.
    Bytes::from_static(&[0])
}

// === impl Guard ===

impl Guard {
    fn message(&self) -> Compare {
        let Self::Modified(key, revision) = self;
        Compare {
            result: Holds::Equal.into(),
            target: Target::Mod.into(),
            key: key.clone(),
            target_union: Some(TargetUnion::ModRevision(*revision)),
        }
    }
}

// === impl Step ===

impl Step {
    fn message(&self) -> RequestOp {
        let put = |key: &Bytes, value: &Bytes, lease| {
            Op::RequestPut(PutRequest { key: key.clone(), value: value.clone(), lease })
        };
        let delete = |key: &Bytes, range_end| {
            Op::RequestDeleteRange(DeleteRangeRequest { key: key.clone(), range_end })
        };
        let request = match self {
            Self::Put(key, value) => put(key, value, 0),
            Self::PutFor(key, value, lease) => put(key, value, *lease),
            Self::Delete(key) => delete(key, Bytes::new()),
            Self::DeleteUnder(prefix) => delete(prefix, after(prefix)),
        };
        RequestOp { request: Some(request) }
    }
}
