//! The plugin's executable against an agent that says what the test wants.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_cni::MAX_DOCUMENT;
use osier_cni::rpc::{self, Call, Reply, Request};
use osier_cni::spec::{AddResult, Code, Command as Verb, Error, Interface, Ip, Route, Version};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

// === the agent ===

/// What the agent does with a connection after it has read the request.
enum Act {
    Reply(Reply),
    Bytes(Vec<u8>),
    /// Keeps the connection open and says nothing more, until the plugin is gone.
    Hang(Vec<u8>),
}

struct Agent {
    directory: TempDir,
    requests: Receiver<Request>,
}

impl Agent {
    /// Serves one connection.
    fn new(act: impl FnOnce(&Request) -> Act + Send + 'static) -> Self {
        let directory = TempDir::new().unwrap();
        let listener = UnixListener::bind(directory.path().join("cni.sock")).unwrap();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let request = Request::decode(&rpc::read_message(&mut stream).unwrap()).unwrap();
            let act = act(&request);
            sender.send(request).unwrap();
            perform(&mut stream, act);
        });
        Self { directory, requests }
    }

    fn replies(reply: Reply) -> Self {
        Self::new(move |_| Act::Reply(reply))
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("cni.sock")
    }

    fn request(&self) -> Request {
        self.requests.recv_timeout(Duration::from_secs(10)).expect("the plugin asks")
    }
}

fn perform(stream: &mut UnixStream, act: Act) {
    match act {
        Act::Reply(reply) => rpc::write_message(stream, &reply.encode().unwrap()).unwrap(),
        Act::Bytes(bytes) => drop(stream.write_all(&bytes)),
        Act::Hang(bytes) => {
            stream.write_all(&bytes).unwrap();
            // Ends when the plugin does.
            let _ = rpc::read_message(stream);
        }
    }
}

// === the plugin ===

struct Plugin {
    variables: Vec<(&'static str, String)>,
    config: Value,
}

impl Plugin {
    fn new(verb: Verb, socket: &Path) -> Self {
        let variables = vec![
            ("CNI_COMMAND", verb.as_str().to_owned()),
            ("CNI_CONTAINERID", "c0ffee".to_owned()),
            // Any file that is not the plugin's own namespace; what it is, is the agent's concern.
            ("CNI_NETNS", env!("CARGO_MANIFEST_DIR").to_owned()),
            ("CNI_IFNAME", "eth0".to_owned()),
            ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0".to_owned()),
            ("CNI_PATH", "/opt/cni/bin".to_owned()),
        ];
        let config =
            json!({"cniVersion": "1.1.0", "name": "net", "type": "osier", "agentSocket": socket});
        Self { variables, config }
    }

    fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.config[member] = value.into();
        self
    }

    fn set(mut self, name: &'static str, value: &str) -> Self {
        self.variables.retain(|(n, _)| *n != name);
        self.variables.push((name, value.to_owned()));
        self
    }

    fn run(&self) -> Output {
        run(&self.variables, self.config.to_string().as_bytes())
    }

    /// Runs it, expects a failure in the specification's form.
    fn fails(&self) -> Error {
        error(&self.run())
    }
}

fn run(variables: &[(&str, String)], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_osier-cni"))
        .env_clear()
        .envs(variables.iter().map(|(n, v)| (n, v)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may refuse before it has read all.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stdout)))
}

fn error(output: &Output) -> Error {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = Error::decode(&output.stdout).unwrap();
    assert!(!error.msg.is_empty() && !error.cni_version.is_empty(), "{error:?}");
    error
}

fn succeeds_silently(output: &Output) {
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}

