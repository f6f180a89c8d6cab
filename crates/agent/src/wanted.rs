//! What the switch shall carry, as values: what the view says, and the ports that are really here.
//!
//! Of ports of this node a view can only wish: they are there when a runtime has made them, and
//! then count as they are made. What a view may decide of a living one is what it is to policies
//! and how fast it may be. Nothing here talks to anybody.
//!
//! A view is heard first, and followed a moment later. A port that comes in between is to policies what
//! the view was that is followed: with an identity that its policies do not know yet it would be free.

use crate::services::Stale;
use crate::view::{Said, Taken, ViewContent};
use osier_compiler::{Attachment, CompileError, Compiled, Compiler, LocalPorts};
use osier_model::{
    Change, Guard, Identity, Invalid, Key, NamespaceName, Object, Port, PortKey, View, Workload,
};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug)]
pub(crate) struct Wanted {
    said: Said,
    compiler: Compiler,
    here: BTreeMap<PortKey, (Port, Attachment)>,
    /// What the view that is followed wishes ports of this node to be to policies.
    wished: BTreeMap<PortKey, Identity>,
}

/// What steps came to.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// Plans that may differ now.
    pub(crate) compiled: Vec<Compiled>,
    /// The first step that could not be.
    pub(crate) refused: Option<CompileError>,
    /// Ways that connections are no longer to take.
    pub(crate) stale: Vec<Stale>,
    /// Ways that they may take from now on.
    pub(crate) fresh: Vec<Stale>,
}

// === impl Wanted ===

impl Wanted {
    /// The view and nothing else.
    pub(crate) fn new(said: Said, local: LocalPorts) -> Result<Self, CompileError> {
        let wished = wished(&said);
        let compiler = compiler_of(&said, local, &wished, &BTreeMap::new())?;
        Ok(Self { said, compiler, here: BTreeMap::new(), wished })
    }

    /// What the source said.
    pub(crate) fn said(&self) -> &Said {
        &self.said
    }

    /// What is compiled.
    pub(crate) fn view(&self) -> &View {
        self.compiler.view()
    }

    /// What compiles it.
    pub(crate) fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// What the view wishes of a port of this node.
    pub(crate) fn wish(&self, key: &PortKey) -> Option<&Port> {
        wish(&self.said, key)
    }

    /// All, from nothing.
    pub(crate) fn all(&self) -> Result<Vec<Compiled>, CompileError> {
        self.compiler.all()
    }

    /// Hears an update. Nothing is compiled yet.
    pub(crate) fn hear(&mut self, update: ViewContent) -> Result<Taken, Invalid> {
        self.said.take(update)
    }

    /// Compiles steps that were heard. What can be is done, whatever else cannot: the first that
    /// could not be is told.
    pub(crate) fn follow(&mut self, changes: Vec<Change>) -> Followed {
        let mut followed = Followed::default();
        let services: BTreeSet<_> = changes.iter().filter_map(Stale::service_of).collect();
        let ways = |view: &View| services.iter().flat_map(|s| Stale::ways(view, s)).collect();
        let before: BTreeSet<Stale> = ways(self.view());
        for change in changes {
            match self.follow_one(change) {
                Ok(more) => followed.compiled.extend(more),
                Err(error) => followed.refused = followed.refused.or(Some(error)),
            }
        }
        let now: BTreeSet<Stale> = ways(self.view());
        followed.stale = before.difference(&now).copied().collect();
        followed.fresh = now.difference(&before).copied().collect();
        followed
    }

    fn follow_one(&mut self, change: Change) -> Result<Vec<Compiled>, CompileError> {
        let key = match &change {
            Change::Put(Object::Port(Port { key, .. })) | Change::Delete(Key::Port(key)) => {
                key.clone()
            }
            Change::Put(Object::Guard(Guard { namespace }))
            | Change::Delete(Key::Guard(namespace)) => {
                let namespace = namespace.clone();
                self.compiler.apply(change)?;
                return self.decide_again(|port| is_of(port, &namespace));
            }
            Change::Put(Object::Workload(Workload { device, .. }))
            | Change::Delete(Key::Workload(device)) => {
                let device = device.clone();
                self.compiler.apply(change)?;
                return self.decide_again(|port| port.key.device == device);
            }
            _ => return self.compiler.apply(change),
        };
        match self.wish(&key).map(|wish| wish.identity) {
            Some(identity) => self.wished.insert(key.clone(), identity),
            None => self.wished.remove(&key),
        };
        match self.here.get(&key) {
            Some((port, _)) => {
                let port = self.decided(port);
                self.compiler.apply(Change::Put(Object::Port(port)))
            }
            None => self.compile_absent(&key),
        }
    }

