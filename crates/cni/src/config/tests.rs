use super::*;
use crate::spec::{Command, Environment};
use serde_json::{Value, json};

/// A configuration of the tests' folder.
macro_rules! config {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/configs/", $name, ".json"))
    };
}

fn environment(command: Command) -> Environment {
    Environment {
        command,
        container_id: "c0ffee".into(),
        netns: "/run/netns/x".into(),
        ifname: "eth0".into(),
        args: String::new(),
        path: String::new(),
        netns_override: false,
    }
}

fn decode(changes: &Value) -> Result<NetworkConfig, Error> {
    let mut document = json!({"cniVersion": "1.0.0", "name": "net", "type": "osier"});
    for (name, value) in changes.as_object().unwrap() {
        document[name] = value.clone();
    }
    NetworkConfig::decode(document.to_string().as_bytes())
}

#[test]
fn our_own_configuration_reads() {
    let config = NetworkConfig::decode(config!("osier")).unwrap();
    assert_eq!(config.header.version, Version::V1_1_0);
    assert_eq!(config.header.kind, Kind::Osier);
    assert_eq!(config.header.socket.to_str(), Some("/run/osier/other.sock"));
    assert_eq!(config.header.timeout, Duration::from_secs(7));
    assert_eq!(config.network.as_deref(), Some("tenant-a"));
    assert_eq!((config.mtu, config.default_route), (Some(1400), Some(false)));
    assert_eq!((config.ipam, config.masquerade, config.hairpin), (Ipam::Agent, None, None));
    assert_eq!(config.dns.domain.as_deref(), Some("cluster.local"));
    let runtime = config.runtime;
    let ips: Vec<String> = runtime.ips.iter().map(ToString::to_string).collect();
    assert_eq!(ips, ["10.11.1.7/24", "fd00::7/128"]);
    assert_eq!(runtime.mac.unwrap().to_string(), "02:00:0a:0b:01:07");
    assert_eq!(runtime.bandwidth.ingress, Some(Rate { rate: 1_000_000, burst: Some(2_000_000) }));
    assert_eq!(runtime.bandwidth.egress, Some(Rate { rate: 500_000, burst: None }));
    let ports: Vec<_> = runtime.port_mappings.iter().map(|m| (m.host_port, m.protocol)).collect();
    assert_eq!(ports, [(8080, Protocol::Tcp), (53, Protocol::Udp)]);
    assert_eq!(runtime.port_mappings[0].host_ip, Some("192.0.2.1".parse().unwrap()));
}

