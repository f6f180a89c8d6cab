//! Flows such as a Kubernetes node has: pods, Services, policies, routes to other nodes.
//!
//! They are text in `ovs-ofctl`'s words, which both sides can read. All differ in table, priority
//! or match. The pipeline is made up, but each kind of flow is one that production networks have.

use std::fmt::{self, Display};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Pods on this node.
const LOCAL_PODS: u32 = 110;
/// Ports of Services; their endpoints listen elsewhere.
const PORTS: [u16; 5] = [80, 443, 8080, 5432, 9090];
/// The gateway's Ethernet address.
const GATEWAY: &str = "0a:58:00:00:00:01";
/// In `reg4`, above the port: an endpoint is chosen.
const CHOSEN: u32 = 0x20000;

/// So many flows, one a line.
pub(crate) fn flows(count: usize) -> String {
    let here = (0..LOCAL_PODS).flat_map(local_pod);
    // The rest of a cluster grows evenly: with each remote pod goes a bit of everything.
    let elsewhere = (0..).flat_map(|i| {
        let mut flows = Vec::from(remote_pod(i));
        flows.extend(endpoint(i));
        flows.extend(policy_peer(i));
        if i % 3 == 0 {
            flows.extend(service(i / 3));
        }
        if i % 10 == 0 {
            flows.extend(policy(i / 10));
        }
        flows
    });
    here.chain(elsewhere).take(count).fold(String::new(), |text, flow| text + &flow + "\n")
}

/// Where its packets come in, which addresses it may use, and how it is reached.
fn local_pod(i: u32) -> [String; 7] {
    let (port, ip, ip6, mac) = (i + 10, pod(i), pod6(i), Mac(i));
    let track = "ct(table=20,zone=NXM_NX_REG6[0..15],nat)";
    let deliver = format!(
        "set_field:{GATEWAY}->eth_src,set_field:{mac}->eth_dst,dec_ttl,\
         set_field:{port:#x}->reg2,goto_table:70"
    );
    [
        format!(
            "table=0,priority=100,in_port={port} \
             actions=set_field:0x1/0xf->reg0,set_field:{port:#x}->reg1,goto_table:10"
        ),
        format!(
            "table=10,priority=200,arp,in_port={port},dl_src={mac},arp_spa={ip},arp_sha={mac} \
             actions=goto_table:20"
        ),
        format!("table=10,priority=200,ip,in_port={port},dl_src={mac},nw_src={ip} actions={track}"),
        format!(
            "table=10,priority=200,ipv6,in_port={port},dl_src={mac},ipv6_src={ip6} actions={track}"
        ),
        format!("table=60,priority=200,ip,nw_dst={ip} actions={deliver}"),
        format!("table=60,priority=200,ipv6,ipv6_dst={ip6} actions={deliver}"),
        format!(
            "table=80,priority=200,dl_dst={mac} \
             actions=set_field:{port:#x}->reg2,set_field:0x100/0x100->reg0,resubmit(,90)"
        ),
    ]
}

/// A pod on another node: through the tunnel, with its node's address and its network's key.
fn remote_pod(i: u32) -> [String; 2] {
    let (ip, ip6) = (pod(i + LOCAL_PODS), pod6(i + LOCAL_PODS));
    let (mac, node, key) = (Mac(i + LOCAL_PODS), node(i / LOCAL_PODS), i / LOCAL_PODS + 1);
    let tunnel = format!(
        "dec_ttl,set_field:{mac}->eth_dst,set_field:{node}->tun_dst,set_field:{key:#x}->tun_id,\
         set_field:0x2/0xf->reg0,set_field:0x1->reg2,goto_table:80"
    );
    [
        format!("table=60,priority=200,ip,nw_dst={ip} actions={tunnel}"),
        format!("table=60,priority=200,ipv6,ipv6_dst={ip6} actions={tunnel}"),
    ]
}

