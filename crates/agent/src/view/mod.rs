//! The node's view: what the agent is told of the cluster.
//!
//! Whoever tells it is a *source*: a producer at the other end of a channel of [`ViewContent`]s. A
//! file is one (`file`), a controller's stream another. [`Said`] keeps what the source said last
//! and finds what differs; what a view means is the model's and the compiler's.

mod document;
pub mod file;
mod said;

pub use document::{ViewDocument, ViewError};
pub use osier_model::ViewContent;
pub use said::{Said, Taken};

use tokio::sync::mpsc;

/// Updates that wait for the agent. A source that is faster waits.
const QUEUE: usize = 16;

/// How far a source's updates have become real.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// So many of them, of all that came.
    pub updates: u64,
    /// What of the view is not real, in words.
    pub faults: Vec<String>,
}

/// The agent's end of a source. When the other end is dropped the last view stays.
pub type ViewUpdates = mpsc::Receiver<ViewContent>;

/// A source's end and the agent's.
pub fn channel() -> (mpsc::Sender<ViewContent>, ViewUpdates) {
    mpsc::channel(QUEUE)
}

#[cfg(test)]
mod tests {
    use super::{ViewDocument, ViewError};
    use std::path::Path;

    pub(super) const VIEW: &str = r#"
fabric: { tunnel: geneve, cluster: [10.1.0.0/16, "fd01::/48"] }
objects:
  - { kind: node, name: n1, tunnel: 192.0.2.1, blocks: [10.1.1.0/24, "fd01:0:0:1::/64"] }
  - { kind: router, name: default, vrf: 0 }
  - { kind: network, name: pods, vni: 1, router: default, reach: routed }
"#;

    pub(super) fn parse(text: &str) -> Result<ViewDocument, ViewError> {
        ViewDocument::parse(text, Path::new("/view.yaml"))
    }
}
