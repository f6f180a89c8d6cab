//! Policies hold where machines lead to Services: who asks is judged as itself, with the endpoint that it
//! was led to.

use crate::ask::{By, reaches, until_denied, until_reached};
use crate::proxy::proxy;
use crate::stage::{PORT, Stage, policy, selection, service};
use std::net::{IpAddr, SocketAddr};

const EVERYONE: [(&str, u32); 4] = [("web", 300), ("near", 301), ("far", 301), ("other", 302)];
const WEB: [&str; 2] = ["10.96.0.10", "fd96::10"];
/// A Service whose endpoint is outside of the cluster.
const AWAY: [&str; 2] = ["10.96.0.11", "fd96::11"];

#[test]
fn services_are_judged_by_both_ends_where_machines_lead() {
    let stage = Stage::new();
    let (web, outside) = (stage.guest("web"), &stage.outside);
    let led = |addresses: [&'static str; 2], to: &[IpAddr]| addresses.map(|a| (a, to.to_vec()));
    let rules = [led(WEB, &web.addresses), led(AWAY, &outside.addresses)].concat();
    (0..2).for_each(|n| proxy(stage.node(n), &rules, PORT));
    stage.by_gateway.set(true);
    let away = service(outside).replace("shop:web", "shop:away");
    let away = away.replace(WEB[0], AWAY[0]).replace(WEB[1], AWAY[1]);
    let law = [
        selection(1, &[300]),
        selection(2, &[301]),
        // `near` and `far` may send to `web` alone, which takes nothing from others.
        policy("web", 1, "ingress: [{ peers: [{ selection: 2 }] }]"),
        policy("out", 2, "egress: [{ peers: [{ selection: 1 }] }]"),
        service(web),
        away,
    ];
    stage.tell(&EVERYONE, &law.concat());
    for ipv6 in [false, true] {
        let at = |addresses: [&str; 2]| {
            SocketAddr::new(addresses[usize::from(ipv6)].parse().unwrap(), 80)
        };
        let (vip, away) = (at(WEB), at(AWAY));
        until_denied(&stage.guest("other").netns, By::Tcp, web.at(ipv6));
        until_reached(&stage.guest("other").netns, By::Tcp, away);
        for name in ["near", "far"] {
            until_reached(&stage.guest(name).netns, By::Tcp, vip);
        }
        for by in [By::Tcp, By::Udp] {
            for name in ["near", "far"] {
                assert!(reaches(&stage.guest(name).netns, by, vip), "{name} {by:?}");
                assert!(!reaches(&stage.guest(name).netns, by, away), "{name} to away {by:?}");
            }
            assert!(!reaches(&stage.guest("other").netns, by, vip), "other {by:?}");
            assert!(reaches(&stage.guest("other").netns, by, away), "other to away {by:?}");
            assert!(reaches(&web.netns, by, vip), "itself {by:?}");
            assert!(reaches(&web.netns, by, away), "an isolated one is answered {by:?}");
            assert!(reaches(stage.node(0), by, vip), "its node {by:?}");
        }
    }
}
