//! The socket: who may speak, how much, how slowly, and how many at once.

use crate::lab::{
    Agent, PATIENCE, Pod, configure, executables, one_node, pod_ports, succeeds, view,
};
use osier_testbed::{Process, wait_until};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Nobody, everywhere.
const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn only_root_is_served() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    assert_eq!(std::fs::metadata(&agent.socket).unwrap().permissions().mode() & 0o777, 0o600);
    // Where anybody can run it.
    let directory = lab.make_dir("plugin").unwrap();
    let plugin = directory.join("osier-cni");
    std::fs::copy(executables().join("osier-cni"), &plugin).unwrap();
    for path in [lab.dir(), &directory, node.ovs().dir()] {
        set_mode(path, 0o755);
    }
    set_mode(&plugin, 0o755);
    let pod = Pod::new(&lab, "a", &agent);
    let call = || -> Value {
        let mut child = Command::new(&plugin)
            .env_clear()
            .env("CNI_COMMAND", "STATUS")
            .uid(NOBODY)
            .gid(NOBODY)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(pod.config.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // The mode keeps others out; and if somebody opens it, the agent asks who is there.
    let closed = call();
    assert_eq!(closed["code"], 50, "{closed}");
    set_mode(&agent.socket, 0o666);
    let refused = call();
    assert!(refused["msg"].as_str().unwrap().contains("serves root only"), "{refused}");
    assert_eq!(refused["code"], 104, "{refused}");
    succeeds(&pod.call("STATUS"));
}

/// What the agent says to bytes; empty if it hung up.
fn say(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    match stream.write_all(bytes) {
        // It has heard enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        // It answered, and did not wait for the rest of what we sent.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        read => drop(read.unwrap()),
    }
    String::from_utf8_lossy(said.get(4..).unwrap_or_default()).into_owned()
}

#[test]
fn what_is_no_request_is_refused_and_harms_nobody() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let framed = |body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&length, body].concat()
    };
    let giant = [&(2_u32 << 20).to_be_bytes()[..], &vec![b' '; 1 << 20]].concat();
    let deep = framed("[".repeat(100_000).as_bytes());
    for (bytes, said) in [
        (giant.as_slice(), "a message of 2097152 bytes, where 1 to 1048576 are allowed"),
        (&u32::MAX.to_be_bytes(), "a message of 4294967295 bytes"),
        (&[0; 4], "a message of 0 bytes"),
        (&deep, "malformed"),
        (&framed(b"\xff\xfe"), "malformed"),
        (&framed(br#"{"protocol":9}"#), "protocol 9"),
        (&framed(br#"{"protocol":1,"environment":7}"#), "malformed"),
    ] {
        let answer = say(&agent.socket, bytes);
        assert!(answer.contains(said) && answer.contains("104"), "{said} in {answer}");
    }
    // Who says half and waits is left alone, and after a while hung up on.
    let slow = std::thread::scope(|scope| {
        let slow = scope.spawn(|| say(&agent.socket, &[0, 0, 1]));
        Pod::new(&lab, "a", &agent).add();
        slow.join().unwrap()
    });
    assert_eq!(slow, "");
    assert_eq!(pod_ports(node).len(), 1);
}

#[test]
fn many_who_say_nothing_do_not_keep_others_out() {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let config = configure(node, &view(&fabric, 24));
    let socket = node.ovs().dir().join("cni.sock");
    // A process of its own: it has descriptors of its own.
    let osier = executables().join("osier");
    let command = node.netns().command(osier.to_str().unwrap());
    let agent: Process =
        command.args(["agent".as_ref(), "--config".as_ref(), config.as_os_str()]).spawn().unwrap();
    let pod = Pod::at(&lab, "a", &socket);
    wait_until("the agent to serve", PATIENCE, || match pod.call("STATUS") {
        output if output.status.success() => Ok(()),
        _ => Err(agent.stderr()),
    })
    .unwrap();
    // More than it serves at once; the last ones wait in the kernel's queue.
    let silent: Vec<UnixStream> =
        (0..300).map_while(|_| UnixStream::connect(&socket).ok()).collect();
    assert!(silent.len() > 256, "{}", silent.len());
    pod.add();
    assert_eq!(pod_ports(node).len(), 1);
}