fn result() -> AddResult {
    AddResult {
        interfaces: vec![
            Interface { name: "veth12345678".into(), ..Interface::default() },
            Interface {
                name: "eth0".into(),
                mac: Some("02:00:0a:01:02:03".into()),
                mtu: Some(1442),
                sandbox: Some("/run/netns/x".into()),
                ..Interface::default()
            },
        ],
        ips: vec![Ip {
            address: "10.1.2.3/24".parse().unwrap(),
            gateway: Some("10.1.2.1".parse().unwrap()),
            interface: Some(1),
        }],
        routes: vec![Route { mtu: Some(1442), ..Route::new("0.0.0.0/0".parse().unwrap(), None) }],
        ..AddResult::default()
    }
}

// === what succeeds ===

#[test]
fn add_prints_the_shape_of_every_version() {
    for version in Version::ALL {
        let agent = Agent::new(|request| {
            let Call::Add(add) = request.call().unwrap() else { panic!("not an ADD") };
            assert_eq!(add.pod.as_ref().map(|p| &*p.namespace), Some("shop"));
            Act::Reply(Reply::added(&result(), add.config.header.version))
        });
        let output =
            Plugin::new(Verb::Add, &agent.socket()).with("cniVersion", version.as_str()).run();
        assert!(output.status.success(), "{version}: {output:?}");
        let printed = document(&output);
        assert_eq!(printed["cniVersion"], version.as_str());
        let family = (version < Version::V1_0_0).then_some("4");
        if version < Version::V0_3_0 {
            assert_eq!(printed["ip4"]["ip"], "10.1.2.3/24");
            assert_eq!(printed["interfaces"], Value::Null);
        } else {
            assert_eq!(printed["ips"][0]["version"].as_str(), family, "{version}");
            assert_eq!(printed["interfaces"][1]["name"], "eth0");
            let newest = version == Version::V1_1_0;
            assert_eq!(printed["interfaces"][1]["mtu"].is_number(), newest, "{version}");
            assert_eq!(printed["routes"][0]["mtu"].is_number(), newest, "{version}");
        }
    }
}

#[test]
fn the_agent_gets_all_that_the_runtime_said() {
    let agent = Agent::replies(Reply::added(&result(), Version::V1_1_0));
    let plugin = Plugin::new(Verb::Add, &agent.socket())
        .with("agentTimeout", 9)
        .with("strange", json!({"kept": [1.0, "\u{1f980}"]}))
        .set("CNI_NETNS_OVERRIDE", "1");
    assert!(plugin.run().status.success());
    let request = agent.request();
    assert_eq!(request.environment.container_id, "c0ffee");
    assert_eq!(request.environment.path, "/opt/cni/bin");
    assert!(request.environment.netns_override);
    assert_eq!(request.timeout(), Duration::from_secs(9));
    assert_eq!(request.config.get(), plugin.config.to_string());
}

#[test]
fn del_check_gc_and_status_print_nothing() {
    let result: Value = serde_json::from_str(&result().render(Version::V1_1_0)).unwrap();
    for verb in [Verb::Del, Verb::Check, Verb::Status, Verb::Gc] {
        let agent = Agent::replies(Reply::Done);
        let plugin = Plugin::new(verb, &agent.socket()).with("prevResult", result.clone()).with(
            "cni.dev/valid-attachments",
            json!([{"containerID": "c0ffee", "ifname": "eth0"}]),
        );
        succeeds_silently(&plugin.run());
        match agent.request().call().unwrap() {
            Call::Del(del) => assert_eq!(del.prev_result.unwrap().ips.len(), 1),
            Call::Check(_, before) => assert_eq!(before.interfaces.len(), 2),
            Call::Gc(gc) => assert_eq!(gc.valid[0].container_id, "c0ffee"),
            Call::Status(config) => assert_eq!(config.header.name, "net"),
            Call::Add(_) => panic!("not what was asked"),
        }
    }
}

#[test]
fn del_needs_no_namespace() {
    let agent = Agent::replies(Reply::Done);
    succeeds_silently(&Plugin::new(Verb::Del, &agent.socket()).set("CNI_NETNS", "").run());
    let Call::Del(del) = agent.request().call().unwrap() else { panic!("not a DEL") };
    assert_eq!(del.netns, None);
    let agent = Agent::replies(Reply::Done);
    succeeds_silently(&Plugin::new(Verb::Del, &agent.socket()).set("CNI_NETNS", "/gone").run());
}

