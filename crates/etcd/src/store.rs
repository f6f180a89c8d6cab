//! A leader's store: documents in memory, each change in etcd first.

use crate::client::{Client, EtcdError, Guard, Step};
use bytes::{BufMut, Bytes, BytesMut};
use osier_store::{
    CommitError, Entry, Epoch, History, Key, ListError, Memory, Operation, Page, Position, Query,
    ReplaceError, Reply, Revision, Store, Transaction, Unavailable, Watch, WatchError,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::Mutex;

/// Steps of one transaction of etcd, which takes 128 unless it is told otherwise.
const STEPS: usize = 100;
/// Bytes of one request, of which etcd takes 1.5 MiB unless it is told otherwise.
const BYTES: usize = 1 << 20;
/// How long a write is tried: then nobody knows whether it was made, and the store ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a store cannot be taken over.
#[derive(Debug, Error)]
pub enum OpenError {
    /// etcd does not answer.
    #[error("etcd cannot be used")]
    Etcd(#[from] EtcdError),
    /// What is there is none of ours.
    #[error("{key} in etcd is none of ours: {said}")]
    Damaged {
        /// Which key.
        key: String,
        /// Why.
        said: String,
    },
    /// Another took it over at the same time.
    #[error("another controller took the store over")]
    Overtaken,
}

/// A store on etcd.
pub struct Etcd {
    client: Client,
    memory: Memory,
    writer: Mutex<Writer>,
}

/// Who writes: one at a time.
struct Writer {
    root: String,
    /// The revision of etcd at which we became the owner.
    owner: Guard,
    /// Cleared when nobody knows any more what is stored, or another is the owner.
    is_open: bool,
    /// Set while something is stored: who sees it was given up half-way.
    is_busy: bool,
}

/// Where the store stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    epoch: u64,
    revision: u64,
    /// How many pieces of a large transaction are staged under this revision, and not yet made.
    staged: usize,
    /// Whether that one replaces all documents.
    replaces: bool,
}

/// A document's change: what it is then.
type Document = (Key, Option<Entry>);

// === impl Etcd ===

impl Etcd {
    /// Takes the store of a cluster over: whoever had it writes no more.
    pub async fn open(client: Client, cluster: &str, history: History) -> Result<Self, OpenError> {
        let root = format!("/osier/{cluster}");
        let owner_key = Bytes::from(format!("{root}/owner"));
        let before = client.get(&owner_key).await?.map_or(0, |owner| owner.mod_revision);
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| OpenError::Damaged {
            key: "the random numbers".to_owned(),
            said: error.to_string(),
        })?;
        let nonce = Bytes::copy_from_slice(&nonce);
        let take = [Step::Put(owner_key.clone(), nonce.clone())];
        let guard = [Guard::Modified(owner_key.clone(), before)];
        // Its answer may be lost: whose it is says the nonce.
        let _ = client.transact(&guard, &take).await?;
        let owner = client.get(&owner_key).await?.filter(|owner| owner.value == nonce);
        let owner = owner.ok_or(OpenError::Overtaken)?;
        let owner = Guard::Modified(owner_key, owner.mod_revision);
        let mut writer = Writer { root, owner, is_open: true, is_busy: false };
        let head = writer.head(&client).await?;
        let documents = writer.documents(&client).await?;
        let position = Position { epoch: Epoch(head.epoch), revision: Revision(head.revision) };
        let memory = Memory::holding(position, documents, history);
        Ok(Self { client, memory, writer: Mutex::new(writer) })
    }

    async fn commit_one(&self, transaction: Transaction) -> Result<Position, CommitError> {
        transaction.validate()?;
        let mut writer = self.writer.lock().await;
        writer.check()?;
        for (index, condition) in transaction.conditions.iter().enumerate() {
            // Conflicts are found in memory, which is what etcd has while we own it.
            let alone = Transaction { conditions: vec![condition.clone()], operations: Vec::new() };
            if let Err(CommitError::Conflict(mut conflict)) = self.memory.commit(alone).await {
                conflict.index = index;
                return Err(CommitError::Conflict(conflict));
            }
        }
        let position = self.memory.position().await?;
        let next = position.revision.next();
        let mut documents: Vec<Document> = Vec::with_capacity(transaction.operations.len());
        for operation in &transaction.operations {
            let key = operation.key().clone();
            let before = self.memory.get(&key).await?;
            match operation {
                Operation::Put(_, value) => {
                    let created = before.map_or(next, |before| before.created);
                    let entry = Entry { value: value.clone(), created, modified: next };
                    documents.push((key, Some(entry)));
                }
                Operation::Delete(_) if before.is_some() => documents.push((key, None)),
                Operation::Delete(_) => {}
            }
        }
        if documents.is_empty() {
            return Ok(position);
        }
        writer.is_busy = true;
        let stored = writer.store(&self.client, position.at(next), &documents, false).await;
        let made = match stored {
            Ok(()) => self.memory.commit(transaction).await,
            Err(error) => Err(error.into()),
        };
        writer.is_busy = false;
        made
    }

    async fn replace_all(
        &self,
        documents: Vec<(Key, Bytes)>,
        over: bool,
    ) -> Result<Position, ReplaceError> {
        let mut writer = self.writer.lock().await;
        writer.check()?;
        if !over {
            let page = self.memory.list(Query::under("").limit(1)).await;
            if let Some((key, _)) = page.ok().and_then(|page| page.entries.into_iter().next()) {
                return Err(ReplaceError::NotEmpty { key: key.to_string() });
            }
        }
        // Memory is the judge, and says what the position will be; if etcd does not take it, the
        // store is over.
        let position = self.memory.replace(documents.clone(), true).await?;
        writer.is_busy = true;
        let revision = position.revision;
        let entry = |(key, value): (Key, Bytes)| {
            (key, Some(Entry { value, created: revision, modified: revision }))
        };
        let documents: Vec<Document> = documents.into_iter().map(entry).collect();
        let stored = writer.store(&self.client, position, &documents, true).await;
        (writer.is_open, writer.is_busy) = (writer.is_open && stored.is_ok(), false);
        stored?;
        Ok(position)
    }
}

