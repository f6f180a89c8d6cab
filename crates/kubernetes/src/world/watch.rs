//! Watches: what the API server tells, object by object, in one queue.
//!
//! Lists come as streams, so that a large cluster is never in memory as a whole; servers that cannot
//! do that are asked page by page. Errors wait longer each time, with some chance in it.

use crate::error::failed;
use futures_util::StreamExt;
use kube::runtime::WatchStreamExt;
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
    N: Send + 'static,
{
    tasks.spawn(async move {
        let chosen = Config::default().labels(labels);
        let mut config = chosen.clone().streaming_lists();
        loop {
            let stream = watcher::watcher(api.clone(), config.clone()).default_backoff();
            let mut stream = std::pin::pin!(stream);
            let (mut said, mut is_listing) = (false, true);
            while let Some(event) = stream.next().await {
                let told = match event {
                    Ok(event) => {
                        is_listing = match event {
                            Event::Init => true,
                            Event::InitDone => false,
                            _ => is_listing,
                        };
                        said &= is_listing;
                        told(event)
                    }
                    Err(error) if is_listing && cannot_stream(&error) => {
                        tracing::info!(plural, "this API server does not stream lists");
                        config = chosen.clone().page_size(PAGE);
                        break;
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut said, true) {
                            tracing::warn!(plural, error = %failed(&error), "the watch broke");
                        }
                        continue;
                    }
                };
                if queue.send(wrap(told)).await.is_err() {
                    return "a watch";
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
