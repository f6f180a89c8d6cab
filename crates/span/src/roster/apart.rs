//! Namespaces apart: each has a policy, made here, that lets in who is of it, and nobody of others.
//!
//! What comes by nodes, they themselves and the outside, is let in as well: this mode is about
//! namespaces. Policies of users add to it, as they do among themselves.

use super::{Dirty, NAME, Roster};
use osier_model::{
    Isolation, NamespaceName, PolicyName, Selector, StatedPeer, StatedPolicy, StatedRule,
};
use std::collections::BTreeSet;

// === impl Roster ===

impl Roster {
    /// Namespaces are apart like this from now on, or not at all.
    pub(super) fn keep_apart(&mut self, said: Option<Isolation>, dirty: &mut Dirty) {
        if self.apart == said {
            return;
        }
        self.apart = said;
        let known = self.namespaces.keys().chain(self.identities.namespaces()).cloned();
        for namespace in known.collect::<BTreeSet<NamespaceName>>() {
            self.set_apart(&namespace, dirty);
        }
    }

    /// Somebody speaks of a namespace, perhaps for the first time.
    pub(super) fn meet(&mut self, namespace: &NamespaceName, dirty: &mut Dirty) {
        let is_known = || name_of(namespace).is_some_and(|name| self.policies.contains_key(&name));
        if self.apart.is_some() && !is_known() {
            self.set_apart(namespace, dirty);
        }
    }

    /// Nobody speaks of a namespace any more. Its policy stays as long as somebody may be in it.
    pub(super) fn part(&mut self, namespace: &NamespaceName, dirty: &mut Dirty) {
        if self.identities.in_namespace(namespace).is_empty()
            && let Some(name) = name_of(namespace)
        {
            self.drop_policy(&name, dirty);
        }
    }

    fn set_apart(&mut self, namespace: &NamespaceName, dirty: &mut Dirty) {
        let Some(name) = name_of(namespace) else { return };
        match &self.apart {
            Some(apart) if !apart.shared.contains(namespace) => {
                let policy = policy(name, apart);
                self.put_policy(policy, dirty);
            }
            _ => self.drop_policy(&name, dirty),
        }
    }
}

/// No user's policy has such a name.
fn name_of(namespace: &NamespaceName) -> Option<PolicyName> {
    PolicyName::new(&format!("{namespace}:{}isolation", StatedPolicy::OURS)).ok()
}

fn policy(name: PolicyName, apart: &Isolation) -> StatedPolicy {
    let of = |namespaces| StatedPeer::Workloads { namespaces, labels: Selector::default() };
    let mut peers = vec![of(None), StatedPeer::Nodes];
    if !apart.shared.is_empty() {
        let shared = apart.shared.iter().map(ToString::to_string).collect();
        peers.push(of(Some(Selector::one_of(NAME, shared))));
    }
    let rule = StatedRule { peers: Some(peers), ports: None };
    StatedPolicy { name, subjects: Selector::default(), ingress: Some(vec![rule]), egress: None }
}
