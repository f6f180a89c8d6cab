//! The table as text for `nft`. Pure.

use super::{Exceptions, Reached, SeenAs};
use crate::netlink::PODS_GROUP;
use crate::services::{NodePort, OwnAddress};
use ipnet::IpNet;
use osier_compiler::{NODE_PORT_ADDRESSES, STAND_INS};
use osier_model::Tunnel;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What pods are seen as that come to a pod by a port of their own node: nobody has it.
const NOBODY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 111, 3)),
    IpAddr::V6(Ipv6Addr::new(0xfd6f, 0x7369, 0x6572, 0, 0, 0, 0, 3)),
];

/// What the table is made of. With `masquerade` what pods send outside gets the machine's address,
/// but for those with an address among the exceptions; without, only theirs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) masquerade: bool,
    pub(super) exceptions: Exceptions,
    pub(super) reached: Reached,
}

// === impl Table ===

impl Table {
    /// The table anew, as one transaction.
    pub(super) fn script(&self) -> String {
        let Self { masquerade, exceptions, reached } = self;
        let Reached { pods, own, node_ports: ports, own_addresses, tunnel, seen_as, services } =
            reached;
        let mut script =
            String::from("add table inet osier\ndelete table inet osier\ntable inet osier {\n");
        script.push_str(&switch_guard());
        script.push_str(
            "\tchain forward {\n\t\ttype filter hook forward priority filter - 5; policy accept;\n",
        );
        script.push_str(&forward_guard(*tunnel));
        for address in &exceptions.hairpin {
            let family = if address.is_ipv4() { "ip" } else { "ip6" };
            // Writing to a string cannot fail.
            let _ = writeln!(script, "\t\t{family} saddr {address} {family} daddr {address} drop");
        }
        script.push_str(&service_guard(services));
        script.push_str(
            "\t\tiifname { \"osier0\", \"osier-svc\" } accept\n\t\toifname { \"osier0\", \"osier-svc\" } accept\n\t}\n",
        );
        script.push_str(&host_ports(&exceptions.host_ports));
        script.push_str(&to_services(ports, own_addresses));
        script.push_str(&way_back(pods, own, seen_as));
        script.push_str(&way_out(pods, *masquerade, exceptions));
        script.push_str("}\n");
        script
    }

    /// What makes this table of another, if nothing but the elements of a set differ; empty if
    /// nothing does.
    pub(super) fn step_from(&self, before: &Self) -> Option<String> {
        let (was, now) = (&before.reached.node_ports, &self.reached.node_ports);
        let reached = Reached { node_ports: was.clone(), ..self.reached.clone() };
        let rest_differs = Self { reached, ..self.clone() } != *before;
        // Without ports there is no set.
        if rest_differs || was.is_empty() != now.is_empty() {
            return None;
        }
        let of = |verb: &str, ports: Vec<&NodePort>| match listed(ports).as_str() {
            "" => String::new(),
            some => format!("{verb} element inet osier node-ports {{ {some} }}\n"),
        };
        let gone = of("delete", was.difference(now).collect());
        Some(gone + &of("add", now.difference(was).collect()))
    }
}

fn listed<'a>(ports: impl IntoIterator<Item = &'a NodePort>) -> String {
    let ports: Vec<String> = ports.into_iter().map(ToString::to_string).collect();
    ports.join(", ")
}

