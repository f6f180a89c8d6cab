//! Which owners a change touches, and their plans.

use crate::cookie::Owner;
use crate::flows::flood::Member;
use crate::flows::pipeline::Told;
use crate::flows::policy::Application;
use crate::flows::port::Place;
use crate::flows::service::Scene;
use crate::flows::{
    arp, flood, network, node, pipeline, policy, port, service, service_gateway, track,
};
use crate::link::Link;
use crate::local::{Attachment, LocalPorts};
use crate::plan::{Emitter, Plan, RuleError};
use crate::policies::{Article, Policies, RuleId};
use crate::services::{self, Services};
use osier_model::{
    Change, Fabric, Identity, Invalid, Key, Mac, Network, NetworkName, Node, NodeName, Port,
    PortKey, Reach, RuleRef, Selection, Service, ServiceName, View, Vni, VrfId,
};
use osier_openflow::flow::Flow;
use osier_openflow::message::FlowRemoved;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use thiserror::Error;

/// The tunnel key of the default network, which every node has.
pub const DEFAULT_VNI: u32 = 1;
/// Which `tun_metadata` field carries the sender's identity.
pub(crate) const IDENTITY_OPTION: u8 = 0;
/// The `tun_metadata` fields of ours: what is not used is kept for what a tunnel will carry later.
pub const TUN_METADATA: RangeInclusive<u16> = 0..=3;

/// The default network's number.
pub(crate) fn default_vni() -> Vni {
    Vni::new(DEFAULT_VNI).expect("1 is a network's number")
}

/// What policies have to know of an object as it was.
enum Said {
    Selection(Option<Selection>),
    Port(Option<Identity>),
    Nothing,
}

/// What an owner wants now. An empty plan: nothing any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// Who.
    pub owner: Owner,
    /// What.
    pub plan: Plan,
}

/// Why a change was refused. The compiler is as it was.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompileError {
    /// An object that cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A tag that has no meters.
    #[error("port {key}: its tag {found} is above {}", Attachment::MAX_TAG)]
    Tag {
        /// Which port.
        key: PortKey,
        /// Its tag.
        found: u32,
    },
    /// A flow that cannot be: a defect of the compiler.
    #[error("{owner} has no flows")]
    Rule {
        /// Whose.
        owner: Owner,
        /// Why.
        source: RuleError,
    },
}

/// A node's view, its attachments, and what they compile to.
#[derive(Debug, Clone)]
pub struct Compiler {
    view: View,
    local: LocalPorts,
    attachments: BTreeMap<PortKey, Attachment>,
    services: Services,
    policies: Policies,
}

// === impl Compiler ===

