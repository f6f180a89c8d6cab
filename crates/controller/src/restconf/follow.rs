//! Nodes that others make: pods that a client told of earlier may be on them.

use super::{Restconf, hosts, stopped};
use osier_resource::Kind;
use osier_store::WatchError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Follows the nodes until the controller stops.
pub(crate) async fn follow(restconf: Arc<Restconf>, mut stopping: watch::Receiver<bool>) {
    loop {
        let ended = tokio::select! {
            ended = follow_once(&restconf) => ended,
            () = stopped(&mut stopping) => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "the nodes are read anew");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn follow_once(restconf: &Restconf) -> Result<(), WatchError> {
    let store = Arc::clone(restconf.engine.store());
    let position = store.position().await?;
    let mut watch = store.watch("restconf", &Kind::Node.prefix(), position).await?;
    loop {
        let Ok(hosts) = hosts(&restconf.engine).await else { return Ok(()) };
        let targets = restconf.state.lock().await.coe.set_hosts(hosts);
        if !targets.is_empty() {
            restconf.bring_about(targets).await;
        }
        while watch.next().await?.events.is_empty() {}
    }
}