/// The chain that gives the machine's address to what leaves the cluster.
fn way_out(pods: &[IpNet], masquerade: bool, exceptions: &Exceptions) -> String {
    let exceptions = &exceptions.masquerade;
    if !masquerade && exceptions.is_empty() {
        return String::new();
    }
    let mut chain = String::from(
        "\tchain postrouting {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n",
    );
    for (family, v4) in [("ip", true), ("ip6", false)] {
        let of_family = pods.iter().filter(|prefix| prefix.addr().is_ipv4() == v4);
        let prefixes: Vec<String> = of_family.map(ToString::to_string).collect();
        let some = exceptions.iter().filter(|address| address.is_ipv4() == v4);
        let some: Vec<String> = some.map(ToString::to_string).collect();
        if prefixes.is_empty() || !masquerade && some.is_empty() {
            continue;
        }
        let (set, some) = (prefixes.join(", "), some.join(", "));
        let whom = match (masquerade, some.as_str()) {
            (true, "") => format!("{family} saddr {{ {set} }}"),
            (true, _) => {
                format!("{family} saddr {{ {set} }} {family} saddr != {{ {some} }}")
            }
            (false, _) => format!("{family} saddr {{ {some} }}"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            chain,
            "\t\toifname != {{ \"osier0\", \"osier-svc\" }} {whom} {family} daddr != {{ {set} }} masquerade"
        );
    }
    chain.push_str("\t}\n");
    chain
}

/// The chain that keeps pods' packets from the machine's stack but by `osier0`, and from its loopback
/// address in any case. The kernel's datapath takes pods' frames before the stack sees them; beside the
/// one in `ovs-vswitchd` the stack gets a copy of each, and would route what is for its Ethernet address.
fn switch_guard() -> String {
    format!(
        "\tchain switch-guard {{\n\t\ttype filter hook prerouting priority raw; policy accept;\n\
         \t\tiifgroup {PODS_GROUP} drop\n\
         \t\tiifname {{ \"osier0\", \"osier-svc\" }} ip daddr 127.0.0.0/8 drop\n\t}}\n"
    )
}

/// What would leave with the machine's own address to where another node takes it for the machine's; and
/// what is to nobody, and no answer.
fn forward_guard(tunnel: Tunnel) -> String {
    // IANA's numbers, which Open vSwitch uses.
    let port = match tunnel {
        Tunnel::Geneve => 6081,
        Tunnel::Vxlan => 4789,
    };
    let [v4, v6] = NOBODY;
    format!(
        "\t\tiifname \"osier0\" udp dport {port} drop\n\
         \t\tip daddr {v4} drop\n\t\tip6 daddr {v6} drop\n"
    )
}

/// Where the machine leads to Services: what it leads keeps its source, whatever kube-proxy marked it for;
/// and what has a Service's address comes from nowhere else.
fn service_guard(services: &[IpNet]) -> String {
    let mut rules = String::new();
    if !services.is_empty() {
        rules.push_str("\t\tiifname \"osier-svc\" oifname \"osier-svc\" meta mark set 0\n");
    }
    for prefix in services {
        let family = if prefix.addr().is_ipv4() { "ip" } else { "ip6" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            rules,
            "\t\tiifname != \"osier-svc\" oifname \"osier0\" {family} saddr {prefix} drop"
        );
    }
    rules
}

/// Chains that lead from ports of the machine to pods, for who comes from elsewhere and for the
/// machine itself, also by its loopback address: what it sends from there gets an address that pods
/// can answer to.
fn host_ports(rules: &BTreeSet<String>) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let rules: String =
        rules.iter().fold(String::new(), |rules, rule| rules + "\t\t" + rule + "\n");
    format!(
        "\tchain to-pods {{\n{rules}\t}}\n\
         \tchain host-ports {{\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\
         \t\tfib daddr type local jump to-pods\n\t}}\n\
         \tchain host-ports-own {{\n\t\ttype nat hook output priority -100; policy accept;\n\
         \t\tfib daddr type local jump to-pods\n\t}}\n\
         \tchain from-loopback {{\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\
         \t\toifname \"osier0\" ip saddr 127.0.0.0/8 masquerade\n\t}}\n"
    )
}

/// Chains that lead from ports of the machine to Services: the switch does the rest. Not by the
/// loopback address, which has no meaning there. Where Services are known by the machine's own addresses,
/// those come first: they name an address, node ports do not.
fn to_services(ports: &BTreeSet<NodePort>, own: &BTreeSet<OwnAddress>) -> String {
    if ports.is_empty() && own.is_empty() {
        return String::new();
    }
    let (mut sets, mut rules) = (String::new(), String::new());
    for (family, kind, v4) in [("ip", "ipv4_addr", true), ("ip6", "ipv6_addr", false)] {
        let of_family = own.iter().filter(|own| own.address.is_ipv4() == v4);
        let elements: Vec<String> = of_family.map(ToString::to_string).collect();
        if elements.is_empty() {
            continue;
        }
        let elements = elements.join(", ");
        // Writing to a string cannot fail.
        let _ = write!(
            sets,
            "\tmap own-{family} {{\n\t\ttype {kind} . inet_proto . inet_service : {kind}\n\
             \t\telements = {{ {elements} }}\n\t}}\n"
        );
        let _ = writeln!(
            rules,
            "\t\tdnat {family} to {family} daddr . meta l4proto . th dport map @own-{family}"
        );
    }
    if !ports.is_empty() {
        let [v4, v6] = NODE_PORT_ADDRESSES;
        let _ = write!(
            sets,
            "\tset node-ports {{\n\t\ttype inet_proto . inet_service\n\t\telements = {{ {} }}\n\t}}\n",
            listed(ports)
        );
        let _ = write!(
            rules,
            "\t\tmeta nfproto ipv4 meta l4proto . th dport @node-ports dnat ip to {v4}\n\
             \t\tmeta nfproto ipv6 meta l4proto . th dport @node-ports dnat ip6 to {v6}\n"
        );
    }
    format!(
        "{sets}\tchain to-services {{\n\
         \t\tip daddr 127.0.0.0/8 return\n\t\tip6 daddr ::1 return\n{rules}\t}}\n\
         \tchain node-ports-in {{\n\
         \t\ttype nat hook prerouting priority dstnat; policy accept;\n\
         \t\tfib daddr type local jump to-services\n\t}}\n\
         \tchain node-ports-own {{\n\t\ttype nat hook output priority -100; policy accept;\n\
         \t\tfib daddr type local jump to-services\n\t}}\n"
    )
}

