//! Services: heard, and told what is wrong with them.
//!
//! The mirror keeps what they are to the model; here is only who they are. A Service whose addresses
//! outside of the cluster, or ports of nodes, are another's already goes without them, and is tried whole
//! again later: whoever is older has them.

use super::news::Watched;
use super::{Leader, Setup};
use crate::error::{KubernetesError, is_busy};
use crate::mirror::Name;
use crate::plan::Problem;
use crate::problems::Whose;
use crate::waits::Waits;
use crate::world::cidr::CidrObject;
use crate::world::held::Held;
use crate::world::service::ServiceObject;
use crate::world::slice::SliceObject;
use crate::world::watch::Told;
use ipnet::IpNet;
use kube::core::ObjectMeta;
use osier_resource::{Kind, Resource, ServiceSpec};
use std::collections::BTreeMap;

/// Kinds of what may be wrong with a Service.
const BAD: &str = "ServiceNotUnderstood";
const REFUSED: &str = "ServiceRefused";
const OVERLAPS: &str = "ServiceCIDROverlapsPods";

/// Who there is.
#[derive(Default)]
pub(super) struct Services {
    /// Their uids, by name; what else they are the mirror knows.
    known: Held<String, Box<str>>,
    slices: Held<String, Box<str>>,
    cidrs: Held<String, (Box<str>, Vec<IpNet>)>,
    /// Services that go without what the outside knows them by, as they should be.
    curtailed: BTreeMap<String, Resource>,
    /// What was wrong at the start, when nobody could hear of it.
    early: BTreeMap<Whose, Problem>,
}

/// What is to be watched: the API server may be too old to tell where Services' addresses are from.
pub(super) async fn watched(setup: &Setup) -> Result<Watched, KubernetesError> {
    let mut waits = Waits::default();
    let known = loop {
        match setup.client.list_api_group_resources("networking.k8s.io/v1").await {
            Ok(known) => break known,
            // To lead anew would make it no less busy.
            Err(error) if is_busy(&error) => waits.wait().await,
            Err(source) => {
                let what = "to ask what the API server knows".to_owned();
                return Err(KubernetesError::Api { what, source: Box::new(source) });
            }
        }
    };
    let cidrs = known.resources.iter().any(|resource| resource.name == "servicecidrs");
    Ok(Watched { cidrs })
}

fn uid(metadata: &ObjectMeta) -> Box<str> {
    metadata.uid.as_deref().unwrap_or_default().into()
}

/// What to try next of a Service, when it was refused like this: without its addresses outside of the
/// cluster, without its ports of nodes, without both. What is inside is never given up.
fn lesser(full: &ServiceSpec, refused: &ServiceSpec) -> Option<ServiceSpec> {
    let unknown = |mut spec: ServiceSpec| {
        spec.external.clear();
        spec.balanced.clear();
        spec
    };
    let without_ports = |mut spec: ServiceSpec| {
        spec.health_port = None;
        spec.ports.iter_mut().for_each(|port| port.node_port = None);
        spec
    };
    let all = [
        full.clone(),
        unknown(full.clone()),
        without_ports(full.clone()),
        unknown(without_ports(full.clone())),
    ];
    let at = all.iter().position(|spec| spec == refused)?;
    // One that lacks nothing more than one before it was refused with that.
    let is_new = |n: &usize| !all[..=at].contains(&all[*n]);
    (at + 1..all.len()).find(is_new).map(|n| all[n].clone())
}

// === impl Leader ===

impl Leader {
    pub(super) fn hear_service(&mut self, told: Told<ServiceObject>) {
        match told {
            Told::Begin => self.services.known.begin(),
            Told::Put(object) => {
                let (name, uid) = (object.name(), uid(&object.metadata));
                let (resource, bad) = object.plan();
                self.services.curtailed.remove(&name);
                self.bad(Whose::service(&name, &uid), &bad);
                self.follow_resource(Kind::Service, &name, resource);
                self.services.known.put(name, uid);
            }
            Told::Gone(object) => {
                let name = object.name();
                if let Some(uid) = self.services.known.remove(&name) {
                    self.service_gone(&name, &uid);
                }
            }
            Told::End => {
                for (name, uid) in self.services.known.end() {
                    self.service_gone(&name, &uid);
                }
            }
        }
    }

