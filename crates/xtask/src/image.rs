//! `cargo xtask image`: the container image, without a builder.
//!
//! Two layers: below what the machine's packages bring (Open vSwitch, nftables, iptables, and the
//! libraries of all of it), above our own programs, so that an upgrade fetches only those. There is
//! no shell. The same programs give the same bytes.

use crate::cargo::{cargo, target_folder};
use crate::plugin;
use anyhow::{Context, Result, bail, ensure};
use osier_oci::{Compression, Image, Layer};
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str =
    "usage: cargo xtask image [--out FILE] [--name IMAGE] [--binaries FOLDER] [--plain]";

/// From the machine's packages, to where the image has them. Programs are looked for in `PATH`.
const PROGRAMS: &[(&str, &str)] = &[
    ("ovs-appctl", "usr/bin/ovs-appctl"),
    ("ovs-dpctl", "usr/bin/ovs-dpctl"),
    ("ovs-ofctl", "usr/bin/ovs-ofctl"),
    ("ovs-vsctl", "usr/bin/ovs-vsctl"),
    ("ovs-vswitchd", "usr/sbin/ovs-vswitchd"),
    ("ovsdb-client", "usr/bin/ovsdb-client"),
    ("ovsdb-server", "usr/sbin/ovsdb-server"),
    ("ovsdb-tool", "usr/bin/ovsdb-tool"),
    ("nft", "usr/sbin/nft"),
    ("xtables-nft-multi", "usr/sbin/xtables-nft-multi"),
];
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// What is ours in the image, and below the folder of `--binaries`.
const PROGRAMS_OF_OURS: [&str; 3] = ["osier", "osier-agent", "osier-cni"];

struct Wishes {
    out: PathBuf,
    name: String,
    binaries: Option<PathBuf>,
    compression: Compression,
}

/// Builds what is missing, and writes the archive.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let wishes = Wishes::read(arguments)?;
    let binaries = match &wishes.binaries {
        Some(folder) => PROGRAMS_OF_OURS.map(|name| folder.join(name)),
        None => build()?,
    };
    let [osier, agent, cni] = &binaries;
    let below = packages(osier)?;
    let above = programs([osier, agent], cni, &below)?;
    let image = Image {
        layers: vec![below, above],
        entrypoint: vec!["/usr/bin/osier".to_owned()],
        environment: vec!["PATH=/usr/sbin:/usr/bin".to_owned()],
        labels: labels(),
        ..Image::new(&wishes.name)
    };
    if let Some(folder) = wishes.out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let written = image.write(&wishes.out, wishes.compression)?;
    let megabytes = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    let [packages, programs] = written.layers[..] else { bail!("an image has two layers") };
    println!(
        "{}: {} {}, {} (packages {}, osier {})",
        wishes.out.display(),
        wishes.name,
        written.digest,
        megabytes(written.bytes),
        megabytes(packages),
        megabytes(programs),
    );
    Ok(())
}

impl Wishes {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut wishes = Self {
            out: target_folder().join("osier-image.tar"),
            name: format!("osier.dev/osier:{}", env!("CARGO_PKG_VERSION")),
            binaries: None,
            compression: Compression::Gzip,
        };
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{option} what? {USAGE}"));
            match option.as_str() {
                "--out" => wishes.out = value()?.into(),
                "--name" => wishes.name.clone_from(value()?),
                "--binaries" => wishes.binaries = Some(value()?.into()),
                "--plain" => wishes.compression = Compression::None,
                _ => bail!(USAGE),
            }
        }
        Ok(wishes)
    }
}

fn labels() -> std::collections::BTreeMap<String, String> {
    [
        ("org.opencontainers.image.title", "osier"),
        ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION")),
        ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Release builds: the programs, stripped, and the plugin, static.
fn build() -> Result<[PathBuf; 3]> {
    let target = target_folder();
    cargo(&["build", "--release", "--locked", "-p", "osier"], "")?;
    let folder = target.join("image");
    std::fs::create_dir_all(&folder)?;
    let [osier, agent, _] = PROGRAMS_OF_OURS;
    for name in [osier, agent] {
        let mut strip = Command::new("strip");
        let strip = strip.arg("-o").arg(folder.join(name)).arg(target.join("release").join(name));
        ensure!(strip.status().context("strip (binutils)")?.success(), "strip failed");
    }
    Ok([folder.join(osier), folder.join(agent), plugin::build()?])
}

/// The lower layer: a root folder, what packages bring, and libraries of all, ours as well.
fn packages(osier: &Path) -> Result<Layer> {
    let mut layer = Layer::new();
    for (link, to) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("sbin", "usr/sbin")] {
        layer.link(link, to)?;
    }
    layer.link("lib64", "usr/lib64")?;
    // The specification's `/var/run` is where Open vSwitch was built to look.
    layer.link("var/run", "../run")?;
    for folder in ["dev", "etc/osier", "proc", "root", "run", "sys", "var/lib"] {
        layer.directory(folder, 0o755)?;
    }
    layer.directory("tmp", 0o1777)?;
    layer.bytes(
        "etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/sbin/nologin\nosier:x:65532:65532:osier:/:/sbin/nologin\n",
    )?;
    layer.bytes("etc/group", 0o644, "root:x:0:\nosier:x:65532:\n")?;
    for (name, place) in PROGRAMS {
        layer.program(&which(name)?, place)?;
    }
    for name in ["iptables", "ip6tables"] {
        layer.link(&format!("usr/sbin/{name}"), "xtables-nft-multi")?;
    }
    layer.file(Path::new(SCHEMA), SCHEMA.trim_start_matches('/'), 0o644)?;
    extensions(&mut layer)?;
    layer.libraries_of(osier)?;
    Ok(layer)
}

/// What iptables loads when it reads others' rules.
fn extensions(layer: &mut Layer) -> Result<()> {
    let folder = format!("usr/lib/{}-linux-gnu/xtables", std::env::consts::ARCH);
    let likes = |name: &str| ["libxt_", "libipt_", "libip6t_"].iter().any(|p| name.starts_with(p));
    layer.folder(&Path::new("/").join(&folder), &folder, likes)?;
    // It brings a library of its own for those.
    layer.libraries_of(&Path::new("/").join(&folder).join("libxt_conntrack.so"))?;
    Ok(())
}

/// The upper layer: only what is ours.
fn programs([osier, agent]: [&Path; 2], cni: &Path, below: &Layer) -> Result<Layer> {
    let mut layer = Layer::new();
    layer.program(osier, "usr/bin/osier")?;
    layer.program(agent, "usr/bin/osier-agent")?;
    let is_static = osier_oci::libraries(cni)?.is_empty();
    // It runs on the machine itself, whatever that has.
    ensure!(is_static, "{} is not static: build it by `make cni`", cni.display());
    layer.file(cni, "usr/lib/osier/osier-cni", 0o755)?;
    layer.subtract(below);
    Ok(layer)
}

fn which(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Users' paths lack the second.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.with_context(|| format!("{program} is not here: run `make packages`"))
}
