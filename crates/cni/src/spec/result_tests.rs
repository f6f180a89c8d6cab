use super::*;
use serde_json::{Value, json};

/// All that 1.1.0 can say.
fn full() -> AddResult {
    AddResult {
        interfaces: vec![
            Interface {
                name: "veth1234abcd".into(),
                mac: Some("aa:bb:cc:00:11:22".into()),
                ..Interface::default()
            },
            Interface {
                name: "eth0".into(),
                mac: Some("99:88:77:66:55:44".into()),
                mtu: Some(1450),
                sandbox: Some("/var/run/netns/blue".into()),
                socket_path: Some("/run/vhost.sock".into()),
                pci_id: Some("0000:00:1f.2".into()),
            },
        ],
        ips: vec![
            Ip {
                address: "10.1.0.5/16".parse().unwrap(),
                gateway: Some("10.1.0.1".parse().unwrap()),
                interface: Some(1),
            },
            Ip { address: "2001:db8::42/64".parse().unwrap(), gateway: None, interface: Some(1) },
        ],
        routes: vec![
            Route {
                mtu: Some(1400),
                advmss: Some(1360),
                priority: Some(100),
                table: Some(254),
                scope: Some(0),
                ..Route::new("0.0.0.0/0".parse().unwrap(), Some("10.1.0.1".parse().unwrap()))
            },
            Route::new("::/0".parse().unwrap(), None),
        ],
        dns: Dns { nameservers: vec!["10.1.0.1".into()], ..Dns::default() },
    }
}

fn rendered(version: Version) -> Value {
    serde_json::from_str(&full().render(version)).unwrap()
}

#[test]
fn version_1_1_says_all() {
    assert_eq!(
        rendered(Version::V1_1_0),
        json!({
            "cniVersion": "1.1.0",
            "interfaces": [
                {"name": "veth1234abcd", "mac": "aa:bb:cc:00:11:22"},
                {"name": "eth0", "mac": "99:88:77:66:55:44", "mtu": 1450, "sandbox": "/var/run/netns/blue",
                 "socketPath": "/run/vhost.sock", "pciID": "0000:00:1f.2"}
            ],
            "ips": [
                {"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1},
                {"address": "2001:db8::42/64", "interface": 1}
            ],
            "routes": [
                {"dst": "0.0.0.0/0", "gw": "10.1.0.1", "mtu": 1400, "advmss": 1360, "priority": 100,
                 "table": 254, "scope": 0},
                {"dst": "::/0"}
            ],
            "dns": {"nameservers": ["10.1.0.1"]}
        })
    );
}

#[test]
fn version_1_0_has_no_attributes() {
    assert_eq!(
        rendered(Version::V1_0_0),
        json!({
            "cniVersion": "1.0.0",
            "interfaces": [
                {"name": "veth1234abcd", "mac": "aa:bb:cc:00:11:22"},
                {"name": "eth0", "mac": "99:88:77:66:55:44", "sandbox": "/var/run/netns/blue"}
            ],
            "ips": [
                {"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1},
                {"address": "2001:db8::42/64", "interface": 1}
            ],
            "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}, {"dst": "::/0"}],
            "dns": {"nameservers": ["10.1.0.1"]}
        })
    );
}

#[test]
fn versions_0_3_and_0_4_name_the_family() {
    for version in [Version::V0_3_0, Version::V0_3_1, Version::V0_4_0] {
        let mut expected = rendered(Version::V1_0_0);
        expected["cniVersion"] = json!(version.as_str());
        expected["ips"][0]["version"] = json!("4");
        expected["ips"][1]["version"] = json!("6");
        assert_eq!(rendered(version), expected);
    }
}

#[test]
fn versions_before_0_3_have_one_address_a_family() {
    for version in [Version::V0_1_0, Version::V0_2_0] {
        assert_eq!(
            rendered(version),
            json!({
                "cniVersion": version.as_str(),
                "ip4": {"ip": "10.1.0.5/16", "gateway": "10.1.0.1",
                        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}]},
                "ip6": {"ip": "2001:db8::42/64", "routes": [{"dst": "::/0"}]},
                "dns": {"nameservers": ["10.1.0.1"]}
            })
        );
    }
}

#[test]
fn what_is_printed_reads_back_as_far_as_the_version_goes() {
    for version in Version::ALL {
        let text = full().render(version);
        let read = AddResult::decode(text.as_bytes()).unwrap();
        assert_eq!(read.render(version), text);
    }
    assert_eq!(AddResult::decode(full().render(Version::V1_1_0).as_bytes()).unwrap(), full());
}

#[test]
fn nothing_is_printed_of_nothing() {
    assert_eq!(AddResult::default().render(Version::V1_1_0), r#"{"cniVersion":"1.1.0"}"#);
}

/// The result of the specification's appendix, 1.0.0.
#[test]
fn the_specifications_example_reads() {
    let text = r#"{
        "ips": [{"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 2}],
        "routes": [{"dst": "0.0.0.0/0"}],
        "interfaces": [
            {"name": "cni0", "mac": "00:11:22:33:44:55"},
            {"name": "veth3243", "mac": "55:44:33:22:11:11"},
            {"name": "eth0", "mac": "99:88:77:66:55:44", "sandbox": "/var/run/netns/blue"}
        ],
        "dns": {"nameservers": ["10.1.0.1"]}
    }"#;
    let result = AddResult::decode(text.as_bytes()).unwrap();
    assert_eq!(result.interfaces.len(), 3);
    assert_eq!(result.ips[0].interface, Some(2));
    assert_eq!(result.routes[0].gw, None);
}

#[test]
fn what_go_prints_for_nothing_reads() {
    let text = r#"{"cniVersion":"0.3.1","interfaces":null,"ips":[{"version":"4","interface":-1,
        "address":"10.1.0.5/16","gateway":""}],"routes":null,"dns":{"nameservers":null}}"#;
    let result = AddResult::decode(text.as_bytes()).unwrap();
    assert_eq!(result.ips[0].interface, None);
    assert_eq!(result.ips[0].gateway, None);
}

#[test]
fn wrong_results_are_refused() {
    for text in [
        "",
        "[]",
        r#"{"ips":[{}]}"#,
        r#"{"ips":[{"address":"10.1.0.5"}]}"#,
        r#"{"ips":[{"address":"10.1.0.5/16","gateway":"x"}]}"#,
        r#"{"interfaces":[{"mac":"x"}]}"#,
        r#"{"routes":[{"dst":"0.0.0.0/0","mtu":-1}]}"#,
    ] {
        assert!(AddResult::decode(text.as_bytes()).is_err(), "{text}");
    }
}
