//! However a test ends, nothing of its lab stays; and when it panics, it prints the switch.
#![allow(missing_docs)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use osier_testbed::{EndpointConfig, Fabric, Family, Lab, Node, wait_until};

const FATE: &str = "OSIER_TESTBED_VICTIM";

/// Not a test: sets up a node with an endpoint, says its lab's directory, and meets its fate.
#[test]
#[ignore = "the other tests run it, in a process of its own"]
fn victim() {
    let Ok(fate) = std::env::var(FATE) else { return };
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, Family::Ipv4, 1).unwrap();
    let node = &fabric.nodes()[0];
    let _endpoint = node.add_endpoint(&EndpointConfig::numbered("p", 10)).unwrap();
    node.ovs().add_flows(Node::INTEGRATION, "priority=4711,arp actions=drop").unwrap();
    let _sleeper = lab.host().command("sleep").arg("600").spawn().unwrap();
    println!("\nlab {}", lab.dir().display());
    match fate.as_str() {
        "panic" => panic!("as told"),
        "exit" => std::process::exit(3),
        _ => loop {
            std::thread::park();
        },
    }
}

/// A started victim: a test that fails ends it too, so that its janitor goes to work.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have met its fate already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the victim in a process group of its own, as a shell does, and waits for its lab.
fn start_victim(fate: &str) -> (Victim, PathBuf, BufReader<impl Read>) {
    let child = Command::new(std::env::current_exe().expect("a test has a program"))
        .args(["--ignored", "--exact", "victim", "--nocapture"])
        .env(FATE, fate)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the test program starts again");
    let mut victim = Victim(child);
    let mut stdout = BufReader::new(victim.0.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while !line.starts_with("lab ") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).expect("text"), 0, "the victim ended early");
    }
    (victim, PathBuf::from(line.trim_start_matches("lab ").trim()), stdout)
}

/// What there is of the lab with this directory: itself, namespaces, processes.
fn traces(lab: &Path) -> Vec<String> {
    let id = lab.file_name().and_then(|name| name.to_str()).expect("a lab's name is ASCII");
    let mark = format!("OSIER_TESTBED_LAB={id}");
    let names = |dir: &str| -> Vec<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let mut found: Vec<_> =
        names("/run/netns").into_iter().filter(|name| name.starts_with(id)).collect();
    found.extend(names("/proc").into_iter().filter(|pid| {
        let environment = fs::read(Path::new("/proc").join(pid).join("environ"));
        environment.unwrap_or_default().split(|byte| *byte == 0).any(|v| v == mark.as_bytes())
    }));
    found.extend(lab.exists().then(|| lab.display().to_string()));
    found
}

fn nothing_stays(lab: &Path) {
    wait_until("an empty machine", Duration::from_secs(15), || match traces(lab) {
        left if left.is_empty() => Ok(()),
        left => Err(left.join(" ")),
    })
    .expect("all is removed");
}

fn ends_by(signal: Signal) {
    let (mut victim, lab, _stdout) = start_victim("wait");
    // Directory, three namespaces, two daemons, the sleeper. A spawned process' environment can be
    // read only a moment after its spawn returned: the kernel closes the pipe that tells of the
    // exec before it has laid out the new stack.
    wait_until("a whole lab", Duration::from_secs(15), || match traces(&lab) {
        whole if whole.len() >= 7 => Ok(()),
        part => Err(part.join(" ")),
    })
    .expect("the victim's lab is up");
    killpg(Pid::from_raw(victim.0.id().cast_signed()), signal).expect("the victim is there");
    victim.0.wait().expect("the victim is our child");
    nothing_stays(&lab);
}

#[test]
fn nothing_stays_after_sigkill() {
    ends_by(Signal::SIGKILL);
}

#[test]
fn nothing_stays_after_ctrl_c() {
    ends_by(Signal::SIGINT);
}

#[test]
fn nothing_stays_after_exit() {
    let (mut victim, lab, _stdout) = start_victim("exit");
    assert_eq!(victim.0.wait().unwrap().code(), Some(3));
    nothing_stays(&lab);
}

#[test]
fn a_panic_prints_the_switch_and_leaves_nothing() {
    let (mut victim, lab, _stdout) = start_victim("panic");
    let mut stderr = String::new();
    victim.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(!victim.0.wait().unwrap().success());
    assert_eq!(traces(&lab), Vec::<String>::new(), "dropping a lab is complete when it returns");
    for part in ["Bridge br-int", "priority=4711,arp actions=drop", "ve-p 10/", "ovs-vswitchd.log"]
    {
        assert!(stderr.contains(part), "no {part:?} in\n{stderr}");
    }
}

#[test]
fn a_normal_end_leaves_nothing() {
    let lab = Lab::new().unwrap();
    let dir = lab.dir().to_owned();
    let fabric = Fabric::new(&lab, Family::Ipv6, 1).unwrap();
    drop(lab);
    assert!(traces(&dir).len() >= 5, "guards keep their lab");
    drop(fabric);
    assert_eq!(traces(&dir), Vec::<String>::new());
}
