//! Osier as a cluster's network, installed as its users install it: an image and a manifest.

use crate::cluster::Cluster;
use crate::error::{ClusterError, file};
use osier_testbed::Lab;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long each step may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// Values with which Osier makes Services real: the controller finds the API server without them.
pub const SERVICES: [&str; 3] =
    ["services=osier", "apiServer.host=172.22.0.1", "apiServer.port=6443"];

/// What a user has in hand.
#[derive(Debug, Clone)]
pub struct Osier {
    /// The archive with the image.
    pub image: PathBuf,
    /// The manifest that names it.
    pub manifest: String,
}

// === impl Osier ===

impl Osier {
    /// Made of programs that cargo has built (`osier`, `osier-agent` and `xtask` in one folder, `osier-cni` where
    /// `make cni` puts it): an image with this tag, and the manifest with these values, as
    /// `values.yaml` calls them.
    pub fn of_programs(
        lab: &Lab,
        programs: &Path,
        tag: &str,
        values: &[&str],
    ) -> Result<Self, ClusterError> {
        let folder = lab.dir().join(format!("osier-{tag}"));
        std::fs::create_dir_all(&folder).map_err(file("make", &folder))?;
        let host = lab.host();
        // It runs on nodes as they are: `make cni` makes it static.
        let plugin = programs.join("../plugin/osier-cni");
        let [osier, agent] = ["osier", "osier-agent"].map(|name| (name, programs.join(name)));
        let ours = [osier, agent, ("osier-cni", plugin)];
        // Earlier builds had no program for the agent alone.
        for (name, program) in ours.into_iter().filter(|(_, program)| program.exists()) {
            // With what debuggers need they would be ten times as large.
            let strip = host.command("strip").arg("-o").arg(folder.join(name)).arg(program);
            strip.deadline(PATIENCE).run()?;
        }
        let image = folder.join("image.tar");
        let name = format!("osier.dev/osier:{tag}");
        let xtask = programs.join("xtask").display().to_string();
        host.command(&xtask)
            .args(["image", "--plain", "--name", &name])
            .arg("--binaries")
            .arg(&folder)
            .arg("--out")
            .arg(&image)
            .deadline(PATIENCE)
            .run()?;
        let tag = format!("image.tag={tag}");
        let set = values.iter().copied().chain([tag.as_str()]).flat_map(|value| ["--set", value]);
        let deploy = host.command(&xtask).args(["deploy", "--print"]).args(set);
        Ok(Self { image, manifest: deploy.deadline(PATIENCE).run()? })
    }
}

impl Cluster {
    /// Installs Osier, or upgrades it, and waits until all of it runs and every node is ready.
    pub fn install_osier(&self, osier: &Osier) -> Result<(), ClusterError> {
        self.load_image(&osier.image)?;
        self.apply(&osier.manifest)?;
        self.route_pods()?;
        for part in ["deployment/osier-controller", "daemonset/osier-agent"] {
            let args = ["rollout", "status", part, "-n", "osier-system", "--timeout=170s"];
            self.kubectl_command().args(args).deadline(PATIENCE).run()?;
        }
        self.wait_until_ready()
    }
}
