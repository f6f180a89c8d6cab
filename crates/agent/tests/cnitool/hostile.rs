//! Input that nobody means well by: an error in the specification's form, and an agent that lives.

use crate::invocation::{Invocation, failure};
use crate::runtime::Runtime;
use crate::verbs::is_clean;
use serde_json::json;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;

#[test]
fn hostile_input_is_refused_and_the_agent_lives() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let call = Invocation::new(&runtime, "ADD", &netns);

    // Too large, as JSON and as rubbish; at the border, where the request is larger than its input.
    let padded = |length: usize| {
        let mut config = call.config.to_string().into_bytes();
        config.resize(length, b' ');
        config
    };
    assert!(call.clone().input(padded(10 << 20)).fails(7).contains("1048576"));
    assert!(call.clone().input(vec![b'['; 10 << 20]).fails(7).contains("1048576"));
    let bulky = json!("x".repeat((1 << 20) - 300));
    assert!(call.clone().with("bulk", bulky).fails(7).contains("1048576"));

    // Deep.
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [200, 100_000] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let config = call.config.to_string().replacen('{', &format!("{{\"deep\":{deep},"), 1);
            call.clone().input(config).fails(6);
        }
    }
    // No text, cut short, with zeros in it.
    call.clone().input([0xff, 0xfe, 0x00]).fails(6);
    let mut broken = call.config.to_string().into_bytes();
    broken.insert(2, 0xc0);
    call.clone().input(broken).fails(6);
    let whole = call.config.to_string();
    call.clone().input(&whole.as_bytes()[..whole.len() - 1]).fails(6);
    call.clone().input([whole.as_bytes(), b"\0"].concat()).fails(6);
    // A member twice is no reason to think of two things.
    let twice = whole.replacen('{', "{\"name\":\"../x\",", 1);
    let output = call.clone().input(twice).run();
    if !output.status.success() {
        failure(&output);
    }
    call.then("DEL").does();

    for variable in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH"] {
        let said = call.clone().set(variable, OsStr::from_bytes(b"\xff\xfe")).fails(4);
        assert!(said.contains(variable), "{said}");
    }
    for name in ["../../etc", "/etc/passwd", "a/b", "..", ".", "", "a\0b", "a;b", "$(reboot)"] {
        call.clone().with("name", name).fails(7);
        let ipam = json!({"type": name});
        assert!(name.is_empty() || call.clone().with("ipam", ipam).fails(7).contains("ipam"));
        call.clone().with("agentSocket", "../cni.sock").fails(7);
    }
    call.clone().with("name", "n".repeat(100_000)).fails(7);
    is_clean(&runtime);
    call.does();
}

/// What is on the agent's socket and is no request.
#[test]
fn rubbish_on_the_socket_harms_nobody() {
    let runtime = Runtime::new();
    let netns = runtime.lab.netns("a").unwrap();
    let framed = |body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap();
        [&length.to_be_bytes(), body].concat()
    };
    for bytes in [
        Vec::new(),
        vec![0],
        vec![0xff; 4096],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        framed(b""),
        framed(b"{}"),
        framed(&vec![b'['; 100_000]),
        framed(&[0xff; 100]),
        framed(br#"{"protocol":1,"environment":{"command":"ADD"},"config":{},"timeoutSeconds":1}"#),
    ] {
        let mut stream = UnixStream::connect(runtime.socket()).unwrap();
        // It may close before it has read all.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        assert!(reply.len() < 4096);
    }
    Invocation::new(&runtime, "ADD", &netns).does();
}
