//! Files of resources that the user names: files, folders, standard input.
//!
//! What is wrong in any of them is told for all of them, with the file and the line, before anybody
//! is asked anything.

use osier_resource::{MAX_FILE, ParseError, Place, Resource, parse};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What a folder's files of resources end with.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// How standard input is named.
const STDIN: &str = "-";

/// A resource, and where it stands.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) resource: Resource,
    pub(crate) file: String,
    pub(crate) place: Place,
}

/// Why files cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ManifestError {
    #[error("{file} cannot be read")]
    Read {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("{folder} has no files *.yaml, *.yml or *.json")]
    EmptyFolder { folder: String },
    #[error("{}", joined(.0))]
    Wrong(Vec<ParseError>),
    #[error("{file} has no resources")]
    Nothing { file: String },
    #[error("{at}: {what} stands in {first} as well")]
    Twice { at: String, what: String, first: String },
}

fn joined(errors: &[ParseError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

// === impl Manifest ===

impl Manifest {
    /// How people call it: `Network blue`.
    pub(crate) fn called(&self) -> String {
        format!("{} {}", self.resource.kind(), self.resource.name())
    }

    /// Where it stands: `net.yaml:9`.
    pub(crate) fn at(&self) -> String {
        format!("{}:{}", self.file, self.place.line)
    }
}

/// Reads all resources of all files, in their order.
pub(crate) fn load(files: &[PathBuf]) -> Result<Vec<Manifest>, ManifestError> {
    let (mut manifests, mut wrong) = (Vec::new(), Vec::new());
    for file in files {
        for file in expanded(file)? {
            let (name, text) = read(&file)?;
            match parse(&name, &text) {
                Ok(parsed) if parsed.is_empty() => {
                    return Err(ManifestError::Nothing { file: name });
                }
                Ok(parsed) => manifests.extend(parsed.into_iter().map(|parsed| Manifest {
                    resource: parsed.resource,
                    file: name.clone(),
                    place: parsed.place,
                })),
                Err(errors) => wrong.extend(errors),
            }
        }
    }
    if !wrong.is_empty() {
        return Err(ManifestError::Wrong(wrong));
    }
    check_unique(&manifests)?;
    Ok(manifests)
}

fn check_unique(manifests: &[Manifest]) -> Result<(), ManifestError> {
    let mut seen: BTreeMap<String, &Manifest> = BTreeMap::new();
    for manifest in manifests {
        if let Some(first) = seen.insert(manifest.resource.key(), manifest) {
            let (at, what, first) = (manifest.at(), manifest.called(), first.at());
            return Err(ManifestError::Twice { at, what, first });
        }
    }
    Ok(())
}

/// A folder's files, in the order of their names; a file itself.
fn expanded(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let folder = path.display().to_string();
    let unread = |source| ManifestError::Read { file: folder.clone(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unread)? {
        let file = entry.map_err(unread)?.path();
        let ending = file.extension().and_then(|ending| ending.to_str());
        if file.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() { Err(ManifestError::EmptyFolder { folder }) } else { Ok(files) }
}

/// A file's name for errors, and its text: a little more than is taken at most, so that too much is
/// noticed.
fn read(path: &Path) -> Result<(String, String), ManifestError> {
    let is_stdin = path == Path::new(STDIN);
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let unread = |source| ManifestError::Read { file: name.clone(), source };
    let source: Box<dyn Read> = match is_stdin {
        true => Box::new(io::stdin()),
        false => Box::new(fs::File::open(path).map_err(unread)?),
    };
    let mut text = String::new();
    source.take(MAX_FILE as u64 + 1).read_to_string(&mut text).map_err(unread)?;
    Ok((name, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(name: &str) -> String {
        format!("apiVersion: osier.dev/v1alpha1\nkind: Router\nmetadata: {{name: {name}}}\n")
    }

    fn said(files: &[PathBuf]) -> String {
        load(files).unwrap_err().to_string()
    }

    #[test]
    fn folders_are_read_in_order_and_errors_are_told_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(said(&[folder.path().to_owned()]).contains("has no files *.yaml"));
        fs::write(path("b.yml"), router("two") + "---\n" + &router("three")).unwrap();
        fs::write(path("a.yaml"), router("one")).unwrap();
        fs::write(path("notes.txt"), "not: ours").unwrap();
        let manifests = load(&[folder.path().to_owned()]).unwrap();
        let names: Vec<&str> = manifests.iter().map(|m| m.resource.name()).collect();
        assert_eq!(names, ["one", "two", "three"]);
        assert!(manifests[2].at().ends_with("b.yml:5"), "{}", manifests[2].at());

        fs::write(path("c.yaml"), router("one")).unwrap();
        let error = said(&[folder.path().to_owned()]);
        assert!(
            error.contains("c.yaml:1: Router one stands in") && error.contains("a.yaml:1 as"),
            "{error}"
        );

        fs::write(path("c.yaml"), "kind: Rooter\n").unwrap();
        fs::write(path("d.yaml"), router("x") + "spec: {vfr: 1}\n").unwrap();
        let error = said(&[folder.path().to_owned()]);
        assert!(error.contains("c.yaml:1") && error.contains("d.yaml:4"), "{error}");

        fs::write(path("empty.yaml"), "# nothing\n").unwrap();
        assert!(said(&[path("empty.yaml")]).contains("has no resources"));
        assert!(said(&[path("missing.yaml")]).contains("cannot be read"));
    }
}
