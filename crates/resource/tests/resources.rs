//! Resources as users write them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_model::{Limit, Limits, Locality, Object, Reach, Subnet, Transport, Tunnel, Vni};
use osier_resource::{
    ChangeError, ConvertError, Document, Kind, Modelled, Resource, components, merge, parse,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const EXAMPLE: &str = "\
# Two tenants' worth of everything.
apiVersion: osier.dev/v1alpha1
kind: Fabric
metadata: {name: default}
spec: {tunnel: geneve, cluster: [10.244.0.0/16, 'fd00:244::/56']}
---
apiVersion: osier.dev/v1alpha1
kind: Node
metadata: {name: n1, labels: {rack: '12', zone: a}}
spec:
  tunnel: 192.0.2.1
  blocks: [10.244.1.0/24]
---
apiVersion: osier.dev/v1alpha1
kind: Router
metadata: {name: shop}
---
apiVersion: osier.dev/v1alpha1
kind: Network
metadata: {name: blue}
spec:
  router: shop
  subnets:
  - {cidr: 10.0.0.0/24, gateway: 10.0.0.1}
---
apiVersion: osier.dev/v1alpha1
kind: Pool
metadata: {name: blue}
spec: {cidr: 10.0.0.0/24, exclude: [10.0.0.0/28]}
---
apiVersion: osier.dev/v1alpha1
kind: Port
metadata: {name: 'shop:web'}
spec:
  network: blue
  node: n1
  mac: 0a:58:0a:00:00:15
  addresses: [10.0.0.21]
  limits: {egress: {rate: 20000000}}
---
apiVersion: osier.dev/v1alpha1
kind: Service
metadata: {name: 'shop:db'}
spec:
  addresses: [10.96.0.10]
  external: [198.51.100.7]
  ports:
  - {name: sql, port: 5432, nodePort: 30432}
  - {name: dns, port: 53, transport: udp}
  affinity: 600
  internalTraffic: local
  sourceRanges: [198.51.100.0/24]
  healthPort: 31000
---
apiVersion: osier.dev/v1alpha1
kind: Endpoints
metadata: {name: 'shop:db-1'}
spec:
  service: 'shop:db'
  ports:
  - {name: sql, port: 15432}
  endpoints:
  - {address: 10.244.1.7, node: n1, weight: 3, zones: [a], nodes: [n1]}
  - {address: 10.244.2.7, state: terminating}
---
apiVersion: osier.dev/v1alpha1
kind: Namespace
metadata: {name: shop, labels: {team: blue}}
---
apiVersion: osier.dev/v1alpha1
kind: Workload
metadata: {name: 'shop:web', labels: {app: web}}
spec:
  node: n1
  ports: [{name: http, port: 8080}]
---
apiVersion: osier.dev/v1alpha1
kind: NetworkPolicy
metadata: {name: 'shop:db'}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - podSelector: {matchExpressions: [{key: app, operator: In, values: [web, api]}]}
    - namespaceSelector: {matchLabels: {team: blue}}
    - ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}
    ports:
    - {port: 5432}
    - {protocol: UDP, port: 100, endPort: 200}
    - {port: sql}
  egress:
  - {}
";

fn example() -> Vec<Resource> {
    parse("example.yaml", EXAMPLE).unwrap().into_iter().map(|p| p.resource).collect()
}

fn one(text: &str) -> Resource {
    parse("one.yaml", text).unwrap().remove(0).resource
}

fn network(spec: &str) -> String {
    format!("apiVersion: osier.dev/v1alpha1\nkind: Network\nmetadata:\n  name: blue\nspec:\n{spec}")
}

