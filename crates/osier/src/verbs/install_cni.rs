//! `osier install-cni`: the CNI plugin, put where a container runtime looks.
//!
//! A runtime may call the plugin at any moment: it finds the old one or the new one, whole.

use anyhow::{Context, bail, ensure};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The names that configurations know the plugin by: its own, and those of older systems; and the
/// one that older runtimes call for each pod first. All but the first are ours only where nobody
/// else's is: pods of another system may still need it.
pub(super) const NAMES: [&str; 5] = ["osier", "odlovs-cni", "odlcoe", "ovs-odl", LOOPBACK];
const LOOPBACK: &str = "loopback";
/// What the plugin says of itself: in no other program.
const SIGN: &[u8] = b"the CNI plugin of Osier";
/// What is not whole yet.
const BESIDE: &str = ".osier-cni.";

#[derive(Debug, Args)]
#[command(after_help = "\
The plugin gets the name osier, and odlovs-cni, odlcoe, ovs-odl and loopback where there is none.

Examples:
  osier install-cni --to /opt/cni/bin
  osier install-cni --to /opt/cni/bin --from target/plugin/osier-cni")]
pub(crate) struct Arguments {
    /// The runtime's folder of plugins
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// The plugin
    #[arg(long, value_name = "FILE", default_value = "/usr/lib/osier/osier-cni")]
    from: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { to, from } = arguments;
    let plugin = fs::read(from).with_context(|| format!("{} cannot be read", from.display()))?;
    ensure!(is_ours(&plugin), "{} is not Osier's plugin", from.display());
    same_version(from)?;
    let failed = || format!("the plugin cannot be installed in {}", to.display());
    let Installed { changed, others } = install(&plugin, to).with_context(failed)?;
    let version = env!("CARGO_PKG_VERSION");
    let what = if changed { "installed" } else { "is there already" };
    writeln!(io::stdout(), "osier-cni {version} {what} in {}", to.display())?;
    // That one is no surprise on any node.
    for name in others.into_iter().filter(|name| *name != LOOPBACK) {
        let path = to.join(name);
        writeln!(io::stdout(), "{} is another's, and stays: remove it first", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether these bytes are the plugin, of whatever version.
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    bytes.windows(SIGN.len()).any(|window| window == SIGN)
}

/// A plugin of another release would not understand the agent that comes with this one.
fn same_version(plugin: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(plugin);
    let said = command.env_remove("CNI_COMMAND").output();
    let said = said.with_context(|| format!("{} cannot be run", plugin.display()))?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let version = said.strip_prefix("osier-cni ").and_then(|rest| rest.split(':').next());
    match version {
        Some(env!("CARGO_PKG_VERSION")) => Ok(()),
        Some(version) => {
            bail!("{} is of {version}, not {}", plugin.display(), env!("CARGO_PKG_VERSION"))
        }
        None => bail!("{} does not say its version", plugin.display()),
    }
}

/// What became of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Installed {
    changed: bool,
    /// Names that are another's.
    others: Vec<&'static str>,
}

/// Puts it under all names that are free or ours.
fn install(plugin: &[u8], folder: &Path) -> io::Result<Installed> {
    fs::create_dir_all(folder)?;
    sweep(folder)?;
    let beside = |name: &str| folder.join(format!("{BESIDE}{}.{name}", std::process::id()));
    let mut installed = Installed::default();
    for name in NAMES {
        let (path, whole) = (folder.join(name), beside(name));
        match fs::read(&path) {
            Ok(found) if found == plugin => continue,
            Ok(found) if name != NAMES[0] && !is_ours(&found) => {
                installed.others.push(name);
                continue;
            }
            _ => {}
        }
        let first = folder.join(NAMES[0]);
        let linked = name != NAMES[0] && fs::hard_link(&first, &whole).is_ok();
        // Some file systems know no links.
        if !linked {
            write(&whole, plugin)?;
        }
        fs::rename(&whole, &path)?;
        installed.changed = true;
    }
    File::open(folder)?.sync_all()?;
    Ok(installed)
}

/// The whole file, on disk before it has a name that anybody calls.
fn write(path: &Path, plugin: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(path)?;
    file.write_all(plugin)?;
    // Whatever the caller's mask is.
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    file.sync_all()
}

/// Removes what an installation that was cut short left.
pub(super) fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(BESIDE) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn plugin(text: &str) -> Vec<u8> {
        [SIGN, text.as_bytes()].concat()
    }

    #[test]
    fn all_names_are_one_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("osier"), "not even a plugin").unwrap();
        fs::write(at("odlcoe"), plugin("0")).unwrap();
        fs::write(at(".osier-cni.1.osier"), "cut short").unwrap();
        fs::write(at("bridge"), "another's").unwrap();
        assert!(install(&plugin("1"), folder.path()).unwrap().changed);
        let inode = |name: &str| fs::metadata(at(name)).unwrap().ino();
        for name in NAMES {
            assert_eq!(fs::read(at(name)).unwrap(), plugin("1"), "{name}");
            assert_eq!(fs::metadata(at(name)).unwrap().mode() & 0o777, 0o755);
            assert_eq!(inode(name), inode("osier"));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), NAMES.len() + 1);
        assert_eq!(install(&plugin("1"), folder.path()).unwrap(), Installed::default());
    }

    /// Pods that another system made are deleted by its plugin.
    #[test]
    fn plugins_of_other_systems_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (text, changed) in [("1", true), ("2", true), ("2", false)] {
            for name in &NAMES[1..] {
                // Another file, not the one that all names share.
                drop(fs::remove_file(at(name)));
                fs::write(at(name), format!("the {name} of another")).unwrap();
            }
            let installed = install(&plugin(text), folder.path()).unwrap();
            assert_eq!(installed, Installed { changed, others: NAMES[1..].to_vec() });
            assert_eq!(fs::read(at("osier")).unwrap(), plugin(text));
            for name in &NAMES[1..] {
                assert_eq!(fs::read_to_string(at(name)).unwrap(), format!("the {name} of another"));
            }
        }
    }

    #[test]
    fn one_that_runs_is_replaced_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        install(&plugin("1"), folder.path()).unwrap();
        let running = File::open(folder.path().join("osier")).unwrap();
        install(&plugin("2"), folder.path()).unwrap();
        assert_eq!(fs::read(folder.path().join("ovs-odl")).unwrap(), plugin("2"));
        assert_eq!(io::read_to_string(running).unwrap().into_bytes(), plugin("1"));
    }

    #[test]
    fn the_plugin_is_known_by_what_it_says() {
        assert!(is_ours(&plugin("…")) && !is_ours(b"\x7fELF bridge"));
        let error = same_version(Path::new("/bin/true")).unwrap_err();
        assert_eq!(error.to_string(), "/bin/true does not say its version");
    }
}
