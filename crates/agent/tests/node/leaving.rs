//! A node that Osier leaves: nothing of it stays, and nothing of others goes.

use crate::lab::{Agent, PATIENCE, Pod, executables, one_node, pod_links, view};
use osier_testbed::{Netns, Node, Output};
use std::path::{Path, PathBuf};

/// A configuration all of whose places are the test's own.
fn configure(node: &Node) -> PathBuf {
    let run = node.ovs().dir();
    let text = format!(
        "node = '{}'\ndatapath = 'netdev'\novsdb = '{}'\novs_run_dir = '{run}'\n\
         cni_socket = '{run}/agent/cni.sock'\nstate_dir = '{run}/state'\n\
         cni_config = '{run}/net.d/10-osier.conflist'\n",
        node.name(),
        node.ovs().db_socket().display(),
        run = run.display(),
    );
    let path = run.join("leaving.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn uninstall(node: &Node, config: &Path, plugins: &Path) -> Output {
    let program = executables().join("osier");
    let command = node.netns().command(program.to_str().unwrap());
    let config = [Path::new("uninstall-node"), Path::new("--config"), config];
    command.args(config).arg("--plugins").arg(plugins).deadline(PATIENCE * 2).output().unwrap()
}

/// Everything that might be left, as foreign tools list it.
fn found(node: &Node) -> String {
    let netns = node.netns();
    let run = |netns: &Netns, words: &[&str]| netns.run(words).unwrap_or_default();
    [
        node.ovs().vsctl(&["--no-wait", "list-br"]).unwrap(),
        node.ovs().vsctl(&["--no-wait", "list", "Interface"]).unwrap(),
        node.ovs().vsctl(&["--no-wait", "get", "Open_vSwitch", ".", "external_ids"]).unwrap(),
        node.ovs().vsctl(&["--no-wait", "get", "Open_vSwitch", ".", "other_config"]).unwrap(),
        run(netns, &["nft", "list", "ruleset"]),
        run(netns, &["ip", "-br", "link"]),
        run(netns, &["ip", "route"]),
        run(netns, &["ip", "-6", "route"]),
        run(netns, &["iptables", "-S", "FORWARD"]),
    ]
    .join("\n")
}

#[test]
fn a_node_that_osier_leaves_is_clean() {
    leave(true);
}

#[test]
fn a_bridge_that_others_made_stays_without_our_flows() {
    leave(false);
}

/// Comes and goes; with a bridge of the agent's own, or one that is there already.
fn leave(own_bridge: bool) {
    let (lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let netns = node.netns();
    if own_bridge {
        node.ovs().vsctl(&["del-br", "br-int"]).unwrap();
    }
    // What others have: a firewall that drops, a table, a bridge.
    netns.run(&["iptables", "-P", "FORWARD", "DROP"]).unwrap();
    netns.run(&["nft", "add", "table", "inet", "others"]).unwrap();
    node.ovs()
        .vsctl(&["add-br", "br-others", "--", "set", "bridge", "br-others", "datapath_type=netdev"])
        .unwrap();
    let before = found(node);

    let agent = Agent::start(node, &view(&fabric, 24));
    let pods = ["a", "b"].map(|name| Pod::new(&lab, name, &agent));
    for pod in &pods {
        pod.add();
    }
    let during = found(node);
    for ours in ["osier0", "osier-tun", "table inet osier", "flow-restore-wait", "comment osier"] {
        assert!(during.contains(ours), "{ours} is not in\n{during}");
    }
    agent.stop().unwrap();

    let config = configure(node);
    let run = node.ovs().dir();
    let plugins = run.join("plugins");
    for (path, text) in [
        ("net.d/10-osier.conflist", "{}"),
        ("net.d/99-others.conf", "{}"),
        ("plugins/osier", "… the CNI plugin of Osier …"),
        ("plugins/odlcoe", "an older system's own"),
        ("state/credentials/key.pem", "secret"),
        ("state/view.cache", ""),
    ] {
        std::fs::create_dir_all(run.join(path).parent().unwrap()).unwrap();
        std::fs::write(run.join(path), text).unwrap();
    }
    let said = uninstall(node, &config, &plugins);
    assert!(said.status.success(), "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("2 ports of pods removed"), "{}", said.stdout);

    assert_eq!(words(&found(node)), words(&before));
    if !own_bridge {
        let socket = node.ovs().mgmt_socket("br-int");
        let flows =
            node.ovs().ofctl(&["dump-flows", &format!("unix:{}", socket.display())]).unwrap();
        assert!(!flows.contains("cookie=0x6f73"), "{flows}");
    }
    assert_eq!(pod_links(node), 0, "no wire is left");
    let left = |folder: &str| {
        let entries = std::fs::read_dir(run.join(folder)).map(|all| all.flatten().collect());
        let entries: Vec<std::fs::DirEntry> = entries.unwrap_or_default();
        entries.iter().map(|e| e.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (left("net.d"), left("plugins")),
        (vec!["99-others.conf".to_owned()], vec!["odlcoe".to_owned()])
    );
    assert!(!run.join("state").exists() && !run.join("agent").exists());

    // A wire that no database knows goes, too; that of others stays.
    let lost = lab.netns("lost").unwrap();
    netns.ip("link add veth0a0b0c0d group 28531 type veth peer name lost0").unwrap();
    netns.ip("link add veth-others type veth peer name others0").unwrap();
    netns.ip(&format!("link set lost0 netns {}", lost.name())).unwrap();
    let again = uninstall(node, &config, &plugins);
    assert!(again.status.success(), "it may be repeated: {}{}", again.stdout, again.stderr);
    let links = netns.ip("-br link").unwrap();
    assert!(!links.contains("veth0a0b0c0d") && links.contains("veth-others"), "{links}");
}

/// Without what counts up or is chosen anew by the switch each time.
fn words(text: &str) -> Vec<&str> {
    let moves =
        ["statistics", "_uuid", "ifindex", "link_resets", "cur_cfg", "status", "mac_in_use"];
    text.lines().map(str::trim).filter(|line| !moves.iter().any(|m| line.starts_with(m))).collect()
}

#[test]
fn while_an_agent_runs_nothing_is_removed() {
    let (_lab, fabric) = one_node();
    let node = &fabric.nodes()[0];
    let agent = Agent::start(node, &view(&fabric, 24));
    let config = node.ovs().dir().join("agent.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let run = node.ovs().dir().display();
    let own = format!("state_dir = '{run}/state'\ncni_config = '{run}/10-osier.conflist'\n");
    std::fs::write(&config, text + &own).unwrap();
    let said = uninstall(node, &config, &node.ovs().dir().join("plugins"));
    assert!(
        !said.status.success() && said.stderr.contains("an agent runs here"),
        "{}",
        said.stderr
    );
    assert!(found(node).contains("table inet osier"));
    agent.stop().unwrap();
}
