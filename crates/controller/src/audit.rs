//! The audit log: a line of JSON for each change, and for each try without the right to it. No
//! secrets: neither bodies nor credentials, only who, what and how it ended.

use crate::metrics::Metrics;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Objects that one line names at most.
const OBJECTS: usize = 32;

/// One line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line<'a> {
    pub(crate) time: String,
    /// The credential, by name and id; nothing if it was none of ours.
    pub(crate) who: Option<String>,
    /// From where.
    pub(crate) from: Option<String>,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    #[serde(flatten)]
    pub(crate) note: Option<Note>,
}

/// What a request did, for its line.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Note {
    /// What, and what became of it: `Network blue created`.
    pub(crate) objects: Vec<String>,
    /// How many more there were.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) more: usize,
    /// The revision that they have now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// The file, which makes room for another when it is large.
pub(crate) struct Audit {
    path: PathBuf,
    most: u64,
    files: u32,
    state: Mutex<(File, u64)>,
    metrics: Metrics,
}

// === impl Note ===

impl Note {
    pub(crate) fn new(
        objects: impl ExactSizeIterator<Item = String>,
        revision: Option<u64>,
    ) -> Self {
        let more = objects.len().saturating_sub(OBJECTS);
        Self { objects: objects.take(OBJECTS).collect(), more, revision }
    }
}

// === impl Audit ===

impl Audit {
    pub(crate) fn open(path: &Path, most: u64, files: u32, metrics: Metrics) -> io::Result<Self> {
        let file = append(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), most, files, state: Mutex::new((file, size)), metrics })
    }

    /// Writes a line. One that cannot be written is counted, and stops nobody: on a full disk the
    /// store refuses changes itself.
    pub(crate) fn log(&self, line: &Line<'_>) {
        let mut bytes = serde_json::to_vec(line).unwrap_or_default();
        bytes.push(b'\n');
        if let Err(error) = self.write(&bytes) {
            self.metrics.audit_failed();
            tracing::error!(%error, "a line of the audit log is lost");
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.1 > 0 && state.1 + bytes.len() as u64 > self.most {
            for n in (1..self.files).rev() {
                let from = if n == 1 { self.path.clone() } else { self.numbered(n - 1) };
                match std::fs::rename(from, self.numbered(n)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            if self.files == 1 {
                std::fs::remove_file(&self.path)?;
            }
            *state = (append(&self.path)?, 0);
        }
        state.0.write_all(bytes)?;
        state.1 += bytes.len() as u64;
        Ok(())
    }

    fn numbered(&self, n: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{n}"));
        name.into()
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_log_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = Audit::open(&path, 500, 3, Metrics::default()).unwrap();
        for i in 0..50_u16 {
            let note = Note::new([format!("Network n{i} created")].into_iter(), Some(i.into()));
            audit.log(&Line {
                time: crate::engine::now(),
                who: Some("admin".to_owned()),
                from: None,
                method: "POST",
                path: "/networks",
                status: 201,
                code: None,
                note: Some(note),
            });
        }
        let mut files: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(files, ["audit.log", "audit.log.1", "audit.log.2"]);
        let last = std::fs::read_to_string(&path).unwrap();
        assert!(last.lines().last().unwrap().contains("Network n49 created"), "{last}");
        assert!(std::fs::metadata(path).unwrap().len() <= 500);
    }
}
