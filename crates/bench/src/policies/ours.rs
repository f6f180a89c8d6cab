//! Our side: the cluster in the model of a managed node, and the node's own pods, attached by the plugin.

use super::{App, Law, Member, NODES, OUTSIDE, OUTSIDE_PORTS, SHARED_PORTS, TEAMS, namespace};
use crate::api::{Client, RESOURCES};
use crate::controlled::{apply, resource};
use crate::flows::{self, FlowMonitor};
use crate::managed::Managed;
use crate::node::{build_plugin, osier};
use crate::runtime::{Plugin, Pod};
use anyhow::Result;
use osier_testbed::Node;
use serde_json::{Value, json};
use std::time::Duration;

/// Our node, with all pods and no policy at first.
pub(super) struct Ours {
    pub(super) monitor: FlowMonitor,
    plugin: Plugin,
    /// One more, which comes and goes.
    newcomer: Pod,
    _pods: Vec<Pod>,
    managed: Managed,
}

impl Ours {
    pub(super) fn start() -> Result<Self> {
        let managed = Managed::start(&osier()?, model)?;
        let plugin = Plugin::of_node(&build_plugin()?, managed.node());
        let pod = |member: Member| {
            Pod::named(managed.lab(), &namespace(member.of.namespace), &member.name())
        };
        let pods = Member::local().map(pod).collect::<Result<Vec<_>>>()?;
        for some in pods.chunks(10) {
            plugin.add_at_once(some)?;
        }
        let newcomer = pod(super::scale::NEWCOMER)?;
        let monitor = FlowMonitor::start(managed.node().ovs().dir())?;
        Ok(Self { monitor, plugin, newcomer, _pods: pods, managed })
    }

    pub(super) fn client(&self) -> Result<Client<'_>> {
        self.managed.client()
    }

    pub(super) fn write_policies(client: &mut Client<'_>) -> Result<()> {
        apply(client, &App::all().map(App::law).flat_map(|law| policies(&law)).collect::<Vec<_>>())
    }

    pub(super) fn delete_policies(client: &mut Client<'_>) -> Result<()> {
        let named = |name: String| json!({"kind": "NetworkPolicy", "name": name});
        let items: Vec<Value> = App::all().flat_map(policy_names).map(named).collect();
        client.ask("POST", &format!("{RESOURCES}/delete"), Some(&json!({"items": items}))).map(drop)
    }

    /// A pod comes to its node.
    pub(super) fn add(&self, client: &mut Client<'_>) -> Result<()> {
        apply(client, &[workload(super::scale::NEWCOMER)])?;
        self.plugin.add(&self.newcomer).map(drop)
    }

    /// It goes again.
    pub(super) fn remove(&self, client: &mut Client<'_>) -> Result<()> {
        self.plugin.delete_all(std::slice::from_ref(&self.newcomer))?;
        Self::forget(client, super::scale::NEWCOMER)
    }

    /// A pod elsewhere comes, or goes.
    pub(super) fn learn(client: &mut Client<'_>, member: Member) -> Result<()> {
        apply(client, &[workload(member)])
    }

    pub(super) fn forget(client: &mut Client<'_>, member: Member) -> Result<()> {
        let name = workload_name(member);
        client.ask("DELETE", &format!("{RESOURCES}/workloads/{name}"), None).map(drop)
    }

    pub(super) fn converged(&self) -> Result<()> {
        self.managed.converged()
    }

    pub(super) fn flows(&self) -> Result<usize> {
        flows::count(self.managed.node().ovs(), "br-int")
    }

    /// CPU time so far of all processes.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let (node, controller) = self.managed.cpu()?;
        Ok(node + controller)
    }
}

fn model(node: &Node) -> Vec<Value> {
    let own = node.underlay();
    let mut items = vec![
        resource("Fabric", "default", &json!({"cluster": ["10.1.0.0/16", "10.2.0.0/16"]})),
        resource("Router", "default", &json!({"vrf": 0})),
        resource("Network", "pods", &json!({"vni": 1, "router": "default", "reach": "routed"})),
        resource(
            "Node",
            "n1",
            &json!({"tunnel": own, "addresses": [own], "blocks": ["10.1.0.0/20"]}),
        ),
    ];
    items.extend((2..=NODES).map(|n| {
        let spec =
            json!({"tunnel": format!("198.51.100.{n}"), "blocks": [format!("10.2.{n}.0/24")]});
        resource("Node", &format!("n{n}"), &spec)
    }));
    items.extend((0..super::NAMESPACES).map(|n| {
        let labels = json!({"team": format!("t{}", n % TEAMS)});
        with_labels(resource("Namespace", &namespace(n), &json!({})), labels)
    }));
    items.extend(Member::all().map(workload));
    items
}

fn with_labels(mut resource: Value, labels: Value) -> Value {
    resource["metadata"]["labels"] = labels;
    resource
}

fn workload_name(member: Member) -> String {
    format!("{}:{}", namespace(member.of.namespace), member.name())
}

fn workload(member: Member) -> Value {
    let spec = json!({"node": format!("n{}", member.node())});
    let labels = json!({"app": format!("a{}", member.of.app), "pod": member.name()});
    with_labels(resource("Workload", &workload_name(member), &spec), labels)
}

fn policy_names(app: App) -> [String; 2] {
    ["in", "out"].map(|way| format!("{}:{way}-{}", namespace(app.namespace), app.app))
}

fn policies(law: &Law) -> [Value; 2] {
    let [inward, outward] = policy_names(law.subjects);
    let app = |app: App| json!({"podSelector": {"matchLabels": {"app": format!("a{}", app.app)}}});
    let team = json!({"namespaceSelector": {"matchLabels": {"team": format!("t{}", law.team)}}});
    let block = json!({"ipBlock": {"cidr": OUTSIDE, "except": [law.except]}});
    let ports = |ports: &[u16]| ports.iter().map(|port| json!({"port": port})).collect::<Value>();
    let mut ingress = app(law.subjects);
    ingress["policyTypes"] = json!(["Ingress"]);
    ingress["ingress"] = json!([
        {"from": [app(law.client)], "ports": ports(&[law.port])},
        {"from": [team], "ports": ports(&SHARED_PORTS)},
    ]);
    let mut egress = app(law.subjects);
    egress["policyTypes"] = json!(["Egress"]);
    egress["egress"] = json!([
        {"to": [app(law.server)], "ports": ports(&[law.server_port])},
        {"to": [block], "ports": ports(&OUTSIDE_PORTS)},
    ]);
    [resource("NetworkPolicy", &inward, &ingress), resource("NetworkPolicy", &outward, &egress)]
}