    /// A port as it is made, with what the view decides.
    fn decided(&self, port: &Port) -> Port {
        decided(&self.said, self.view(), &self.wished, port)
    }

    /// What ports are to policies may be another.
    fn decide_again(
        &mut self,
        which: impl Fn(&Port) -> bool,
    ) -> Result<Vec<Compiled>, CompileError> {
        let mut compiled = Vec::new();
        let ports = self.here.values().map(|(port, _)| port).filter(|port| which(port));
        let ports: Vec<Port> = ports.map(|port| self.decided(port)).collect();
        for port in ports {
            compiled.extend(self.compiler.apply(Change::Put(Object::Port(port)))?);
        }
        Ok(compiled)
    }

    /// A port that is not here: with another node, or nowhere.
    fn compile_absent(&mut self, key: &PortKey) -> Result<Vec<Compiled>, CompileError> {
        let (said, node) = (self.said.view(), self.said.view().node());
        match said.ports().get(key).filter(|port| port.node != *node) {
            Some(port) => self.compiler.apply(Change::Put(Object::Port(port.clone()))),
            None => self.compiler.apply(Change::Delete(Key::Port(key.clone()))),
        }
    }

    /// Compiles all anew, for a changed fabric or other numbers of the fixed ports. Owners that
    /// are no more have empty plans.
    pub(crate) fn recompile(&mut self, local: LocalPorts) -> Result<Vec<Compiled>, CompileError> {
        let wished = wished(&self.said);
        let compiler = compiler_of(&self.said, local, &wished, &self.here)?;
        let mut all = compiler.all()?;
        self.wished = wished;
        let before = std::mem::replace(&mut self.compiler, compiler).all()?;
        let owners: BTreeSet<_> = all.iter().map(|compiled| compiled.owner.clone()).collect();
        let gone = before.into_iter().filter(|compiled| !owners.contains(&compiled.owner));
        let nothing = osier_compiler::Plan::default;
        all.extend(gone.map(|compiled| Compiled { plan: nothing(), ..compiled }));
        Ok(all)
    }

    /// A port is here.
    pub(crate) fn attach(
        &mut self,
        port: Port,
        at: Attachment,
    ) -> Result<Vec<Compiled>, CompileError> {
        let key = port.key.clone();
        let object = Object::Port(self.decided(&port));
        let mut compiled = self.compiler.apply(Change::Put(object))?;
        compiled.extend(self.compiler.attach(key.clone(), at)?);
        self.here.insert(key, (port, at));
        Ok(compiled)
    }

    /// A port is here no more.
    pub(crate) fn detach(&mut self, key: &PortKey) -> Result<Vec<Compiled>, CompileError> {
        self.here.remove(key);
        let mut compiled = self.compiler.detach(key)?;
        // It may have moved: then it is another node's from now on.
        compiled.extend(self.compile_absent(key)?);
        Ok(compiled)
    }
}

fn wish<'a>(said: &'a Said, key: &PortKey) -> Option<&'a Port> {
    let view = said.view();
    view.ports().get(key).filter(|port| port.node == *view.node())
}

/// What a view wishes ports of its node to be to policies.
fn wished(said: &Said) -> BTreeMap<PortKey, Identity> {
    let view = said.view();
    let own = view.ports().values().filter(|port| port.node == *view.node());
    own.map(|port| (port.key.clone(), port.identity)).collect()
}

/// A port as it is made, with what the view decides that is heard, and the one that is followed.
fn decided(
    said: &Said,
    followed: &View,
    wished: &BTreeMap<PortKey, Identity>,
    port: &Port,
) -> Port {
    let mut port = port.clone();
    if let Some(wish) = wish(said, &port.key).filter(|wish| !wish.limits.is_none()) {
        port.limits = wish.limits;
    }
    let workload = followed.workloads().get(&port.key.device).map(|workload| workload.identity);
    let wished = wished.get(&port.key).copied().filter(|identity| *identity != Identity::ANY);
    if let Some(identity) = workload.or(wished) {
        port.identity = identity;
    } else if is_guarded(followed, &port) || is_guarded(said.view(), &port) {
        // Its labels may be such that nobody may reach it.
        port.identity = Identity::QUARANTINED;
    }
    port
}

/// Whether policies may be about a port: those of its namespace, or that which keeps namespaces apart.
fn is_guarded(view: &View, port: &Port) -> bool {
    let isolation = view.fabric().isolation.as_ref();
    let is_apart = isolation.is_some_and(|apart| !apart.shared.iter().any(|ns| is_of(port, ns)));
    is_apart || view.guards().iter().any(|namespace| is_of(port, namespace))
}