impl Store for Etcd {
    fn position(&self) -> Reply<'_, Result<Position, Unavailable>> {
        Box::pin(async {
            self.writer.lock().await.check()?;
            self.memory.position().await
        })
    }

    fn get<'a>(&'a self, key: &'a Key) -> Reply<'a, Result<Option<Entry>, Unavailable>> {
        Box::pin(async move {
            self.writer.lock().await.check()?;
            self.memory.get(key).await
        })
    }

    fn list(&self, query: Query) -> Reply<'_, Result<Page, ListError>> {
        Box::pin(async move {
            self.writer.lock().await.check()?;
            self.memory.list(query).await
        })
    }

    fn commit(&self, transaction: Transaction) -> Reply<'_, Result<Position, CommitError>> {
        Box::pin(self.commit_one(transaction))
    }

    fn watch(
        &self,
        watcher: &str,
        prefix: &str,
        after: Position,
    ) -> Reply<'_, Result<Box<dyn Watch>, WatchError>> {
        self.memory.watch(watcher, prefix, after)
    }

    fn replace(
        &self,
        documents: Vec<(Key, Bytes)>,
        over: bool,
    ) -> Reply<'_, Result<Position, ReplaceError>> {
        Box::pin(self.replace_all(documents, over))
    }

    fn begin_epoch(&self, past: Revision) -> Reply<'_, Result<Position, Unavailable>> {
        Box::pin(async move {
            let mut writer = self.writer.lock().await;
            writer.check()?;
            let position = self.memory.begin_epoch(past).await?;
            writer.is_busy = true;
            let stored = writer.store(&self.client, position, &[], false).await;
            (writer.is_open, writer.is_busy) = (writer.is_open && stored.is_ok(), false);
            stored.map(|()| position)
        })
    }
}

// === impl Writer ===

impl Writer {
    fn check(&self) -> Result<(), Unavailable> {
        (self.is_open && !self.is_busy).then_some(()).ok_or(Unavailable::Closed)
    }

    fn key(&self, rest: &str) -> Bytes {
        Bytes::from(format!("{}/{rest}", self.root))
    }

