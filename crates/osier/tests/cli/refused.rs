//! Bad input: refused with the reason and the place, and nothing changes.

use crate::controller::{Controller, run};
use crate::resources::SHOP;

#[test]
fn bad_files_change_nothing() {
    let controller = Controller::start();
    let good = "{apiVersion: osier.dev/v1alpha1, kind: Router, metadata: {name: good}}\n---\n";
    for (text, places) in [
        ("kind: [\n", &["bad.yaml:"][..]),
        ("apiVersion: osier.dev/v1alpha1\nkind: Rooter\nmetadata: {name: x}\n", &["bad.yaml:4:"]),
        (
            "apiVersion: osier.dev/v1alpha1\nkind: Network\nmetadata: {name: x}\nspec:\n  subnets:\n  \
             - {cdir: 10.0.0.0/24}\n",
            &["bad.yaml:8:", "did you mean cidr"],
        ),
        (
            "apiVersion: osier.dev/v1alpha1\nkind: Network\nmetadata: {name: x}\nspec: {router: gone}\n",
            &["bad.yaml:3: Network x", "gone", "Nothing was changed"],
        ),
        (
            "apiVersion: osier.dev/v1alpha1\nkind: Node\nmetadata: {name: n1}\nspec: {tunnel: 192.0.2.1, \
             blocks: [10.1.1.0/24]}\n---\napiVersion: osier.dev/v1alpha1\nkind: Pool\nmetadata: {name: x}\n\
             spec: {cidr: 10.1.0.0/16}\n",
            &[
                "Pool x: spec.cidr: 10.1.1.0, which it gives out, is of the block",
                "Nothing was changed",
            ],
        ),
    ] {
        controller.file("bad.yaml", &format!("{good}{text}"));
        let said = controller.fails("apply -f bad.yaml");
        for place in places {
            assert!(said.to_lowercase().contains(&place.to_lowercase()), "{place}: {said}");
        }
        assert_eq!(controller.run("get routers").out, "", "{said}");
    }
    let said = controller.fails("apply -f missing.yaml");
    assert!(said.contains("missing.yaml cannot be read"), "{said}");
}

#[test]
fn a_stale_change_is_a_conflict_and_what_is_used_stays() {
    let controller = Controller::start();
    controller.ok_with("apply -f -", SHOP);
    let old = controller.ok("get network blue -o yaml");
    controller.ok_with("apply -f -", &old.replace("tenant: shop", "tenant: a"));
    let said = run(controller.command("apply -f -"), &old.replace("tenant: shop", "tenant: b"));
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("osier get KIND NAME -o yaml"), "{said:?}");
    assert_eq!(controller.ok("get networks -l tenant=a -o name"), "network/blue\n");

    let said = controller.fails("delete network blue");
    assert!(said.contains("blue"), "{said}");
    let said = controller.fails("delete networks red");
    assert!(said.contains("red") && said.contains("osier get"), "{said}");
    let said = controller.fails("get network red");
    assert!(said.contains("red") && said.contains("osier get KIND"), "{said}");
    assert_eq!(controller.ok("get networks -o name"), "network/blue\n");
}

#[test]
fn wrong_words_are_usage() {
    let controller = Controller::start();
    for line in ["get netwroks", "get", "frobnicate", "get networks -o xml"] {
        assert_eq!(controller.run(line).code, 2, "{line}");
    }
}
