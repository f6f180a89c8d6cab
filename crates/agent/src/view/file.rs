//! A file as the view's source, until a controller sends it. It is looked at each second. One that
//! is wrong is refused with the reason, and the last good one stays.

use super::{ViewContent, ViewDocument, ViewError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// How often the file is looked at.
pub const POLL: Duration = Duration::from_secs(1);

/// The file with the view.
#[derive(Debug)]
pub struct ViewFile {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

// === impl ViewFile ===

impl ViewFile {
    /// A file that may not be there yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: None }
    }

    /// Looks at the file: what it says, if it changed since the last look. A wrong one is told of
    /// once.
    pub fn look(&mut self) -> Result<Option<ViewDocument>, ViewError> {
        let found = stamp(&self.path);
        // A file that is away is about to be replaced: nothing is deleted for that.
        if found.is_none() || found == self.seen {
            return Ok(None);
        }
        self.seen = found;
        ViewDocument::load(&self.path).map(Some)
    }

    /// Looks at the file again and again, and tells of what is wrong, until nobody listens.
    pub async fn watch(
        mut self,
        updates: mpsc::Sender<ViewContent>,
        mut refused: impl FnMut(&ViewError) + Send,
    ) {
        let mut ticks = tokio::time::interval(POLL);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = updates.closed() => return,
            }
            match self.look() {
                Ok(None) => {}
                Ok(Some(document)) => {
                    if updates.send(document.into()).await.is_err() {
                        return;
                    }
                }
                Err(error) => refused(&error),
            }
        }
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{VIEW, parse};
    use super::*;

    #[test]
    fn only_what_changed_is_told_and_what_is_wrong_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("view.yaml");
        let mut file = ViewFile::new(&path);
        assert_eq!(file.look().unwrap(), None);
        std::fs::write(&path, VIEW).unwrap();
        assert_eq!(file.look().unwrap(), Some(parse(VIEW).unwrap()));
        assert_eq!(file.look().unwrap(), None);
        std::fs::write(&path, "objects: [oh").unwrap();
        assert!(matches!(file.look(), Err(ViewError::Parse { .. })));
        assert_eq!(file.look().unwrap(), None, "it is complained about once");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.look().unwrap(), None);
    }
}
