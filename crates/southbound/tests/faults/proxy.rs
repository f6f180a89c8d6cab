//! A socket in front of another, whose connections can be cut at any byte.

use std::path::{Path, PathBuf};
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

pub(crate) struct Proxy {
    path: PathBuf,
    cuts: broadcast::Sender<()>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) fn start(path: PathBuf, target: PathBuf) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        let (cuts, _) = broadcast::channel(1);
        let cutter = cuts.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, mut cut) = (target.clone(), cutter.subscribe());
                tokio::spawn(async move {
                    let Ok(mut far) = UnixStream::connect(&target).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.recv() => {}
                    }
                });
            }
        });
        Self { path, cuts, task }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Cuts all connections there are.
    pub(crate) fn cut(&self) {
        // Nobody listens if there is none.
        let _ = self.cuts.send(());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}
