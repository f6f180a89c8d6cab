//! Which libraries a program needs, asked of the machine's own loader (`ldd`).

use crate::error::ImageError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A shared library, or the loader itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Library {
    /// The path that the loader will look at, without links in its folders.
    pub path: PathBuf,
}

/// All libraries of a program, and theirs; none for a static one.
pub fn libraries(program: &Path) -> Result<Vec<Library>, ImageError> {
    let mut ldd = Command::new("ldd");
    // Its words are read.
    let output = ldd.arg(program).env("LC_ALL", "C").output().map_err(ImageError::Ldd)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut found = Vec::new();
    for line in said.lines() {
        match line_of(line) {
            Line::Found(path) => found.push(Library { path: settled(Path::new(path))? }),
            Line::Missing(library) => {
                let (program, library) = (program.to_owned(), library.to_owned());
                return Err(ImageError::Library { program, library });
            }
            Line::Other => {}
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Found(&'a str),
    Missing(&'a str),
    /// The kernel's own page, or that there are none.
    Other,
}

/// `libz.so.1 => /lib/libz.so.1 (0x7f…)`, `/lib64/ld-linux.so.2 (0x7f…)`, `libx.so => not found`.
fn line_of(line: &str) -> Line<'_> {
    let line = line.trim();
    let place = line.split_once(" => ").map_or(line, |(_, place)| place);
    let path = place.split(" (").next().unwrap_or_default();
    match (path, line.split_once(" => ")) {
        ("not found", Some((name, _))) => Line::Missing(name),
        (path, _) if path.starts_with('/') => Line::Found(path),
        _ => Line::Other,
    }
}

/// The name that is looked for stays: only its folder's links are followed.
fn settled(path: &Path) -> Result<PathBuf, ImageError> {
    let failed = |source| ImageError::Read { path: path.to_owned(), source };
    let folder = path.parent().unwrap_or(Path::new("/")).canonicalize().map_err(failed)?;
    Ok(folder.join(path.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_words_are_understood() {
        assert_eq!(line_of("\tlinux-vdso.so.1 (0x00007ffc)"), Line::Other);
        assert_eq!(line_of("\tstatically linked"), Line::Other);
        let found = "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)";
        assert_eq!(line_of(found), Line::Found("/lib/x86_64-linux-gnu/libz.so.1"));
        let loader = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)";
        assert_eq!(line_of(loader), Line::Found("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(line_of("\tlibq.so.2 => not found"), Line::Missing("libq.so.2"));
    }
}
