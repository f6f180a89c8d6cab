use super::*;
use crate::spec::{Cidr, Interface, Ip};
use proptest::prelude::*;

fn environment(command: Command) -> Environment {
    Environment {
        command,
        container_id: "c0ffee".into(),
        netns: "/run/netns/x".into(),
        ifname: "eth0".into(),
        args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0".into(),
        path: "/opt/cni/bin".into(),
        netns_override: false,
    }
}

fn request(command: Command, config: &str) -> Request {
    let config = RawValue::from_string(config.to_owned()).unwrap();
    Request::new(environment(command), config, Duration::from_millis(1500))
}

fn body(message: &[u8]) -> &[u8] {
    let (header, body) = message.split_at(HEADER_LENGTH);
    assert_eq!(message_length(header.try_into().unwrap()).unwrap(), body.len());
    body
}

const CONFIG: &str = r#"{"cniVersion":"1.1.0","name":"net","type":"osier"}"#;

#[test]
fn the_bytes_of_a_request_are_these() {
    let message = request(Command::Status, CONFIG).encode().unwrap();
    let expected = format!(
        r#"{{"protocol":1,"environment":{{"command":"STATUS","containerId":"c0ffee","netns":"/run/netns/x","ifname":"eth0","args":"IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0","path":"/opt/cni/bin"}},"timeoutMs":1500,"config":{CONFIG}}}"#
    );
    assert_eq!(std::str::from_utf8(body(&message)).unwrap(), expected);
}

