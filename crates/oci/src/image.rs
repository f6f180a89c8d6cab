//! An image: layers, how it is run, and the archive of it.

use crate::error::ImageError;
use crate::layer::Layer;
use flate2::GzBuilder;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use tar::Header;

/// What runs, on what.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Its whole name: `osier.dev/osier:0.1.0`.
    pub reference: String,
    /// From the lowest to the highest.
    pub layers: Vec<Layer>,
    /// What is run.
    pub entrypoint: Vec<String>,
    /// Its arguments, unless a pod says others.
    pub arguments: Vec<String>,
    /// `NAME=value`.
    pub environment: Vec<String>,
    /// As whom; empty: root.
    pub user: String,
    /// What people want to know of it.
    pub labels: BTreeMap<String, String>,
}

/// How layers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Small: for what travels.
    #[default]
    Gzip,
    /// Quick: for what is used here.
    None,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The image's identity: the digest of its manifest.
    pub digest: String,
    /// Bytes of each layer as it travels.
    pub layers: Vec<u64>,
    /// Bytes of the archive.
    pub bytes: u64,
}

/// A piece of the archive, known by its digest.
struct Blob {
    media_type: &'static str,
    digest: String,
    bytes: Vec<u8>,
}

/// An image in pieces.
struct Packed {
    blobs: Vec<Blob>,
    sizes: Vec<u64>,
    /// The manifest, as the index names it.
    described: Value,
    digest: String,
}

// === impl Image ===

impl Image {
    /// An image with nothing in it.
    pub fn new(reference: &str) -> Self {
        Self { reference: reference.to_owned(), ..Self::default() }
    }

    /// Writes the archive: the whole of it, or nothing.
    pub fn write(&self, path: &Path, compression: Compression) -> Result<Written, ImageError> {
        let Packed { blobs, sizes, described, digest } = self.pack(compression)?;
        let bytes = write_archive(&blobs, &[described], path)?;
        Ok(Written { digest, layers: sizes, bytes })
    }

    /// Writes several images into one archive, where what they share is kept once: its bytes.
    pub fn write_all(
        images: &[Self],
        path: &Path,
        compression: Compression,
    ) -> Result<u64, ImageError> {
        let (mut blobs, mut manifests) = (Vec::new(), Vec::new());
        for image in images {
            let packed = image.pack(compression)?;
            blobs.extend(packed.blobs);
            manifests.push(packed.described);
        }
        write_archive(&blobs, &manifests, path)
    }

    fn pack(&self, compression: Compression) -> Result<Packed, ImageError> {
        let tag = tag(&self.reference)?;
        let mut blobs = Vec::new();
        let mut bare = Vec::new();
        for layer in &self.layers {
            let mut tar = Vec::new();
            layer.write_tar(&mut tar)?;
            bare.push(sha256(&tar));
            blobs.push(compressed(tar, compression)?);
        }
        let layers: Vec<Value> = blobs.iter().map(Blob::descriptor).collect();
        let sizes = blobs.iter().map(|blob| blob.bytes.len() as u64).collect();
        let config = Blob::json("application/vnd.oci.image.config.v1+json", &self.config(&bare));
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let manifest = Blob::json(
            media_type,
            &json!({
                "schemaVersion": 2,
                "mediaType": media_type,
                "config": config.descriptor(),
                "layers": layers,
            }),
        );
        let mut described = manifest.descriptor();
        described["platform"] = json!({"architecture": architecture(), "os": "linux"});
        // The first is containerd's own: without it the whole name would be lost.
        described["annotations"] = json!({
            "io.containerd.image.name": self.reference,
            "org.opencontainers.image.ref.name": tag,
        });
        let digest = manifest.digest.clone();
        blobs.extend([config, manifest]);
        Ok(Packed { blobs, sizes, described, digest })
    }

    fn config(&self, layers: &[String]) -> Value {
        json!({
            "architecture": architecture(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {
                "Entrypoint": self.entrypoint,
                "Cmd": self.arguments,
                "Env": self.environment,
                "User": self.user,
                "WorkingDir": "/",
                "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": layers},
            "history": layers.iter().map(|_| json!({"created_by": "osier-oci"})).collect::<Vec<_>>(),
        })
    }
}

/// Go's name, which images use, for the machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The tag of a whole name. Stricter than runtimes are: what passes here passes everywhere.
fn tag(reference: &str) -> Result<&str, ImageError> {
    let wrong = || ImageError::Reference(reference.to_owned());
    let (name, tag) = reference.rsplit_once(':').ok_or_else(wrong)?;
    let host = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/:".contains(c);
    let word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let whole = name.contains('/') && name.chars().all(host) && !name.contains("//");
    let tagged = !tag.is_empty() && tag.len() <= 128 && tag.chars().all(word);
    if whole && tagged && !tag.starts_with(['.', '-']) { Ok(tag) } else { Err(wrong()) }
}

fn compressed(tar: Vec<u8>, compression: Compression) -> Result<Blob, ImageError> {
    let (media_type, bytes) = match compression {
        Compression::None => ("application/vnd.oci.image.layer.v1.tar", tar),
        Compression::Gzip => {
            // No name, no time: the same bytes each time.
            let mut gzip = GzBuilder::new().write(Vec::new(), flate2::Compression::default());
            gzip.write_all(&tar).map_err(ImageError::Layer)?;
            let bytes = gzip.finish().map_err(ImageError::Layer)?;
            ("application/vnd.oci.image.layer.v1.tar+gzip", bytes)
        }
    };
    Ok(Blob { media_type, digest: sha256(&bytes), bytes })
}

/// The digest of bytes as images write it: `sha256:e3b0…`.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in digest(&SHA256, bytes).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn write_archive(blobs: &[Blob], manifests: &[Value], path: &Path) -> Result<u64, ImageError> {
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
    });
    let bytes = archive(blobs, &index).map_err(ImageError::Layer)?;
    replace(path, &bytes).map_err(|source| ImageError::Write { path: path.to_owned(), source })?;
    Ok(bytes.len() as u64)
}

fn archive(blobs: &[Blob], index: &Value) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut append = |path: &str, bytes: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, path, bytes)
    };
    let mut known = BTreeSet::new();
    for blob in blobs.iter().filter(|blob| known.insert(&blob.digest)) {
        let path = format!("blobs/{}", blob.digest.replace(':', "/"));
        append(&path, &blob.bytes)?;
    }
    append("index.json", index.to_string().as_bytes())?;
    append("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    tar.into_inner()
}

/// Beside its place, and moved there: nobody reads half an archive.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path)).inspect_err(|_| {
        // Nothing stays of what failed.
        let _ = std::fs::remove_file(&beside);
    })
}

// === impl Blob ===

impl Blob {
    fn json(media_type: &'static str, value: &Value) -> Self {
        let bytes = value.to_string().into_bytes();
        Self { media_type, digest: sha256(&bytes), bytes }
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_are_taken() {
        assert_eq!(tag("osier.dev/osier:0.1.0").unwrap(), "0.1.0");
        assert_eq!(tag("localhost:5000/a/b:x").unwrap(), "x");
        for name in ["osier", "osier:1", "a/b", "a/B:1", "a//b:1", "a/b:", "a/b:-x", "a/b:x y"] {
            assert!(matches!(tag(name), Err(ImageError::Reference(_))), "{name}");
        }
    }

    #[test]
    fn digests_are_those_of_sha256sum() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }
}