    /// Documents and the new head, in one transaction of etcd if they fit; else the documents are
    /// staged, and the head that names them commits.
    async fn store(
        &mut self,
        client: &Client,
        to: Position,
        documents: &[Document],
        replaces: bool,
    ) -> Result<(), Unavailable> {
        let size: usize = documents.iter().map(size).sum();
        let mut head = Head { epoch: to.epoch.0, revision: to.revision.0, staged: 0, replaces };
        if !replaces && documents.len() < STEPS && size < BYTES {
            let mut steps: Vec<Step> = documents.iter().map(|d| self.step(d)).collect();
            steps.push(self.head_step(&head));
            return self.write(client, &steps).await;
        }
        let pieces = pieces(documents);
        for (i, piece) in pieces.iter().enumerate() {
            let at = self.key(&format!("stage/{}/{i:08}", head.revision));
            self.write(client, &[Step::Put(at, piece.clone())]).await?;
        }
        head.staged = pieces.len();
        self.write(client, &[self.head_step(&head)]).await?;
        // It is committed. If it cannot be made now, the next who opens the store makes it.
        let made = self.make_staged(client, head, documents).await;
        self.is_open &= made.is_ok();
        made
    }

    /// Makes what is staged and committed: any number of times, it comes to the same.
    async fn make_staged(
        &mut self,
        client: &Client,
        head: Head,
        documents: &[Document],
    ) -> Result<(), Unavailable> {
        if head.replaces {
            self.write(client, &[Step::DeleteUnder(self.key("doc/"))]).await?;
        }
        let (mut steps, mut bytes) = (Vec::new(), 0);
        for document in documents {
            if steps.len() >= STEPS || bytes + size(document) > BYTES && !steps.is_empty() {
                self.write(client, &std::mem::take(&mut steps)).await?;
                bytes = 0;
            }
            bytes += size(document);
            steps.push(self.step(document));
        }
        self.write(client, &steps).await?;
        let done = Head { staged: 0, replaces: false, ..head };
        let unstage = Step::DeleteUnder(self.key("stage/"));
        self.write(client, &[self.head_step(&done), unstage]).await
    }