/// Whether a port is of a pod of a namespace.
fn is_of(port: &Port, namespace: &NamespaceName) -> bool {
    let pod = port.key.device.as_str().strip_prefix(namespace.as_str());
    pod.is_some_and(|pod| pod.starts_with(':'))
}

fn compiler_of(
    said: &Said,
    local: LocalPorts,
    wished: &BTreeMap<PortKey, Identity>,
    here: &BTreeMap<PortKey, (Port, Attachment)>,
) -> Result<Compiler, CompileError> {
    let view = said.view();
    let mut compiler = Compiler::new(view.node().clone(), view.fabric().clone(), local);
    for change in said.from_nothing() {
        match &change {
            Change::Put(Object::Port(port))
                if port.node == *view.node() || here.contains_key(&port.key) => {}
            _ => drop(compiler.apply(change)?),
        }
    }
    for (port, at) in here.values() {
        compiler.apply(Change::Put(Object::Port(decided(said, view, wished, port))))?;
        compiler.attach(port.key.clone(), *at)?;
    }
    Ok(compiler)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osier_model::Limit;
    use osier_openflow::port_no::PortNo;
    use std::path::Path;

    const VIEW: &str = "
objects:
  - { kind: node, name: n1, tunnel: 192.0.2.1 }
  - { kind: node, name: n2, tunnel: 192.0.2.2 }
  - { kind: router, name: red, vrf: 3 }
  - { kind: network, name: blue, vni: 7, router: red, subnets: [{ cidr: 10.5.0.0/24 }] }
";

    fn said(text: &str) -> ViewContent {
        crate::view::ViewDocument::parse(text, Path::new("/v")).unwrap().into()
    }

    fn wanted(text: &str) -> Wanted {
        let mut first = Said::new("n1".parse().unwrap());
        first.take(said(text)).unwrap();
        Wanted::new(first, local(1)).unwrap()
    }

    fn local(tunnel: u32) -> LocalPorts {
        LocalPorts {
            gateway: PortNo(2),
            service_gateway: None,
            tunnel: PortNo(tunnel),
            tunnel_mtu: None,
            connection_rate: None,
        }
    }

    fn port() -> Port {
        let text = "{ device: 'a:b', interface: eth0, network: blue, node: n1, \
                    mac: '0a:58:0a:05:00:07', addresses: [10.5.0.7] }";
        serde_saphyr::from_str(text).unwrap()
    }

    fn at() -> Attachment {
        Attachment { ofport: PortNo(17), tag: 5, mtu: None }
    }

    fn view_with(port: &str) -> String {
        format!(
            "{VIEW}  - {{ kind: port, device: 'a:b', interface: eth0, network: blue, {port}, \
             mac: '0a:58:0a:05:00:07', addresses: [10.5.0.7] }}\n"
        )
    }

    fn hear(wanted: &mut Wanted, text: &str) {
        let taken = wanted.hear(said(text)).unwrap();
        assert!(wanted.follow(taken.changes).refused.is_none());
    }

    /// What was compiled step by step is what all is.
    fn same_as_anew(wanted: &mut Wanted) {
        let stepped = wanted.all().unwrap();
        wanted.recompile(local(1)).unwrap();
        assert_eq!(stepped, wanted.all().unwrap());
    }

    #[test]
    fn a_wish_makes_no_port_but_decides_of_one_that_lives() {
        let mut wanted = wanted(&view_with("node: n1, limits: { egress: { rate: 8000 } }"));
        assert!(wanted.view().ports().is_empty());
        wanted.attach(port(), at()).unwrap();
        let egress = |wanted: &Wanted| wanted.view().ports()[&port().key].limits.egress;
        assert_eq!(egress(&wanted), Some(Limit { rate: 8000, burst: None }));
        hear(&mut wanted, &view_with("node: n1, limits: { egress: { rate: 9000 } }, identity: 9"));
        assert_eq!(egress(&wanted), Some(Limit { rate: 9000, burst: None }));
        assert_eq!(wanted.view().ports()[&port().key].identity.0, 9);
        same_as_anew(&mut wanted);
        hear(&mut wanted, VIEW);
        assert_eq!(egress(&wanted), None, "it lives on without the view's word");
        same_as_anew(&mut wanted);
        wanted.detach(&port().key).unwrap();
        assert!(wanted.view().ports().is_empty());
    }

    #[test]
    fn who_comes_before_a_view_is_followed_is_not_known_by_it() {
        let guard = "  - { kind: guard, namespace: a }\n";
        let identity = |wanted: &Wanted| wanted.view().ports()[&port().key].identity;
        for knows in [
            view_with("node: n1, identity: 300"),
            format!("{VIEW}  - {{ kind: workload, device: 'a:b', node: n1, identity: 300 }}\n"),
        ] {
            for before in [VIEW.to_owned(), format!("{VIEW}{guard}")] {
                let mut wanted = wanted(&before);
                let taken = wanted.hear(said(&format!("{knows}{guard}"))).unwrap();
                wanted.attach(port(), at()).unwrap();
                assert_eq!(identity(&wanted), Identity::QUARANTINED, "its policies are not there");
                assert!(wanted.follow(taken.changes).refused.is_none());
                assert_eq!(identity(&wanted), Identity(300));
                same_as_anew(&mut wanted);
            }
        }
    }

    #[test]
    fn whose_labels_are_not_known_is_in_quarantine_where_there_are_policies() {
        let guarded = format!("{VIEW}  - {{ kind: guard, namespace: a }}\n");
        let identity = |wanted: &Wanted| wanted.view().ports()[&port().key].identity;
        let mut wanted = wanted(&guarded);
        wanted.attach(port(), at()).unwrap();
        assert_eq!(identity(&wanted), Identity::QUARANTINED);
        let wished = view_with("node: n1, identity: 300") + "  - { kind: guard, namespace: a }\n";
        hear(&mut wanted, &wished);
        assert_eq!(identity(&wanted), Identity(300));
        same_as_anew(&mut wanted);
        hear(&mut wanted, &guarded);
        assert_eq!(identity(&wanted), Identity::QUARANTINED);
        hear(&mut wanted, &(view_with("node: n1") + "  - { kind: guard, namespace: a }\n"));
        assert_eq!(identity(&wanted), Identity::QUARANTINED, "a wish that says nothing of labels");
        same_as_anew(&mut wanted);
        hear(&mut wanted, VIEW);
        assert_eq!(identity(&wanted), Identity::ANY);
        hear(&mut wanted, &guarded);
        assert_eq!(identity(&wanted), Identity::QUARANTINED, "policies came after it");
        same_as_anew(&mut wanted);
        let workload = "  - { kind: workload, device: 'a:b', node: n1, identity: 400 }\n";
        hear(&mut wanted, &(wished.clone() + workload));
        assert_eq!(identity(&wanted), Identity(400), "whoever knows its labels wins");
        same_as_anew(&mut wanted);
        hear(&mut wanted, &(guarded.clone() + workload));
        assert_eq!(identity(&wanted), Identity(400));
        hear(&mut wanted, &guarded.replace("namespace: a", "namespace: ab"));
        assert_eq!(identity(&wanted), Identity::ANY);
    }

    #[test]
    fn a_port_that_moves_is_elsewhere_when_it_is_gone_here() {
        let mut wanted = wanted(VIEW);
        wanted.attach(port(), at()).unwrap();
        hear(&mut wanted, &view_with("node: n2"));
        assert_eq!(wanted.view().ports()[&port().key].node.as_str(), "n1");
        same_as_anew(&mut wanted);
        wanted.detach(&port().key).unwrap();
        assert_eq!(wanted.view().ports()[&port().key].node.as_str(), "n2");
        same_as_anew(&mut wanted);
        hear(&mut wanted, &view_with("node: n1"));
        assert!(wanted.view().ports().is_empty(), "it comes back, and is not here yet");
    }

    #[test]
    fn a_changed_fabric_compiles_all_anew_and_leaves_no_owner_behind() {
        let mut wanted = wanted(VIEW);
        wanted.attach(port(), at()).unwrap();
        let text = VIEW.replace("name: n2, tunnel: 192.0.2.2", "name: n3, tunnel: 192.0.2.3");
        let taken = wanted.hear(said(&format!("fabric: {{ tunnel: vxlan }}{text}"))).unwrap();
        assert!(taken.fabric);
        let all = wanted.recompile(local(9)).unwrap();
        let plan = |name: &str| {
            let found = all.iter().find(|compiled| compiled.owner.to_string() == name);
            found.unwrap().plan.clone()
        };
        assert_eq!(plan("node n2"), osier_compiler::Plan::default());
        assert_ne!(plan("node n3"), osier_compiler::Plan::default());
        assert!(!plan("port a:b").flows.is_empty());
        assert!(plan("pipeline").tlvs.is_empty());
    }
}
