//! The images that Kubernetes and its end-to-end suite ask for, under their real names.
//!
//! No registry is asked. Images are made of the programs that `scripts/install-kubernetes` built and
//! of a userland out of the host's own programs with the libraries they load: a tenth of a
//! distribution's size, and every node unpacks them at each start. The archive is kept beside the
//! programs and made anew when one of its parts is newer.

use crate::install::{COREDNS_VERSION, Kubernetes};
use osier_oci::{Compression, Image, ImageError, Layer};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use thiserror::Error;

/// The image of pods' sandboxes.
pub const PAUSE: &str = "registry.k8s.io/pause:3.10.1";
/// The suite's image for nearly everything, with a shell, `curl`, `dig`, `nc`, `iperf`.
pub const AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.56";
/// BusyBox.
pub const BUSYBOX: &str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1";

/// The program that sends what the tracker takes for invalid, and sees whether somebody resets its
/// connection for that.
const CONNTRACK_BUG: &str = "regression-issue-74839";

/// What the suite runs in pods, and people when they look for an error.
const USERLAND: &[&str] = &[
    "bash",
    "conntrack",
    "curl",
    "dig",
    "getent",
    "ip",
    "iperf",
    "iperf3",
    "nc",
    "ping",
    "ss",
    "tcpdump",
    // BusyBox' own crashes where it is linked statically and resolves a name.
    "wget",
];
const BUSYBOX_PROGRAM: &str = "/bin/busybox";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What programs look for. The user and group are those that the suite expects in agnhost.
const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh
user-defined-in-image:x:1000:1000::/home:/bin/sh
nobody:x:65534:65534:nobody:/home:/bin/false
",
    ),
    (
        "etc/group",
        "root:x:0:
user-defined-in-image:x:1000:
group-defined-in-image:x:50000:user-defined-in-image
nogroup:x:65534:
",
    ),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("www/index.html", "hello\n"),
];

/// Why there are no images.
#[derive(Debug, Error)]
pub enum ImagesError {
    /// A program of the host is missing.
    #[error("the host has no {program}: run scripts/install-packages kubernetes")]
    Missing {
        /// Which.
        program: String,
    },
    /// A file.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An image or the archive.
    #[error("an image cannot be put together")]
    Image(#[from] ImageError),
}

/// The archive with all images, made if it is missing or older than its parts.
pub(crate) fn archive(kubernetes: &Kubernetes) -> Result<PathBuf, ImagesError> {
    let path = kubernetes.dir().join(format!("images-{:016x}.tar", recipe()));
    let lock = kubernetes.dir().join("images.lock");
    // Two clusters that start at once make one archive.
    let lock = File::options().create(true).append(true).open(&lock).map_err(file(&lock))?;
    lock.lock().map_err(file(&path))?;
    let parts = ["pause", "agnhost", "coredns", CONNTRACK_BUG].map(|name| kubernetes.program(name));
    if !up_to_date(&path, &parts) {
        Image::write_all(&images(kubernetes)?, &path, Compression::None)?;
    }
    Ok(path)
}

/// What this file says of the images, as a number.
fn recipe() -> u64 {
    let mut hasher = DefaultHasher::new();
    include_str!("images.rs").hash(&mut hasher);
    hasher.finish()
}

/// Whether the archive is newer than its parts.
fn up_to_date(archive: &Path, parts: &[PathBuf]) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let Some(made) = time(archive) else { return false };
    parts.iter().filter_map(|part| time(part)).all(|part| part <= made)
}