impl Compiler {
    /// A compiler for a node that knows nothing yet.
    pub fn new(node: NodeName, fabric: Fabric, local: LocalPorts) -> Self {
        Self {
            view: View::new(node, fabric),
            local,
            attachments: BTreeMap::new(),
            services: Services::default(),
            policies: Policies::default(),
        }
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The switch's fixed ports.
    pub fn local(&self) -> LocalPorts {
        self.local
    }

    /// Whose flow has this cookie. Looks at all owners: for explaining, not for forwarding.
    pub fn owner_of(&self, cookie: u64) -> Option<Owner> {
        self.owners().into_iter().find(|owner| self.cookie(owner) == cookie)
    }

    /// The router's addresses in a network, as its ports use them: its subnets' gateways, and in
    /// the default network those of this node's blocks.
    pub fn router_addresses(&self, network: &Network) -> BTreeSet<IpAddr> {
        let node = self.own_node();
        let blocks = node.filter(|_| network.vni == default_vni()).map(|node| &node.blocks);
        let gateways = blocks.into_iter().flatten().map(|block| Node::gateway_of(*block));
        let subnets = network.subnets.iter().filter_map(|subnet| subnet.gateway);
        // Who is told of the router by itself is told its address of the link.
        let told = network.dhcp.as_ref().map(|_| Mac::GATEWAY.link_local().into());
        subnets.chain(gateways).chain(told).collect()
    }

    /// The local port with this tag, and where it is.
    pub fn port_with_tag(&self, tag: u32) -> Option<(&Port, &Network, Attachment)> {
        let (key, at) = self.attachments.iter().find(|(_, at)| at.tag == tag)?;
        let port = self.view.ports().get(key)?;
        Some((port, self.view.networks().get(&port.network)?, *at))
    }

    /// What is to be added when a flow ended by itself: clients of Services may stay with their
    /// endpoint for longer than a flow can last.
    pub fn prolonged(&self, removed: &FlowRemoved) -> Option<Flow> {
        service::prolonged(removed, &self.view, &self.services)
    }

    /// All local ports, with their networks, and where they are.
    pub fn attached(&self) -> impl Iterator<Item = (&Port, &Network, Attachment)> {
        self.attachments.iter().filter_map(|(key, at)| {
            let port = self.view.ports().get(key)?;
            Some((port, self.view.networks().get(&port.network)?, *at))
        })
    }

    /// What a local port may be told of its addresses.
    pub fn links(&self, port: &Port, network: &Network) -> Vec<Link> {
        let is_default = network.vni == default_vni();
        let node = self.own_node().filter(|_| is_default);
        let blocks = node.map(|node| node.blocks.as_slice()).unwrap_or_default();
        port.addresses.iter().map(|address| Link::new(*address, network, blocks)).collect()
    }

    /// Makes one step, and tells what those owners want whom it touches.
    pub fn apply(&mut self, change: Change) -> Result<Vec<Compiled>, CompileError> {
        let key = match &change {
            Change::Put(object) => object.key(),
            Change::Delete(key) => key.clone(),
        };
        let before = self.touched(&key);
        let own = self.own_node().cloned();
        let was = match &key {
            Key::Node(name) => self.view.nodes().get(name).cloned(),
            _ => None,
        };
        let said = self.policies_before(&key);
        self.view.apply(change)?;
        let mut owners = self.touched(&key);
        owners.extend(before);
        let moved = matches!(&key, Key::Node(_)) && own.as_ref() != self.own_node();
        for service in self.services_touched(&key, moved, was.as_ref()) {
            owners
                .extend(self.services.follow(&service, &self.view).into_iter().map(Owner::Shared));
            owners.insert(Key::Service(service).into());
        }
        owners.extend(self.follow_policies(&key, said));
        self.compile(owners)
    }

    /// What policies have to know of an object as it was.
    fn policies_before(&self, key: &Key) -> Said {
        match key {
            Key::Selection(id) => Said::Selection(self.view.selections().get(id).cloned()),
            Key::Port(key) => Said::Port(self.identity_here(key)),
            _ => Said::Nothing,
        }
    }

    /// Owners of what an object changed in what policies come to.
    fn follow_policies(&mut self, key: &Key, was: Said) -> BTreeSet<Owner> {
        let articles = match (key, was) {
            (Key::Policy(name), _) => self.policies.follow_policy(name, &self.view),
            (Key::Selection(id), Said::Selection(was)) => {
                self.policies.follow_selection(*id, was.as_ref(), &self.view)
            }
            (Key::Port(key), Said::Port(was)) => {
                let now = self.identity_here(key);
                self.policies.follow_port(was, now)
            }
            _ => return BTreeSet::new(),
        };
        let rejudge = self.view.fabric().policy.rejudge && !matches!(key, Key::Port(_));
        let pipeline = rejudge.then_some(Owner::Pipeline);
        articles.into_iter().map(Owner::Article).chain(pipeline).collect()
    }

    /// What a port of this node is to policies.
    fn identity_here(&self, key: &PortKey) -> Option<Identity> {
        let port = self.view.ports().get(key)?;
        (port.node == *self.view.node()).then_some(port.identity)
    }

    /// The rules of policies that a number stands for: in a connection's label, or a flow's cookie.
    pub fn rules(&self, rule: RuleId) -> impl Iterator<Item = &RuleRef> {
        self.policies.rules(rule)
    }

    /// The numbers of all rules, with their cookies.
    pub fn rule_cookies(&self) -> impl Iterator<Item = (RuleId, u64)> {
        let cookie = |rule| self.cookie(&Owner::Article(Article::Rule(rule)));
        self.policies.numbers().map(move |rule| (rule, cookie(rule)))
    }

    /// All Services, with the cookies of their flows.
    pub fn service_cookies(&self) -> impl Iterator<Item = (&ServiceName, u64)> {
        let cookie = |name: &ServiceName| self.cookie(&Key::Service(name.clone()).into());
        self.view.services().keys().map(move |name| (name, cookie(name)))
    }

    /// Services whose flows depend on an object; on this node they all do, and on another those that the
    /// outside knows by an address that it has, or had.
    fn services_touched(&self, key: &Key, moved: bool, was: Option<&Node>) -> Vec<ServiceName> {
        match key {
            Key::Service(name) => vec![name.clone()],
            Key::Endpoints(key) => vec![key.service.clone()],
            Key::Router(name) => {
                let services = self.view.services().values();
                let of_router = services.filter(|s| s.router.as_ref() == Some(name));
                of_router.map(|s| s.name.clone()).collect()
            }
            Key::Node(_) if moved => self.view.services().keys().cloned().collect(),
            Key::Node(name) if self.view.nodes().get(name) != was => {
                let nodes = || self.view.nodes().get(name).into_iter().chain(was);
                let has = |a: &IpAddr| nodes().any(|n| n.tunnel == *a || n.addresses.contains(a));
                let known = |s: &&Service| s.external.iter().chain(&s.balanced).any(has);
                self.view.services().values().filter(known).map(|s| s.name.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn own_node(&self) -> Option<&Node> {
        self.view.nodes().get(self.view.node())
    }

    /// A local port is attached to the switch. Its tag is the number of its flows and meters: who
    /// gives the same tag to it after a restart gets the same flows.
    pub fn attach(&mut self, key: PortKey, at: Attachment) -> Result<Vec<Compiled>, CompileError> {
        if at.tag > Attachment::MAX_TAG {
            return Err(CompileError::Tag { key, found: at.tag });
        }
        self.attachments.insert(key.clone(), at);
        let owners = self.touched(&Key::Port(key));
        self.compile(owners)
    }

    /// A local port is no longer attached.
    pub fn detach(&mut self, key: &PortKey) -> Result<Vec<Compiled>, CompileError> {
        let owners = self.touched(&Key::Port(key.clone()));
        self.attachments.remove(key);
        self.compile(owners)
    }

    /// What all owners want, compiled from nothing.
    pub fn all(&self) -> Result<Vec<Compiled>, CompileError> {
        let owners = self.owners();
        self.compile(owners)
    }

    fn owners(&self) -> BTreeSet<Owner> {
        let mut owners = BTreeSet::from([Owner::Pipeline]);
        owners.extend(self.view.nodes().keys().cloned().map(|n| Owner::from(Key::Node(n))));
        owners.extend(self.view.networks().keys().cloned().map(|n| Owner::from(Key::Network(n))));
        owners.extend(self.view.ports().keys().cloned().map(|p| Owner::from(Key::Port(p))));
        owners.extend(self.view.services().keys().cloned().map(|s| Owner::from(Key::Service(s))));
        owners.extend(self.view.routers().keys().cloned().map(|r| Owner::from(Key::Router(r))));
        owners.extend(self.services.uses().map(Owner::Shared));
        owners.extend(self.policies.articles().map(Owner::Article));
        owners
    }

    fn cookie(&self, owner: &Owner) -> u64 {
        let tag = match owner {
            Owner::Object(Key::Port(key)) => self.attachments.get(key).map(|at| at.tag),
            _ => None,
        };
        owner.cookie(&self.view, tag)
    }

    /// Owners whose flows depend on an object.
    fn touched(&self, key: &Key) -> BTreeSet<Owner> {
        let mut owners = BTreeSet::new();
        match key {
            Key::Node(name) => {
                owners.insert(key.clone().into());
                if name == self.view.node() {
                    // Its blocks' gateways are the default network's.
                    let default = self.view.networks().values().filter(|n| n.vni == default_vni());
                    owners.extend(default.map(|n| Key::Network(n.name.clone()).into()));
                    let routers = self.view.routers().keys().filter(|_| self.local.is_bare());
                    owners.extend(routers.map(|name| Owner::from(Key::Router(name.clone()))));
                }
                for port in self.view.ports_at(name) {
                    owners.insert(Key::Port(port.clone()).into());
                    owners.extend(self.view.ports().get(port).and_then(|port| self.flood_of(port)));
                }
            }
            Key::Router(name) => {
                owners.insert(key.clone().into());
                for network in self.view.networks_of(name) {
                    owners.extend(self.touched(&Key::Network(network.clone())));
                }
            }
            Key::Network(name) => {
                owners.insert(key.clone().into());
                owners.extend(self.view.ports_of(name).cloned().map(|p| Key::Port(p).into()));
            }
            Key::Port(port) => {
                owners.insert(key.clone().into());
                // A flood reaches the ports of this node, and of others one for each node.
                let port = self.view.ports().get(port);
                let counts = |port: &&Port| port.node == *self.view.node() || self.is_alone(port);
                owners.extend(port.filter(counts).and_then(|port| self.flood_of(port)));
            }
            Key::Service(_)
            | Key::Endpoints(_)
            | Key::Selection(_)
            | Key::Policy(_)
            | Key::Guard(_)
            | Key::Workload(_) => {}
        }
        owners
    }

    /// Whose flood reaches a port.
    fn flood_of(&self, port: &Port) -> Option<Owner> {
        let network = self.view.networks().get(&port.network)?;
        (network.reach == Reach::Bridged).then(|| Key::Network(network.name.clone()).into())
    }

    /// Whether no other port of its network is on its node.
    fn is_alone(&self, port: &Port) -> bool {
        self.view.ports_of_at(&port.network, &port.node).nth(1).is_none()
    }

    fn compile(&self, owners: BTreeSet<Owner>) -> Result<Vec<Compiled>, CompileError> {
        let mut compiled = Vec::with_capacity(owners.len());
        for owner in owners {
            let mut out = Emitter::new(self.cookie(&owner));
            self.emit(&owner, &mut out);
            match out.finish() {
                Ok(plan) => compiled.push(Compiled { owner, plan }),
                Err(source) => return Err(CompileError::Rule { owner, source }),
            }
        }
        Ok(compiled)
    }

    fn emit(&self, owner: &Owner, out: &mut Emitter) {
        let tunnel = self.view.fabric().tunnel;
        match owner {
            Owner::Pipeline => {
                let mode = self.view.fabric().policy;
                let epoch = mode.rejudge.then(|| self.policies.epoch());
                pipeline::flows(out, self.local, tunnel, Application { epoch, log: mode.log });
                arp::dispatch(out);
                track::fabric(out, self.view.fabric());
                service_gateway::flows(out, self.local, self.view.fabric());
            }
            Owner::Shared(shared) => {
                if self.services.is_used(shared) {
                    track::shared(out, shared, self.local, self.view.fabric());
                }
            }
            Owner::Article(article) => self.emit_article(article, out),
            Owner::Object(Key::Router(name)) => {
                if let Some(router) = self.view.routers().get(name) {
                    policy::zone_of_router(out, router.vrf);
                    if let Some(node) = self.own_node().filter(|_| self.local.is_bare()) {
                        node::machine_of(out, node, self.local, router.vrf);
                    }
                }
            }
            Owner::Object(Key::Node(name)) => match self.view.nodes().get(name) {
                Some(node) if node.name == *self.view.node() => {
                    node::own(out, node, self.local, &self.view.fabric().cluster);
                }
                Some(node) => node::remote(out, node, self.local, tunnel),
                None => {}
            },
            // Endpoints are their Service's, and policies what they come to.
            Owner::Object(
                Key::Endpoints(_)
                | Key::Selection(_)
                | Key::Policy(_)
                | Key::Guard(_)
                | Key::Workload(_),
            ) => {}
            Owner::Object(Key::Service(name)) => {
                if let Some(service) = self.view.services().get(name)
                    && let Some(vrf) = services::vrf_of(service, &self.view)
                {
                    let gateway = service_gateway::leads(self.local, self.view.fabric());
                    let gateway = gateway.filter(|_| vrf == VrfId::default());
                    let scene = Scene { view: &self.view, services: &self.services, vrf, gateway };
                    service::flows(out, service, scene);
                }
            }
            Owner::Object(Key::Network(name)) => {
                if let Some(network) = self.view.networks().get(name) {
                    self.emit_network(network, out);
                }
            }
            Owner::Object(Key::Port(key)) => self.emit_port(key, out),
        }
    }

    fn emit_article(&self, article: &Article, out: &mut Emitter) {
        match *article {
            Article::Clause(direction, clause) => {
                policy::clause(out, direction, clause, &self.policies.parts(direction, clause));
            }
            Article::Rule(rule) => {
                if let Some(direction) = self.policies.direction(rule) {
                    policy::granted(out, rule, direction, self.policies.band(rule));
                }
            }
            Article::Subject(identity) => {
                if let Some(isolated) = self.policies.isolation(identity, &self.view) {
                    policy::subject(out, identity, isolated);
                }
            }
        }
    }

    fn vrf_of(&self, network: &Network) -> Option<VrfId> {
        self.view.router_of(network).map(|router| router.vrf)
    }

    fn emit_network(&self, network: &Network, out: &mut Emitter) {
        let (vrf, routers) = (self.vrf_of(network), self.router_addresses(network));
        network::flows(out, network, vrf, &routers, self.view.fabric().tunnel);
        if network.reach == Reach::Bridged {
            let (here, there) = self.members(&network.name);
            flood::flows(out, network, &here, &there);
        }
    }

    /// Where a network has ports: at this switch, and on which other nodes.
    fn members(&self, network: &NetworkName) -> (Vec<Member>, Vec<&Node>) {
        let own = self.view.node();
        let member = |key: &PortKey| {
            let (port, at) = (self.view.ports().get(key)?, self.attachments.get(key)?);
            Some(Member { ofport: at.ofport, identity: port.identity })
        };
        let mut here: Vec<Member> =
            self.view.ports_of_at(network, own).filter_map(member).collect();
        here.sort_unstable_by_key(|member| member.ofport);
        let others = self.view.nodes_of(network).filter(|node| *node != own);
        (here, others.filter_map(|node| self.view.nodes().get(node)).collect())
    }

    fn emit_port(&self, key: &PortKey, out: &mut Emitter) {
        let Some(port) = self.view.ports().get(key) else { return };
        let Some(network) = self.view.networks().get(&port.network) else { return };
        let place = if port.node == *self.view.node() {
            self.attachments.get(key).map(|at| Place::Here {
                at: *at,
                large: at.exceeds_tunnel(self.local),
                bare: self.local.is_bare(),
                service_gateway: self.local.service_gateway,
                connection_rate: self.local.connection_rate,
            })
        } else if network.vni == default_vni() {
            // Its node's block is the way to it.
            None
        } else {
            self.view.nodes().get(&port.node).map(Place::At)
        };
        let Some(place) = place else { return };
        let asks = network.dhcp.is_some() && matches!(place, Place::Here { .. });
        let links = if asks { self.links(port, network) } else { Vec::new() };
        let vrf = self.vrf_of(network);
        let identity = Told::by(self.view.fabric().tunnel).tellable(port.identity);
        if identity == port.identity {
            port::flows(out, port, network, vrf, &links, place);
        } else {
            let told = Port { identity, ..port.clone() };
            port::flows(out, &told, network, vrf, &links, place);
        }
    }
}
