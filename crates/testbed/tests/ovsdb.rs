//! Databases alone and in a cluster.
#![allow(missing_docs)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use osier_testbed::{Lab, Netns, OvsdbCluster, OvsdbServer, TlsFiles};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const INSERT: &str = r#"["Open_vSwitch",{"op":"insert","table":"SSL","row":{"private_key":"k","certificate":"c","ca_cert":"KEEP"}},{"op":"insert","table":"Open_vSwitch","row":{"external_ids":["map",[["mark","here"]]]}}]"#;

#[test]
fn a_database_survives_a_kill_at_the_same_address() {
    let lab = Lab::new().unwrap();
    let netns = lab.netns("db").unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut server = OvsdbServer::builder(&netns, "db").tcp(any).start(Path::new(SCHEMA)).unwrap();
    let address = server.tcp_address().unwrap();
    assert_ne!(address.port(), 0);
    server.client("transact", &[INSERT]).unwrap();

    server.kill();
    assert!(server.usage().is_err());
    assert!(netns.tcp_connect(address).is_err());

    server.start().unwrap();
    netns.tcp_connect(address).unwrap();
    let rows = server.client("dump", &["Open_vSwitch", "Open_vSwitch", "external_ids"]).unwrap();
    assert!(rows.contains("mark=here"), "{rows}");
    assert!(server.usage().unwrap().rss > 1 << 20);
}

#[test]
fn a_database_speaks_tls() {
    let lab = Lab::new().unwrap();
    let netns = lab.netns("db").unwrap();
    let files = make_certificate(&netns);
    let address: SocketAddr = "[::1]:6640".parse().unwrap();
    let server = OvsdbServer::builder(&netns, "db")
        .tls(address, files.clone())
        .start(Path::new(SCHEMA))
        .unwrap();
    assert_eq!(server.tls_address(), Some(address));
    let databases = netns
        .command("ovsdb-client")
        .arg("-p")
        .arg(files.private_key)
        .arg("-c")
        .arg(files.certificate)
        .arg("-C")
        .arg(files.ca_certificate)
        .args(["list-dbs", "ssl:[::1]:6640"])
        .run()
        .unwrap();
    assert!(databases.contains("Open_vSwitch"), "{databases}");
}

/// A certificate that is its own authority.
fn make_certificate(netns: &Netns) -> TlsFiles {
    let at = |name: &str| -> PathBuf { netns.lab().dir().join(name) };
    netns
        .command("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1".split(' '))
        .args(["-subj", "/CN=localhost", "-keyout"])
        .arg(at("key.pem"))
        .arg("-out")
        .arg(at("cert.pem"))
        .run()
        .expect("openssl makes a certificate");
    TlsFiles {
        private_key: at("key.pem"),
        certificate: at("cert.pem"),
        ca_certificate: at("cert.pem"),
    }
}

#[test]
fn a_cluster_elects_another_leader_and_takes_the_old_one_back() {
    let lab = Lab::new().unwrap();
    let netns = lab.netns("raft").unwrap();
    let mut cluster = OvsdbCluster::start(&netns, "raft", Path::new(SCHEMA), 3).unwrap();
    let first = cluster.leader().unwrap();
    cluster.members()[first].client("transact", &[INSERT]).unwrap();

    cluster.kill(first);
    let second = cluster.leader().unwrap();
    assert_ne!(first, second);

    cluster.restart(first).unwrap();
    let rows = cluster.members()[first]
        .client("dump", &["Open_vSwitch", "Open_vSwitch", "external_ids"])
        .unwrap();
    assert!(rows.contains("mark=here"), "{rows}");
}
