//! A new pod is covered from its first packet on: by what is known of it, or by quarantine.

use crate::ask::{By, reaches, until_denied, until_reached};
use crate::stage::{Stage, policy, selection};

const OTHERS: [(&str, u32); 3] = [("web", 300), ("far", 301), ("other", 302)];

#[test]
fn whose_labels_are_not_known_reaches_nobody_and_is_reached_by_its_node() {
    let mut stage = Stage::new();
    let guarded = [selection(1, &[300]), policy("web", 1, "ingress: [{}]")].concat()
        + "- { kind: guard, namespace: shop }\n";
    stage.tell(&OTHERS, &guarded);
    // Also one that was here before policies were.
    until_denied(&stage.guest("near").netns, By::Tcp, stage.guest("web").at(false));
    stage.add(0, "late");
    let late = stage.guest("late");
    for ipv6 in [false, true] {
        for by in [By::Tcp, By::Udp] {
            assert!(reaches(stage.node(0), by, late.at(ipv6)), "its node {by:?}");
            for name in ["web", "far"] {
                let guest = stage.guest(name);
                assert!(!reaches(&guest.netns, by, late.at(ipv6)), "from {name} {by:?}");
                assert!(!reaches(&late.netns, by, guest.at(ipv6)), "to {name} {by:?}");
            }
            assert!(!reaches(&late.netns, by, stage.outside.at(ipv6)), "to the outside {by:?}");
        }
    }
    let known: Vec<_> = OTHERS.into_iter().chain([("late", 303)]).collect();
    stage.tell(&known, &guarded);
    for name in ["web", "far"] {
        until_reached(&late.netns, By::Tcp, stage.guest(name).at(true));
        until_reached(&stage.guest(name).netns, By::Tcp, late.at(false));
    }
}
