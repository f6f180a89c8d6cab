//! `osier uninstall-node`: takes away what Osier made on this node.
//!
//! Every step is tried, and what could not be done is told at the end: it may be run again.

use super::{install_cni, prepare_ovs, runtime, verdict};
use anyhow::Context;
use clap::Args;
use osier_agent::config::{Config, DEFAULT_CNI_CONFIG, DEFAULT_PATH};
use osier_agent::{clean, netlink};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What an agent keeps in its own folder. Others may have theirs beside it: a view that people wrote,
/// a controller's store.
const STATE: [&str; 4] = ["credentials", "granted.json", "node.json", "view.cache"];

#[derive(Debug, Args)]
#[command(after_help = "\
Stop the agent first. Pods that are still attached lose their network: drain the node, or restart them \
when it has another one. What other programs may use stays: IP forwarding, packages, a bridge that \
Osier did not make.

Examples:
  osier uninstall-node                 # on the node itself
  osier uninstall-node --root /host    # from a container that has the node's folders there")]
pub(crate) struct Arguments {
    /// Where the node's folders are
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
    /// The agent's configuration, below that; it may be missing
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    config: PathBuf,
    /// The runtime's folder of plugins, below that
    #[arg(long, value_name = "FOLDER", default_value = "/opt/cni/bin")]
    plugins: PathBuf,
    /// Change nothing, and wait to be told to stop
    #[arg(long)]
    wait: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.wait {
        return runtime()?.block_on(stopped());
    }
    let places = Places::new(arguments)?;
    let mut report = Report::default();
    // First of all: no more pods are to come.
    report.step("CNI configuration", remove(&places.cni_config));
    runtime()?.block_on(switch(&places, &mut report))?;
    report.step("own Open vSwitch", own_switch(&places));
    report.step("CNI plugin", plugins(&places.plugins));
    report.step("certificates and views", remove_all(&places.config.state_dir, &STATE));
    report.step("sockets", remove_all(&places.run_dir, &places.sockets));
    Ok(verdict(report.is_well))
}

async fn stopped() -> anyhow::Result<ExitCode> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("signals cannot be heard")?;
    writeln!(io::stdout(), "this node is clean")?;
    terminate.recv().await;
    Ok(ExitCode::SUCCESS)
}

/// Where things are on the node.
struct Places {
    config: Config,
    cni_config: PathBuf,
    plugins: PathBuf,
    run_dir: PathBuf,
    sockets: [String; 3],
    ovs_database: PathBuf,
}

impl Places {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let below = |path: &Path| arguments.root.join(path.strip_prefix("/").unwrap_or(path));
        let file = below(&arguments.config);
        let mut config = if file.exists() {
            Config::load(&file)?
        } else {
            Config::parse("", Path::new(DEFAULT_PATH))?
        };
        let cni_config = config.cni_config.clone();
        let cni_config = below(&cni_config.unwrap_or_else(|| DEFAULT_CNI_CONFIG.into()));
        for path in [&mut config.ovsdb, &mut config.ovs_run_dir, &mut config.cni_socket] {
            *path = below(path);
        }
        config.state_dir = below(&config.state_dir);
        let run_dir = config.cni_socket.parent().unwrap_or(Path::new("/run/osier")).to_owned();
        let socket = config.cni_socket.file_name().unwrap_or_default().to_string_lossy();
        let sockets = ["", ".lock", ".freed"].map(|suffix| format!("{socket}{suffix}"));
        let plugins = below(&arguments.plugins);
        let ovs_database = below(Path::new("/etc/openvswitch/conf.db"));
        Ok(Self { config, cni_config, plugins, run_dir, sockets, ovs_database })
    }
}

/// What is on the switch and in the kernel.
async fn switch(places: &Places, report: &mut Report) -> anyhow::Result<()> {
    let _alone = clean::alone(&places.config).await?;
    if std::os::unix::net::UnixStream::connect(&places.config.ovsdb).is_ok() {
        let cleaned = clean::switch(&places.config).await.map(|cleaned| {
            let stay = match cleaned.foreign.join(", ") {
                names if names.is_empty() => names,
                names => format!("; {names} is not ours and stays"),
            };
            format!("{} ports of pods removed{stay}", cleaned.ports)
        });
        report.step("switch", cleaned.map_err(Into::into));
    } else {
        report.step("switch", Ok("none runs".to_owned()));
    }
    report.step("pods' wires", wires());
    let firewall = clean::firewall().await.map(|()| "no rule of ours".to_owned());
    report.step("firewall", firewall.map_err(Into::into));
    Ok(())
}

/// Those that no database tells of any more, as when Osier's own switch went first.
fn wires() -> anyhow::Result<String> {
    let all = nix::ifaddrs::getifaddrs().context("interfaces cannot be listed")?;
    let names: BTreeSet<String> = all.map(|one| one.interface_name).collect();
    for name in names.iter().filter(|name| name.starts_with("veth")) {
        netlink::delete_own_link(name)?;
    }
    Ok("none".to_owned())
}