#[test]
fn version_is_answered_without_an_agent() {
    let version = |stdin: &str| {
        let output = run(&[("CNI_COMMAND", "VERSION".to_owned())], stdin.as_bytes());
        assert!(output.status.success());
        document(&output)
    };
    assert_eq!(version(r#"{"cniVersion":"0.4.0"}"#)["cniVersion"], "0.4.0");
    for other in [r#"{"cniVersion":"9.0.0"}"#, "nonsense"] {
        let document = version(other);
        assert_eq!(document["cniVersion"], "1.1.0");
        let supported = document["supportedVersions"].as_array().unwrap().clone();
        for wanted in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
            assert!(supported.contains(&json!(wanted)), "{wanted}");
        }
    }
}

#[test]
fn by_hand_it_explains_itself() {
    for variables in [vec![], vec![("CNI_COMMAND", String::new())]] {
        let output = run(&variables, b"");
        assert!(output.status.success() && output.stdout.is_empty());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(env!("CARGO_PKG_VERSION")) && text.contains("1.1.0"), "{text}");
    }
}

// === what the agent refuses ===

#[test]
fn the_agents_errors_are_passed_on() {
    let sent =
        Error::new(Code::NO_ADDRESS, "the block 10.1.2.0/24 is full").with_details("254 of 254");
    let agent = Agent::replies(Reply::Failed(sent.clone()));
    let error = Plugin::new(Verb::Add, &agent.socket()).with("cniVersion", "0.4.0").fails();
    assert_eq!(error, Error { cni_version: "0.4.0".into(), ..sent });
    let agent = Agent::replies(Reply::Failed(Error::new(Code::LIMITED_CONNECTIVITY, "no switch")));
    assert_eq!(Plugin::new(Verb::Status, &agent.socket()).fails().code.0, 51);
}

// === an agent that is away, or not itself ===

#[test]
fn an_agent_that_is_away_is_asked_again_later() {
    let directory = TempDir::new().unwrap();
    let absent = directory.path().join("cni.sock");
    let refusing = directory.path().join("refuses.sock");
    drop(UnixListener::bind(&refusing).unwrap());
    for socket in [&absent, &refusing] {
        for verb in [Verb::Add, Verb::Del, Verb::Check, Verb::Gc] {
            let error = Plugin::new(verb, socket).with("agentTimeout", 1).fails();
            assert_eq!(error.code, Code::TRY_AGAIN_LATER, "{error}");
            assert!(error.msg.contains(socket.to_str().unwrap()), "{error}");
        }
        assert_eq!(Plugin::new(Verb::Status, socket).fails().code, Code::NOT_AVAILABLE);
    }
}

#[test]
fn an_agent_that_comes_back_is_waited_for() {
    for verb in [Verb::Add, Verb::Del] {
        let reply = match verb {
            Verb::Add => Reply::added(&result(), Version::V1_1_0),
            _ => Reply::Done,
        };
        let agent = Agent::replies(reply);
        // Its socket is nowhere until the plugin has looked.
        let (socket, hidden) = (agent.socket(), agent.socket().with_extension("hidden"));
        fs::rename(&socket, &hidden).unwrap();
        let back = thread::spawn({
            let socket = socket.clone();
            move || {
                thread::sleep(Duration::from_millis(300));
                fs::rename(&hidden, &socket).unwrap();
            }
        });
        let output = Plugin::new(verb, &socket).run();
        assert!(output.status.success(), "{output:?}");
        back.join().unwrap();
    }
}

