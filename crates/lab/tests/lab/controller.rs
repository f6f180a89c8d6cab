//! A controller that dies, stops, is cut off and comes back: traffic flows on, pods are made where
//! nobody needs it, views converge afterwards, and no address is given twice.

use crate::cluster::{BLUE, Cluster, PATIENCE, no_address_twice};
use crate::world::{World, all, executables};
use nix::sys::signal::Signal;
use osier_testbed::wait_until;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn nobody_needs_a_controller_to_go_on() {
    let mut cluster = Cluster::up();
    let traffic = cluster.traffic();
    let x = cluster.add("n1", "x", Some("blue"));
    let y = cluster.add("n2", "y", Some("blue"));
    assert_ne!(x, y);
    let names = |cluster: &Cluster| -> Vec<String> {
        cluster.given().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&cluster), ["test:x", "test:y"]);

    // It stands still: what needs it waits, and nothing else does.
    cluster.signal("controller --config", Signal::SIGSTOP);
    cluster.add("n1", "alone", None);
    let refused = cluster.cni("ADD", "n1", "z", Some("blue"));
    assert_eq!(refused["code"], 11, "{refused}");
    assert_eq!(cluster.cni("DEL", "n2", "y", Some("blue")), Value::Null);
    cluster.signal("controller --config", Signal::SIGCONT);
    wait_until("the address to be given back", PATIENCE, || {
        let names = names(&cluster);
        if names == ["test:x"] { Ok(()) } else { Err(names.join(" ")) }
    })
    .unwrap();

    // It dies, and an agent with it, which starts again from what it knew.
    cluster.signal("controller --config", Signal::SIGKILL);
    assert_eq!(cluster.cni("DEL", "n1", "x", Some("blue")), Value::Null);
    cluster.signal("n1/agent.toml", Signal::SIGKILL);
    let socket = cluster.dir.join("n1/cni.sock");
    wait_until("the dead agent's socket to be closed", PATIENCE, || {
        match std::os::unix::net::UnixStream::connect(&socket) {
            Ok(_) => Err("somebody listens"),
            Err(_) => Ok(()),
        }
    })
    .unwrap();
    let config = cluster.dir.join("n1/agent.toml");
    cluster.start("n1", &format!("agent --config {}", config.display()));
    cluster.add("n1", "later", None);

    // It comes back, and hears of what was given back while it was away.
    cluster.start_controller();
    cluster.converges();
    wait_until("the address to be given back", PATIENCE, || {
        let names = names(&cluster);
        if names.is_empty() { Ok(()) } else { Err(names.join(" ")) }
    })
    .unwrap();
    let z = cluster.add("n1", "z", Some("blue"));
    let v = cluster.add("n2", "v", Some("blue"));
    assert_ne!(z, v);
    no_address_twice(&cluster.given());
    traffic.flowed_on();
}

#[test]
fn a_node_that_is_cut_off_catches_up() {
    let mut cluster = Cluster::up();
    let traffic = cluster.traffic();
    let netns = cluster.netns("controller");
    let route = |verb: &str| {
        // What the controller sends there gets nowhere.
        let arguments = ["-n", &netns, "route", verb, "blackhole", "198.51.100.2"];
        assert!(Command::new("ip").args(arguments).status().unwrap().success());
    };
    route("add");
    cluster.apply(&BLUE.replace("blue", "green").replace("10.20", "10.21"));
    let near = cluster.add("n1", "near", Some("green"));
    cluster.add("n2", "alone", None);
    let unknown = cluster.cni("ADD", "n2", "g", Some("green"));
    assert_eq!(unknown["code"], 11, "{unknown}");
    route("delete");
    cluster.converges();
    let far = cluster.add("n2", "g", Some("green"));
    assert!(far.starts_with("10.21.0.") && far != near, "{far} {near}");
    no_address_twice(&cluster.given());
    traffic.flowed_on();
}

/// An agent that never gets to be one, and what it says.
fn refused(world: &World, place: &str, dir: &Path, node: &str, token: &str) -> String {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("token"), token).unwrap();
    let (config, shown) = (dir.join("agent.toml"), dir.display());
    let text = format!(
        "node = '{node}'\nstate_dir = '{shown}'\ncni_socket = '{shown}/cni.sock'\n\
         ovsdb = '{shown}/db.sock'\novs_run_dir = '{shown}'\ncni_config = 'off'\n\
         [controller]\naddress = '198.51.100.250:6646'\ntoken_file = '{shown}/token'\n"
    );
    fs::write(&config, text).unwrap();
    let log = fs::File::create(dir.join("log")).unwrap();
    let osier = executables().join("osier");
    let line = format!("exec {place} -- {} agent --config {}", osier.display(), config.display());
    let mut agent = world.command(&line).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let said = wait_until("the agent to be refused", PATIENCE, || {
        let said = fs::read_to_string(dir.join("log")).unwrap();
        said.contains("refused").then_some(said).ok_or("nothing")
    });
    agent.kill().unwrap();
    agent.wait().unwrap();
    said.unwrap()
}

#[test]
fn a_token_lets_one_node_in_once_from_its_address() {
    let cluster = Cluster::up();
    // Who has joined tells the machine's runtime how pods get their network.
    let conflist = fs::read_to_string(cluster.dir.join("n1/10-osier.conflist")).unwrap();
    let conflist: Value = serde_json::from_str(&conflist).unwrap();
    assert_eq!(conflist["plugins"][0]["type"], "osier", "{conflist}");
    let no = "this node may not join with this token";
    let used = fs::read_to_string(cluster.dir.join("n1/token")).unwrap();
    let again = refused(&cluster.world, "n1", &cluster.dir.join("thief"), "n1", &used);
    assert!(again.contains(no), "{again}");
    let token = cluster.osier("node token n9 --address 198.51.100.99");
    assert!(token.status.success(), "{}", all(&token));
    let token = String::from_utf8(token.stdout).unwrap();
    let elsewhere = refused(&cluster.world, "n2", &cluster.dir.join("n9"), "n9", &token);
    assert!(elsewhere.contains(no), "{elsewhere}");
    assert!(!cluster.dir.join("n9/credentials/agent.bundle").exists());
    cluster.converges();
}
