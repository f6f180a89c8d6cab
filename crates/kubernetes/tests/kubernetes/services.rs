//! Services and endpoint slices of a real API server, in the views of agents.

use crate::agent::Agent;
use crate::controller::Controller;
use crate::nodes::events;
use crate::server::{Server, turn, until};
use osier_controller::config::Services;
use osier_model::{EndpointState, Locality, ServiceName, View};
use serde_json::{Value, json};

/// What the test makes, to find and remove it.
const LABEL: &str = "osier-test=services";

fn service(server: &Server, name: &str, spec: Value) {
    let body = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": {"osier-test": "services"}}, "spec": spec});
    server.send("POST", "/api/v1/namespaces/default/services", &body);
}

fn slice(server: &Server, name: &str, service: &str, endpoints: Value) {
    let body = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {
            "osier-test": "services", "kubernetes.io/service-name": service}},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "", "protocol": "TCP", "port": 8080}]});
    server.send("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &body);
}

fn patch_slice(server: &Server, name: &str, endpoints: Value) {
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{name}");
    server.send("PATCH", &path, &json!({"endpoints": endpoints}));
}

/// The endpoints of a Service in a view, as text.
fn endpoints(view: &View, service: &str) -> Vec<String> {
    let name = ServiceName::new(&format!("default:{service}")).unwrap();
    let all = view.endpoints_of(&name).flat_map(|slice| &slice.endpoints);
    all.map(|endpoint| {
        let state = match endpoint.state {
            EndpointState::Ready => "",
            EndpointState::Terminating => " ends",
            EndpointState::Unready => " unready",
        };
        format!("{}{state}", endpoint.address)
    })
    .collect()
}

/// The addresses of a Service in a view.
fn addresses(view: &View, service: &str) -> Option<Vec<String>> {
    let name = ServiceName::new(&format!("default:{service}")).unwrap();
    let service = view.services().get(&name)?;
    let all = service.addresses.iter().chain(&service.external);
    Some(all.map(ToString::to_string).collect())
}

fn clean(server: &Server) {
    let kinds = "services,endpointslices,servicecidrs";
    server.kubectl(&["delete", kinds, "-l", LABEL, "--wait=false"]).unwrap();
}

#[test]
fn services_and_endpoints_are_followed() {
    let turn = turn();
    let server = turn.server;
    clean(server);
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    let zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "east"}}});
    server.send("PATCH", "/api/v1/nodes/a", &zone);
    // They are there before the controller, one without its Service.
    slice(server, "web-1", "web", json!([{"addresses": ["10.244.1.5"], "nodeName": "a"}]));
    slice(server, "late-1", "late", json!([{"addresses": ["10.244.1.6"]}]));
    let web = json!({"clusterIP": "10.96.0.50", "externalIPs": ["198.51.100.1"],
        "ports": [{"port": 80, "targetPort": 8080}], "internalTrafficPolicy": "Local"});
    service(server, "web", web);
    turn.run(async || {
        let osier = |config: &mut osier_controller::config::KubernetesConfig| {
            config.services = Services::Osier;
        };
        let controller = Controller::with(server, 0, osier).await;
        let a = Agent::join(server, &[&controller], "a", "192.0.2.1").await;
        a.following(1).await;
        let strings = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        a.eventually(
            "the Service",
            |v| addresses(v, "web"),
            Some(strings(&["10.96.0.50", "198.51.100.1"])),
        );
        a.eventually("its endpoint", |v| endpoints(v, "web"), strings(&["10.244.1.5"]));
        a.eventually(
            "the API server",
            |v| (addresses(v, "kubernetes"), endpoints(v, "kubernetes")),
            (Some(strings(&["10.96.0.1"])), strings(&["192.0.2.100"])),
        );
        a.eventually(
            "the prefix of Services",
            |v| v.fabric().services.clone(),
            vec!["10.96.0.0/24".parse().unwrap()],
        );
        let zone = |v: &View| v.nodes().values().find_map(|node| node.zone.clone());
        a.eventually("the zone", zone, Some("east".to_owned()));
        let local = |v: &View| {
            v.services().values().filter(|s| s.internal_traffic == Locality::Local).count()
        };
        assert_eq!(a.knows(local), Some(1));

        changes(server, &a);
        conflict(server, &a);
        bad_input(server, &a);
        clean(server);
        a.eventually(
            "nothing of all that",
            |v| (known(v), v.endpoints().keys().filter(|name| is_ours(name)).count()),
            (1, 1),
        );
        controller.stop().await;
    });
}

/// Other tests have Services of their own, in other namespaces.
fn is_ours(name: &ServiceName) -> bool {
    name.as_str().starts_with("default:")
}

fn known(view: &View) -> usize {
    view.services().keys().filter(|name| is_ours(name)).count()
}

