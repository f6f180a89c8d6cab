//! The image as a runtime would use it: unpacked, read-only, with nothing else of this machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds programs where cargo puts them for this test.
fn build(arguments: &[&str]) {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked"]).args(arguments);
    // What cargo says of this package: `ring`, for one, is built anew when that differs.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&name);
        }
    }
    assert!(build.status().unwrap().success(), "{arguments:?}");
}

/// An image of what tests build: its archive.
fn image(folder: &Path) -> PathBuf {
    // The two together, as other tests build them: nothing is built twice.
    build(&["-p", "osier-cni", "-p", "osier"]);
    let programs = Path::new(env!("CARGO_BIN_EXE_xtask")).parent().unwrap();
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    succeeds(xtask.arg("cni").env("CARGO_TARGET_DIR", programs.parent().unwrap()));
    let binaries = folder.join("binaries");
    std::fs::create_dir(&binaries).unwrap();
    for name in ["osier", "osier-agent"] {
        std::os::unix::fs::symlink(programs.join(name), binaries.join(name)).unwrap();
    }
    let plugin = programs.with_file_name("plugin").join("osier-cni");
    std::os::unix::fs::symlink(plugin, binaries.join("osier-cni")).unwrap();
    let archive = folder.join("image.tar");
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["image", "--plain", "--binaries"]).arg(binaries).arg("--out").arg(&archive);
    succeeds(&mut xtask);
    archive
}

fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {out}{err}");
    format!("{out}{err}")
}

/// All layers, one over the other.
fn unpack(archive: &Path, folder: &Path) -> PathBuf {
    let (layout, root) = (folder.join("layout"), folder.join("root"));
    for new in [&layout, &root] {
        std::fs::create_dir(new).unwrap();
    }
    let untar = |from: &Path, to: &Path| {
        succeeds(Command::new("tar").arg("-xf").arg(from).arg("-C").arg(to));
    };
    untar(archive, &layout);
    let read =
        |path: PathBuf| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap();
    let blob =
        |at: &Value| layout.join("blobs").join(at["digest"].as_str().unwrap().replace(':', "/"));
    let index = read(layout.join("index.json"));
    let manifest = read(blob(&index["manifests"][0]));
    for layer in manifest["layers"].as_array().unwrap() {
        untar(&blob(layer), &root);
    }
    root
}

/// Runs a command line in a root that cannot be written to, but for `/tmp`, in a network of its own.
fn inside(root: &Path, line: &str) -> String {
    let script = format!(
        "mount --bind {root} {root} && mount -o remount,ro,bind {root} && \
         mount --rbind /dev {root}/dev && mount -t proc proc {root}/proc && \
         mount -t tmpfs tmpfs {root}/tmp && exec chroot {root} {line}",
        root = root.display()
    );
    succeeds(Command::new("unshare").args(["--mount", "--net", "sh", "-c", &script]))
}

#[test]
fn everything_in_it_runs_with_a_read_only_root() {
    let folder = tempfile::tempdir().unwrap();
    let root = unpack(&image(folder.path()), folder.path());
    for (line, said) in [
        ("/usr/bin/osier version", concat!("osier ", env!("CARGO_PKG_VERSION"))),
        ("/usr/bin/osier agent --help", "Usage: osier agent"),
        ("/usr/bin/osier-agent --version", concat!("osier-agent ", env!("CARGO_PKG_VERSION"))),
        ("/usr/bin/osier controller --help", "Usage: osier controller"),
        ("/usr/bin/osier install-cni --to /tmp/bin", "installed in /tmp/bin"),
        ("/usr/bin/osier prepare-ovs --database /tmp/conf.db", "/tmp/conf.db: made"),
        ("/usr/lib/osier/osier-cni", "the CNI plugin of Osier"),
        ("/usr/sbin/nft list ruleset", ""),
        ("/usr/sbin/nft add table inet osier", ""),
        ("/usr/sbin/iptables -S FORWARD", "-P FORWARD ACCEPT"),
        ("/usr/sbin/iptables -A FORWARD -m comment --comment x -m conntrack --ctstate NEW", ""),
        ("/usr/sbin/ip6tables -S FORWARD", "-P FORWARD ACCEPT"),
        ("/usr/sbin/ovs-vswitchd --version", "ovs-vswitchd (Open vSwitch)"),
        ("/usr/sbin/ovsdb-server --version", "ovsdb-server (Open vSwitch)"),
        ("/usr/bin/ovs-vsctl --version", "ovs-vsctl (Open vSwitch)"),
        ("/usr/bin/ovs-appctl --version", "ovs-appctl (Open vSwitch)"),
    ] {
        let found = inside(&root, line);
        assert!(found.contains(said), "{line}: {found}");
    }
    for absent in ["bin/sh", "usr/bin/sh", "usr/bin/bash", "etc/shadow"] {
        assert!(!root.join(absent).exists(), "{absent}");
    }
}
