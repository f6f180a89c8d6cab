//! Schemas of the model's types, which know nothing of schemas. Values are never of these types.
//!
//! A test holds them against the model: every field that the model writes must be known here.

#![expect(dead_code, reason = "only the schemas that are derived from them are used")]

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident = $schema:tt;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

texts! {
    /// A name of another object.
    Name = {"type": "string", "pattern": "^[A-Za-z0-9._:@-]+$", "maxLength": 507};
    /// An address of either family.
    Address = {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]};
    /// A prefix of either family.
    Prefix = {"type": "string", "pattern": "^[0-9A-Fa-f.:]+/[0-9]{1,3}$"};
    /// An Ethernet address.
    MacAddress = {"type": "string", "pattern": "^([0-9A-Fa-f]{1,2}:){5}[0-9A-Fa-f]{1,2}$"};
    /// A network's number.
    Vni = {"type": "integer", "minimum": 1, "maximum": 16_777_215};
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
pub(crate) enum Tunnel {
    /// With the sender's identity in an option.
    Geneve,
    /// For networks that know no Geneve; peers are known by their addresses.
    Vxlan,
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(crate) struct Isolation {
    /// Namespaces that all reach, and that reach all: what clusters need themselves, such as their DNS.
    #[schemars(default)]
    shared: Vec<Name>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(crate) struct PolicyMode {
    /// Connections that are there already are judged again when policies change, and cut if they may no
    /// longer be. Kubernetes lets them live.
    #[schemars(default)]
    rejudge: bool,
    /// Denied connections are logged by their nodes' agents, with names, and shown by `osier flows`.
    #[schemars(default)]
    log: bool,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
pub(crate) enum Reach {
    /// By Ethernet address, with ARP, neighbour discovery, broadcast and multicast.
    Bridged,
    /// Through the router always: no broadcast, and fewer flows.
    Routed,
}

/// Addresses of a network.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Subnet {
    /// The prefix.
    cidr: Prefix,
    /// The router's address in it, if the network has a router.
    gateway: Option<Address>,
}

/// What clients of a network are told by DHCP, DHCPv6 and router discovery.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Dhcp {
    /// Seconds that a lease lasts, 20 at least; 3600.
    lease: Option<u32>,
    /// Name servers, of either family.
    #[schemars(default)]
    dns: Vec<Address>,
    /// The domain that names are looked up in.
    domain: Option<String>,
    /// The MTU to say; that of the port if there is none.
    mtu: Option<u16>,
    /// Routes beside the default one.
    #[schemars(default)]
    routes: Vec<StaticRoute>,
    /// Subnets and gateways to say, of a network whose addresses come from pools.
    #[schemars(default)]
    subnets: Vec<Subnet>,
}

/// A route that clients are told.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct StaticRoute {
    /// Where to.
    to: Prefix,
    /// By whom.
    via: Address,
}

/// How fast a port may send and receive. Directions are the device's own.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Limits {
    /// What goes to the device.
    ingress: Option<Limit>,
    /// What comes from it.
    egress: Option<Limit>,
}

/// A rate, and how much may come at once.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Limit {
    /// Bits in a second.
    rate: u64,
    /// Bits at once; a tenth of a second's worth if it is not said.
    burst: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
pub(crate) enum Locality {
    /// All of them.
    Cluster,
    /// Only those of the node that the client is on, or came to.
    Local,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
pub(crate) enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// All that goes to the address, as to a floating IP; the port's number is 0.
    Any,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
pub(crate) enum EndpointState {
    /// It takes connections.
    Ready,
    /// It ends, and still answers: used when nobody else is there.
    Terminating,
    /// It takes none; connections that it has may go on.
    Unready,
}

/// Where endpoints listen.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct EndpointPort {
    /// The Service's port, by its name.
    name: Option<String>,
    /// What carries it.
    transport: Option<Transport>,
    /// The number.
    port: u16,
}

/// Who answers.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Endpoint {
    /// Its address: a pod's, a node's, or one outside of the cluster.
    address: Address,
    /// The node that it is on, if it is on one.
    node: Option<Name>,
    /// Whether it takes connections.
    state: Option<EndpointState>,
    /// Its share of connections, beside the others'; 1 if it is not said.
    weight: Option<u16>,
    /// Zones that should prefer it; with no hint it is for all.
    zones: Option<Vec<String>>,
    /// Nodes that should prefer it.
    nodes: Option<Vec<Name>>,
}

/// A port that has a name.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct NamedPort {
    /// Its name.
    name: String,
    /// What carries it.
    transport: Option<Transport>,
    /// Its number.
    port: u16,
}

/// What labels must be like; everything if nothing is said.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Selector {
    /// Labels that must be there.
    match_labels: Option<std::collections::BTreeMap<String, String>>,
    /// What else must hold.
    match_expressions: Option<Vec<Expression>>,
}

/// What a label must be like.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Expression {
    /// Which label.
    key: String,
    /// What must hold.
    operator: Operator,
    /// With which values.
    values: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(crate) enum Operator {
    /// It has one of the values.
    In,
    /// It has none of them, or is not there.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}
