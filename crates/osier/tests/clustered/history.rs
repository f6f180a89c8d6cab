//! Clients that write all the time, what they were told, and the checker that compares it with what
//! is stored in the end, and with what a switch was told.

use crate::client::{API, Client};
use crate::rig::{PATIENCE, Rig};
use osier_testbed::{Process, wait_until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PORTS: &str = "/apis/osier.dev/v1alpha1/ports";
/// How long a client waits for an answer before it asks the next controller.
const SECONDS: u32 = 2;

/// A port that a controller said was made.
#[derive(Debug)]
struct Acknowledged {
    name: String,
    /// Who said so.
    seat: usize,
    revision: u64,
    address: String,
}

/// Clients that write, until they are told to stop.
pub(crate) struct Writers {
    threads: Vec<JoinHandle<Vec<Acknowledged>>>,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    /// What the first node's switch is told of terms.
    switch: Process,
}

/// A network for what writers make, on a node that nobody runs.
pub(crate) const MODEL: &str = "
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: { name: written }
spec: { subnets: [{ cidr: 10.5.0.0/16 }] }
---
apiVersion: osier.dev/v1alpha1
kind: Node
metadata: { name: nobodys }
spec: { tunnel: 192.0.2.9 }
";

// === impl Writers ===

impl Writers {
    pub(crate) fn start(rig: &Rig, writers: usize) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let write = |n: usize| {
            let (client, stop, count) = (rig.client(), Arc::clone(&stop), Arc::clone(&count));
            std::thread::spawn(move || write(&client, &format!("w{n}"), &stop, &count))
        };
        let threads = (0..writers).map(write).collect();
        let ovs = rig.node(0).ovs();
        let monitor = ["monitor", "Open_vSwitch", "Open_vSwitch", "external_ids"];
        let socket = format!("unix:{}", ovs.db_socket().display());
        let mut arguments = monitor.to_vec();
        arguments.insert(1, &socket);
        let switch = ovs.tool("ovsdb-client").args(arguments).spawn().unwrap();
        Self { threads, stop, count, switch }
    }

    /// Waits until so many more writes are acknowledged.
    pub(crate) fn await_more(&self, more: usize) {
        let enough = self.count() + more;
        let done = || if self.count() >= enough { Ok(()) } else { Err(self.count()) };
        wait_until("writes to be acknowledged", PATIENCE * 2, done).unwrap();
    }

    /// How many are acknowledged.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends them, and holds what they were told against what is stored.
    pub(crate) fn check(self, rig: &Rig) {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter().map(|thread| thread.join().unwrap());
        let acknowledged: Vec<Acknowledged> = threads.flatten().collect();
        let stored = stored(rig);
        let mut leaders = BTreeMap::new();
        for (number, seat) in rig.seats.iter().enumerate() {
            leaders.extend(seat.terms().into_iter().map(|term| (term, number)));
        }
        for written in &acknowledged {
            let found = stored.get(&written.name);
            let is = (written.revision, written.address.clone());
            assert_eq!(found, Some(&is), "{written:?} is lost");
            // A term is the revision at which a leader began: what another writes behind it is void.
            let (_, leader) = leaders.range(..=written.revision).next_back().unwrap();
            assert_eq!(*leader, written.seat, "{written:?} by one who led no more: {leaders:?}");
        }
        let addresses: BTreeSet<&String> = stored.values().map(|(_, address)| address).collect();
        assert_eq!(addresses.len(), stored.len(), "an address is given twice");
        let told = self.switch.stdout();
        let terms: Vec<u64> = told.split("osier-term=").skip(1).filter_map(number).collect();
        assert!(terms.is_sorted(), "the switch followed an earlier leader: {terms:?}");
        let known = terms.iter().all(|term| leaders.contains_key(term));
        assert!(known && !terms.is_empty(), "{terms:?} of {leaders:?}");
        println!("{} acknowledged, {} stored, terms {leaders:?}", acknowledged.len(), stored.len());
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim_start_matches(['"', '\\']);
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Makes ports one after the other, with whoever answers; each once, for nobody knows what became of
/// one that was not answered.
fn write(
    client: &Client,
    prefix: &str,
    stop: &AtomicBool,
    count: &AtomicUsize,
) -> Vec<Acknowledged> {
    let (mut acknowledged, mut seat) = (Vec::new(), 0);
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("{prefix}:{n}");
        let body = json!({"apiVersion": "osier.dev/v1alpha1", "kind": "Port",
            "metadata": {"name": name}, "spec": {"network": "written", "node": "nobodys"}});
        let answer = client.ask(seat, API, ("POST", PORTS, Some(&body.to_string())), SECONDS);
        match answer {
            Some((201, text)) => {
                let (revision, address) = read(&serde_json::from_str(&text).unwrap());
                acknowledged.push(Acknowledged { name, seat, revision, address });
                count.fetch_add(1, Ordering::Relaxed);
            }
            // A controller whose clock leaps thinks that it took too long.
            Some((status @ 400..500, text)) if status != 408 => panic!("{name}: {status} {text}"),
            _ => {
                seat = (seat + 1) % client.seats();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    acknowledged
}

fn read(port: &Value) -> (u64, String) {
    let revision = port["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    let address = port["status"]["addresses"][0].as_str();
    (revision.unwrap_or_else(|| panic!("{port}")), address.unwrap().to_owned())
}

/// What writers made, as the one who leads now has it: when it was changed last, and its address.
fn stored(rig: &Rig) -> BTreeMap<String, (u64, String)> {
    let client = rig.client();
    let list = || {
        let path = format!("{PORTS}?limit=100000");
        let answer = |seat| client.ask(seat, API, ("GET", &path, None), 20);
        let mut answers = (0..client.seats()).filter_map(answer);
        answers.find(|(status, _)| *status == 200).ok_or("nobody answers")
    };
    let (_, text) = wait_until("a list", PATIENCE, list).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    assert!(list["metadata"]["continue"].is_null(), "the list has more pages");
    let ports = list["items"].as_array().unwrap().iter();
    let ours = ports.filter(|port| port["spec"]["network"] == "written");
    ours.map(|port| (port["metadata"]["name"].as_str().unwrap().to_owned(), read(port))).collect()
}
