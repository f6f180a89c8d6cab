//! Other CNI plugins: whose configuration a runtime would take instead of ours.

use super::{Plan, failed, warning, well};
use crate::client::answers::Check;
use osier_agent::netlink::link_exists;
use std::path::Path;

const NAME: &str = "other CNI";
const OWN: &str = "10-osier.conflist";
/// Interfaces that other networks leave behind, and whose.
const LEFT: [(&str, &str); 6] = [
    ("cni0", "bridge or flannel"),
    ("flannel.1", "flannel"),
    ("cilium_host", "cilium"),
    ("vxlan.calico", "calico"),
    ("weave", "weave"),
    ("antrea-gw0", "antrea"),
];

pub(super) fn check(plan: &Plan) -> Check {
    let folder = &plan.cni_folder;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let left = LEFT.into_iter().find(|(name, _)| link_exists(name).is_ok_and(|exists| exists));
    judge(&folder.display().to_string(), files, left)
}

fn judge(folder: &str, mut files: Vec<String>, left: Option<(&str, &str)>) -> Check {
    // As runtimes do: these endings, the first by name.
    let ends = |name: &String| {
        let end = Path::new(name).extension().and_then(|end| end.to_str());
        matches!(end, Some("conf" | "conflist" | "json")) && name != OWN
    };
    files.retain(ends);
    files.sort();
    let advice = |file: &str| {
        format!(
            "remove {folder}/{file} and the network that wrote it, on all nodes, when Osier is there"
        )
    };
    match (files.first(), left) {
        (Some(file), _) if file.as_str() < OWN => {
            let detail = format!("{folder}/{file} comes before {OWN}: runtimes would take it");
            failed(NAME, detail, advice(file))
        }
        (Some(file), _) => {
            let detail =
                format!("{folder}/{file} is another network's, and used until Osier's is there");
            warning(NAME, detail, advice(file))
        }
        (None, Some((interface, whose))) => warning(
            NAME,
            format!("{interface} was left behind ({whose})"),
            "remove it, and restart the node: its routes and rules may be in the way",
        ),
        (None, None) => well(NAME, "none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answers::CheckResult;

    #[test]
    fn the_first_by_name_wins() {
        let judge = |files: &[&str]| {
            let files = files.iter().map(|&file| file.to_owned()).collect();
            judge("/etc/cni/net.d", files, None)
        };
        assert_eq!(judge(&[OWN, "README", ".kubernetes-cni-keep"]).result, CheckResult::Ok);
        let early = judge(&["05-cilium.conflist", OWN]);
        assert!(early.result == CheckResult::Failed && early.detail.contains("05-cilium"));
        assert_eq!(judge(&["99-loopback.conf"]).result, CheckResult::Warning);
    }
}
