//! What a user does all day: apply, get, describe, delete.

use crate::controller::Controller;
use std::fs;

const FABRIC: &str = "
apiVersion: osier.dev/v1alpha1
kind: Fabric
metadata: {name: default}
spec: {cluster: [10.1.0.0/16]}
";

pub(crate) const SHOP: &str = "
apiVersion: osier.dev/v1alpha1
kind: Node
metadata: {name: n1}
spec: {tunnel: 192.0.2.1}
---
apiVersion: osier.dev/v1alpha1
kind: Router
metadata: {name: shop}
---
apiVersion: osier.dev/v1alpha1
kind: Pool
metadata: {name: blue}
spec: {cidr: 10.0.0.0/24, exclude: [10.0.0.1/32]}
---
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: {name: blue, labels: {tenant: shop}}
spec:
  router: shop
  pools: [blue]
  subnets:
  - {cidr: 10.0.0.0/24, gateway: 10.0.0.1}
---
apiVersion: osier.dev/v1alpha1
kind: Port
metadata: {name: \"shop:web\"}
spec: {network: blue, node: n1}
";

#[test]
fn a_folder_is_applied_looked_at_changed_and_deleted() {
    let controller = Controller::start();
    controller.file("shop/a.yaml", FABRIC);
    controller.file("shop/b.yaml", SHOP);
    let said = controller.ok("apply -f shop --dry-run");
    assert!(said.contains("network/blue created (dry run)\n"), "{said}");
    assert_eq!(controller.json("get networks -o json")["items"].as_array().unwrap().len(), 0);

    let said = controller.ok("apply -f shop");
    let created: Vec<&str> = said.lines().collect();
    for line in ["fabric/default", "node/n1", "router/shop", "pool/blue", "network/blue"] {
        assert!(created.contains(&format!("{line} created").as_str()), "{said}");
    }
    assert!(created.contains(&"port/shop:web created"), "{said}");
    let again = controller.ok("apply -f shop");
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");

    let table = controller.ok("get net");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("NAME  VNI"), "{table}");
    assert!(lines[1].starts_with("blue") && lines[1].contains("10.0.0.0/24"), "{table}");
    assert_eq!(lines.len(), 2, "{table}");
    assert_eq!(controller.ok("get Ports -o name"), "port/shop:web\n");
    assert_eq!(controller.ok("get networks -l tenant=shop -o name"), "network/blue\n");
    let none = controller.run("get networks -l tenant=other");
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "there are no networks\n"));
    let wide = controller.ok("get ports -o wide");
    assert!(wide.contains("MAC") && !wide.contains('\x1b'), "{wide}");

    let told = controller.ok("describe network blue");
    for part in
        ["Network blue\n", "(allocated)", "gateway 10.0.0.1", "Ports: 1", "shop:web", "tenant=shop"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    for line in ["node n1", "router shop", "pool blue", "port shop:web", "fabric default"] {
        assert!(!controller.ok(&format!("describe {line}")).is_empty());
    }

    let yaml = controller.ok("get network blue -o yaml");
    assert_eq!(controller.ok_with("apply -f -", &yaml), "network/blue unchanged\n");
    let changed = yaml.replace("tenant: shop", "tenant: store");
    assert_ne!(changed, yaml);
    assert_eq!(controller.ok_with("apply -f -", &changed), "network/blue configured\n");
    assert_eq!(controller.ok("get networks -l tenant=store -o name"), "network/blue\n");

    let said = controller.ok("delete port shop:web");
    assert_eq!(said, "port/shop:web deleted\n");
    fs::remove_file(controller.path("shop/a.yaml")).unwrap();
    controller.file("shop/b.yaml", SHOP.rsplit_once("---").unwrap().0);
    let said = controller.ok("delete -f shop");
    assert_eq!(said.lines().count(), 4, "{said}");
    assert_eq!(controller.run("get networks").out, "");
}

#[test]
fn lists_of_many_pages_come_whole() {
    let controller = Controller::start();
    let routers: Vec<String> = (0..620)
        .map(|n| {
            format!("{{apiVersion: osier.dev/v1alpha1, kind: Router, metadata: {{name: r{n}}}}}\n")
        })
        .collect();
    let said = controller.ok_with("apply -f -", &routers.join("---\n"));
    assert_eq!(said.lines().count(), 620);
    assert_eq!(controller.ok("get routers -o name").lines().count(), 620);
    assert_eq!(controller.ok("get routers").lines().count(), 621);
}
