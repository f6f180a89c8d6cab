//! A controller whose disk is full: writes are refused with the reason, nothing else stops, and all
//! goes on as soon as there is space again.

use crate::cluster::{BLUE, Cluster, PATIENCE, no_address_twice};
use crate::world::{all, executables};
use nix::sys::signal::Signal;
use osier_testbed::wait_until;
use std::fs;
use std::path::{Path, PathBuf};

/// Moves the controller's files to a disk of a few megabytes, which goes with the process.
fn on_a_small_disk(cluster: &mut Cluster) -> PathBuf {
    cluster.signal("controller --config", Signal::SIGKILL);
    let state = cluster.dir.join("controller");
    let script = cluster.dir.join("small-disk");
    let text = format!(
        "#!/bin/sh -e\ncp -a {0} {0}.copy\nmount -t tmpfs -o size=8m none {0}\ncp -a {0}.copy/. {0}/\n\
         exec {1} controller --config {0}/controller.toml\n",
        state.display(),
        executables().join("osier").display(),
    );
    fs::write(&script, text).unwrap();
    let line = format!("unshare --mount --propagation private sh -e {}", script.display());
    cluster.start_program("controller", &line);
    // Only the process sees its disk, and others through it.
    let inside = wait_until("the controller on its disk", PATIENCE, || {
        let pid = cluster.find("controller --config").ok_or("it does not run")?;
        let inside = PathBuf::from(format!("/proc/{pid}/root{}", state.display()));
        let admin = fs::read(inside.join("admin.toml")).map_err(|_| "it is not ready")?;
        let before = fs::read(state.join("admin.toml")).unwrap();
        // The credential for its administrator is new with each start.
        if admin == before { Err("it is not ready") } else { Ok((inside, admin)) }
    });
    let (inside, admin) = inside.unwrap();
    fs::write(state.join("admin.toml"), admin).unwrap();
    inside
}

fn fill(disk: &Path) {
    use std::io::Write as _;
    let mut file = fs::File::create(disk.join("fill")).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

#[test]
fn a_full_disk_stops_writes_and_nothing_else() {
    let mut cluster = Cluster::up();
    let traffic = cluster.traffic();
    let x = cluster.add("n1", "x", Some("blue"));
    let disk = on_a_small_disk(&mut cluster);
    cluster.converges();

    fill(&disk);
    // What is free inside of the store's own file is still used.
    let refused = (0..200).find_map(|n| {
        let name = format!("n{n}");
        let text = BLUE.replace("blue", &name).replace("10.20.0.0", &format!("10.21.{n}.0"));
        let output = cluster.try_apply(&text);
        (!output.status.success()).then(|| (name, all(&output)))
    });
    let (name, said) = refused.expect("a write that is refused");
    assert!(said.contains("no space") || said.contains("is full"), "{said}");
    assert!(!cluster.osier(&format!("get network {name}")).status.success(), "nothing was made");
    cluster.add("n1", "alone", None);
    let waits = cluster.cni("ADD", "n2", "y", Some("blue"));
    assert_eq!(waits["code"], 11, "{waits}");
    let read = cluster.osier("get network blue");
    assert!(read.status.success(), "{}", all(&read));

    fs::remove_file(disk.join("fill")).unwrap();
    cluster.apply(&BLUE.replace("blue", "later").replace("10.20", "10.22"));
    let y = cluster.add("n2", "y", Some("blue"));
    assert_ne!(x, y);
    cluster.converges();
    no_address_twice(&cluster.given());
    traffic.flowed_on();
}
