//! Container images without a builder: files go in, an OCI archive comes out.
//!
//! The same files give the same bytes: entries are sorted, times are zero, owners are root. The
//! archive is an image layout as a tar (OCI image specification 1.1), which `ctr images import`,
//! `podman load`, `skopeo` and Docker from 25 on read. Nothing here knows what Osier is; programs
//! bring their libraries along as the machine's own loader finds them.
//!
//! ```no_run
//! use osier_oci::{Compression, Image, Layer};
//! use std::path::Path;
//! let mut layer = Layer::new();
//! layer.program(Path::new("/usr/sbin/nft"), "usr/sbin/nft")?;
//! layer.directory("tmp", 0o1777)?;
//! let image = Image { entrypoint: vec!["/usr/sbin/nft".into()], layers: vec![layer], ..Image::new("example.org/nft:1") };
//! image.write(Path::new("nft.tar"), Compression::Gzip)?;
//! # Ok::<(), osier_oci::ImageError>(())
//! ```

mod error;
mod image;
mod layer;
mod libraries;

pub use error::ImageError;
pub use image::{Compression, Image, Written, sha256};
pub use layer::Layer;
pub use libraries::{Library, libraries};