    /// Sends a transaction until it is known whether it was made. It says what things are, so it may
    /// be made twice.
    async fn write(&mut self, client: &Client, steps: &[Step]) -> Result<(), Unavailable> {
        let end = Instant::now() + PATIENCE;
        loop {
            let error = match client.transact(std::slice::from_ref(&self.owner), steps).await {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => {
                    self.is_open = false;
                    tracing::warn!("another controller owns the store: this one writes no more");
                    return Err(Unavailable::Closed);
                }
                Err(error) => error,
            };
            let place = format!("etcd at {}", client.names());
            match &error {
                EtcdError::Refused { source, .. } if source.message().contains("no space") => {
                    return Err(Unavailable::Full { place });
                }
                EtcdError::Refused { .. } => {
                    return Err(Unavailable::Failed { place, source: Arc::new(error) });
                }
                _ if Instant::now() >= end => {
                    self.is_open = false;
                    return Err(Unavailable::Failed { place, source: Arc::new(error) });
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn head_step(&self, head: &Head) -> Step {
        Step::Put(self.key("head"), Bytes::from(serde_json::to_vec(head).unwrap_or_default()))
    }

    fn step(&self, (key, entry): &Document) -> Step {
        let at = self.key(&format!("doc/{key}"));
        match entry {
            Some(entry) => Step::Put(at, encode(entry)),
            None => Step::Delete(at),
        }
    }

    /// Where the store stands, when what was committed is made. A new one is begun.
    async fn head(&mut self, client: &Client) -> Result<Head, OpenError> {
        let key = self.key("head");
        let damaged = |said: String| OpenError::Damaged { key: "head".to_owned(), said };
        let lost = |error: Unavailable| damaged(error.to_string());
        let Some(found) = client.get(&key).await? else {
            let mut epoch = [0; 8];
            getrandom::fill(&mut epoch).map_err(|error| damaged(error.to_string()))?;
            let epoch = u64::from_le_bytes(epoch);
            let head = Head { epoch, revision: 0, staged: 0, replaces: false };
            self.write(client, &[self.head_step(&head)]).await.map_err(lost)?;
            return Ok(head);
        };
        let head: Head =
            serde_json::from_slice(&found.value).map_err(|e| damaged(e.to_string()))?;
        if head.staged == 0 && !head.replaces {
            return Ok(head);
        }
        let staged = client.list(&self.key(&format!("stage/{}/", head.revision))).await?;
        let mut documents = Vec::new();
        for piece in staged.iter().take(head.staged) {
            let text = || String::from_utf8_lossy(&piece.key).into_owned();
            let read = unpack(piece.value.clone());
            documents.extend(read.ok_or_else(|| OpenError::Damaged {
                key: text(),
                said: "it is no piece of a transaction".to_owned(),
            })?);
        }
        self.make_staged(client, head.clone(), &documents).await.map_err(lost)?;
        Ok(head)
    }

    async fn documents(&self, client: &Client) -> Result<Vec<(Key, Entry)>, OpenError> {
        let prefix = self.key("doc/");
        let mut documents = Vec::new();
        for found in client.list(&prefix).await? {
            let damaged = |said: &str| OpenError::Damaged {
                key: String::from_utf8_lossy(&found.key).into_owned(),
                said: said.to_owned(),
            };
            let name = std::str::from_utf8(&found.key[prefix.len()..]);
            let key = name.ok().and_then(|name| Key::new(name).ok());
            let key = key.ok_or_else(|| damaged("it is no key"))?;
            let entry = decode(found.value.clone()).ok_or_else(|| damaged("it is no document"))?;
            documents.push((key, entry));
        }
        Ok(documents)
    }
}

fn size((key, entry): &Document) -> usize {
    key.as_str().len() + entry.as_ref().map_or(0, |entry| entry.value.len() + 16) + 64
}

/// A document: both revisions, then its bytes.
fn encode(entry: &Entry) -> Bytes {
    let mut bytes = BytesMut::with_capacity(16 + entry.value.len());
    bytes.put_u64(entry.created.0);
    bytes.put_u64(entry.modified.0);
    bytes.extend_from_slice(&entry.value);
    bytes.freeze()
}

fn decode(mut bytes: Bytes) -> Option<Entry> {
    let (created, rest) = bytes.split_first_chunk::<8>()?;
    let (modified, _) = rest.split_first_chunk::<8>()?;
    let (created, modified) = (u64::from_be_bytes(*created), u64::from_be_bytes(*modified));
    let value = bytes.split_off(16);
    Some(Entry { value, created: Revision(created), modified: Revision(modified) })
}

/// Documents in pieces that etcd takes: each has whole documents, as key, length and bytes.
fn pieces(documents: &[Document]) -> Vec<Bytes> {
    let (mut pieces, mut piece) = (Vec::new(), BytesMut::new());
    for document in documents {
        let (key, entry) = document;
        if !piece.is_empty() && piece.len() + size(document) > BYTES {
            pieces.push(piece.split().freeze());
        }
        let (key, entry) = (key.as_str().as_bytes(), entry.as_ref().map(encode));
        piece.put_u32(u32::try_from(key.len()).unwrap_or(u32::MAX));
        piece.extend_from_slice(key);
        piece.put_u32(entry.as_ref().map_or(0, |e| u32::try_from(e.len()).unwrap_or(u32::MAX)));
        piece.extend_from_slice(entry.as_deref().unwrap_or_default());
    }
    pieces.push(piece.freeze());
    pieces
}

fn unpack(mut piece: Bytes) -> Option<Vec<Document>> {
    let take = |piece: &mut Bytes| -> Option<Bytes> {
        let (length, _) = piece.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        (piece.len() >= 4 + length).then(|| piece.split_to(4 + length).split_off(4))
    };
    let mut documents = Vec::new();
    while !piece.is_empty() {
        let key = take(&mut piece)?;
        let key = Key::new(std::str::from_utf8(&key).ok()?).ok()?;
        let entry = take(&mut piece)?;
        let entry = if entry.is_empty() { None } else { Some(decode(entry)?) };
        documents.push((key, entry));
    }
    Some(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_documents_again() {
        let entry = |n: usize| Entry {
            value: vec![7; n].into(),
            created: Revision(1),
            modified: Revision(u64::MAX),
        };
        let key = |n: usize| Key::new(&format!("k/{n}")).unwrap();
        let documents: Vec<Document> = (0..40)
            .map(|n| (key(n), (n % 3 > 0).then(|| entry(n * 10_000))))
            .chain([(key(99), Some(entry(Transaction::MAX_VALUE)))])
            .collect();
        let pieces = pieces(&documents);
        assert!(pieces.len() > 5 && pieces.iter().all(|p| p.len() < 3 << 19));
        let again: Vec<Document> =
            pieces.into_iter().flat_map(|piece| unpack(piece).unwrap()).collect();
        assert_eq!(again, documents);
        for wrong in [&b"\0"[..], b"\0\0\0\x01", b"\0\0\0\x01a\0\0\0\x01b", b"\xff\xff\xff\xffab"] {
            assert_eq!(unpack(Bytes::from_static(wrong)), None);
        }
    }
}