/// New connections to a Service choose an endpoint; every eighth Service remembers it.
fn service(i: u32) -> [String; 2] {
    let (ip, ip6, port) = (service_ip(i), service_ip6(i), port(i));
    let (endpoint, endpoint6) = (Hex(pod(i).octets()), Hex(pod6(i).octets()));
    let chosen = CHOSEN | u32::from(target_port(i));
    let remember = format!(
        "learn(table=31,hard_timeout=10800,priority=200,delete_learned,cookie={i:#x},\
         eth_type=0x800,nw_proto=6,NXM_OF_TCP_DST[],NXM_OF_IP_DST[],NXM_OF_IP_SRC[],\
         load:NXM_NX_REG3[]->NXM_NX_REG3[],load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15]),"
    );
    let remember = if i.is_multiple_of(8) { remember.as_str() } else { "" };
    let new = "table=30,priority=200,ct_state=+new+trk,reg4=0x10000/0x70000";
    [
        format!(
            "{new},tcp,nw_dst={ip},tp_dst={port} actions=set_field:{endpoint}->reg3,\
             set_field:{chosen:#x}/0x7ffff->reg4,{remember}goto_table:40"
        ),
        format!(
            "{new},tcp6,ipv6_dst={ip6},tp_dst={port} actions=set_field:{endpoint6}->xxreg3,\
             set_field:{chosen:#x}/0x7ffff->reg4,goto_table:40"
        ),
    ]
}

/// The address of the chosen endpoint goes into the packet, and stays for the connection.
fn endpoint(i: u32) -> [String; 2] {
    let (ip, ip6, port) = (pod(i), pod6(i), target_port(i));
    let (in_reg, in_xxreg) = (Hex(ip.octets()), Hex(ip6.octets()));
    let chosen = CHOSEN | u32::from(port);
    let mark = "exec(set_field:0x10/0x10->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3])";
    [
        format!(
            "table=40,priority=200,tcp,reg3={in_reg},reg4={chosen:#x}/0x7ffff \
             actions=ct(commit,table=50,zone=65520,nat(dst={ip}:{port}),{mark})"
        ),
        format!(
            "table=40,priority=200,tcp6,reg4={chosen:#x}/0x7ffff,xxreg3={in_xxreg} \
             actions=ct(commit,table=50,zone=65510,nat(dst=[{ip6}]:{port}),{mark})"
        ),
    ]
}

/// An address that a policy allows.
fn policy_peer(i: u32) -> [String; 2] {
    let (policy, ip, ip6) = (i / 20 + 1, pod(i), pod6(i));
    [
        format!("table=70,priority=14900,ip,nw_src={ip} actions=conjunction({policy},1/3)"),
        format!("table=70,priority=14900,ipv6,ipv6_src={ip6} actions=conjunction({policy},1/3)"),
    ]
}

/// Whom a policy guards, for which ports, and what happens if all is met.
fn policy(i: u32) -> [String; 4] {
    let (id, guarded, port) = (i + 1, i + 10, 1 + i % 65_535);
    let policy = format!("cookie={id:#x},table=70");
    [
        format!("{policy},priority=14900,ip,reg2={guarded:#x} actions=conjunction({id},2/3)"),
        format!("{policy},priority=14900,tcp,tp_dst={port} actions=conjunction({id},3/3)"),
        format!(
            "{policy},priority=14900,conj_id={id},ip actions=set_field:{id:#x}->reg5,\
             ct(commit,table=80,zone=NXM_NX_REG6[0..15],\
             exec(move:NXM_NX_REG5[]->NXM_NX_CT_LABEL[0..31]))"
        ),
        format!("{policy},priority=100,ip,reg2={guarded:#x} actions=drop"),
    ]
}

fn pod(i: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a40_0000 + i)
}

fn pod6(i: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfd00_0000_0000_0000_0000_0000_0a40_0000 + u128::from(i))
}

fn service_ip(i: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a60_0001 + i)
}

fn service_ip6(i: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfd00_0000_0000_0001_0000_0000_0000_0001 + u128::from(i))
}

fn node(i: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc0a8_0002 + i)
}

fn port(i: u32) -> u16 {
    PORTS[i as usize % PORTS.len()]
}

fn target_port(i: u32) -> u16 {
    port(i) + 8000
}

/// The Ethernet address of a pod.
#[derive(Clone, Copy)]
struct Mac(u32);

impl Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0a:58")?;
        self.0.to_be_bytes().iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}

/// An address as the number that a register holds.
struct Hex<const N: usize>([u8; N]);

impl<const N: usize> Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_openflow::flow::Flow;
    use std::collections::HashSet;

    #[test]
    fn all_can_be_read_and_differ() {
        let text = flows(100_000);
        let keys: HashSet<_> = text
            .lines()
            .map(|line| {
                let flow: Flow = line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
                (flow.table, flow.priority, flow.matching)
            })
            .collect();
        assert_eq!(keys.len(), 100_000);
    }
}