/// One object changes, and nothing else is sent.
fn changes(server: &Server, a: &Agent) {
    let strings = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let before = a.received();
    patch_slice(
        server,
        "web-1",
        json!([
        {"addresses": ["10.244.1.5"], "conditions": {"ready": false, "serving": true, "terminating": true}},
        {"addresses": ["10.244.1.7"], "nodeName": "a"}]),
    );
    a.eventually(
        "both endpoints",
        |v| endpoints(v, "web"),
        strings(&["10.244.1.5 ends", "10.244.1.7"]),
    );
    assert_eq!(a.received() - before, 1, "one slice is one object");
    a.eventually("no endpoints without a Service", |v| endpoints(v, "late"), Vec::new());
    service(server, "late", json!({"clusterIP": "10.96.0.51", "ports": [{"port": 80}]}));
    a.eventually("the late Service's", |v| endpoints(v, "late"), strings(&["10.244.1.6"]));
    // What has no address of its own, and what is another's, is nothing to us.
    service(server, "headless", json!({"clusterIP": "None", "ports": [{"port": 80}]}));
    service(server, "elsewhere", json!({"type": "ExternalName", "externalName": "example.com"}));
    let label = json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "x"}}});
    server.send("PATCH", "/api/v1/namespaces/default/services/late", &label);
    a.eventually("the labelled one gone", |v| addresses(v, "late"), None);
    assert_eq!(a.knows(known), Some(2));
    let more = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "more", "labels": {"osier-test": "services"}},
        "spec": {"cidrs": ["10.97.0.0/24"]}});
    server.send("POST", "/apis/networking.k8s.io/v1/servicecidrs", &more);
    let grown =
        |v: &View| v.fabric().services.iter().map(ipnet::IpNet::prefix_len).collect::<Vec<_>>();
    until("two prefixes", || match a.knows(grown) {
        Some(found) if found == [24, 24] || found == [23] => Ok(()),
        found => Err(format!("{found:?}")),
    });
}

/// Two want the same address outside of the cluster: the older one has it, and the other the rest.
fn conflict(server: &Server, a: &Agent) {
    let other = json!({"clusterIP": "10.96.0.60", "externalIPs": ["198.51.100.1"],
        "ports": [{"port": 80}]});
    service(server, "second", other);
    let inside = Some(vec!["10.96.0.60".to_owned()]);
    a.eventually("the second inside only", |v| addresses(v, "second"), inside);
    until("an event", || {
        let all = events(server, "second");
        let said = |(reason, note): &(String, String)| {
            reason == "ServiceRefused"
                && note.contains("198.51.100.1:80/tcp is service default:web")
        };
        if all.iter().any(said) { Ok(()) } else { Err(format!("{all:?}")) }
    });
    assert_eq!(a.knows(|v| addresses(v, "web").map(|all| all.len())), Some(Some(2)));
    slice(server, "second-1", "second", json!([{"addresses": ["10.244.1.9"]}]));
    a.eventually("its endpoints", |v| endpoints(v, "second"), vec!["10.244.1.9".to_owned()]);
}

/// What cannot be used of a Service or a slice is told, and the rest goes on.
fn bad_input(server: &Server, a: &Agent) {
    let told = |name: &str, reason: &str, text: &str| {
        until(&format!("an event of {name}"), || {
            let all = events(server, name);
            let said = |(r, note): &(String, String)| r == reason && note.contains(text);
            if all.iter().any(said) { Ok(()) } else { Err(format!("{all:?}")) }
        });
    };
    // Endpoints that have no address of a family.
    let names = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "second-2", "labels": {
            "osier-test": "services", "kubernetes.io/service-name": "second"}},
        "addressType": "FQDN", "endpoints": [{"addresses": ["example.com"]}],
        "ports": [{"name": "", "protocol": "TCP", "port": 8080}]});
    server.send("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &names);
    told("second-2", "ServiceNotUnderstood", "FQDN");
    assert_eq!(a.knows(|v| endpoints(v, "second")), Some(vec!["10.244.1.9".to_owned()]));
    // An address that is a pod's.
    let over_pods = json!({"clusterIP": "10.96.0.61", "externalIPs": ["10.244.1.200"],
        "type": "NodePort", "ports": [{"port": 80, "nodePort": 30061}]});
    service(server, "third", over_pods);
    told("third", "ServiceRefused", "10.244.1.200");
    let inside = Some(vec!["10.96.0.61".to_owned()]);
    a.eventually("the third inside only", |v| addresses(v, "third"), inside);
    let node_ports = |v: &View| {
        let name = ServiceName::new("default:third").ok()?;
        v.services().get(&name)?.ports.first()?.node_port
    };
    assert_eq!(a.knows(node_ports), Some(Some(30061)), "its node port is nobody else's");
}
