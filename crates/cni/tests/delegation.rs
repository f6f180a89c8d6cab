//! Delegation to the reference plugins, and to plugins that misbehave.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_cni::delegate::{Delegate, DelegateError};
use osier_cni::spec::{AddResult, Code, Command, Environment, Error, Version};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where Debian has the reference plugins (`scripts/install-packages`).
const REFERENCE: &str = "/usr/lib/cni";
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugins");
const TIMEOUT: Duration = Duration::from_secs(10);

fn environment(command: Command, container_id: &str) -> Environment {
    Environment {
        command,
        container_id: container_id.into(),
        netns: "/run/netns/none".into(),
        ifname: "eth0".into(),
        args: "IgnoreUnknown=1;K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop".into(),
        path: REFERENCE.into(),
        netns_override: false,
    }
}

/// A pool of three addresses, kept in a directory of the test's own.
fn host_local(version: &str, data: &Path) -> Value {
    json!({"cniVersion": version, "name": "net", "type": "osier", "ipam": {
        "type": "host-local", "subnet": "10.11.1.0/24", "rangeStart": "10.11.1.10",
        "rangeEnd": "10.11.1.12", "gateway": "10.11.1.1", "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": data}})
}

fn add(delegate: &Delegate, id: &str, config: &Value) -> Result<AddResult, DelegateError> {
    let result = delegate.run(&environment(Command::Add, id), &config.to_string(), TIMEOUT)?;
    Ok(result.expect("an ADD has a result"))
}

fn leases(data: &Path) -> usize {
    let names = fs::read_dir(data.join("net")).unwrap().map(|e| e.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("10.11.1.")).count()
}

/// Debian's plugins are older than 1.1.0: the last version is spoken in 1.0.0.
#[test]
fn host_local_gives_and_takes_back() {
    let delegate =
        Delegate::find("host-local", REFERENCE).expect("containernetworking-plugins is installed");
    assert_eq!(delegate.program(), Path::new("/usr/lib/cni/host-local"));
    for version in ["0.1.0", "0.3.0", "0.4.0", "1.0.0", "1.1.0"] {
        let data = TempDir::new().unwrap();
        let mut config = host_local(version, data.path());
        let result = add(&delegate, "a", &config).unwrap();
        assert_eq!(result.ips[0].address.to_string(), "10.11.1.10/24", "{version}");
        assert_eq!(result.ips[0].gateway, Some("10.11.1.1".parse().unwrap()));
        assert_eq!(result.routes[0].dst.to_string(), "0.0.0.0/0");
        assert_eq!(leases(data.path()), 1);

        let run = |command, config: &Value| {
            delegate.run(&environment(command, "a"), &config.to_string(), TIMEOUT)
        };
        config["prevResult"] = serde_json::from_str(&result.render(Version::V1_1_0)).unwrap();
        if version > "0.3.1" {
            assert!(matches!(run(Command::Check, &config), Ok(None)), "{version}");
        }
        if version == "1.1.0" {
            assert!(matches!(run(Command::Gc, &config), Ok(None)));
            assert!(matches!(run(Command::Status, &config), Ok(None)));
        }
        assert!(matches!(run(Command::Del, &config), Ok(None)), "{version}");
        assert_eq!(leases(data.path()), 0);
        assert!(matches!(run(Command::Del, &config), Ok(None)), "a second DEL is no error");
        if version > "0.3.1" {
            let error = run(Command::Check, &config).unwrap_err();
            assert!(matches!(error, DelegateError::Refused { .. }), "{error}");
        }
    }
}

#[test]
fn an_exhausted_pool_is_the_delegates_error() {
    let delegate = Delegate::find("host-local", REFERENCE).unwrap();
    let data = TempDir::new().unwrap();
    let config = host_local("1.0.0", data.path());
    for id in ["a", "b", "c"] {
        add(&delegate, id, &config).unwrap();
    }
    let error = Error::from(add(&delegate, "d", &config).unwrap_err());
    assert!(error.msg.starts_with("host-local: "), "{error}");
    assert!(error.to_string().contains("no IP addresses available"), "{error}");
}

#[test]
fn static_gives_what_is_written() {
    let delegate = Delegate::find("static", &format!("/nowhere::{REFERENCE}")).unwrap();
    let config = json!({"cniVersion": "1.1.0", "name": "net", "type": "osier", "ipam": {
        "type": "static", "addresses": [{"address": "10.10.0.1/24", "gateway": "10.10.0.254"},
        {"address": "fd00::1/64"}], "dns": {"nameservers": ["10.10.0.53"]}}});
    let result = add(&delegate, "a", &config).unwrap();
    assert_eq!(result.ips[1].address.to_string(), "fd00::1/64");
    assert_eq!(result.dns.nameservers, ["10.10.0.53"]);
}