#[test]
fn the_bytes_of_replies_are_these() {
    let text = |reply: Reply| String::from_utf8(body(&reply.encode().unwrap()).to_vec()).unwrap();
    assert_eq!(text(Reply::Done), r#"{"protocol":1}"#);
    let added = Reply::added(&AddResult::default(), Version::V1_0_0);
    assert_eq!(text(added), r#"{"protocol":1,"result":{"cniVersion":"1.0.0"}}"#);
    let failed = Reply::Failed(Error::new(Code::NO_ADDRESS, "all 254 addresses are taken"));
    assert_eq!(
        text(failed),
        r#"{"protocol":1,"error":{"code":101,"msg":"all 254 addresses are taken"}}"#
    );
}

#[test]
fn a_request_is_a_call() {
    let read = |command, config| {
        Request::decode(body(&request(command, config).encode().unwrap())).unwrap().call()
    };
    let Call::Add(add) = read(Command::Add, CONFIG).unwrap() else { panic!("not an ADD") };
    assert_eq!(add.pod.unwrap().name, "web-0");
    assert_eq!(add.netns, "/run/netns/x");
    assert!(matches!(read(Command::Del, CONFIG), Ok(Call::Del(_))));
    assert!(matches!(read(Command::Gc, CONFIG), Ok(Call::Gc(_))));
    assert!(matches!(read(Command::Status, CONFIG), Ok(Call::Status(_))));
    let missing = read(Command::Check, CONFIG).unwrap_err();
    assert_eq!((missing.code, missing.msg.contains("`prevResult`")), (Code::INVALID_CONFIG, true));
    let with_result = r#"{"cniVersion":"1.1.0","name":"net","type":"osier",
        "prevResult":{"ips":[{"address":"10.0.0.1/24"}]}}"#;
    let Call::Check(_, result) = read(Command::Check, with_result).unwrap() else {
        panic!("not a CHECK")
    };
    assert_eq!(result.ips.len(), 1);
    assert_eq!(read(Command::Version, CONFIG).unwrap_err().code, Code::INVALID_ENVIRONMENT);
}

#[test]
fn the_agent_does_not_trust_the_plugins_checks() {
    let mut bad = request(Command::Add, CONFIG);
    bad.environment.ifname = "a/b".into();
    let read = Request::decode(body(&bad.encode().unwrap())).unwrap();
    assert_eq!(read.call().unwrap_err().code, Code::INVALID_ENVIRONMENT);
    let old = request(Command::Gc, &CONFIG.replace("1.1.0", "1.0.0"));
    assert_eq!(old.call().unwrap_err().code, Code::INCOMPATIBLE_VERSION);
}

#[test]
fn another_protocol_is_told_so() {
    let error = Request::decode(br#"{"protocol":2,"whatever":[]}"#).unwrap_err();
    assert!(matches!(error, RpcError::Protocol { found: 2 }), "{error}");
    let Reply::Failed(error) = Reply::malformed(&error) else { panic!("not a failure") };
    assert!(error.msg.contains("protocol 2") && error.msg.contains("protocol 1"), "{error}");
    assert!(matches!(Reply::decode(br#"{"protocol":7}"#), Err(RpcError::Protocol { found: 7 })));
}

#[test]
fn lengths_have_limits() {
    assert!(matches!(message_length([0; 4]), Err(RpcError::Length { found: 0 })));
    assert_eq!(message_length([0, 0x10, 0, 0]).unwrap(), MAX_DOCUMENT);
    assert!(matches!(message_length([0, 0x10, 0, 1]), Err(RpcError::Length { .. })));
    assert!(message_length([0xff; 4]).is_err());
    let huge = Reply::Failed(Error::new(Code(100), "x".repeat(MAX_DOCUMENT)));
    assert!(matches!(huge.encode(), Err(RpcError::Length { .. })));
}

#[test]
fn a_stream_that_ends_early_is_an_io_error() {
    let message = Reply::Done.encode().unwrap();
    for cut in 0..message.len() {
        let error = read_message(&mut &message[..cut]).unwrap_err();
        assert!(matches!(error, RpcError::Io(_)), "{cut}: {error}");
    }
    assert_eq!(read_message(&mut &message[..]).unwrap(), body(&message));
}

#[test]
fn replies_that_are_none_are_refused() {
    for text in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"protocol":1,"result":[]}"#,
        r#"{"protocol":1,"result":{"ips":[{}]}}"#,
        r#"{"protocol":1,"result":{},"error":{"code":1,"msg":""}}"#,
        r#"{"protocol":1,"error":{"msg":"no code"}}"#,
        r#"{"protocol":"1"}"#,
    ] {
        assert!(Reply::decode(text.as_bytes()).is_err(), "{text}");
    }
}

prop_compose! {
    fn any_environment()(
        command in prop::sample::select(vec![Command::Add, Command::Del, Command::Check, Command::Status, Command::Gc]),
        texts in prop::array::uniform5(".{0,20}"),
        netns_override in any::<bool>(),
    ) -> Environment {
        let [container_id, netns, ifname, args, path] = texts;
        Environment { command, container_id, netns, ifname, args, path, netns_override }
    }
}

prop_compose! {
    fn any_reply()(
        kind in 0..3,
        code in any::<u32>(),
        texts in prop::array::uniform2(".{0,40}"),
        address in any::<[u8; 4]>(),
        prefix in 0..=32u8,
    ) -> Reply {
        let [msg, details] = texts;
        let address = Cidr { address: address.into(), prefix };
        let ips = vec![Ip { address, gateway: None, interface: Some(0) }];
        let interfaces = vec![Interface { name: msg.clone(), ..Interface::default() }];
        match kind {
            0 => Reply::Done,
            1 => Reply::Failed(Error::new(Code(code), msg).with_details(details)),
            _ => Reply::added(&AddResult { interfaces, ips, ..AddResult::default() }, Version::V1_1_0),
        }
    }
}

proptest! {
    #[test]
    fn requests_survive_the_wire(environment in any_environment(), timeout in 0..1_000_000u64, member in ".{0,30}") {
        let config = serde_json::json!({"name": member, "x": [1.5, null, {}]}).to_string();
        let raw = RawValue::from_string(config.clone()).unwrap();
        let sent = Request::new(environment.clone(), raw, Duration::from_millis(timeout));
        let read = Request::decode(&read_message(&mut &sent.encode().unwrap()[..]).unwrap()).unwrap();
        prop_assert_eq!(&read.environment, &environment);
        prop_assert_eq!(read.timeout(), Duration::from_millis(timeout));
        prop_assert_eq!(read.config.get(), config);
    }

    #[test]
    fn replies_survive_the_wire(reply in any_reply()) {
        let read = Reply::decode(&read_message(&mut &reply.encode().unwrap()[..]).unwrap()).unwrap();
        prop_assert_eq!(read, reply);
    }
}