/// The database that `prepare-ovs` made, and the kernel's datapath that its switch left.
fn own_switch(places: &Places) -> anyhow::Result<String> {
    let folder = places.ovs_database.parent().unwrap_or(Path::new("/etc/openvswitch"));
    let mark = folder.join(prepare_ovs::MARK);
    if !mark.exists() {
        return Ok("none".to_owned());
    }
    let runs = std::os::unix::net::UnixStream::connect(&places.config.ovsdb).is_ok();
    anyhow::ensure!(!runs, "it runs: delete the daemon set osier-ovs, then repeat this");
    // A kernel that has none, or no such module, has nothing to delete.
    let _ = Command::new("ovs-dpctl").args(["del-dp", "ovs-system"]).output();
    forget_switch(places, &mark)
}

fn forget_switch(places: &Places, mark: &Path) -> anyhow::Result<String> {
    let lock = prepare_ovs::lock_of(&places.ovs_database);
    remove(&places.ovs_database)?;
    remove(&places.ovs_database.with_file_name(lock))?;
    remove(mark)?;
    remove(&places.config.ovs_run_dir)?;
    Ok("removed".to_owned())
}

/// Only those that are ours: others may have the names of older systems.
fn plugins(folder: &Path) -> anyhow::Result<String> {
    if !folder.exists() {
        return Ok("none".to_owned());
    }
    install_cni::sweep(folder)?;
    let mut gone = Vec::new();
    for name in install_cni::NAMES {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|bytes| install_cni::is_ours(&bytes)) {
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
            gone.push(name);
        }
    }
    Ok(if gone.is_empty() { "none".to_owned() } else { format!("{} removed", gone.join(", ")) })
}

/// A file, or a folder with all that is in it.
fn remove(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Ok(()) => Ok(format!("{shown} removed")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok("none".to_owned()),
        Err(error) => Err(error).with_context(|| format!("{shown} cannot be removed")),
    }
}

/// Some of a folder's, and the folder itself if it is empty then.
fn remove_all(folder: &Path, names: &[impl AsRef<Path>]) -> anyhow::Result<String> {
    for name in names {
        remove(&folder.join(name))?;
    }
    match fs::remove_dir(folder) {
        Ok(()) => Ok(format!("{} removed", folder.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok("none".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Ok(format!("removed; {} is mounted, and stays empty", folder.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Ok(format!("removed; {} has more, which is not the agent's", folder.display()))
        }
        Err(error) => Err(error).with_context(|| format!("{}", folder.display())),
    }
}

/// What was done, a line each.
struct Report {
    is_well: bool,
}

impl Default for Report {
    fn default() -> Self {
        Self { is_well: true }
    }
}

impl Report {
    fn step(&mut self, what: &str, outcome: anyhow::Result<String>) {
        let line = match outcome {
            Ok(done) => format!("✓ {what}: {done}"),
            Err(error) => {
                self.is_well = false;
                format!("✗ {what}: {error:#}")
            }
        };
        // Who does not listen does not want to know; the work goes on.
        let _ = writeln!(io::stdout(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::parsed;
    use super::*;

    fn places(root: &Path) -> Places {
        Places::new(&parsed(["--root", root.to_str().unwrap()])).unwrap()
    }

    fn put(root: &Path, path: &str) {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), "").unwrap();
    }

    #[test]
    fn all_places_are_below_the_root() {
        let places = places(Path::new("/host"));
        assert_eq!(places.config.ovsdb, Path::new("/host/run/openvswitch/db.sock"));
        assert_eq!(places.config.state_dir, Path::new("/host/var/lib/osier"));
        assert_eq!(places.cni_config, Path::new("/host/etc/cni/net.d/10-osier.conflist"));
        assert_eq!(places.plugins, Path::new("/host/opt/cni/bin"));
        assert_eq!(places.run_dir, Path::new("/host/run/osier"));
    }

    #[test]
    fn a_controllers_store_beside_the_agents_files_stays() {
        let root = tempfile::tempdir().unwrap();
        let state = root.path().join("var/lib/osier");
        put(root.path(), "var/lib/osier/credentials/key.pem");
        put(root.path(), "var/lib/osier/controller/store.redb");
        let said = remove_all(&state, &STATE).unwrap();
        assert!(said.contains("is not the agent's"), "{said}");
        assert!(state.join("controller/store.redb").exists());
        assert!(!state.join("credentials").exists());
        fs::remove_dir_all(state.join("controller")).unwrap();
        assert!(remove_all(&state, &STATE).unwrap().ends_with("removed"));
        assert_eq!(remove_all(&state, &STATE).unwrap(), "none");
    }

    #[test]
    fn only_a_database_of_our_own_goes() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        put(root.path(), "etc/openvswitch/conf.db");
        assert_eq!(own_switch(&places).unwrap(), "none");
        assert!(places.ovs_database.exists(), "it is the node's");
        // Not all of it: this machine's own kernel may have a datapath.
        put(root.path(), &format!("etc/openvswitch/{}", prepare_ovs::MARK));
        put(root.path(), "run/openvswitch/ovs-vswitchd.pid");
        let mark = places.ovs_database.with_file_name(prepare_ovs::MARK);
        assert_eq!(forget_switch(&places, &mark).unwrap(), "removed");
        assert!(!root.path().join("run/openvswitch").exists());
        assert_eq!(fs::read_dir(root.path().join("etc/openvswitch")).unwrap().count(), 0);
    }
}
