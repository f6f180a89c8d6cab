//! Addresses by Debian's plugins.

use crate::lab::{PATIENCE, addresses, pod_ports};
use crate::runtime::{REFERENCE, Runtime};
use crate::verbs::is_clean;
use osier_testbed::{traffic, wait_until};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn host_local(data: &Path) -> Value {
    json!({"type": "host-local", "dataDir": data, "resolvConf": data.join("resolv.conf"),
        "ranges": [[{"subnet": "10.1.1.64/26", "rangeStart": "10.1.1.100", "rangeEnd": "10.1.1.102"}],
            [{"subnet": "fd01:0:0:1::/64", "rangeStart": "fd01:0:0:1::100"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]})
}

/// The addresses that host-local has given: it has a file of each.
fn leases(data: &Path) -> Vec<String> {
    let files = std::fs::read_dir(data.join("net")).map_or(Vec::new(), |files| {
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    });
    // Beside them are a lock and the last one given.
    let is_lease = |name: &String| name.starts_with("10.1.1.") || name.starts_with("fd01:");
    let mut leases: Vec<String> = files.into_iter().filter(is_lease).collect();
    leases.sort();
    leases
}

#[test]
fn host_local_gives_and_gets_back() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let data = runtime.lab.make_dir("leases").unwrap();
    std::fs::write(data.join("resolv.conf"), "nameserver 10.96.0.10\nsearch shop\n").unwrap();
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        runtime.configure(version, &[runtime.ours(json!({"ipam": host_local(&data)}))]);
        let container = runtime.container(&format!("v{}", version.replace('.', "")));
        let result = container.does("add");
        let given = addresses(&result);
        assert_eq!(given.len(), 2, "{version}: {result}");
        assert_eq!(leases(&data), given.iter().map(ToString::to_string).collect::<Vec<_>>());
        for address in given {
            assert!(traffic::ping_until(node.netns(), address, PATIENCE).is_ok(), "{address}");
        }
        assert_eq!(result["dns"]["nameservers"], json!(["10.96.0.10"]), "{version}: {result}");
        let routes = container.netns.ip("route").unwrap();
        assert!(routes.contains("default via 10.1.1.1 dev eth0"), "{version}: {routes}");
        // A repeated ADD asks for no second one.
        container.does("add");
        assert_eq!(leases(&data).len(), 2);
        if version >= "0.4.0" {
            container.does("check");
            // The delegate's own CHECK counts.
            for lease in leases(&data) {
                std::fs::remove_file(data.join("net").join(lease)).unwrap();
            }
            assert!(container.fails("check").contains("host-local"), "{version}");
        }
        container.does("del");
        assert_eq!(leases(&data), Vec::<String>::new(), "{version}");
        container.does("del");
    }
    is_clean(&runtime);
}

#[test]
fn a_failed_add_gives_leases_back() {
    let runtime = Runtime::new();
    let data = runtime.lab.make_dir("leases").unwrap();
    std::fs::write(data.join("resolv.conf"), "").unwrap();
    runtime.configure("1.0.0", &[runtime.ours(json!({"ipam": host_local(&data)}))]);
    let container = runtime.container("a");
    container.netns.ip("link add eth0 type veth peer name other").unwrap();
    container.fails("add");
    assert_eq!(leases(&data), Vec::<String>::new());
    // More than there are: the one too many is told, the others stay.
    let containers = ["b", "c", "d"].map(|name| runtime.container(name));
    for container in &containers {
        container.does("add");
    }
    let late = runtime.container("e");
    let said = late.fails("add");
    assert!(said.contains("host-local") && said.contains("no IP addresses"), "{said}");
    assert_eq!((leases(&data).len(), pod_ports(runtime.node()).len()), (6, 3));
    containers[0].does("del");
    late.does("add");
    assert_eq!((leases(&data).len(), pod_ports(runtime.node()).len()), (6, 3));
}

