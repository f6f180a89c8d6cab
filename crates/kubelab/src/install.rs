//! Where `scripts/install-kubernetes` has put Kubernetes.

use crate::error::ClusterError;
use std::env;
use std::path::{Path, PathBuf};

/// The version of Kubernetes, as the script and the Go module beside this crate have it.
pub const VERSION: &str = "1.34.4";
/// The version of CoreDNS.
pub(crate) const COREDNS_VERSION: &str = "1.12.1";

const VARIABLE: &str = "OSIER_KUBERNETES_DIR";
/// What a cluster does not start without.
const NEEDED: &[&str] = &[
    "agnhost",
    "coredns",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "pause",
    "regression-issue-74839",
];

/// An installed Kubernetes.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    dir: PathBuf,
}

impl Kubernetes {
    /// The one in `OSIER_KUBERNETES_DIR`, or in the user's cache.
    pub fn find() -> Result<Self, ClusterError> {
        let found = Self { dir: folder() };
        match NEEDED.iter().find(|program| !found.program(program).is_file()) {
            None => Ok(found),
            Some(program) => Err(ClusterError::NotInstalled { dir: found.programs(), program }),
        }
    }

    /// Its folder, where images are kept as well.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder of its programs.
    pub fn programs(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// One of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join("bin").join(name)
    }
}

/// As the script has it.
fn folder() -> PathBuf {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(VARIABLE).unwrap_or_else(|| {
        variable("XDG_CACHE_HOME")
            .or_else(|| Some(variable("HOME")?.join(".cache")))
            .unwrap_or_else(|| "/var/cache".into())
            .join(format!("osier/kubernetes-{VERSION}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_module() {
        let module = include_str!("../kubernetes/go.mod");
        assert!(module.contains(&format!("k8s.io/kubernetes v{VERSION}\n")));
        let coredns = include_str!("../kubernetes/coredns/go.mod");
        assert!(coredns.contains(&format!("github.com/coredns/coredns v{COREDNS_VERSION}\n")));
        let script = include_str!("../../../scripts/install-kubernetes");
        assert!(script.contains(&format!("readonly version={VERSION}\n")));
    }
}