#[test]
fn an_agent_that_hangs_meets_the_deadline() {
    // Silent, or dribbling the beginning of an answer.
    let partial = Reply::Done.encode().unwrap()[..7].to_vec();
    for bytes in [Vec::new(), partial] {
        for (verb, code) in
            [(Verb::Add, Code::TRY_AGAIN_LATER), (Verb::Status, Code::NOT_AVAILABLE)]
        {
            let bytes = bytes.clone();
            let agent = Agent::new(move |_| Act::Hang(bytes));
            let started = Instant::now();
            let error = Plugin::new(verb, &agent.socket()).with("agentTimeout", 1).fails();
            assert_eq!(error.code, code, "{error}");
            assert!(error.msg.contains("did not answer within 1s"), "{error}");
            let took = started.elapsed();
            assert!((Duration::from_secs(1)..Duration::from_secs(5)).contains(&took), "{took:?}");
        }
    }
}

#[test]
fn a_full_backlog_meets_the_deadline() {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("cni.sock");
    // Never accepts. How long its backlog is, is for the kernel to say (net.core.somaxconn).
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut waiting = Vec::new();
    loop {
        let (sender, connected) = mpsc::channel();
        let path = socket.clone();
        thread::spawn(move || sender.send(UnixStream::connect(path)));
        match connected.recv_timeout(Duration::from_millis(300)) {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_) => break,
        }
        assert!(waiting.len() < 10_000, "the backlog has no end");
    }
    let error = Plugin::new(Verb::Add, &socket).with("agentTimeout", 1).fails();
    assert_eq!(error.code, Code::TRY_AGAIN_LATER, "{error}");
}

