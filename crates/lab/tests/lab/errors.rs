//! What goes wrong is told with what to do about it.

use crate::world::{World, executables};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const NOBODY: u32 = 65534;

/// What a copy of `osier` says that has no plugin beside it.
fn alone(line: &str, prepare: impl FnOnce(&mut Command)) -> String {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    // One directory deeper: what is beside the directory is looked at, too.
    let directory = place.path().join("bin");
    fs::create_dir(&directory).unwrap();
    let osier = directory.join("osier");
    let built = executables().join("osier");
    // It is large, but may be on another disk.
    if fs::hard_link(&built, &osier).is_err() {
        fs::copy(&built, &osier).unwrap();
    }
    let mut command = Command::new(&osier);
    command.args(line.split_whitespace()).env("OSIER_LAB_DIR", place.path().join("labs"));
    prepare(&mut command);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!place.path().join("labs").exists(), "nothing was begun");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn who_is_not_root_is_told() {
    for line in ["lab up", "lab status", "lab list", "lab down"] {
        let said = alone(line, |command| {
            command.uid(NOBODY);
        });
        assert!(said.contains("need root: try sudo"), "{line}: {said}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let said = alone("lab up", |command| {
        command.env("PATH", "/nonexistent");
    });
    let wanted = "apt-get install openvswitch-switch openvswitch-common iproute2";
    assert!(said.contains("ovs-vswitchd") && said.contains(wanted), "{said}");
    let said = alone("lab up", |command| {
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    });
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
