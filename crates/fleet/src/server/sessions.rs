//! Who follows: one stream a node, the newest. An agent that comes back may come before its old
//! connection is known to be dead.

use osier_model::NodeName;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    ended: bool,
    nodes: HashMap<NodeName, (u64, oneshot::Sender<&'static str>)>,
}

/// Why a stream ends before its agent wants.
pub(crate) type End = oneshot::Receiver<&'static str>;

// === impl Sessions ===

impl Sessions {
    /// A new stream of a node; an older one ends.
    pub(crate) fn enter(&self, node: &NodeName) -> (u64, End) {
        let (sender, end) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        if state.ended {
            let _ = sender.send("the controller stops");
        } else if let Some((_, old)) = state.nodes.insert(node.clone(), (number, sender)) {
            let _ = old.send("the node has opened another stream");
        }
        (number, end)
    }

    /// A stream has ended. False if the node has opened another since.
    pub(crate) fn leave(&self, node: &NodeName, number: u64) -> bool {
        let mut state = self.lock();
        let last = state.nodes.get(node).is_some_and(|(current, _)| *current == number);
        if last {
            state.nodes.remove(node);
        }
        last
    }

    pub(crate) fn end_all(&self) {
        let mut state = self.lock();
        state.ended = true;
        for (_, (_, sender)) in state.nodes.drain() {
            let _ = sender.send("the controller stops");
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().nodes.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
