//! What goes wrong is told with what to do about it.

use crate::world::{World, all, executables};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// A copy of `osier` that anybody may run, without the plugin beside it.
struct Alone {
    place: TempDir,
    osier: PathBuf,
}

impl Alone {
    fn new() -> Self {
        let place = tempfile::tempdir_in("/tmp").unwrap();
        // One directory deeper: what is beside the directory is looked at, too.
        let directory = place.path().join("bin");
        let osier = directory.join("osier");
        fs::create_dir(&directory).unwrap();
        fs::copy(executables().join("osier"), &osier).unwrap();
        for path in [place.path(), &directory, &osier] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        Self { place, osier }
    }

    /// What it complains about.
    fn fails(&self, line: &str, prepare: impl FnOnce(&mut Command)) -> String {
        let labs = self.place.path().join("labs");
        let mut command = Command::new(&self.osier);
        command.args(line.split_whitespace()).env("OSIER_LAB_DIR", &labs);
        prepare(&mut command);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", all(&output));
        assert!(!labs.exists(), "nothing was begun");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn who_is_not_root_is_told() {
    let osier = Alone::new();
    for line in ["lab up", "lab status", "lab list", "lab down"] {
        let said = osier.fails(line, |command| {
            command.uid(NOBODY);
        });
        assert!(said.contains("need root: try sudo"), "{line}: {said}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let osier = Alone::new();
    let fails_with = |path: &str| {
        osier.fails("lab up", |command| {
            command.env("PATH", path);
        })
    };
    let said = fails_with("/nonexistent");
    let wanted = "apt-get install openvswitch-switch openvswitch-common iproute2";
    assert!(said.contains("ovs-vswitchd") && said.contains(wanted), "{said}");
    let said = fails_with("/usr/sbin:/usr/bin:/sbin:/bin");
    assert!(said.contains("build it with `make cni`"), "{said}");
}

#[test]
fn labs_that_are_not_there_are_not_found() {
    let world = World::new();
    for line in ["status", "exec pod1 -- true", "ping-all"] {
        assert!(world.fails(line).contains("there is no lab default: `osier lab up"), "{line}");
    }
    assert!(world.succeeds("list").contains("no labs"));
    assert_eq!(world.succeeds("list -o json"), "[]\n");
    assert!(world.succeeds("down --name x").is_empty());
    assert!(world.fails("up --pods 999").contains("a lab has at most 512"));
}
