//! A node: its uplink and switch, containerd, kubelet, kube-proxy.

use crate::cgroups;
use crate::control_plane::spawn;
use crate::error::{ClusterError, MachineError};
use crate::images::PAUSE;
use crate::machine::Machine;
use crate::pki::Pki;
use crate::segment::{Segment, number};
use crate::settings::{CLUSTER_DNS, CONTROL_PLANE, Proxy, Settings, prefix_length};
use crate::switch;
use osier_testbed::{Lab, wait_until};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The uplink's name in the node.
pub(crate) const UPLINK: &str = "eth0";
const PATIENCE: Duration = Duration::from_mins(1);
/// How many zones nodes are in: the suite asks for three, with two nodes in each.
const ZONES: u8 = 3;

/// A node of the cluster.
#[derive(Debug)]
pub struct Node {
    machine: Arc<Machine>,
    number: u8,
    /// Of its next boot.
    addresses: Mutex<Vec<IpAddr>>,
    kubeconfig: PathBuf,
    cgroup: String,
}

impl Node {
    pub(crate) fn new(
        lab: &Lab,
        number: u8,
        programs: &Path,
        settings: &Settings,
        pki: &Pki,
    ) -> Result<Self, ClusterError> {
        let name = format!("node-{number}");
        let nameserver = settings.underlay(CONTROL_PLANE)[0].to_string();
        let machine = Machine::new(lab, &name, programs, nameserver)?;
        let kubeconfig = pki.client(&name, &format!("system:node:{name}"), Some("system:nodes"))?;
        Ok(Self {
            machine: Arc::new(machine),
            number,
            addresses: Mutex::new(settings.underlay(Settings::node_place(number))),
            kubeconfig,
            cgroup: format!("{}-{name}", lab.id()),
        })
    }

    /// Its name: `node-1`, `node-2` and so on.
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// Counted from 1.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Its machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Its addresses in the underlay: IPv4, and IPv6 in a dual-stack cluster.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it the addresses of another place in the underlay, from its next boot on.
    pub(crate) fn move_to(&self, place: u8, settings: &Settings) {
        let addresses = settings.underlay(place);
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Boots it, up to a container runtime that answers.
    pub(crate) fn boot(&self, segment: &Segment, settings: &Settings) -> Result<(), ClusterError> {
        let machine = &self.machine;
        let netns = machine.new_netns()?;
        segment.plug(&netns, self.name(), settings.mtu)?;
        machine.boot(netns.clone())?;
        cgroups::create(&self.cgroup)?;
        machine.set_group(cgroups::for_daemons(&self.cgroup));
        let interface = if settings.switch {
            switch::start(machine)?;
            switch::BRIDGE
        } else {
            UPLINK
        };
        number(&netns, interface, &self.addresses(), settings)?;
        for name in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            netns.sysctl(name, "1").map_err(MachineError::from)?;
        }
        for name in ["iptables", "ip6tables"] {
            // There from the first bridge on, where the kernel has it at all.
            let _ = netns.sysctl(&format!("net/bridge/bridge-nf-call-{name}"), "1");
        }
        machine.write("/etc/containerd/config.toml", containerd())?;
        machine.spawn("containerd", &["containerd"])?;
        wait_until(&format!("containerd on {}", self.name()), PATIENCE, || {
            machine.run(&["ctr", "version"])
        })
        .map_err(MachineError::from)?;
        Ok(())
    }

    /// Puts the images of an archive into its containerd.
    pub fn load_image(&self, archive: &Path) -> Result<(), ClusterError> {
        self.machine
            .command("ctr")?
            .args(["-n", "k8s.io", "images", "import"])
            .arg(archive)
            .deadline(Duration::from_mins(3))
            .run()?;
        Ok(())
    }

    /// Starts kubelet and, if there is to be one, kube-proxy.
    pub(crate) fn start_kubelet(&self, settings: &Settings, pki: &Pki) -> Result<(), ClusterError> {
        let machine = &self.machine;
        machine.write("/var/lib/kubelet/config.yaml", self.kubelet(pki))?;
        let addresses: Vec<String> = self.addresses().iter().map(IpAddr::to_string).collect();
        let args = [
            "--config=/var/lib/kubelet/config.yaml".to_owned(),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            format!("--hostname-override={}", self.name()),
            format!("--node-ip={}", addresses.join(",")),
            format!("--node-labels=topology.kubernetes.io/zone=zone-{}", self.number % ZONES),
        ];
        spawn(machine, "kubelet", &args)?;
        self.start_proxy(settings, pki)
    }

    fn start_proxy(&self, settings: &Settings, pki: &Pki) -> Result<(), ClusterError> {
        let mode = match settings.proxy {
            Proxy::None => return Ok(()),
            Proxy::Iptables => "iptables",
            Proxy::Nftables => "nftables",
        };
        let config = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {{kubeconfig: {}}}
clusterCIDR: \"{}\"
mode: {mode}
# The host's limits are not ours to set.
conntrack: {{maxPerCore: 0, min: 0}}
oomScoreAdj: 0
",
            pki.path("kube-proxy.conf").display(),
            settings.pod_ranges(),
        );
        self.machine.write("/var/lib/kube-proxy/config.yaml", config)?;
        let args = [
            "--config=/var/lib/kube-proxy/config.yaml".to_owned(),
            format!("--hostname-override={}", self.name()),
        ];
        spawn(&self.machine, "kube-proxy", &args)
    }

    fn kubelet(&self, pki: &Pki) -> String {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: \"{address}\"
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {ca}}}}}
authorization: {{mode: Webhook}}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
clusterDNS: [{CLUSTER_DNS}]
clusterDomain: cluster.local
# Two kubelets of one host must not meet in its control groups.
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
enforceNodeAllocatable: []
# The host's disk and memory are not the node's: it evicts nobody, and removes no image.
evictionHard: {{memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}}
imageGCHighThresholdPercent: 100
failSwapOn: false
# May be all that a host without CAP_SYS_RESOURCE allows.
maxOpenFiles: 20000
oomScoreAdj: 0
maxPods: 250
hairpinMode: hairpin-veth
serializeImagePulls: false
",
            address = self.addresses()[0],
            ca = pki.path("ca.crt").display(),
            cgroup = self.cgroup,
        )
    }

    /// What is left of a node whose machine is off.
    pub(crate) fn remove_cgroup(&self) {
        cgroups::remove(&self.cgroup);
    }

    /// The address of the node with the prefix of its family, for routes.
    pub(crate) fn gateway_for(&self, range: &str) -> Option<IpAddr> {
        let six = range.contains(':');
        self.addresses().into_iter().find(|address| address.is_ipv6() == six)
    }
}

fn containerd() -> String {
    format!(
        "version = 2
[plugins.\"io.containerd.grpc.v1.cri\"]
sandbox_image = \"{PAUSE}\"
# Without CAP_SYS_RESOURCE nobody may lower it.
restrict_oom_score_adj = true
enable_unprivileged_ports = true
enable_unprivileged_icmp = true
[plugins.\"io.containerd.grpc.v1.cri\".cni]
bin_dir = \"/opt/cni/bin\"
conf_dir = \"/etc/cni/net.d\"
"
    )
}

/// An address with its prefix, as `ip` wants it.
pub(crate) fn with_prefix(address: IpAddr) -> String {
    format!("{address}/{}", prefix_length(address))
}
