//! The unixctl client against a real switch with traffic, judged by `ovs-appctl`; and against
//! sockets that misbehave.
#![cfg(feature = "session")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report")]

use std::time::Duration;

use osier_ovsdb::unixctl::conntrack::{Flush, Transport, TupleMatch};
use osier_ovsdb::unixctl::{CallError, Client, find_socket};
use osier_testbed::traffic::ping_until;
use osier_testbed::{Endpoint, EndpointConfig, FailMode, Lab, Ovs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_a_real_switch() {
    let lab = Lab::new().unwrap();
    let ovs = Ovs::start(&lab.netns("sw").unwrap(), "ovs").unwrap();
    ovs.add_bridge("br0", FailMode::Secure).unwrap();
    let one = Endpoint::attach(&ovs, "br0", &EndpointConfig::numbered("one", 1)).unwrap();
    let two = Endpoint::attach(&ovs, "br0", &EndpointConfig::numbered("two", 2)).unwrap();
    let flows = "table=0,priority=9,arp actions=NORMAL\n\
        table=0,priority=9,icmp actions=ct(commit,zone=7,exec(set_field:5->ct_mark,set_field:0x12->ct_label),table=1)\n\
        table=0,priority=1,ip actions=ct(commit,zone=8,table=1)\n\
        table=1 actions=NORMAL\n";
    ovs.add_flows("br0", flows).unwrap();
    let address = two.addresses().find(std::net::IpAddr::is_ipv4).unwrap();
    ping_until(one.netns(), address, SOON).unwrap();

    let client = Client::new(ovs.unixctl());
    assert!(client.version().await.unwrap().starts_with("ovs-vswitchd (Open vSwitch) 3."));
    let trace = client.trace("br0", "in_port=1,icmp", &[]).await.unwrap();
    let theirs = ovs.appctl(&["ofproto/trace", "br0", "in_port=1,icmp"]).unwrap();
    assert_eq!(trace, theirs);

    let found = client.connections(Some(7)).await.unwrap();
    let ping = found.iter().find(|connection| connection.orig.dst == address).unwrap();
    assert_eq!((ping.protocol, ping.zone, ping.mark, ping.labels), (1, 7, 5, 0x12));
    assert!(matches!(ping.orig.transport, Transport::Icmp { kind: 8, code: 0, .. }));
    assert!(ping.timeout.is_some());
    assert!(client.connections(Some(9)).await.unwrap().is_empty());

    // Flushing what is not there, then the one, then all.
    let elsewhere = TupleMatch { dst: Some([192, 0, 2, 1].into()), ..Default::default() };
    let nothing = Flush { zone: Some(7), orig: Some(elsewhere), ..Default::default() };
    client.flush_connections(&nothing).await.unwrap();
    assert_eq!(client.connections(Some(7)).await.unwrap().len(), found.len());
    client.flush_connections(&Flush::connection(ping)).await.unwrap();
    let left = client.connections(Some(7)).await.unwrap();
    assert_eq!(left.len(), found.len() - 1);
    client.flush_connections(&Flush::zone(7)).await.unwrap();
    assert!(client.connections(Some(7)).await.unwrap().is_empty());

    let datapaths = client.datapaths().await.unwrap();
    let ports = &datapaths[0].bridges[0].ports;
    assert!(ports.iter().any(|port| port.name == one.host_interface() && port.ofport == 1));
    let upcalls = client.upcalls().await.unwrap();
    assert_eq!(upcalls[0].datapath, datapaths[0].name);
    assert!(upcalls[0].limit > 0);
    // Threads add up their counters once in a while only.
    let coverage = tokio::time::timeout(SOON, async {
        loop {
            let coverage = client.coverage().await.unwrap();
            if !coverage.is_empty() {
                break coverage;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let coverage = coverage.await.expect("counters");
    let counter = coverage.iter().max_by_key(|counter| counter.total).unwrap();
    assert!(client.coverage_counter(&counter.name).await.unwrap() >= counter.total);
    let memory = client.memory().await.unwrap();
    assert!(memory.iter().any(|(name, amount)| name == "rules" && *amount > 0), "{memory:?}");

    let error = client.trace("br9", "ip", &[]).await.unwrap_err();
    assert!(matches!(error, CallError::Refused { .. }), "{error:?}");
    ovs.pause_vswitchd().unwrap();
    let impatient = client.clone().patience(Duration::from_millis(100));
    let error = impatient.version().await.unwrap_err();
    ovs.resume_vswitchd().unwrap();
    assert_eq!(error.to_string(), "no answer to version within 100ms");
}

/// A socket that answers every request with these bytes.
fn answering(lab: &Lab, name: &str, bytes: &'static [u8]) -> Client {
    let socket = lab.dir().join(name);
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    Client::new(socket).limit(1 << 16).patience(Duration::from_secs(5))
}

#[tokio::test]
async fn sockets_that_misbehave() {
    let lab = Lab::new().unwrap();
    let endless: &'static [u8] =
        [b"{\"result\":\"".as_slice(), &vec![b'x'; 1 << 17]].concat().leak();
    for (name, bytes, expected) in [
        ("closed", b"".as_slice(), "the daemon closed the connection"),
        ("garbage", b"HTTP/1.1 400\r\n\r\n", "is not a message"),
        ("endless", endless, "is not a message"),
        ("nested", b"{\"result\":[[[[[[[[[[[[", "is not a message"),
        ("number", b"{\"id\":0,\"result\":5,\"error\":null}", "is no text"),
        ("request", b"{\"id\":0,\"method\":\"echo\",\"params\":[]}", "is no text"),
        ("broken", b"{\"id\":0,]", "is malformed"),
        ("refused", b"{\"id\":0,\"result\":null,\"error\":\"no\"}", "version failed"),
    ] {
        let error = answering(&lab, name, bytes).version().await.unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
    let nobody = Client::new(lab.dir().join("nobody"));
    assert!(matches!(nobody.version().await, Err(CallError::Connect { .. })));
}

#[test]
fn sockets_are_found_by_their_pidfile() {
    let dir = tempfile::TempDir::new().unwrap();
    assert!(find_socket(dir.path(), "ovs-vswitchd").is_err());
    std::fs::write(dir.path().join("ovs-vswitchd.pid"), "4711\n").unwrap();
    let found = find_socket(dir.path(), "ovs-vswitchd").unwrap();
    assert_eq!(found, dir.path().join("ovs-vswitchd.4711.ctl"));
    std::fs::write(dir.path().join("ovs-vswitchd.pid"), "../../x").unwrap();
    assert!(find_socket(dir.path(), "ovs-vswitchd").is_err());
}
