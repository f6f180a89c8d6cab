//! `osier describe`: a resource in plain words, with what belongs to it.

use super::{asking, hits};
use crate::client::answers::Status;
use crate::client::{Client, Connection};
use crate::kinds;
use crate::render::describe::{Related, draw};
use crate::render::paint::Paint;
use crate::render::table;
use anyhow::Context;
use clap::Args;
use osier_resource::{Document, Kind, NetworkPolicySpec, Resource};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use time::OffsetDateTime;

const EXAMPLES: &str = "\
Examples:
  osier describe network blue   # its numbers, subnets, and every port on it
  osier describe node n1        # is it as wanted? its ports, its tunnels
  osier describe service shop:db  # its addresses and ports, and who answers
  osier describe netpol shop:db  # whom it is about, and what it lets through
  osier describe port shop:web  # where it is, and what it was given";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{}\n\n{EXAMPLES}", kinds::HELP))]
pub(crate) struct Arguments {
    /// What: network, port, node...
    #[arg(value_parser = kinds::parser(), ignore_case = true)]
    kind: Kind,
    /// Which
    name: String,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    asking(&arguments.connection, async |client| {
        let mut value = client.object(arguments.kind, &arguments.name).await?;
        if arguments.kind == Kind::NetworkPolicy {
            hits::fill(client, std::slice::from_mut(&mut value)).await?;
        }
        let resource = Resource::from_value(&value).context(
            "this version cannot read it: `osier get ... -o yaml` shows it, `osier check` compares \
             versions",
        )?;
        let mut related = related(client, &resource).await?;
        for (_, kind, items) in &mut related.resources {
            if *kind == Kind::NetworkPolicy {
                hits::fill(client, items).await?;
            }
        }
        let text = draw(&resource, &related, OffsetDateTime::now_utc(), Paint::for_output());
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What belongs to it.
async fn related(client: &Client, resource: &Resource) -> anyhow::Result<Related> {
    let mut related = Related::default();
    let name = resource.name();
    let mut add = |heading: &str, kind, items| {
        related.resources.push((heading.to_owned(), kind, items));
    };
    match resource {
        Resource::Fabric(_) => add("Nodes", Kind::Node, client.list(Kind::Node, None).await?.items),
        Resource::Node(_) => {
            add("Ports", Kind::Port, having(client, Kind::Port, "/spec/node", name).await?);
            let status: Status = client.get("/status").await?;
            related.node = status.nodes.into_iter().find(|node| node.name == name);
        }
        Resource::Pool(_) => {
            let networks = client.list(Kind::Network, None).await?.items.into_iter();
            let uses = |network: &Value| {
                let pools = network.pointer("/spec/pools").and_then(Value::as_array);
                pools.is_some_and(|pools| pools.iter().any(|pool| pool == name))
            };
            add("Networks that take from it", Kind::Network, networks.filter(uses).collect());
        }
        Resource::Router(_) => {
            let networks = having(client, Kind::Network, "/spec/router", name).await?;
            add("Networks that it joins", Kind::Network, networks);
        }
        Resource::Network(Document { spec, .. }) => {
            add("Ports", Kind::Port, having(client, Kind::Port, "/spec/network", name).await?);
            if !spec.pools.is_empty() {
                let names: Vec<String> = spec.pools.iter().map(ToString::to_string).collect();
                let mut pools = client.list(Kind::Pool, None).await?.items;
                pools.retain(|pool| names.iter().any(|name| name == table::name(pool)));
                add("Pools", Kind::Pool, pools);
            }
        }
        Resource::Port(Document { spec, .. }) => {
            for (heading, kind, name) in [
                ("Network", Kind::Network, spec.network.to_string()),
                ("Node", Kind::Node, spec.node.to_string()),
            ] {
                add(heading, kind, vec![client.object(kind, &name).await?]);
            }
        }
        Resource::Service(_) => {
            let slices = having(client, Kind::Endpoints, "/spec/service", name).await?;
            add("Endpoints", Kind::Endpoints, slices);
        }
        Resource::Endpoints(Document { spec, .. }) => {
            let service = client.list(Kind::Service, None).await?.items.into_iter();
            let is_it = |item: &Value| table::name(item) == spec.service.as_str();
            add("Service", Kind::Service, service.filter(is_it).collect());
        }
        Resource::Namespace(_) => {
            for (heading, kind) in
                [("Policies", Kind::NetworkPolicy), ("Workloads", Kind::Workload)]
            {
                let mut items = client.list(kind, None).await?.items;
                items.retain(|item| is_of(item, name));
                add(heading, kind, items);
            }
        }
        Resource::NetworkPolicy(Document { spec, .. }) => {
            let workloads = workloads_under(client, name, spec).await?;
            add("Workloads that it is about", Kind::Workload, workloads);
        }
        Resource::Workload(Document { metadata, .. }) => {
            let policies = policies_about(client, name, &metadata.labels).await?;
            add("Policies that are about it", Kind::NetworkPolicy, policies);
        }
    }
    Ok(related)
}

/// Workloads that a policy is about.
async fn workloads_under(
    client: &Client,
    policy: &str,
    spec: &NetworkPolicySpec,
) -> anyhow::Result<Vec<Value>> {
    let namespace = policy.split(':').next().unwrap_or_default();
    let mut workloads = client.list(Kind::Workload, None).await?.items;
    workloads.retain(|item| {
        let labels = item.pointer("/metadata/labels").cloned().unwrap_or_default();
        let labels = serde_json::from_value(labels).unwrap_or_default();
        is_of(item, namespace) && spec.pod_selector.takes(&labels)
    });
    Ok(workloads)
}

/// Policies that are about a workload.
async fn policies_about(
    client: &Client,
    workload: &str,
    labels: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<Value>> {
    let namespace = workload.split(':').next().unwrap_or_default();
    let mut policies = client.list(Kind::NetworkPolicy, None).await?.items;
    policies.retain(|item| match Resource::from_value(item) {
        Ok(Resource::NetworkPolicy(policy)) => {
            is_of(item, namespace) && policy.spec.pod_selector.takes(labels)
        }
        _ => false,
    });
    Ok(policies)
}

/// Whether something is of a namespace.
fn is_of(item: &Value, namespace: &str) -> bool {
    table::name(item).split(':').next() == Some(namespace)
}

/// Those of a kind in which a field says something.
async fn having(
    client: &Client,
    kind: Kind,
    field: &str,
    what: &str,
) -> anyhow::Result<Vec<Value>> {
    let mut items = client.list(kind, None).await?.items;
    items.retain(|item| item.pointer(field).and_then(Value::as_str) == Some(what));
    Ok(items)
}