#[test]
fn every_kind_is_read_and_written() {
    let resources = example();
    assert_eq!(resources.len(), Kind::ALL.len());
    for resource in resources {
        let value = resource.to_value();
        assert_eq!(Resource::from_value(&value).unwrap(), resource);
        assert_eq!(serde_json::from_value::<Resource>(value.clone()).unwrap(), resource);
        let yaml = serde_saphyr::to_string(&resource).unwrap();
        assert_eq!(one(&yaml), resource, "{yaml}");
        assert_eq!(one(&serde_json::to_string_pretty(&resource).unwrap()), resource);
        assert_eq!(one(&value.to_string()), resource);

        let mut stored = Resource::from_stored(&resource.to_stored(), 42).unwrap();
        assert_eq!(stored.metadata().resource_version.as_deref(), Some("42"));
        assert!(!stored.to_stored().windows(15).any(|w| w == b"resourceVersion"));
        stored.metadata_mut().resource_version = None;
        assert_eq!(stored, resource);
    }
}

#[test]
fn a_list_stands_for_its_items() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": example()});
    let parsed = parse("list.json", &list.to_string()).unwrap();
    let parsed: Vec<Resource> = parsed.into_iter().map(|p| p.resource).collect();
    assert_eq!(parsed, example());
}

#[test]
fn errors_name_file_line_field_and_what_was_meant() {
    for (spec, said) in [
        (
            "  subnet: []",
            "f.yaml:6:3: Network blue: spec.subnet: no such field: did you mean subnets?",
        ),
        (
            "  subnets:\n  - cdir: 10.0.0.0/24",
            "f.yaml:7:5: Network blue: spec.subnets[0].cdir: no such field: did you mean cidr?",
        ),
        (
            "  subnets:\n  - cidr: 10.0.0.5/24",
            "f.yaml:7:5: Network blue: spec.subnets[0].cidr: 10.0.0.5/24 has bits behind its \
             length: did you mean 10.0.0.0/24?",
        ),
        (
            "  router: r\n  subnets:\n  - cidr: 10.0.0.0/24\n    gateway: 10.0.1.1",
            "f.yaml:9:5: Network blue: spec.subnets[0].gateway: 10.0.1.1 is not a usable address \
             of 10.0.0.0/24",
        ),
        ("  vni: 0", "f.yaml:6:3: Network blue: spec.vni: 0 is not in 1 to 16777215"),
        (
            "  reach: briged",
            "f.yaml:6:3: Network blue: spec.reach: unknown variant `briged`, expected `bridged` or \
             `routed`",
        ),
        (
            "  wings: 2",
            "f.yaml:6:3: Network blue: spec.wings: no such field: there are dhcp, dhcpServers, pools, reach, \
             router, subnets, vni",
        ),
        ("  vni: 1\n  vni: 2", "f.yaml:7:3: duplicate mapping key: vni"),
        ("  subnets: [", "f.yaml:6:12: unclosed bracket '['"),
    ] {
        let errors = parse("f.yaml", &network(spec)).unwrap_err();
        assert_eq!(errors[0].to_string(), said);
    }
    let port = "apiVersion: osier.dev/v1alpha1\nkind: Port\nmetadata: {name: web}\n\
                spec: {network: a, node: b}";
    assert_eq!(
        parse("f.yaml", port).unwrap_err()[0].to_string(),
        "f.yaml:3:12: Port web: metadata.name: \"web\" is no port's name: namespace:pod, or \
         namespace:pod:interface"
    );
}

#[test]
fn documents_that_are_not_ours_are_refused_with_the_right_word() {
    for (text, said) in [
        ("[]", "a resource is a map with apiVersion, kind, metadata and spec"),
        ("kind: Node", "apiVersion is missing"),
        (
            "apiVersion: v1\nkind: Pod",
            "apiVersion: \"v1\" is not known here: did you mean osier.dev/v1alpha1?",
        ),
        (
            "apiVersion: osier.dev/v1alpha1\nkind: network",
            "kind: \"network\" is no kind: there are Fabric, Node, Pool, Router, Network, Port, \
             Service, Endpoints, Namespace, NetworkPolicy, Workload; did you mean Network?",
        ),
        (
            "apiVersion: osier.dev/v1alpha1\nkind: Node\nmetadata: {name: n}",
            "spec: missing field `tunnel`",
        ),
        (
            "apiVersion: osier.dev/v1alpha1\nkind: Router\nmetadata: {name: r, labels: {a: 'b c'}}",
            "metadata.labels.a: \"b c\" is no value: at most 63 letters, digits and - _ .",
        ),
    ] {
        assert_eq!(parse("f", text).unwrap_err()[0].fault.to_string(), said);
    }
}