    fn service_gone(&mut self, name: &str, uid: &str) {
        self.services.curtailed.remove(name);
        self.mirror.drop(Kind::Service, name);
        self.problems.forget(&Whose::service(name, uid));
    }

    pub(super) fn hear_slice(&mut self, told: Told<SliceObject>) {
        match told {
            Told::Begin => self.services.slices.begin(),
            Told::Put(object) => {
                let (name, uid) = (object.name(), uid(&object.metadata));
                let (resource, bad) = object.plan();
                self.bad(Whose::slice(&name, &uid), &bad);
                self.follow_resource(Kind::Endpoints, &name, resource);
                self.services.slices.put(name, uid);
            }
            Told::Gone(object) => {
                let name = object.name();
                if let Some(uid) = self.services.slices.remove(&name) {
                    self.slice_gone(&name, &uid);
                }
            }
            Told::End => {
                for (name, uid) in self.services.slices.end() {
                    self.slice_gone(&name, &uid);
                }
            }
        }
    }

    fn slice_gone(&mut self, name: &str, uid: &str) {
        self.mirror.drop(Kind::Endpoints, name);
        self.problems.forget(&Whose::slice(name, uid));
    }

    pub(super) fn hear_cidr(&mut self, told: Told<CidrObject>) {
        self.is_stale |= match told {
            Told::Begin => {
                self.services.cidrs.begin();
                false
            }
            Told::Put(object) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                let seen = (uid(&object.metadata), object.prefixes());
                self.services.cidrs.put(name, seen)
            }
            Told::Gone(object) => {
                let name = object.metadata.name.unwrap_or_default();
                self.services.cidrs.remove(&name).is_some()
            }
            Told::End => !self.services.cidrs.end().is_empty(),
        };
    }

    /// Wants what an object is to the model, or nothing of it.
    fn follow_resource(&mut self, kind: Kind, name: &str, resource: Option<Resource>) {
        match resource {
            Some(resource) => drop(self.mirror.want(resource)),
            None => self.mirror.drop(kind, name),
        }
    }

    /// What of an object cannot be used.
    fn bad(&mut self, whose: Whose, bad: &[String]) {
        let problem = (!bad.is_empty()).then(|| Problem {
            reason: BAD,
            text: format!("some of it cannot be used: {}", bad.join("; ")),
        });
        match problem {
            // Nobody hears it before the controller is there.
            Some(problem) if self.states.is_none() => {
                drop(self.services.early.insert(whose, problem));
            }
            problem => self.problems.set(&whose, &[BAD], problem),
        }
    }

    /// Tells what was wrong at the start.
    pub(super) fn tell_bad(&mut self) {
        for (whose, problem) in std::mem::take(&mut self.services.early) {
            self.problems.set(&whose, &[BAD], Some(problem));
        }
    }

    /// Tells what became of a Service, or of endpoints.
    pub(super) fn tell_service(&mut self, name: &Name) {
        let held = match name.0 {
            Kind::Service => {
                self.services.known.get(&name.1).map(|uid| Whose::service(&name.1, uid))
            }
            _ => self.services.slices.get(&name.1).map(|uid| Whose::slice(&name.1, uid)),
        };
        let Some(whose) = held else { return };
        if let Some(why) = self.mirror.why(name) {
            let text = format!("it cannot be part of the network: {why}");
            self.problems.set(&whose, &[REFUSED], Some(Problem { reason: REFUSED, text }));
            self.curtail(name);
            return;
        }
        let full = self.services.curtailed.get(&name.1);
        if name.0 != Kind::Service || full == self.mirror.wanted(name.0, &name.1) || full.is_none()
        {
            self.services.curtailed.remove(&name.1);
            self.problems.set(&whose, &[REFUSED], None);
        }
    }

    /// Goes without what is another's.
    fn curtail(&mut self, name: &Name) {
        let Some(Resource::Service(refused)) = self.mirror.wanted(name.0, &name.1) else { return };
        let full = match self.services.curtailed.get(&name.1) {
            Some(Resource::Service(full)) => full,
            _ => refused,
        };
        let Some(less) = lesser(&full.spec, &refused.spec) else { return };
        let (full, mut service) = (full.clone(), full.clone());
        service.spec = less;
        self.services.curtailed.insert(name.1.clone(), Resource::Service(full));
        self.mirror.want(Resource::Service(service));
    }

    /// Tries again what goes without something.
    pub(super) fn retry_services(&mut self) {
        for full in self.services.curtailed.values() {
            self.mirror.want(full.clone());
        }
    }

    /// Where Services' addresses are from, as far as they are no pods'.
    pub(super) fn service_prefixes(&mut self, cluster: &[IpNet]) -> Vec<IpNet> {
        let pods = |prefix: &IpNet| {
            let meets = |pods: &&IpNet| pods.contains(prefix) || prefix.contains(*pods);
            cluster.iter().find(meets)
        };
        let mut prefixes = self.setup.kubernetes.service_cidrs.clone();
        prefixes.retain(|prefix| pods(prefix).is_none());
        for (name, (uid, own)) in self.services.cidrs.iter() {
            let overlap = own.iter().find_map(|prefix| Some((prefix, pods(prefix)?)));
            let problem = overlap.map(|(prefix, pods)| Problem {
                reason: OVERLAPS,
                text: format!("{prefix} overlaps the pods' addresses {pods}, and is not used"),
            });
            if self.states.is_some() {
                self.problems.set(&Whose::service_cidr(name, uid), &[OVERLAPS], problem);
            }
            prefixes.extend(own.iter().filter(|prefix| pods(prefix).is_none()));
        }
        IpNet::aggregate(&prefixes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ServiceSpec {
        serde_json::from_str(text).unwrap()
    }

    /// All that is tried, one after the other, while everything is refused.
    fn tried(full: &ServiceSpec) -> Vec<(usize, bool)> {
        let mut tried = Vec::new();
        let mut refused = full.clone();
        while let Some(less) = lesser(full, &refused) {
            let outside = less.external.len() + less.balanced.len();
            let ports =
                less.health_port.is_some() || less.ports.iter().any(|p| p.node_port.is_some());
            assert_eq!(less.addresses, full.addresses, "what is inside stays");
            assert_eq!(less.ports.len(), full.ports.len());
            tried.push((outside, ports));
            refused = less;
        }
        tried
    }

    #[test]
    fn a_service_goes_without_what_is_anothers() {
        let both = r#"{"addresses": ["10.96.0.9"], "external": ["192.0.2.9"], "balanced": ["192.0.2.8"],
            "ports": [{"port": 80, "nodePort": 30080}], "healthPort": 30081}"#;
        assert_eq!(tried(&spec(both)), [(0, true), (2, false), (0, false)]);
        let node_port =
            r#"{"addresses": ["10.96.0.9"], "ports": [{"port": 80, "nodePort": 30080}]}"#;
        assert_eq!(tried(&spec(node_port)), [(0, false)]);
        let external =
            r#"{"addresses": ["10.96.0.9"], "external": ["192.0.2.9"], "ports": [{"port": 80}]}"#;
        assert_eq!(tried(&spec(external)), [(0, false)]);
        assert_eq!(tried(&spec(r#"{"addresses": ["10.96.0.9"], "ports": [{"port": 80}]}"#)), []);
    }
}