#[test]
fn answers_that_are_none_are_told_apart_from_absence() {
    let framed = |body: &str| {
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(body.as_bytes());
        bytes
    };
    let oversized = u32::try_from(MAX_DOCUMENT + 1).unwrap().to_be_bytes().to_vec();
    for bytes in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![0; 64],
        oversized,
        framed("nonsense"),
        framed(r#"{"protocol":2,"result":{}}"#),
        framed(r#"{"protocol":1,"result":{"ips":"all"}}"#),
        // An ADD without a result.
        framed(r#"{"protocol":1}"#),
    ] {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let agent = Agent::new(move |_| Act::Bytes(bytes));
        let error = Plugin::new(Verb::Add, &agent.socket()).fails();
        assert_eq!(error.code, Code::BAD_AGENT, "{shown:?}: {error}");
    }
    // A DEL with one.
    let agent = Agent::replies(Reply::added(&result(), Version::V1_1_0));
    assert_eq!(Plugin::new(Verb::Del, &agent.socket()).fails().code, Code::BAD_AGENT);
}

#[test]
fn an_agent_that_dies_while_answering_is_away() {
    for cut in [0, 3, 10] {
        let bytes = Reply::added(&result(), Version::V1_1_0).encode().unwrap()[..cut].to_vec();
        let agent = Agent::new(move |_| Act::Bytes(bytes));
        assert_eq!(Plugin::new(Verb::Add, &agent.socket()).fails().code, Code::TRY_AGAIN_LATER);
    }
}

#[test]
fn only_roots_own_socket_is_trusted() {
    let agent = Agent::replies(Reply::Done);
    std::os::unix::fs::chown(agent.socket(), Some(65534), None).expect("tests run as root");
    let error = Plugin::new(Verb::Del, &agent.socket()).fails();
    assert_eq!(error.code, Code::BAD_AGENT);
    assert!(error.msg.contains("belongs to user 65534"), "{error}");

    let file = agent.directory.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(Plugin::new(Verb::Del, &file).fails().code, Code::BAD_AGENT);
}

// === what the plugin refuses by itself ===

#[test]
fn a_wrong_environment_is_code_4_and_never_reaches_the_agent() {
    let agent = Agent::new(|_| panic!("the agent was asked"));
    for (name, value) in [
        ("CNI_COMMAND", "UPDATE"),
        ("CNI_CONTAINERID", ""),
        ("CNI_CONTAINERID", "../x"),
        ("CNI_IFNAME", ""),
        ("CNI_IFNAME", "a-name-of-16-let"),
        ("CNI_IFNAME", "a/b"),
        ("CNI_NETNS", ""),
        ("CNI_NETNS", "/does/not/exist"),
        ("CNI_NETNS", "/proc/self/ns/net"),
    ] {
        let error = Plugin::new(Verb::Add, &agent.socket()).set(name, value).fails();
        assert_eq!(error.code, Code::INVALID_ENVIRONMENT, "{name}={value}");
        assert!(error.msg.contains(name), "{error}");
    }
}

#[test]
fn the_nodes_own_namespace_is_allowed_on_request() {
    let agent = Agent::replies(Reply::added(&result(), Version::V1_1_0));
    let plugin = Plugin::new(Verb::Add, &agent.socket())
        .set("CNI_NETNS", "/proc/self/ns/net")
        .set("CNI_NETNS_OVERRIDE", "true");
    assert!(plugin.run().status.success());
}

#[test]
fn wrong_configurations_have_the_specifications_codes() {
    let agent = Agent::new(|_| panic!("the agent was asked"));
    let plugin = || Plugin::new(Verb::Add, &agent.socket());
    assert_eq!(plugin().with("cniVersion", "2.0.0").fails().code, Code::INCOMPATIBLE_VERSION);
    assert_eq!(plugin().with("cniVersion", 1).fails().code, Code::DECODING_FAILURE);
    assert_eq!(plugin().with("name", "").fails().code, Code::INVALID_CONFIG);
    assert_eq!(plugin().with("name", "../x").fails().code, Code::INVALID_CONFIG);
    assert_eq!(plugin().with("type", "bridge").fails().code, Code::INVALID_CONFIG);
    for (verb, version) in [(Verb::Check, "0.3.1"), (Verb::Gc, "1.0.0"), (Verb::Status, "1.0.0")] {
        let error = Plugin::new(verb, &agent.socket()).with("cniVersion", version).fails();
        assert_eq!(error.code, Code::INCOMPATIBLE_VERSION);
        assert_eq!(error.cni_version, version);
    }
    for text in ["", "{", "nonsense"] {
        let output = run(&plugin().variables, text.as_bytes());
        assert_eq!(error(&output).code, Code::DECODING_FAILURE, "{text}");
    }
}

#[test]
fn a_configuration_has_a_limit() {
    let agent = Agent::replies(Reply::added(&result(), Version::V1_1_0));
    let large = "x".repeat(MAX_DOCUMENT - 4096);
    assert!(Plugin::new(Verb::Add, &agent.socket()).with("x", large).run().status.success());

    let agent = Agent::new(|_| panic!("the agent was asked"));
    // Too large for the message, and too large altogether.
    for size in [MAX_DOCUMENT - 200, MAX_DOCUMENT, 3 * MAX_DOCUMENT] {
        let error = Plugin::new(Verb::Add, &agent.socket()).with("x", "x".repeat(size)).fails();
        assert_eq!(error.code, Code::INVALID_CONFIG);
        assert!(error.msg.contains("1048576 bytes"), "{error}");
    }
}

/// The older systems' configurations, under the names that they call the executable by.
#[test]
fn older_configurations_reach_the_agent() {
    for name in ["odlovs-cni", "odlcoe", "odlcoe-chained", "ovs-odl", "ovs-odl-ipam-odl", "osier"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs").join(name);
        let config: Value =
            serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        let agent = Agent::new(|request| {
            let Call::Add(add) = request.call().unwrap() else { panic!("not an ADD") };
            Act::Reply(Reply::added(&result(), add.config.header.version))
        });
        let mut plugin = Plugin::new(Verb::Add, &agent.socket());
        plugin.config = config;
        let output = plugin.with("agentSocket", agent.socket().to_str().unwrap()).run();
        assert!(output.status.success(), "{name}: {output:?}");
    }
}
