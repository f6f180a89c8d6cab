//! Watches: what the API server tells, object by object, in one queue.
//!
//! Lists come as streams, so that a large cluster is never in memory as a whole; servers that cannot
//! do that are asked page by page. Errors wait longer each time, until something is told again: that a
//! list was begun is not enough, for it may fail for ever.

use crate::error::{code, failed};
use crate::waits::Waits;
use futures_util::StreamExt;
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Objects on a page, for servers that do not stream.
const PAGE: u32 = 500;

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Told<T> {
    /// All will be told anew.
    Begin,
    /// One is so.
    Put(T),
    /// One is gone.
    Gone(T),
    /// All were told.
    End,
}

/// A watch broke. It tries to go on: whether it did, the way to the API server knows.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) plural: &'static str,
    /// Where it watches.
    pub(crate) path: String,
    pub(crate) why: String,
}

/// Watches objects for as long as the queue is read; only those with some labels, if any are said.
pub(crate) fn spawn<T, N>(
    tasks: &mut JoinSet<&'static str>,
    plural: &'static str,
    api: Api<T>,
    labels: &'static str,
    queue: mpsc::Sender<N>,
    wrap: impl Fn(Told<T>) -> N + Send + Sync + 'static,
) where
    T: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    N: From<Broken> + Send + 'static,
{
    tasks.spawn(async move {
        let chosen = Config::default().labels(labels);
        let mut config = chosen.clone().streaming_lists();
        let mut waits = Waits::default();
        loop {
            let mut stream = std::pin::pin!(watcher::watcher(api.clone(), config.clone()));
            let mut is_listing = true;
            while let Some(event) = stream.next().await {
                let (news, error) = match event {
                    Ok(event) => {
                        is_listing = matches!(event, Event::Init | Event::InitApply(_));
                        if matches!(event, Event::Apply(_) | Event::Delete(_)) {
                            waits.reset();
                        }
                        (wrap(told(event)), None)
                    }
                    Err(error) if is_listing && cannot_stream(&error) => {
                        tracing::info!(plural, "this API server does not stream lists");
                        config = chosen.clone().page_size(PAGE);
                        break;
                    }
                    Err(error) => {
                        let path = api.resource_url().to_owned();
                        (Broken { plural, path, why: failed(&error) }.into(), Some(error))
                    }
                };
                if queue.send(news).await.is_err() {
                    return "a watch";
                }
                if let Some(error) = error {
                    waits.wait().await;
                    if is_past(&error) {
                        break;
                    }
                }
            }
        }
    });
}

fn told<T>(event: Event<T>) -> Told<T> {
    match event {
        Event::Init => Told::Begin,
        Event::InitApply(object) | Event::Apply(object) => Told::Put(object),
        Event::InitDone => Told::End,
        Event::Delete(object) => Told::Gone(object),
    }
}

/// Such a server refuses the parameter (before 1.32, or with its gate closed), or says later that its
/// etcd is too old for it (before 3.4.31 and 3.5.13).
fn cannot_stream(error: &watcher::Error) -> bool {
    let (watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return false;
    };
    let words = ["sendInitialEvents", "RequestWatchProgress", "WatchList"];
    status.code == 422 || words.iter().any(|word| status.message.contains(word))
}

/// Whether a watch cannot go on where it was. Such a server should have said so in the watch, which the
/// watcher understands by itself; it would ask for the same for ever.
fn is_past(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(error) if code(error) == Some(410))
}
