//! What can go wrong when an image is made.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why there is no image.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A file that shall be in it cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The archive cannot be written.
    #[error("{} cannot be written", path.display())]
    Write {
        /// The archive.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A layer cannot be made.
    #[error("the layer cannot be made")]
    Layer(#[source] io::Error),
    /// A path in the image that cannot be: absolute, empty, or with `..`.
    #[error("{0:?} is no path inside of an image, such as usr/bin/tool")]
    Path(String),
    /// Two things at one path.
    #[error("{0:?} is in the layer already, and something else")]
    Taken(String),
    /// A program whose libraries are not all there.
    #[error("{} needs {library}, which is not on this machine", program.display())]
    Library {
        /// The program.
        program: PathBuf,
        /// What the loader did not find.
        library: String,
    },
    /// `ldd` could not be run.
    #[error("ldd cannot be run, which finds a program's libraries")]
    Ldd(#[source] io::Error),
    /// A name that runtimes would not take.
    #[error("{0:?} is no image's name, such as registry.example/team/name:tag")]
    Reference(String),
}
