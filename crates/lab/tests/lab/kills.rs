//! However a lab's making or keeping ends, nothing of it stays.

use crate::world::{PATIENCE, World, nothing_stays, processes, traces};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use osier_testbed::{Lab, wait_until};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const UP: &str = "up --nodes 8 --pods 1 --name early";

/// Starts to make a lab, and returns in the middle of it.
fn begin(world: &World) -> (Child, PathBuf) {
    let mut command = world.command(UP);
    // A process group of its own, as a shell gives it.
    let up = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let dir = world.dir_of("early");
    wait_until("a daemon", PATIENCE, || match processes(&dir) {
        running if running.is_empty() => Err("none"),
        _ => Ok(()),
    })
    .unwrap();
    (up, dir)
}

fn is_forgotten(world: &World) {
    wait_until("an empty registry", PATIENCE, || match world.names() {
        names if names.is_empty() => Ok(()),
        names => Err(names.join(" ")),
    })
    .unwrap();
}

#[test]
fn nothing_stays_if_up_is_killed() {
    let world = World::new();
    let (mut up, dir) = begin(&world);
    up.kill().unwrap();
    up.wait().unwrap();
    nothing_stays(&dir);
    is_forgotten(&world);
}

#[test]
fn nothing_stays_after_ctrl_c() {
    let world = World::new();
    let (mut up, dir) = begin(&world);
    kill(Pid::from_raw(-up.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(130));
    assert_eq!(traces(&dir), Vec::<String>::new(), "it waits until all is removed");
    is_forgotten(&world);
}

#[test]
fn a_lab_that_is_being_made_can_be_removed() {
    let world = World::new();
    let (mut up, dir) = begin(&world);
    world.succeeds("down --name early");
    assert_eq!(up.wait().unwrap().code(), Some(1));
    nothing_stays(&dir);
    assert_eq!(world.names(), Vec::<String>::new());
}

#[test]
fn a_killed_keeper_takes_its_lab_along() {
    let world = World::new();
    world.succeeds("up --nodes 1 --pods 1 --name dead");
    let dir = world.dir_of("dead");
    kill(Pid::from_raw(world.keeper_of("dead")), Signal::SIGKILL).unwrap();
    nothing_stays(&dir);
    assert_eq!(world.json("list")[0]["state"], "dead");
    assert!(world.fails("status").contains("lab dead is dead"));
    // Its name can be used again, or be forgotten.
    world.succeeds("up --nodes 1 --pods 1 --name dead");
    let again = world.dir_of("dead");
    assert_ne!(again, dir);
    kill(Pid::from_raw(world.keeper_of("dead")), Signal::SIGKILL).unwrap();
    world.succeeds("down");
    assert_eq!(traces(&again), Vec::<String>::new());
    assert_eq!(world.names(), Vec::<String>::new());
}

/// The processes that a process started.
fn children(parent: i32) -> Vec<(i32, String)> {
    let read = |pid: i32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        read(*pid, "status").is_ok_and(|text| text.contains(&format!("\nPPid:\t{parent}\n")))
    };
    pids.filter(is_child).map(|pid| (pid, read(pid, "cmdline").unwrap_or_default())).collect()
}

#[test]
fn down_removes_also_what_nobody_else_can() {
    let world = World::new();
    world.succeeds("up --nodes 1 --pods 1 --name lost");
    let (dir, keeper) = (world.dir_of("lost"), world.keeper_of("lost"));
    let children = children(keeper);
    let (janitor, _) = children.iter().find(|(_, line)| line.contains("osier-janitor")).unwrap();
    for pid in [*janitor, keeper] {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    // The directory, a namespace each for node, pod and underlay, three daemons.
    assert!(traces(&dir).len() >= 7, "{:?}", traces(&dir));
    world.succeeds("down");
    assert_eq!(traces(&dir), Vec::<String>::new());
    assert_eq!(world.names(), Vec::<String>::new());
}

#[test]
fn only_labs_are_removed() {
    for other in ["/", "/tmp", "/tmp/osier-", "/tmp/osier-*", "/tmp/osier-a b", "/tmp/other-abcdef"]
    {
        assert!(Lab::remove_remains(Path::new(other), PATIENCE).is_err(), "{other}");
    }
}