/// Structures of Go without names for JSON, as containerd has them.
#[test]
fn names_count_in_any_case() {
    let config = decode(&json!({"runtimeConfig": {
        "portMappings": [{"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""}],
        "bandwidth": {"IngressRate": 1000, "IngressBurst": 2000, "EgressRate": 0, "EgressBurst": 0},
    }}));
    let runtime = config.unwrap().runtime;
    let ports: Vec<_> =
        runtime.port_mappings.iter().map(|m| (m.host_port, m.container_port, m.host_ip)).collect();
    assert_eq!(ports, [(8080, 80, None)]);
    assert_eq!(runtime.bandwidth.ingress, Some(Rate { rate: 1000, burst: Some(2000) }));
    assert_eq!(runtime.bandwidth.egress, None);
}

#[test]
fn the_least_configuration_has_defaults() {
    let config = decode(&json!({})).unwrap();
    assert_eq!(config.header.socket.to_str(), Some("/run/osier/cni.sock"));
    assert_eq!(config.header.timeout, Duration::from_secs(30));
    assert_eq!((config.ipam, config.force_address), (Ipam::Agent, false));
    assert_eq!(config.runtime, RuntimeConfig::default());
    assert_eq!(config.switch, SwitchSettings::default());
}

#[test]
fn odlovs_cni_reads() {
    let config = NetworkConfig::decode(config!("odlovs-cni")).unwrap();
    assert_eq!((config.header.kind, config.header.version), (Kind::OdlovsCni, Version::V0_3_0));
    assert_eq!(config.bridge.as_deref(), Some("ovsbrk8s"));
    assert_eq!(config.ipam, Ipam::Delegate("host-local".into()));
    assert_eq!(config.switch.manager.as_deref(), Some("tcp:192.168.33.1:6640"));
    assert_eq!(config.switch.controller.as_deref(), Some("tcp:192.168.33.1:6653"));
    assert_eq!(config.switch.external_interface.as_deref(), Some("eth2"));
    assert_eq!(config.switch.external_ip, Some("192.168.50.13".parse().unwrap()));
}

#[test]
fn odlcoe_reads_alone_and_in_a_chain() {
    let config = NetworkConfig::decode(config!("odlcoe")).unwrap();
    assert_eq!((config.header.kind, config.bridge.as_deref()), (Kind::Odlcoe, Some("brk8s")));
    assert_eq!(config.switch.manager.as_deref(), Some("tcp:192.168.33.1:6640"));
    assert_eq!(config.switch.controller.as_deref(), Some("ptcp:6653"));

    let request =
        AttachRequest::decode(&environment(Command::Add), config!("odlcoe-chained")).unwrap();
    assert_eq!(request.config.switch.manager.as_deref(), Some("tcp:[fd00::1]:6640"));
    assert_eq!(request.config.switch.controller, None);
    assert_eq!(request.config.switch.vtep_ips.len(), 2);
    assert_eq!(request.config.bridge.as_deref(), Some("br-int"));
    assert_eq!(request.prev_result.unwrap().ips[0].address.to_string(), "10.11.2.10/16");
}

#[test]
fn ovs_odl_reads() {
    let config = NetworkConfig::decode(config!("ovs-odl")).unwrap();
    // It says no version: that is 0.1.0.
    assert_eq!((config.header.kind, config.header.version), (Kind::OvsOdl, Version::V0_1_0));
    assert_eq!((config.bridge.as_deref(), config.vni), (Some("br-int"), Some(42)));
    assert_eq!((config.default_route, config.force_address), (Some(true), false));
    assert_eq!((config.masquerade, config.hairpin), (Some(true), Some(true)));
    assert_eq!(config.ipam, Ipam::Delegate("host-local".into()));

    let config = NetworkConfig::decode(config!("ovs-odl-ipam-odl")).unwrap();
    assert_eq!((config.ipam, config.vni), (Ipam::Agent, Some(42)));
}

#[test]
fn unknown_members_and_nulls_are_ignored() {
    let config = decode(&json!({"unknown": {"deep": [1]}, "mtu": null, "ipam": null, "ovs": null,
        "runtimeConfig": {"ips": null, "io.kubernetes.cri.pod-annotations": {"a": "b"}}}));
    assert_eq!(config.unwrap(), decode(&json!({})).unwrap());
}

#[test]
fn wrong_types_are_code_6_and_named() {
    for (changes, says) in [
        (json!({"mtu": "1500"}), "`mtu` must be a number, not a text"),
        (
            json!({"isDefaultGateway": "yes"}),
            "`isDefaultGateway` must be true or false, not a text",
        ),
        (json!({"ipMasq": 1}), "`ipMasq` must be true or false"),
        (json!({"hairpinMode": []}), "`hairpinMode` must be true or false, not a list"),
        (json!({"forceAddress": {}}), "`forceAddress` must be"),
        (json!({"bridge": 7}), "`bridge` must be a text"),
        (json!({"ovs": "br-int"}), "`ovs` must be an object, not a text"),
        (json!({"ovs": {"vxlan": []}}), "`ovs.vxlan` must be a number"),
        (json!({"ipam": []}), "`ipam` must be an object"),
        (json!({"ovsConfig": {"mgrPort": "6640"}}), "`ovsConfig.mgrPort` must be a number"),
        (json!({"runtimeConfig": {"ips": "10.0.0.1"}}), "`runtimeConfig.ips` must be a list"),
        (json!({"runtimeConfig": {"ips": [1]}}), "`runtimeConfig.ips[0]` must be a text"),
        (
            json!({"runtimeConfig": {"portMappings": [1]}}),
            "`runtimeConfig.portMappings[0]` must be an object",
        ),
        (json!({"cniVersion": 1}), "`cniVersion` must be a text"),
        (json!({"name": 5}), "`name` must be a text"),
    ] {
        let error = decode(&changes).unwrap_err();
        assert_eq!(error.code, Code::DECODING_FAILURE, "{error}");
        assert!(error.msg.contains(says), "{} / {says}", error.msg);
    }
    for text in ["", "{", "nonsense", "{\"name\": \"x\"} trailing"] {
        assert_eq!(NetworkConfig::decode(text.as_bytes()).unwrap_err().code.0, 6, "{text}");
    }
    let error = NetworkConfig::decode(b"[]").unwrap_err();
    assert_eq!(error.msg, "the network configuration must be an object, not a list");
}

#[test]
fn wrong_values_are_code_7_and_say_what_to_write() {
    let long = format!("/{}", "x".repeat(107));
    for (changes, says) in [
        (json!({"name": ""}), "`name` is missing"),
        (json!({"name": "a b"}), "`name` \"a b\" must begin with"),
        (json!({"type": "bridge"}), "one of osier, odlovs-cni, odlcoe, ovs-odl"),
        (
            json!({"agentSocket": "cni.sock"}),
            "`agentSocket` is \"cni.sock\": write an absolute path",
        ),
        (json!({"agentSocket": long}), "at most 107 bytes"),
        (json!({"agentTimeout": 0}), "`agentTimeout` is 0: write a whole number from 1 to 600"),
        (json!({"mtu": 67}), "from 68 to 65535"),
        (json!({"mtu": 1.5}), "is 1.5: write a whole number"),
        (json!({"mtu": -1}), "is -1"),
        (json!({"bridge": "a-name-of-16-let"}), "`bridge` \"a-name-of-16-let\" is longer than 15"),
        (json!({"ovs": {"bridge": "a/b"}}), "`ovs.bridge` \"a/b\" contains"),
        (json!({"ovs": {"vxlan": "0x2a"}}), "`ovs.vxlan` is wrong: \"0x2a\" is no VNI"),
        (json!({"ovs": {"vxlan": 16_777_216}}), "from 1 to 16777215"),
        (json!({"ipam": {"type": "../evil"}}), "`ipam.type` is \"../evil\": write a plugin's name"),
        (json!({"ipam": {"subnet": "10.0.0.0/8"}}), "`ipam.type` is missing: name a plugin"),
        (
            json!({"manager": "example.org"}),
            "`manager` is \"example.org\": write an IPv4 or IPv6 address",
        ),
        (json!({"mgrActive": true}), "`manager` is missing, and `mgrActive` is true"),
        (json!({"ctlrPort": 65536}), "`ctlrPort` is 65536"),
        (json!({"externalIntf": "a b"}), "`externalIntf` \"a b\""),
        (json!({"runtimeConfig": {"ips": ["10.0.0"]}}), "`runtimeConfig.ips` is wrong: \"10.0.0\""),
        (json!({"runtimeConfig": {"mac": "x"}}), "`runtimeConfig.mac` is wrong: \"x\""),
        (
            json!({"runtimeConfig": {"bandwidth": {"egressBurst": 5}}}),
            "needs `runtimeConfig.bandwidth.egressRate`",
        ),
        (
            json!({"runtimeConfig": {"portMappings": [{"hostPort": 1}]}}),
            "containerPort` is missing",
        ),
        (
            json!({"runtimeConfig": {"portMappings": [{"hostPort": 1, "containerPort": 1, "protocol": "x"}]}}),
            "tcp, udp, sctp",
        ),
        (json!({"network": "a\nb"}), "`network` is no network's name"),
    ] {
        let error = decode(&changes).unwrap_err();
        assert_eq!(error.code, Code::INVALID_CONFIG, "{error}");
        assert!(error.msg.contains(says), "{} / {says}", error.msg);
    }
    assert_eq!(
        decode(&json!({"cniVersion": "9.9.9"})).unwrap_err().code,
        Code::INCOMPATIBLE_VERSION
    );
}

#[test]
fn newer_ways_to_wish_win() {
    let mut environment = environment(Command::Add);
    environment.args = "IP=10.0.0.1;MAC=02:00:00:00:00:01".into();
    let wishes = |config: Value| {
        let runtime = AttachRequest::decode(&environment, config.to_string().as_bytes())
            .unwrap()
            .config
            .runtime;
        (runtime.ips[0].to_string(), runtime.mac.unwrap().to_string())
    };
    let mut config = json!({"name": "net", "type": "osier"});
    assert_eq!(wishes(config.clone()), ("10.0.0.1/32".into(), "02:00:00:00:00:01".into()));
    config["args"] =
        json!({"cni": {"ips": ["10.0.0.2"], "mac": "02:00:00:00:00:02", "labels": []}});
    assert_eq!(wishes(config.clone()), ("10.0.0.2/32".into(), "02:00:00:00:00:02".into()));
    config["runtimeConfig"] = json!({"ips": ["10.0.0.3/8"], "mac": "02:00:00:00:00:03"});
    assert_eq!(wishes(config), ("10.0.0.3/8".into(), "02:00:00:00:00:03".into()));
}

#[test]
fn del_needs_only_what_finds_the_attachment() {
    let mut environment = environment(Command::Del);
    environment.args = "nonsense".into();
    environment.netns = String::new();
    let config = json!({"name": "net", "type": "osier", "mtu": "x", "ipam": 1, "prevResult": 1,
        "runtimeConfig": []});
    assert!(AttachRequest::decode(&environment, config.to_string().as_bytes()).is_err());
    let request = DetachRequest::decode(&environment, config.to_string().as_bytes()).unwrap();
    assert_eq!(request.attachment.container_id, "c0ffee");
    assert_eq!((request.netns, request.pod, request.prev_result), (None, None, None));
    assert_eq!(request.ipam, Ipam::Agent);

    let request = DetachRequest::decode(&environment, config!("odlovs-cni")).unwrap();
    assert_eq!(request.ipam, Ipam::Delegate("host-local".into()));
    assert!(DetachRequest::decode(&environment, b"{}").is_err());
}

#[test]
fn the_list_of_valid_attachments_reads_under_both_names() {
    let decode = |name: &str, list: Value| {
        let mut config = json!({"cniVersion": "1.1.0", "name": "net", "type": "osier"});
        config[name] = list;
        GcRequest::decode(config.to_string().as_bytes())
    };
    let list =
        json!([{"containerID": "a", "ifname": "eth0"}, {"containerID": "b", "ifname": "net1"}]);
    for name in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        let valid = decode(name, list.clone()).unwrap().valid;
        assert_eq!(valid[1], Attachment { container_id: "b".into(), ifname: "net1".into() });
    }
    assert_eq!(decode("x", list).unwrap().valid, []);
    for (wrong, code) in [
        (json!({}), 6),
        (json!(["a"]), 6),
        (json!([{"containerID": "a"}]), 7),
        (json!([{"containerID": "../a", "ifname": "eth0"}]), 7),
        (json!([{"containerID": "a", "ifname": "a/b"}]), 7),
    ] {
        let error = decode("cni.dev/valid-attachments", wrong).unwrap_err();
        assert_eq!(error.code.0, code, "{error}");
    }
}