fn images(kubernetes: &Kubernetes) -> Result<Vec<Image>, ImagesError> {
    let program = |name: &str| -> Result<Layer, ImageError> {
        let mut layer = Layer::new();
        layer.file(&kubernetes.program(name), name, 0o755)?;
        Ok(layer)
    };
    let (pause, coredns, mut agnhost) =
        (program("pause")?, program("coredns")?, program("agnhost")?);
    agnhost.link("agnhost-2", "agnhost")?;
    agnhost.directory("uploads", 0o755)?;
    for name in ["localhost.crt", "localhost.key"] {
        agnhost.file(&kubernetes.dir().join("agnhost").join(name), name, 0o644)?;
    }
    let conntrack_bug = program(CONNTRACK_BUG)?;
    let (busybox, userland) = (busybox()?, userland()?);
    let suite = |name: &str| format!("registry.k8s.io/e2e-test-images/{name}");
    let coredns_name = format!("registry.k8s.io/coredns/coredns:v{COREDNS_VERSION}");
    let mut images = vec![
        image(PAUSE, &["/pause"], &[], [&pause]),
        image(&coredns_name, &["/coredns"], &[], [&coredns]),
        image(BUSYBOX, &[], &["sh"], [&busybox]),
        // With CoreDNS in it, for tests of pods' own nameservers.
        image(AGNHOST, &["/agnhost"], &["pause"], [&busybox, &userland, &coredns, &agnhost]),
        image(&suite("jessie-dnsutils:1.7"), &[], &["bash"], [&busybox, &userland]),
        image(
            &suite(&format!("{CONNTRACK_BUG}:1.2")),
            &[&format!("/{CONNTRACK_BUG}")],
            &[],
            [&conntrack_bug],
        ),
    ];
    for name in ["nginx:1.14-4", "nginx:1.15-4", "httpd:2.4.38-4", "httpd:2.4.39-4"] {
        let serve = ["httpd", "-f", "-p", "80", "-h", "/www"];
        images.push(image(&suite(name), &[], &serve, [&busybox]));
    }
    Ok(images)
}

fn image<const N: usize>(
    name: &str,
    entrypoint: &[&str],
    arguments: &[&str],
    layers: [&Layer; N],
) -> Image {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Image {
        layers: layers.map(Clone::clone).into(),
        entrypoint: owned(entrypoint),
        arguments: owned(arguments),
        environment: vec![PATH.to_owned()],
        ..Image::new(name)
    }
}

/// BusyBox by all its names, and the few files that programs look for.
fn busybox() -> Result<Layer, ImagesError> {
    let program = Path::new(BUSYBOX_PROGRAM);
    let missing = |_| ImagesError::Missing { program: "busybox".to_owned() };
    let names = Command::new(program).arg("--list").output().map_err(missing)?;
    let mut layer = Layer::new();
    layer.file(program, "bin/busybox", 0o755)?;
    for name in String::from_utf8_lossy(&names.stdout).lines().filter(|&name| name != "busybox") {
        layer.link(&format!("bin/{name}"), "busybox")?;
    }
    layer.directory("tmp", 0o1777)?;
    for folder in ["home", "root", "usr/bin", "usr/sbin", "var/log"] {
        layer.directory(folder, 0o755)?;
    }
    for (path, text) in FILES {
        layer.bytes(path, 0o644, *text)?;
    }
    Ok(layer)
}

/// Programs of the host, each with what the loader would load for it.
fn userland() -> Result<Layer, ImagesError> {
    let mut layer = Layer::new();
    // Libraries are where these lead to, and programs name their loader by them.
    layer.link("lib", "usr/lib")?;
    layer.link("lib64", "usr/lib64")?;
    // BusyBox's own shell would take its own programs for any of the same name.
    layer.program(Path::new("/bin/dash"), "bin/sh")?;
    for name in USERLAND {
        let found = find_program(name)
            .ok_or_else(|| ImagesError::Missing { program: (*name).to_owned() })?;
        layer.program(&found, &format!("usr/local/bin/{name}"))?;
    }
    Ok(layer)
}

fn find_program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> ImagesError {
    let path = path.to_owned();
    move |source| ImagesError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn an_archive_is_made_anew_after_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("images.tar");
        let parts = [dir.path().join("part")];
        fs::write(&parts[0], "").unwrap();
        assert!(!up_to_date(&archive, &parts));
        fs::write(&archive, "").unwrap();
        assert!(up_to_date(&archive, &parts));
        let later = SystemTime::now() + Duration::from_mins(1);
        File::options().append(true).open(&parts[0]).unwrap().set_modified(later).unwrap();
        assert!(!up_to_date(&archive, &parts));
    }
}
