//! An archive as foreign tools see it: `tar`, `sha256sum`, and the machine's own loader in a chroot.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_oci::{Compression, Image, Layer};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn image() -> Image {
    let mut lower = Layer::new();
    lower.link("lib", "usr/lib").unwrap();
    lower.link("lib64", "usr/lib64").unwrap();
    lower.program(Path::new("/bin/ls"), "usr/bin/ls").unwrap();
    let mut upper = Layer::new();
    upper.bytes("etc/greeting", 0o644, "hello").unwrap();
    upper.libraries_of(Path::new("/bin/ls")).unwrap();
    upper.subtract(&lower);
    Image {
        entrypoint: vec!["/usr/bin/ls".to_owned()],
        layers: vec![lower, upper],
        ..Image::new("test.example/ls:1")
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Follows the archive from its index to its layers, and checks every digest on the way.
fn unpack(archive: &Path, into: &Path) -> Vec<String> {
    let into_text = into.to_str().unwrap();
    run("tar", &["-xf", archive.to_str().unwrap(), "-C", into_text]);
    let blob = |descriptor: &Value| {
        let digest = text(&descriptor["digest"]).strip_prefix("sha256:").unwrap().to_owned();
        let path = into.join("blobs/sha256").join(&digest);
        let sum = run("sha256sum", &[path.to_str().unwrap()]);
        assert!(sum.starts_with(&digest), "{sum}");
        assert_eq!(descriptor["size"], std::fs::metadata(&path).unwrap().len());
        path
    };
    let read =
        |path: &Path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap();
    let index = read(&into.join("index.json"));
    let manifest = read(&blob(&index["manifests"][0]));
    let config = read(&blob(&manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/ls");
    let layers = manifest["layers"].as_array().unwrap();
    let bare = config["rootfs"]["diff_ids"].as_array().unwrap();
    assert_eq!(layers.len(), bare.len());
    let paths = layers.iter().map(|layer| blob(layer).to_str().unwrap().to_owned());
    paths.collect()
}

#[test]
fn foreign_tools_read_it_and_its_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("image.tar");
    for compression in [Compression::Gzip, Compression::None] {
        image().write(&archive, compression).unwrap();
        let unpacked = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        let layers = unpack(&archive, unpacked.path());
        for layer in &layers {
            run("tar", &["-xf", layer, "-C", root.path().to_str().unwrap()]);
        }
        assert!(!run("tar", &["-tf", &layers[1]]).contains("libc"), "libraries are below");
        // Nothing of the machine is there but what the layers have.
        let said = run("chroot", &[root.path().to_str().unwrap(), "/usr/bin/ls", "/etc"]);
        assert_eq!(said, "greeting\n");
    }
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("1"), folder.path().join("2"));
    let first = image().write(&one, Compression::Gzip).unwrap();
    assert_eq!(first, image().write(&two, Compression::Gzip).unwrap());
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    assert_eq!(first.bytes, std::fs::metadata(&one).unwrap().len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing beside them");
}
