//! The kernel: its age, and the modules that the datapath and the firewall need.

use super::{Plan, failed, skipped, warning, well};
use crate::client::answers::Check;
use std::path::Path;

/// NAT in tables of both families, as the agent's is, came with 5.2; this is the next that lasted.
const OLDEST: (u32, u32) = (5, 4);

pub(super) fn check(plan: &Plan) -> Vec<Check> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut checks = vec![age(release)];
    let modules = Modules::of(release);
    // The kernel's own side of the switch, and of its tunnels.
    for name in ["openvswitch", "geneve"] {
        checks.push(datapath(name, modules.find(name), plan.userspace));
    }
    checks.push(tables(modules.find("nf_tables")));
    checks
}

fn age(release: &str) -> Check {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if version >= OLDEST {
        return well("kernel", format!("Linux {release}"));
    }
    let (major, minor) = OLDEST;
    let detail = format!("Linux {release} is older than {major}.{minor}");
    failed("kernel", detail, format!("use Linux {major}.{minor} or newer"))
}

/// Whether a module can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Loaded,
    Loadable,
    Missing,
    /// Its modules cannot be seen from here, as in a container.
    Unknown,
}

/// Lists of all modules of a kernel, one path a line.
struct Modules(Option<String>);

impl Modules {
    fn of(release: &str) -> Self {
        let folder = Path::new("/lib/modules").join(release);
        let read = |name| std::fs::read_to_string(folder.join(name)).ok();
        let (loadable, inside) = (read("modules.dep"), read("modules.builtin"));
        let known = loadable.is_some() || inside.is_some();
        let all = || loadable.unwrap_or_default() + &inside.unwrap_or_default();
        Self(known.then(all))
    }

    fn find(&self, name: &str) -> Presence {
        if Path::new("/sys/module").join(name).exists() {
            return Presence::Loaded;
        }
        self.0.as_deref().map_or(Presence::Unknown, |list| listed(list, name))
    }
}

/// `kernel/net/openvswitch/openvswitch.ko.xz: kernel/net/…`
fn listed(list: &str, name: &str) -> Presence {
    let file = format!("/{name}.ko");
    let is_it = |line: &str| line.split(':').next().is_some_and(|path| path.contains(&file));
    if list.lines().any(is_it) { Presence::Loadable } else { Presence::Missing }
}

fn datapath(name: &str, presence: Presence, userspace: bool) -> Check {
    let title = format!("module {name}");
    match presence {
        _ if userspace => skipped(&title, "the switch's own datapath needs no module"),
        Presence::Loaded => well(&title, "loaded"),
        Presence::Loadable => well(&title, "there, and loaded when it is needed"),
        Presence::Missing => failed(
            &title,
            "this kernel does not have it",
            "install the kernel's further modules (linux-modules-extra), or set datapath=netdev",
        ),
        Presence::Unknown => skipped(&title, "not loaded; what could be is not seen from here"),
    }
}

fn tables(presence: Presence) -> Check {
    let title = "nftables";
    match (super::said("nft", &["list", "tables"]), presence) {
        (Some(_), _) => well(title, "nft works"),
        (None, Presence::Missing) => {
            failed(title, "the kernel has no nf_tables", "use a kernel with CONFIG_NF_TABLES")
        }
        (None, _) => warning(
            title,
            "nft is not here, or may not be used",
            "run this as root. Osier's image brings nft along; without the image, install nftables",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answers::CheckResult;

    #[test]
    fn old_kernels_are_refused() {
        for (release, result) in [
            ("6.1.0-23-amd64", CheckResult::Ok),
            ("5.4.0", CheckResult::Ok),
            ("5.3.18-lp152", CheckResult::Failed),
            ("4.18.0-553.el8.x86_64", CheckResult::Failed),
            ("", CheckResult::Failed),
        ] {
            assert_eq!(age(release).result, result, "{release}");
        }
    }

    #[test]
    fn modules_are_found_by_their_name() {
        let list = "kernel/net/openvswitch/openvswitch.ko.xz: kernel/net/nsh/nsh.ko\n\
                    kernel/net/openvswitch/vport-geneve.ko: kernel/drivers/net/geneve.ko\n";
        assert_eq!(listed(list, "openvswitch"), Presence::Loadable);
        assert_eq!(listed(list, "geneve"), Presence::Missing, "only named as needed by another");
        let missing = datapath("openvswitch", Presence::Missing, false);
        assert!(missing.result == CheckResult::Failed && missing.advice.contains("netdev"));
        assert_eq!(
            datapath("openvswitch", Presence::Missing, true).result,
            CheckResult::Skipped,
            "nobody needs it"
        );
    }
}
