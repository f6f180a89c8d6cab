//! What controllers share besides the model: who may come in; and who asks them without knowing who leads.

use crate::client::API;
use crate::rig::{PATIENCE, Rig};
use osier_testbed::wait_until;
use serde_json::Value;

const ROUTERS: &str = "/apis/osier.dev/v1alpha1/routers";

/// Waits until whoever leads answers a credential so.
fn answers(rig: &Rig, credential: &str, status: u16) {
    let mut client = rig.client();
    credential.clone_into(&mut client.credential);
    let asked = || {
        let ask = |seat| client.ask(seat, API, ("GET", ROUTERS, None), 10);
        let answers: Vec<u16> = (0..client.seats()).filter_map(ask).map(|(said, _)| said).collect();
        if answers == [status] { Ok(()) } else { Err(format!("{answers:?}")) }
    };
    wait_until(&format!("{status} of the one that leads"), PATIENCE, asked).unwrap();
}

/// They are made and revoked at any of the controllers, and good at whoever leads.
#[test]
fn credentials_are_good_at_whoever_leads() {
    let mut rig = Rig::clustered(0, 2, "");
    let at = |rig: &Rig, seat: usize, line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        rig.seats[seat].administrator(&words).run().unwrap().trim().to_owned()
    };
    // At the one that waits.
    let ops = at(&rig, 1, "controller credential add --role write --name ops");
    answers(&rig, &ops, 200);
    rig.seats[0].kill();
    rig.seats[1].await_ready();
    answers(&rig, &ops, 200);
    let lists = [0, 1].map(|seat| at(&rig, seat, "controller credential list"));
    assert_eq!(lists[0], lists[1]);
    for name in ["admin", "watcher", "ops"] {
        assert!(lists[0].lines().any(|line| line.ends_with(&format!(" {name}"))), "{}", lists[0]);
    }
    // Also while its own controller is down.
    assert_eq!(at(&rig, 0, "controller credential revoke ops"), "1 revoked");
    answers(&rig, &ops, 401);

    // The command line finds who leads, and says so if nobody does.
    let servers: Vec<String> =
        rig.seats.iter().map(|seat| format!("https://{}", seat.address)).collect();
    let status = |rig: &Rig| {
        let asked = rig.seats[1]
            .administrator(&["status", "-o", "json"])
            .env("OSIER_SERVER", servers.join(","));
        asked.output().unwrap()
    };
    let said = status(&rig);
    let found: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
    assert_eq!(found["controller"]["store"]["kind"], "etcd", "{} {}", said.stdout, said.stderr);
    rig.seats[1].kill();
    let said = status(&rig);
    assert!(said.stderr.contains("none of them leads now"), "{} {}", said.stdout, said.stderr);
}