/// A chain for pods that reach a pod by an address that the machine translates; before kube-proxy's own,
/// which would give them the machine's. Answers of a node's port come back by themselves; there only
/// this node's own pods are given another source, since one of them may reach itself.
fn way_back(pods: &[IpNet], own: &[IpNet], seen_as: &SeenAs) -> String {
    let mut chain = String::from(
        "\tchain way-back {\n\t\ttype nat hook postrouting priority srcnat - 1; policy accept;\n",
    );
    let doors = NODE_PORT_ADDRESSES.into_iter().zip(STAND_INS);
    for (family, (address, stand_ins)) in ["ip", "ip6"].into_iter().zip(doors) {
        let of_family = own.iter().filter(|block| block.addr().is_ipv4() == address.is_ipv4());
        let own: Vec<String> = of_family.map(ToString::to_string).collect();
        if own.is_empty() {
            continue;
        }
        let own = own.join(", ");
        for to in [address.to_string(), stand_ins.to_string()] {
            // Writing to a string cannot fail.
            let _ = writeln!(chain, "\t\t{family} daddr {to} {family} saddr != {{ {own} }} return");
        }
    }
    if let SeenAs::Services(_) = seen_as {
        // The machine itself, whose address in the cluster is one of pods'.
        chain.push_str("\t\tfib saddr type local return\n");
    }
    for prefix in pods {
        let v4 = prefix.addr().is_ipv4();
        let family = if v4 { "ip" } else { "ip6" };
        let of_family = |addresses: &[IpAddr]| {
            let found = addresses.iter().find(|address| address.is_ipv4() == v4);
            found.map(|address| format!("snat {family} to {address}"))
        };
        let becomes = match seen_as {
            SeenAs::Machine => None,
            SeenAs::Nobody => of_family(&NOBODY),
            SeenAs::Services(addresses) => of_family(addresses),
        };
        let becomes = becomes.unwrap_or_else(|| "masquerade".to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(
            chain,
            "\t\toifname \"osier0\" {family} saddr {prefix} ct status dnat {becomes}"
        );
    }
    chain.push_str("\t}\n");
    chain
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_model::Transport;

    fn table(pods: &[&str], masquerade: bool, exceptions: Exceptions) -> Table {
        let pods = pods.iter().map(|prefix| prefix.parse().unwrap()).collect();
        let own = vec!["10.1.1.0/24".parse().unwrap()];
        let reached = Reached { pods, own, ..Reached::default() };
        Table { masquerade, exceptions, reached }
    }

    #[test]
    fn only_what_leaves_the_cluster_is_translated() {
        let pods = ["10.1.1.0/24", "10.2.0.0/16", "fd01:0:0:1::/64"];
        let script = table(&pods, true, Exceptions::default()).script();
        let rule = "oifname != { \"osier0\", \"osier-svc\" } ip saddr { 10.1.1.0/24, 10.2.0.0/16 } \
                    ip daddr != { 10.1.1.0/24, 10.2.0.0/16 } masquerade";
        assert!(script.contains(rule), "{script}");
        assert!(!table(&pods, false, Exceptions::default()).script().contains("oifname != "));
        assert!(
            script.contains("oifname \"osier0\" ip saddr 10.2.0.0/16 ct status dnat masquerade")
        );
        let kept = "ip daddr 169.254.111.2 ip saddr != { 10.1.1.0/24 } return";
        assert!(
            script.contains(kept) && !script.contains("ip6 daddr fd6f:7369:6572::2"),
            "{script}"
        );
        // What pods send past the switch, or to where a node takes it for another node's.
        for guard in ["iifgroup 28531 drop", "iifname \"osier0\" udp dport 6081 drop"] {
            assert!(script.contains(guard), "{script}");
        }
        let mut ours = table(&pods, true, Exceptions::default());
        ours.reached.seen_as = SeenAs::Nobody;
        let rule = "ip saddr 10.2.0.0/16 ct status dnat snat ip to 169.254.111.3\n";
        assert!(ours.script().contains(rule), "{}", ours.script());
        // Where the machine leads to Services: what it leads is not translated on its way.
        ours.reached.seen_as = SeenAs::Services(vec!["10.1.1.254".parse().unwrap()]);
        ours.reached.services = vec!["10.96.0.0/16".parse().unwrap()];
        for rule in [
            "ip saddr 10.2.0.0/16 ct status dnat snat ip to 10.1.1.254\n",
            "ip6 saddr fd01:0:0:1::/64 ct status dnat masquerade\n",
            "iifname \"osier-svc\" oifname \"osier-svc\" meta mark set 0\n",
            "iifname != \"osier-svc\" oifname \"osier0\" ip saddr 10.96.0.0/16 drop\n",
        ] {
            assert!(ours.script().contains(rule), "{}", ours.script());
        }
        // One pod that is not like the others.
        let masquerade = BTreeSet::from(["10.1.1.9".parse().unwrap()]);
        let hairpin = BTreeSet::from(["fd01::9".parse().unwrap()]);
        let one = Exceptions { masquerade, hairpin, ..Exceptions::default() };
        let script = table(&pods, true, one.clone()).script();
        assert!(script.contains(" ip saddr != { 10.1.1.9 } ip daddr !="), "{script}");
        let script = table(&pods, false, one).script();
        assert!(script.contains("\"osier-svc\" } ip saddr { 10.1.1.9 } ip daddr !="), "{script}");
        let rule = "\t\tip6 saddr fd01::9 ip6 daddr fd01::9 drop\n\t\tiifname {";
        assert!(script.contains(rule), "{script}");
    }

    #[test]
    fn addresses_of_the_machine_lead_to_services_at_some_ports() {
        let mut table = table(&["10.1.0.0/16"], true, Exceptions::default());
        let port = NodePort { transport: Transport::Udp, port: 53 };
        let own = |address: &str, stand_in: &str| OwnAddress {
            address: address.parse().unwrap(),
            port,
            stand_in: stand_in.parse().unwrap(),
        };
        let v4 = own("192.0.2.9", "169.254.111.17");
        table.reached.own_addresses = BTreeSet::from([v4]);
        let script = table.script();
        for line in [
            "elements = { 192.0.2.9 . udp . 53 : 169.254.111.17 }\n",
            "\t\tdnat ip to ip daddr . meta l4proto . th dport map @own-ip\n",
        ] {
            assert!(script.contains(line), "{script}");
        }
        assert!(!script.contains("own-ip6") && !script.contains("@node-ports"), "{script}");
        let before = table.clone();
        table.reached.own_addresses.insert(own("2001:db8::9", "fd6f:7369:6572::11"));
        assert!(table.script().contains("map own-ip6"), "{}", table.script());
        assert_eq!(table.step_from(&before), None, "another map");
    }

    #[test]
    fn a_port_that_comes_or_goes_is_a_step() {
        let with = |ports: &[u16]| {
            let mut table = table(&["10.1.0.0/16"], true, Exceptions::default());
            let port = |port: &u16| NodePort { transport: Transport::Tcp, port: *port };
            table.reached.node_ports = ports.iter().map(port).collect();
            table
        };
        let step = |from: &[u16], to: &[u16]| with(to).step_from(&with(from));
        assert_eq!(step(&[1, 2], &[1, 2]).as_deref(), Some(""));
        let expected = "delete element inet osier node-ports { tcp . 1 }\n\
                        add element inet osier node-ports { tcp . 3, tcp . 4 }\n";
        assert_eq!(step(&[1, 2], &[2, 3, 4]).as_deref(), Some(expected));
        assert_eq!(step(&[], &[1]), None, "there is no set yet");
        assert_eq!(step(&[1], &[]), None);
        let mut other = with(&[1, 2]);
        other.reached.own.clear();
        assert_eq!(other.step_from(&with(&[1])), None, "more than elements");
    }
}
