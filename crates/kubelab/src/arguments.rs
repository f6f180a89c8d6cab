//! The command line of `kubelab`.

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use osier_kubelab::{BEYOND, Cluster, NOT_BEYOND, Osier, Proxy, SERVICES, Settings, Suite};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A real Kubernetes cluster on this machine.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Which cluster.
    #[arg(long, default_value = "default", global = true)]
    pub(crate) name: String,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Brings a cluster up, and leaves it running
    Up(ClusterArguments),
    /// Owns a cluster: what `up` leaves running
    #[command(hide = true)]
    Keep(ClusterArguments),
    /// Ends a cluster
    Down,
    /// Shows nodes and pods
    Status,
    /// Runs a command on a machine: `cp`, `node-1`, ...
    Exec {
        /// The machine
        machine: String,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Runs kubectl
    Kubectl {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Runs specs of the end-to-end suite on a cluster that is up
    E2e(RunArguments),
    /// Brings a cluster up, runs specs of the end-to-end suite, and ends it
    Conformance {
        #[command(flatten)]
        cluster: ClusterArguments,
        #[command(flatten)]
        run: RunArguments,
    },
}

/// What the cluster is to be like.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterArguments {
    /// How many nodes
    #[arg(long, default_value_t = 2)]
    pub(crate) nodes: u8,
    /// IPv4 and IPv6
    #[arg(long)]
    pub(crate) dual: bool,
    /// Who makes Services real
    #[arg(long, value_enum, default_value_t = ProxyArgument::Iptables)]
    pub(crate) proxy: ProxyArgument,
    /// The pods' network
    #[arg(long, value_enum, default_value_t = Network::Osier)]
    pub(crate) cni: Network,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ProxyArgument {
    /// There is none
    None,
    Iptables,
    Nftables,
    /// Osier itself, without any kube-proxy
    Osier,
}

/// What connects pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Network {
    /// Nothing: nodes stay as they are, not ready
    None,
    /// The reference: bridge, host-local and portmap, with routes
    Bridge,
    /// Osier, of the programs that lie beside this one
    Osier,
}

/// What is run, and what it is compared with.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArguments {
    /// Specs whose name matches; if not given, those of networks that every cluster must pass
    #[arg(long)]
    pub(crate) focus: Option<String>,
    /// Specs whose name does not; SCTP takes a kernel that has it
    #[arg(long, default_value = r"\[Feature:SCTPConnectivity\]")]
    pub(crate) skip: String,
    /// Specs of Services beyond those that every cluster must pass, instead
    #[arg(long, conflicts_with_all = ["focus", "skip"])]
    pub(crate) beyond: bool,
    /// How many run at once
    #[arg(long, default_value_t = 4)]
    pub(crate) procs: u8,
    /// When the run is cut short
    #[arg(long, default_value_t = 60)]
    pub(crate) minutes: u64,
    /// Where logs and reports go
    #[arg(long, default_value = "target/e2e")]
    pub(crate) out: PathBuf,
    /// A table of results: what passes there must pass here
    #[arg(long)]
    pub(crate) baseline: Option<PathBuf>,
    /// Where to write the table of results
    #[arg(long)]
    pub(crate) record: Option<PathBuf>,
}

// === impl ClusterArguments ===

impl ClusterArguments {
    fn settings(&self) -> Settings {
        Settings {
            nodes: self.nodes,
            dual: self.dual,
            proxy: match self.proxy {
                ProxyArgument::None | ProxyArgument::Osier => Proxy::None,
                ProxyArgument::Iptables => Proxy::Iptables,
                ProxyArgument::Nftables => Proxy::Nftables,
            },
            // The reference has no need of a switch.
            switch: self.cni != Network::Bridge,
            ..Settings::default()
        }
    }

    /// Brings the cluster up, with its network and resolver.
    pub(crate) fn up(&self) -> Result<Cluster> {
        let cluster = Cluster::up(self.settings())?;
        match self.cni {
            Network::None => return Ok(cluster),
            Network::Bridge => cluster.install_reference_network()?,
            Network::Osier => cluster.install_osier(&self.osier(&cluster)?)?,
        }
        cluster.tell("nodes ready");
        // It asks the API server by the address of a service.
        if !matches!(self.proxy, ProxyArgument::None) {
            cluster.install_dns()?;
            cluster.tell("names resolved");
        }
        Ok(cluster)
    }

    fn osier(&self, cluster: &Cluster) -> Result<Osier> {
        let this = std::env::current_exe()?;
        let programs = this.parent().context("a program lies in a folder")?;
        let mut values = vec!["datapath=netdev"];
        if matches!(self.proxy, ProxyArgument::Osier) {
            values.extend(SERVICES);
        }
        Osier::of_programs(cluster.lab(), programs, env!("CARGO_PKG_VERSION"), &values)
            .context("Osier cannot be packed: build osier, osier-cni and xtask beside this program")
    }

    /// These arguments, for another process of this program.
    pub(crate) fn to_words(&self) -> Vec<String> {
        let word = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let mut words = vec![
            format!("--nodes={}", self.nodes),
            format!("--proxy={}", word(self.proxy.to_possible_value())),
            format!("--cni={}", word(self.cni.to_possible_value())),
        ];
        words.extend(self.dual.then(|| "--dual".to_owned()));
        words
    }
}

// === impl RunArguments ===

impl RunArguments {
    pub(crate) fn suite(&self, default_focus: &str) -> Suite {
        let (focus, skip) = match self.beyond {
            true => (BEYOND, NOT_BEYOND),
            false => (self.focus.as_deref().unwrap_or(default_focus), self.skip.as_str()),
        };
        Suite {
            focus: focus.to_owned(),
            skip: skip.to_owned(),
            processes: self.procs,
            timeout: Duration::from_mins(self.minutes),
            arguments: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_keeper_gets_what_was_asked_for() {
        let words = ["kubelab", "up", "--nodes=3", "--dual", "--proxy=nftables", "--cni=bridge"];
        let Verb::Up(asked) = Arguments::parse_from(words).verb else { panic!("not up") };
        let words = ["kubelab", "keep"].map(str::to_owned).into_iter().chain(asked.to_words());
        let Verb::Keep(kept) = Arguments::parse_from(words).verb else { panic!("not keep") };
        assert_eq!(format!("{asked:?}"), format!("{kept:?}"));
    }
}
