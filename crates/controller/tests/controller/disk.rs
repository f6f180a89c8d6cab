//! A disk that is full: changes are refused with the reason, reading goes on, and with space all is
//! well again. On a small tmpfs in a mount namespace of its own, which goes with the thread. Needs
//! root.

use crate::rig::{Rig, config, resource, until};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use tempfile::TempDir;

#[test]
fn a_full_disk_is_told_and_survived() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_owned();
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).expect("this test needs root");
        let nothing = None::<&str>;
        let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
        mount(nothing, "/", nothing, private, nothing).unwrap();
        mount(Some("tmpfs"), &path, Some("tmpfs"), MsFlags::empty(), Some("size=16m")).unwrap();
        let rig = Rig::at(config(&path));
        rig.apply(&[resource("Router", "before", &json!({}))]);
        let ballast = path.join("ballast");
        let mut file = File::create(&ballast).unwrap();
        while file.write(&[0; 4096]).is_ok_and(|n| n > 0) {}
        let mut made = 0;
        let said = until("the disk to be full", || {
            let labels = "x".repeat(60);
            let mut router = resource("Router", &format!("r{made}"), &json!({}));
            for n in 0..200 {
                router["metadata"]["labels"][format!("k{n}")] = labels.clone().into();
            }
            let answer = rig.send("POST", "/routers", &router);
            made += u32::from(answer.status == 201);
            (answer.status != 201).then(|| answer.refused(503, "Unavailable"))
        });
        assert!(said.contains("no space is left"), "{said}");
        // What was refused left nothing behind, neither in the store nor in the model.
        let routers = rig.get("/routers").expect(200)["items"].as_array().unwrap().len();
        assert_eq!(routers, 1 + usize::try_from(made).unwrap());
        drop(file);
        std::fs::remove_file(&ballast).unwrap();
        let next = resource("Router", "after", &json!({}));
        let next = rig.send("POST", "/routers", &next).expect(201);
        assert!(next["status"]["vrf"].as_u64().unwrap() > u64::from(made));
    });
    thread.join().unwrap();
}