#[test]
fn every_wrong_document_is_reported() {
    let text = format!("{}\n---\n{}\n---\n{}", network("  a: 1"), network(""), network("  b: 1"));
    let errors = parse("f.yaml", &text).unwrap_err();
    let lines: Vec<u64> = errors.iter().map(|e| e.place.unwrap().line).collect();
    assert_eq!(lines, [6, 20]);
}

#[test]
fn what_is_not_chosen_comes_from_the_status() {
    let mut resources = example();
    let Resource::Network(network) = &mut resources[3] else { panic!() };
    let error = Resource::Network(network.clone()).to_model().unwrap_err();
    assert_eq!(error.to_string(), "Network blue: vni is not allocated yet");
    network.status.vni = Some(Vni::new(7).unwrap());
    let Modelled::Object(Object::Network(found)) = resources[3].to_model().unwrap() else {
        panic!()
    };
    assert_eq!(found.vni.get(), 7);

    let Resource::Port(port) = &mut resources[5] else { panic!() };
    let addresses = std::mem::take(&mut port.spec.addresses);
    port.spec.mac = None;
    let error = Resource::Port(port.clone()).to_model().unwrap_err();
    assert!(matches!(error, ConvertError::Unallocated { field: "mac", .. }));
    port.status.addresses = addresses;
    let Modelled::Object(Object::Port(found)) = resources[5].to_model().unwrap() else { panic!() };
    assert_eq!((found.mac.to_string().as_str(), found.addresses.len()), ("0a:58:0a:00:00:15", 1));
    assert_eq!(found.key.to_string(), "shop:web");
    for resource in [&resources[0], &resources[1], &resources[4]] {
        resource.to_model().unwrap();
    }
}