/// No daemon runs here, so all it can do is say so.
#[test]
fn dhcp_without_its_daemon_says_so() {
    let delegate = Delegate::find("dhcp", REFERENCE).unwrap();
    let directory = TempDir::new().unwrap();
    let config = json!({"cniVersion": "1.0.0", "name": "net", "type": "osier", "ipam": {
        "type": "dhcp", "daemonSocketPath": directory.path().join("dhcp.sock")}});
    let error = add(&delegate, "a", &config).unwrap_err();
    assert!(
        matches!(&error, DelegateError::Refused { source, .. } if source.msg.contains("dhcp.sock")),
        "{error:?}"
    );
}

#[test]
fn plugins_are_found_by_name_in_the_path_only() {
    for name in ["../hangs", "/bin/true", "", ".", "..", "a/b"] {
        assert!(matches!(Delegate::find(name, OURS), Err(DelegateError::Name(_))), "{name}");
    }
    let error = Delegate::find("host-local", OURS).unwrap_err();
    assert!(matches!(&error, DelegateError::NotFound { .. }), "{error}");
    let error = Error::from(error);
    assert_eq!(error.code, Code::INVALID_CONFIG);
    assert!(error.msg.contains("host-local") && error.msg.contains(OURS), "{error}");
    assert!(matches!(Delegate::find("host-local", ""), Err(DelegateError::NotFound { .. })));
}

fn misbehaves(name: &str, timeout: Duration) -> DelegateError {
    let delegate = Delegate::find(name, OURS).unwrap();
    let config = r#"{"cniVersion":"1.0.0","name":"net","type":"osier"}"#;
    delegate.run(&environment(Command::Add, "a"), config, timeout).unwrap_err()
}

#[test]
fn a_delegate_that_hangs_is_killed() {
    for name in ["hangs", "lingers"] {
        let started = Instant::now();
        let error = misbehaves(name, Duration::from_millis(300));
        assert!(matches!(error, DelegateError::Deadline { .. }), "{name}: {error}");
        assert!(started.elapsed() < Duration::from_secs(5), "{name}");
        assert_eq!(Error::from(error).code, Code::TRY_AGAIN_LATER);
    }
}

#[test]
fn a_delegate_that_talks_nonsense_is_named() {
    let error = misbehaves("garbles", TIMEOUT);
    assert!(matches!(error, DelegateError::Garbled { .. }), "{error}");
    let error = Error::from(error);
    assert_eq!(error.code, Code::DELEGATE_FAILED);
    assert!(error.msg.contains("garbles") && !error.details.is_empty(), "{error}");

    let error = misbehaves("floods", TIMEOUT);
    assert!(matches!(error, DelegateError::Run { .. }), "{error}");

    let error = misbehaves("dies", TIMEOUT);
    let DelegateError::Died { status, said, .. } = &error else { panic!("{error}") };
    assert_eq!((status.code(), &**said), (Some(3), "no such device"));
}

#[test]
fn a_delegate_sees_the_call_and_nothing_else() {
    let DelegateError::Refused { source, .. } = misbehaves("echoes", TIMEOUT) else {
        panic!("it refuses")
    };
    assert_eq!(source.code, Code(142));
    assert_eq!(
        source.details,
        "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop CNI_COMMAND=ADD \
         CNI_CONTAINERID=a CNI_IFNAME=eth0 CNI_NETNS=/run/netns/none CNI_PATH=/usr/lib/cni \
         | {cniVersion:1.0.0,name:net,type:osier}"
    );
}

/// `portmap` without mappings prints the result before it: the reference library's types read what we
/// print, in each version that it knows, and print it as we read it.
#[test]
fn the_reference_library_reads_our_results() {
    let text = r#"{"interfaces":[{"name":"veth1","mac":"02:00:00:00:00:01"},
        {"name":"eth0","mac":"02:00:00:00:00:02","sandbox":"/run/netns/x"}],
        "ips":[{"address":"10.1.2.3/24","gateway":"10.1.2.1","interface":1},
        {"address":"fd00::3/64","gateway":"fd00::1","interface":1}],
        "routes":[{"dst":"0.0.0.0/0","gw":"10.1.2.1"},{"dst":"::/0"}],
        "dns":{"nameservers":["10.96.0.10"],"domain":"d","search":["s"],"options":["ndots:5"]}}"#;
    let ours = AddResult::decode(text.as_bytes()).unwrap();
    let delegate = Delegate::find("portmap", REFERENCE).unwrap();
    for version in [Version::V0_3_0, Version::V0_3_1, Version::V0_4_0, Version::V1_0_0] {
        let result: Value = serde_json::from_str(&ours.render(version)).unwrap();
        let config = json!({"cniVersion": version.as_str(), "name": "net", "type": "portmap", "prevResult": result});
        assert_eq!(add(&delegate, "a", &config).unwrap(), ours, "{version}");
    }
}
