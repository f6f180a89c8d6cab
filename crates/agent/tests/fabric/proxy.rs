//! Rules on a machine that lead to Services, such as kube-proxy makes.

use osier_testbed::Netns;
use std::fmt::Write as _;
use std::net::IpAddr;

/// What kube-proxy marks packets with whose source it gives the machine's address.
const MASQUERADE: u32 = 0x4000;

/// Rules like kube-proxy's with `masqueradeAll`: each of these addresses leads to its endpoints.
pub(crate) fn proxy(machine: &Netns, services: &[(&str, Vec<IpAddr>)], target: u16) {
    for (family, ipv6) in [("ip", false), ("ip6", true)] {
        let mut rules = String::new();
        for (address, endpoints) in services {
            if address.contains(':') != ipv6 {
                continue;
            }
            let of_family = endpoints.iter().filter(|endpoint| endpoint.is_ipv6() == ipv6);
            let ways: Vec<String> =
                of_family.enumerate().map(|(n, e)| format!("{n} : {e} . {target}")).collect();
            for transport in ["tcp", "udp"] {
                writeln!(
                    rules,
                    "{family} daddr {address} {transport} dport 80 meta mark set {MASQUERADE} dnat \
                     {family} addr . port to numgen random mod {} map {{ {} }}",
                    ways.len(),
                    ways.join(", ")
                )
                .unwrap();
            }
        }
        let table = format!(
            "add table {family} proxy; delete table {family} proxy; table {family} proxy {{
             chain services {{ {rules} }}
             chain before {{ type nat hook prerouting priority dstnat; jump services; }}
             chain own {{ type nat hook output priority -100; jump services; }}
             chain after {{ type nat hook postrouting priority srcnat; meta mark {MASQUERADE} masquerade; }}
             }}"
        );
        machine.run(&["nft", &table]).unwrap();
    }
}

/// Takes them away.
pub(crate) fn unproxy(machine: &Netns) {
    for family in ["ip", "ip6"] {
        machine.run(&["nft", &format!("delete table {family} proxy")]).unwrap();
    }
}