#[test]
fn users_change_spec_and_labels_and_nothing_else() {
    let network = example().remove(3).create("u1".into(), "2026-01-01T00:00:00Z".into()).unwrap();
    let mut stored = Resource::from_stored(&network.to_stored(), 5).unwrap();
    let Resource::Network(Document { status, .. }) = &mut stored else { panic!() };
    status.vni = Some(Vni::new(7).unwrap());

    let labelled = stored.patch(&json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    assert_eq!(labelled.metadata().generation, Some(1));
    let patch =
        json!({"metadata": {"labels": {"a": null}}, "spec": {"router": null, "subnets": []}});
    let patched = labelled.patch(&patch).unwrap();
    let Resource::Network(Document { metadata, spec, status }) = &patched else { panic!() };
    assert!(metadata.labels.is_empty() && spec.router.is_none() && spec.subnets.is_empty());
    assert_eq!((metadata.generation, metadata.uid.as_deref()), (Some(2), Some("u1")));
    assert_eq!(status.vni.map(Vni::get), Some(7));

    for (patch, said) in [
        (
            json!({"status": {"vni": 9}}),
            "status cannot be patched: only spec and metadata.labels can",
        ),
        (
            json!({"metadata": {"uid": "x"}}),
            "metadata.uid cannot be patched: only spec and metadata.labels can",
        ),
        (json!({"kind": "Router"}), "kind cannot be patched: only spec and metadata.labels can"),
        (
            json!({"metadata": {"resourceVersion": "4"}}),
            "the resource was changed: its version is 5, the change is of 4",
        ),
    ] {
        assert_eq!(stored.patch(&patch).unwrap_err().to_string(), said);
    }
    let error = stored.patch(&json!({"spec": {"vnii": 3}})).unwrap_err();
    let ChangeError::Invalid(fault) = error else { panic!("{error}") };
    assert_eq!(fault.to_string(), "spec.vnii: no such field: did you mean vni?");

    let mut other = example().remove(3);
    other.metadata_mut().name = "green".into();
    assert!(matches!(
        stored.replace(other),
        Err(ChangeError::Fixed { field: "metadata.name", .. })
    ));
}

#[test]
fn rows_have_a_cell_for_each_heading() {
    for resource in example() {
        for wide in [false, true] {
            assert_eq!(resource.row(wide).len(), resource.kind().columns(wide).len());
        }
    }
    let port = example().remove(5);
    assert_eq!(port.row(false), ["shop:web", "blue", "n1", "10.0.0.21"]);
    let mut service = example().remove(6);
    let Resource::Service(Document { status, .. }) = &mut service else { panic!() };
    (status.ready, status.endpoints) = (Some(1), Some(2));
    let ports = "5432:30432/tcp,53/udp";
    assert_eq!(service.row(false), ["shop:db", "10.96.0.10", ports, "1/2"]);
    let endpoints = example().remove(7);
    assert_eq!(endpoints.row(false), ["shop:db-1", "shop:db", "15432/tcp", "1/2"]);
    assert_eq!(port.row(true)[4..], ["0a:58:0a:00:00:15", "-", "-"]);
}

/// The schemas name what the model has: a field that the model gains is refused until they do.
#[test]
fn the_schemas_know_every_field_of_the_model() {
    let limit = Limit { rate: 1, burst: Some(2) };
    let limits = Limits { ingress: Some(limit), egress: Some(limit) };
    let subnet = Subnet { cidr: "10.0.0.0/24".parse().unwrap(), gateway: "10.0.0.1".parse().ok() };
    let mut resources = example();
    let Resource::Port(port) = &mut resources[5] else { panic!() };
    port.spec.limits = limits;
    let Resource::Network(network) = &mut resources[3] else { panic!() };
    network.spec.subnets = vec![subnet];
    for resource in &resources {
        assert_eq!(Resource::from_value(&resource.to_value()).as_ref(), Ok(resource));
    }
    let schemas = Value::from(components());
    for (schema, values) in [
        ("/FabricSpec/properties/tunnel", json!([Tunnel::Geneve, Tunnel::Vxlan])),
        ("/ServiceSpec/properties/internalTraffic", json!([Locality::Cluster, Locality::Local])),
        (
            "/ServicePortSpec/properties/transport",
            json!([Transport::Tcp, Transport::Udp, Transport::Sctp]),
        ),
        ("/NetworkSpec/properties/reach", json!([Reach::Bridged, Reach::Routed])),
    ] {
        let text = schemas.pointer(schema).unwrap().to_string();
        for value in values.as_array().unwrap() {
            assert!(text.contains(&value.to_string()), "{value} is not in {text}");
        }
    }
}

/// `OSIER_GOLDEN=write` writes it anew.
#[test]
fn the_published_schemas_are_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas.json");
    let fresh = format!("{:#}\n", Value::from(components()));
    if std::env::var("OSIER_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(path, &fresh).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == fresh, "{path} is stale: OSIER_GOLDEN=write cargo test -p osier-resource");
    for reference in fresh.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(components().contains_key(name), "nothing is called {name}");
    }
}

/// The examples of RFC 7386, appendix A.
#[test]
fn merge_patches_are_those_of_the_rfc() {
    for (mut value, patch, expected) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        merge(&mut value, &patch);
        assert_eq!(value, expected, "{patch}");
    }
}

proptest! {
    /// Whatever comes, it is parsed or refused.
    #[test]
    fn nothing_that_is_read_panics(text in "[-a-z:{}\\[\\] \n0-9&*!'\"|>.]{0,200}") {
        let _ = parse("f", &text);
        let _ = parse("f", &network(&text.replace('\n', "\n  ")));
    }

    /// The example with one line lost or doubled.
    #[test]
    fn a_damaged_file_is_parsed_or_refused_with_a_place(at in 0..75_usize, double: bool) {
        let mut lines: Vec<&str> = EXAMPLE.lines().collect();
        let at = at % lines.len();
        if double { lines.insert(at, lines[at]); } else { lines.remove(at); }
        if let Err(errors) = parse("f.yaml", &lines.join("\n")) {
            for error in errors {
                prop_assert!(error.place.is_some(), "{}", error);
            }
        }
    }
}
