//! A real Kubernetes cluster on one machine, as a guard.
//!
//! [`Cluster::up`] starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler on a
//! control-plane machine, and on each node its own containerd, kubelet, kube-proxy and Open vSwitch.
//! Machines are namespaces (network, mounts, processes, names, IPC) with a disk of their own, on one
//! underlay. Nothing is mocked; nothing of it reaches the host's network but a port of the loopback,
//! which leads to the API server. Two clusters never meet. When the owner ends, however it ends, all
//! goes; logs are kept if something failed.
//!
//! ```no_run
//! # use osier_kubelab::{Cluster, Settings};
//! let cluster = Cluster::up(Settings { nodes: 2, dual: true, ..Settings::default() }).unwrap();
//! cluster.install_reference_network().unwrap(); // or what is to be tested
//! cluster.wait_until_ready().unwrap();
//! cluster.install_dns().unwrap();
//! cluster.kubectl(&["get", "nodes", "-o", "wide"]).unwrap();
//! cluster.nodes()[0].machine().run(&["ovs-vsctl", "show"]).unwrap();
//! // Faults:
//! cluster.control_plane().kill("kube-apiserver").unwrap();
//! cluster.control_plane().start("kube-apiserver").unwrap();
//! cluster.wait_for_api().unwrap();
//! cluster.reboot("node-1").unwrap();
//! ```
//!
//! Another network is installed in the place of [`Cluster::install_reference_network`]: load its image
//! ([`Cluster::load_image`]), apply its manifests ([`Cluster::apply`]), give the API server its way to
//! the pods ([`Cluster::route_pods`]), and wait ([`Cluster::wait_until_ready`]). A node's own files are
//! at their default places inside of its machine: `/etc/cni/net.d`, `/opt/cni/bin`,
//! `/run/openvswitch/db.sock`. Its uplink is `eth0`, in the bridge `br-phy` that has its addresses.
//!
//! Needs root, `scripts/install-packages kubernetes` and `scripts/install-kubernetes`; what is missing
//! is an error, never a skip. Kubelet sets a few parameters of the host's kernel that no namespace has
//! (`vm.overcommit_memory`, `kernel.panic`, `kernel.panic_on_oops`, `kernel.keys.root_maxkeys` and
//! `root_maxbytes`), and they stay.

mod cgroups;
mod cluster;
mod control_plane;
mod dns;
mod e2e;
mod error;
mod forward;
mod images;
mod install;
mod layout;
mod logs;
mod machine;
mod node;
mod osier;
mod phases;
mod pki;
mod reference;
mod report;
mod segment;
mod settings;
mod stale;
mod switch;

pub use cluster::Cluster;
pub use e2e::{BEYOND, CONFORMANCE, CONFORMANCE_DUAL, NOT_BEYOND, Suite, SuiteError};
pub use error::{ClusterError, MachineError};
pub use images::{AGNHOST, BUSYBOX, ImagesError, PAUSE};
pub use install::{Kubernetes, VERSION};
pub use layout::{Layout, Place};
pub use machine::Machine;
pub use node::Node;
pub use osier::{Osier, SERVICES};
pub use osier_testbed::{Command, Signal, Timeout, wait_until};
pub use report::{Difference, Outcome, Report, ReportError, Spec};
pub use settings::{Proxy, Settings};
