//! Labs, namespaces and processes come and go; nothing stays.
#![allow(missing_docs)]

use std::time::Duration;

use osier_testbed::{CommandError, Lab};

#[test]
fn a_namespace_is_its_own_world_and_goes_with_its_guard() {
    let lab = Lab::new().unwrap();
    let netns = lab.netns("a").unwrap();
    let links = netns.ip("-o link").unwrap();
    assert_eq!(links.lines().count(), 1, "{links}");
    assert!(links.contains("lo:") && links.contains("UP"), "{links}");
    let path = std::path::PathBuf::from(format!("/run/netns/{}", netns.name()));
    assert!(path.exists());
    drop(netns);
    assert!(!path.exists());
}

#[test]
fn a_failed_command_says_what_it_said() {
    let lab = Lab::new().unwrap();
    let error = lab.host().run(&["sh", "-c", "echo out; echo err >&2; exit 3"]).unwrap_err();
    let CommandError::Failed { status, stdout, stderr, .. } = error else { panic!("{error}") };
    assert_eq!((status.code(), stdout.as_str(), stderr.as_str()), (Some(3), "out\n", "err\n"));
}

#[test]
fn a_command_that_hangs_is_ended_at_its_deadline() {
    let lab = Lab::new().unwrap();
    let command = lab.host().command("sh").args(["-c", "echo begun; exec sleep 60"]);
    let error = command.deadline(Duration::from_millis(200)).run().unwrap_err();
    let CommandError::Deadline { stdout, .. } = error else { panic!("{error}") };
    assert_eq!(stdout, "begun\n");
}

#[test]
fn input_reaches_a_command() {
    let lab = Lab::new().unwrap();
    let input = vec![b'x'; 1 << 20];
    assert_eq!(lab.host().command("wc").arg("-c").input(input).run().unwrap().trim(), "1048576");
}
