//! The programs that a lab is made of: ours, and those of the distribution.

use crate::error::LabError;
use std::env;
use std::path::{Path, PathBuf};

/// The name of the plugin's program.
const PLUGIN: &str = "osier-cni";

/// Programs of the distribution, and Debian's packages with them.
const FOREIGN: [(&str, &str); 7] = [
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovsdb-tool", "openvswitch-common"),
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("nft", "nftables"),
];

/// Our own programs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `osier`, which is also the agent.
    pub osier: PathBuf,
    /// The plugin.
    pub plugin: PathBuf,
}

impl Programs {
    /// This program, and the plugin that belongs to it.
    pub fn of_this_process() -> Result<Self, LabError> {
        let action = "find the program of";
        let osier = env::current_exe().map_err(|source| LabError::File {
            action,
            path: "/proc/self/exe".into(),
            source,
        })?;
        let plugin =
            find_plugin(&osier).ok_or_else(|| LabError::PluginMissing { beside: osier.clone() })?;
        Ok(Self { osier, plugin })
    }
}

/// Fails if a program of the distribution is missing, and says which package has it.
pub(crate) fn check_foreign() -> Result<(), LabError> {
    let missing: Vec<_> = FOREIGN.iter().filter(|(name, _)| in_path(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let programs = missing.iter().map(|(name, _)| (*name).to_owned()).collect();
    Err(LabError::ProgramsMissing { programs, packages: packages.join(" ") })
}

/// Beside `osier`, where `make cni` puts it, or in `PATH`.
fn find_plugin(osier: &Path) -> Option<PathBuf> {
    let beside = osier.with_file_name(PLUGIN);
    if beside.is_file() {
        return Some(beside);
    }
    built_small(osier).or_else(|| in_path(PLUGIN))
}

/// The build of `make cni`, if `osier` is in cargo's target directory: `<target>/plugin`.
fn built_small(osier: &Path) -> Option<PathBuf> {
    let small = osier.parent()?.with_file_name("plugin").join(PLUGIN);
    small.is_file().then_some(small)
}

/// Where a shell would find a program.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_plugin_is_beside_or_where_make_puts_it() {
        let target = tempfile::tempdir().unwrap();
        let osier = target.path().join("debug/osier");
        let small = target.path().join("plugin/osier-cni");
        for directory in [osier.parent().unwrap(), small.parent().unwrap()] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(&small, "").unwrap();
        assert_eq!(find_plugin(&osier), Some(small));
        let beside = target.path().join("debug/osier-cni");
        fs::write(&beside, "").unwrap();
        assert_eq!(find_plugin(&osier), Some(beside));
    }
}
