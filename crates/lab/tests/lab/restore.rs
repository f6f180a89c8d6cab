//! A controller whose store is put back to an earlier state, with agents that know more than it does:
//! they follow it all the same, what they use stays theirs, and no address is given twice.

use crate::cluster::{Cluster, PATIENCE, no_address_twice};
use crate::world::all;
use nix::sys::signal::Signal;
use osier_testbed::wait_until;
use std::fs;
use std::path::Path;

impl Cluster {
    fn store(&self) -> std::path::PathBuf {
        self.dir.join("controller/store.redb")
    }

    /// Stops the controller, puts another store in place, and starts it again.
    fn restore(&mut self, from: &Path) {
        self.signal("controller --config", Signal::SIGKILL);
        // In place, as `cp` does: the file stays the same one for the machine.
        fs::copy(from, self.store()).unwrap();
        self.start_controller();
    }

    /// Waits until the controller knows of these ports, and of no others.
    fn knows(&self, wanted: &[(&str, &str)]) {
        let wanted: Vec<(String, String)> =
            wanted.iter().map(|(name, at)| (format!("test:{name}"), (*at).to_owned())).collect();
        wait_until("the ports to be as they are used", PATIENCE, || {
            let output = self.osier("get ports -o name");
            if !output.status.success() {
                return Err(all(&output));
            }
            let given = self.given();
            if given == wanted { Ok(()) } else { Err(format!("{given:?}")) }
        })
        .unwrap();
    }
}

#[test]
fn an_older_store_learns_from_its_nodes_what_is_in_use() {
    let mut cluster = Cluster::up();
    let traffic = cluster.traffic();
    let early = cluster.add("n1", "early", Some("blue"));
    let gone = cluster.add("n1", "gone", Some("blue"));
    let config = cluster.dir.join("controller/controller.toml");
    let backup = cluster.dir.join("backup.redb");
    let line = format!("controller --config {} backup {}", config.display(), backup.display());
    let copied = cluster.osier(&line);
    assert!(copied.status.success(), "{}", all(&copied));
    // What the backup does not know: a port that is there, and one that is not.
    let late = cluster.add("n2", "late", Some("blue"));
    cluster.cni("DEL", "n1", "gone", Some("blue"));
    cluster.knows(&[("early", &early), ("late", &late)]);

    // The node that knows better says nothing for a while.
    cluster.signal("n2/agent.toml", Signal::SIGSTOP);
    cluster.restore(&backup);
    let mut waits = serde_json::Value::Null;
    wait_until("the agent to ask", PATIENCE, || {
        waits = cluster.cni("ADD", "n1", "new", Some("blue"));
        let said = waits.to_string();
        if said.contains("restored") { Ok(()) } else { Err(said) }
    })
    .unwrap();
    assert_eq!(waits["code"], 11, "{waits}");
    cluster.add("n1", "alone", None);
    cluster.signal("n2/agent.toml", Signal::SIGCONT);
    let new = cluster.add("n1", "new", Some("blue"));
    assert!(![&early, &late].contains(&&new), "{new} is in use: {early} {late} {gone}");
    cluster.knows(&[("early", &early), ("late", &late), ("new", &new)]);
    cluster.converges();

    // The same backup again, after all that: it must not be taken for its first life.
    cluster.restore(&backup);
    cluster.knows(&[("early", &early), ("late", &late), ("new", &new)]);
    cluster.converges();

    // A copy of the file, made and put back without anybody's help.
    cluster.signal("controller --config", Signal::SIGKILL);
    let copy = cluster.dir.join("copy.redb");
    fs::copy(cluster.store(), &copy).unwrap();
    cluster.start_controller();
    let last = cluster.add("n2", "last", Some("blue"));
    cluster.restore(&copy);
    let used = [("early", &*early), ("last", &last), ("late", &late), ("new", &new)];
    cluster.knows(&used);
    cluster.converges();

    // All of its directory, as a snapshot of its machine: only the nodes know of later starts.
    cluster.signal("controller --config", Signal::SIGKILL);
    let files = ["store.redb", "term"].map(|name| cluster.dir.join("controller").join(name));
    let snapshot = files.each_ref().map(|file| fs::read(file).unwrap());
    for _ in 0..3 {
        cluster.start_controller();
        cluster.converges();
        cluster.signal("controller --config", Signal::SIGKILL);
    }
    for (file, bytes) in files.iter().zip(snapshot) {
        fs::write(file, bytes).unwrap();
    }
    cluster.start_controller();
    wait_until("the controller to see that it is an old one", PATIENCE, || {
        let log = fs::read_to_string(cluster.log("controller")).unwrap();
        if log.contains("older copy") { Ok(()) } else { Err(log) }
    })
    .unwrap();
    cluster.has_ended("controller --config");
    cluster.start_controller();
    cluster.knows(&used);
    cluster.converges();
    no_address_twice(&cluster.given());
    traffic.flowed_on();
}