#[test]
fn static_gives_what_is_written() {
    let runtime = Runtime::new();
    let ipam = json!({"type": "static", "addresses": [{"address": "10.1.1.200/24"},
        {"address": "fd01:0:0:1::200/64"}], "dns": {"nameservers": ["10.96.0.10"]},
        "routes": [{"dst": "192.0.2.0/24"}]});
    runtime.configure("1.0.0", &[runtime.ours(json!({"ipam": ipam}))]);
    let container = runtime.container("a");
    let result = container.does("add");
    let wanted: [std::net::IpAddr; 2] =
        ["10.1.1.200".parse().unwrap(), "fd01:0:0:1::200".parse().unwrap()];
    assert_eq!(addresses(&result), wanted);
    container.does("check");
    for address in wanted {
        assert!(traffic::ping_until(runtime.node().netns(), address, PATIENCE).is_ok());
    }
    // Its name servers and its routes, and no other: no default route was asked for.
    assert_eq!(result["dns"]["nameservers"], json!(["10.96.0.10"]));
    let routes = container.netns.ip("route").unwrap();
    assert!(routes.contains("192.0.2.0/24 via 10.1.1.1"), "{routes}");
    assert!(!routes.contains("default"), "{routes}");
    container.does("del");
    is_clean(&runtime);
}

/// A plugin of our own among those that the runtime knows.
fn plugin(runtime: &Runtime, name: &str, script: &str) {
    let directory = runtime.path().split(':').next().unwrap().to_owned();
    let plugin = Path::new(&directory).join(name);
    std::fs::write(&plugin, script).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_delegate_that_is_too_slow_is_called_to_take_back() {
    let runtime = Runtime::new();
    let called = runtime.lab.dir().join("called");
    let script = format!(
        "#!/bin/sh\necho $CNI_COMMAND >>{}\n[ $CNI_COMMAND = DEL ] || exec sleep 60\n",
        called.display()
    );
    plugin(&runtime, "slow", &script);
    let slow = json!({"ipam": {"type": "slow"}, "agentTimeout": 5});
    runtime.configure("1.0.0", &[runtime.ours(slow)]);
    runtime.container("a").fails("add");
    let told = || match std::fs::read_to_string(&called).unwrap() {
        commands if commands == "ADD\nDEL\n" => Ok(()),
        commands => Err(commands),
    };
    wait_until("the delegate to be called again", PATIENCE, told).unwrap();
    is_clean(&runtime);
}

/// A port that was there is not unknown because its interface is gone: until its addresses are taken
/// back, the runtime must come again.
#[test]
fn a_delegate_that_does_not_take_back_is_asked_again() {
    let runtime = Runtime::new();
    let broken = runtime.lab.dir().join("broken");
    let given = r#"{"cniVersion": "1.0.0", "ips": [{"address": "10.1.1.200/24"}, {"address": "fd01:0:0:1::200/64"}]}"#;
    let refusal = r#"{"cniVersion": "1.0.0", "code": 100, "msg": "no disk"}"#;
    let script = format!(
        "#!/bin/sh\n[ $CNI_COMMAND = ADD ] && echo '{given}' && exit\n\
         [ -e {} ] || exit 0\necho '{refusal}'\nexit 1\n",
        broken.display()
    );
    plugin(&runtime, "forgetful", &script);
    runtime.configure("1.0.0", &[runtime.ours(json!({"ipam": {"type": "forgetful"}}))]);
    let container = runtime.container("a");
    assert_eq!(addresses(&container.does("add")).len(), 2);
    std::fs::write(&broken, "").unwrap();
    for _ in 0..2 {
        assert!(container.fails("del").contains("no disk"));
        is_clean(&runtime);
    }
    runtime.container("never").does("del");
    std::fs::remove_file(&broken).unwrap();
    container.does("del");
    // Now it is unknown.
    std::fs::write(&broken, "").unwrap();
    container.does("del");
}

/// It needs a network with broadcast, which the default one is not; `node/dhcp.rs` has one.
#[test]
fn dhcp_is_refused_in_words_and_leaves_nothing() {
    let runtime = Runtime::new();
    let node = runtime.node();
    let socket = runtime.lab.dir().join("dhcp.sock");
    let ipam = json!({"type": "dhcp", "daemonSocketPath": socket});
    runtime.configure("1.0.0", &[runtime.ours(json!({"ipam": ipam}))]);
    let container = runtime.container("a");
    let said = container.fails("add");
    assert!(said.contains("dhcp") && said.contains("is routed"), "{said}");
    // Only the daemon knows whether there is a lease, and it is away. What is unknown is deleted.
    container.does("del");
    runtime.container("never").does("del");
    is_clean(&runtime);
    let daemon = node.netns().command(&format!("{REFERENCE}/dhcp"));
    let _daemon = daemon.arg("daemon").arg("-socketpath").arg(&socket).spawn().unwrap();
    let listening = || std::os::unix::net::UnixStream::connect(&socket).map(drop);
    wait_until("the daemon to listen", PATIENCE, listening).unwrap();
    container.does("del");
    is_clean(&runtime);
}
