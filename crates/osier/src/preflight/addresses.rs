//! The uplink's MTU, and whether pods' addresses are somebody else's already.

use super::{Plan, failed, skipped, warning, well};
use crate::client::answers::Check;
use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;
use osier_agent::netlink::mtu_of_address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the largest tunnel, Geneve over IPv6 with our option, adds to a packet.
const OVERHEAD: u32 = 40 + 8 + 16 + 14;
/// The least that IPv6 works with (RFC 8200, section 5).
const LEAST: u32 = 1280;
/// Osier's own interface: what leads there is no conflict.
const OWN: &str = "osier0";

pub(super) fn check(plan: &Plan) -> Vec<Check> {
    let routes = routes();
    let uplink = routes.iter().find(|route| route.to.prefix_len() == 0);
    let mut checks = vec![mtu(uplink.map(|route| route.by.as_str()))];
    let mut taken = interfaces();
    taken.extend(routes.into_iter().filter(|route| route.to.prefix_len() > 0));
    taken.retain(|place| place.by != OWN);
    checks.push(overlaps(plan, &taken));
    checks
}

/// A range of addresses that leads somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    to: IpNet,
    by: String,
}

fn mtu(uplink: Option<&str>) -> Check {
    let title = "uplink MTU";
    let Some(uplink) = uplink else {
        return skipped(
            title,
            "there is no default route: which interface is the uplink is unknown",
        );
    };
    let of_uplink = getifaddrs().into_iter().flatten().filter(|one| one.interface_name == uplink);
    let address = of_uplink.filter_map(|one| ip_of(one.address?)).find(|one| !is_local(*one));
    match address.map(mtu_of_address) {
        Some(Ok(Some(mtu))) => judge_mtu(uplink, mtu),
        _ => {
            skipped(title, format!("{uplink} has no address, or the kernel does not tell its MTU"))
        }
    }
}

fn judge_mtu(uplink: &str, mtu: u32) -> Check {
    let title = "uplink MTU";
    let left = mtu.saturating_sub(OVERHEAD);
    let detail = format!("{uplink} has {mtu}, which leaves at least {left} for pods");
    if left >= LEAST {
        return well(title, detail);
    }
    let advice = format!("give {uplink} an MTU of {} or more", LEAST + OVERHEAD);
    failed(title, format!("{detail}: less than the {LEAST} of IPv6"), advice)
}

fn overlaps(plan: &Plan, taken: &[Place]) -> Check {
    let title = "addresses";
    if plan.pods.is_empty() {
        let detail = "which addresses pods get is not known here";
        let advice = "give --pod-cidr, or run this where kubectl works";
        return warning(title, detail, advice);
    }
    let touch = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
    for pods in &plan.pods {
        if let Some(services) = plan.services.iter().find(|services| touch(pods, services)) {
            let detail = format!("pods' {pods} and services' {services} overlap");
            return failed(title, detail, "give the cluster ranges that do not");
        }
        if let Some(Place { to, by }) = taken.iter().find(|place| touch(pods, &place.to)) {
            let detail = format!("pods' {pods} overlaps {to}, which this machine has on {by}");
            let advice = "pods could not reach what is there: give the cluster another range \
                          (kubeadm's podSubnet, Osier's clusterCidrs), or remove the other";
            return failed(title, detail, advice);
        }
    }
    let pods: Vec<String> = plan.pods.iter().map(ToString::to_string).collect();
    well(title, format!("{} is free here", pods.join(", ")))
}

/// Networks that the machine's own addresses are in, but for loopback and link-local ones.
fn interfaces() -> Vec<Place> {
    let mut places: Vec<Place> = getifaddrs()
        .into_iter()
        .flatten()
        .filter_map(|found| {
            let address = ip_of(found.address?)?;
            let mask = ip_of(found.netmask?)?;
            let to = IpNet::with_netmask(address, mask).ok()?.trunc();
            (!is_local(address)).then_some(Place { to, by: found.interface_name })
        })
        .collect();
    places.sort();
    places.dedup();
    places
}

fn is_local(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    address.is_loopback() || link_local || address.is_multicast()
}

fn ip_of(address: nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
}

fn routes() -> Vec<Place> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let v4 = read("/proc/net/route");
    let v6 = read("/proc/net/ipv6_route");
    let v4 = v4.lines().skip(1).filter_map(route_v4);
    let mut routes: Vec<Place> = v4.chain(v6.lines().filter_map(route_v6)).collect();
    routes.retain(|route| !is_local(route.to.addr()) && route.by != "lo");
    routes
}

/// `eth0 0002000A 00000000 0001 0 0 0 00FFFFFF …`: numbers as the machine keeps them.
fn route_v4(line: &str) -> Option<Place> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
    let address = |at: usize| Some(Ipv4Addr::from(number(at)?.to_ne_bytes()));
    let to = IpNet::with_netmask(address(1)?.into(), address(7)?.into()).ok()?;
    Some(Place { to, by: (*words.first()?).to_owned() })
}

/// `fd00…00 40 00…00 00 fe80…01 00000400 … eth0`.
fn route_v6(line: &str) -> Option<Place> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let address = u128::from_str_radix(words.first()?, 16).ok()?;
    let length = u8::from_str_radix(words.get(1)?, 16).ok()?;
    let to = IpNet::new(Ipv6Addr::from(address).into(), length).ok()?;
    Some(Place { to, by: (*words.last()?).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answers::CheckResult;

    fn place(to: &str, by: &str) -> Place {
        Place { to: to.parse().unwrap(), by: by.to_owned() }
    }

    #[test]
    fn the_kernels_routes_are_read() {
        let line = "eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";
        assert_eq!(route_v4(line), Some(place("10.0.2.0/24", "eth0")));
        assert_eq!(route_v4("Iface Destination"), None);
        let line = "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 \
                    00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0";
        assert_eq!(route_v6(line), Some(place("fd00::/64", "eth0")));
    }

    #[test]
    fn what_is_taken_is_named() {
        let plan = |pods: &str| Plan {
            pods: vec![pods.parse().unwrap()],
            services: vec!["10.96.0.0/12".parse().unwrap()],
            userspace: false,
            brings_switch: false,
            cni_folder: "/etc/cni/net.d".into(),
            database: "/run/openvswitch/db.sock".into(),
        };
        let taken = [place("192.168.7.0/24", "eth0"), place("fd00::/64", "eth1")];
        for (pods, result, said) in [
            ("10.1.0.0/16", CheckResult::Ok, "10.1.0.0/16 is free here"),
            (
                "192.168.0.0/16",
                CheckResult::Failed,
                "192.168.7.0/24, which this machine has on eth0",
            ),
            ("192.168.7.128/25", CheckResult::Failed, "192.168.7.0/24"),
            ("fd00::/48", CheckResult::Failed, "on eth1"),
            ("10.100.0.0/16", CheckResult::Failed, "services' 10.96.0.0/12 overlap"),
        ] {
            let check = overlaps(&plan(pods), &taken);
            assert!(check.result == result && check.detail.contains(said), "{}", check.detail);
        }
    }

    #[test]
    fn a_small_uplink_is_refused() {
        assert_eq!(judge_mtu("eth0", 1500).result, CheckResult::Ok);
        assert_eq!(judge_mtu("eth0", 1358).result, CheckResult::Ok);
        let small = judge_mtu("eth0", 1357);
        assert_eq!(small.result, CheckResult::Failed);
        assert!(small.advice.contains("1358 or more"), "{}", small.advice);
    }
}
