//! Real switches, namespaces and traffic, as guards.
//!
//! A test starts with a [`Lab`] and asks it for what it needs: a [`Netns`], an [`OvsdbServer`], an
//! [`Ovs`], or a whole [`Fabric`] of nodes. Everything belongs to one lab, is named after it, and
//! goes with it, however the process ends: the lab's janitor is a process of its own that cleans up
//! when it sees the owner die. Two labs never meet, because each has its own names and its own
//! directory and all its traffic stays in its own namespaces.
//!
//! Missing privilege is an error, never a skip. When a test panics, each switch prints itself before
//! it goes; so a test should `unwrap` what it gets from here rather than return an `Err`, which
//! would end the guards before anything has failed.
//!
//! ```no_run
//! # use osier_testbed::{EndpointConfig, Fabric, Family, Lab, Node, Tunnel, traffic::ping};
//! let lab = Lab::new().unwrap();
//! let fabric = Fabric::new(&lab, Family::Ipv6, 2).unwrap();
//! let node = &fabric.nodes()[0];
//! node.add_tunnel_port(Tunnel::Geneve, "tunnel", 1).unwrap();
//! let pod = node.add_endpoint(&EndpointConfig::numbered("pod", 10)).unwrap();
//! node.ovs().add_flows(Node::INTEGRATION, "in_port=10 actions=drop").unwrap();
//! assert_eq!(ping(pod.netns(), [10, 77, 0, 11].into(), 3).unwrap().received, 0);
//! ```
//!
//! This crate knows nothing of Osier: what it reports comes from foreign tools (`ip`, `ovs-vsctl`,
//! `ovs-ofctl`, `ping`), so that it can judge our own code.

mod cargo;
mod command;
mod daemon;
mod dhclient;
mod endpoint;
mod etcd;
mod fabric;
mod janitor;
mod lab;
mod netns;
mod node;
mod ovs;
mod ovsdb_cluster;
mod ovsdb_server;
mod process;
pub mod traffic;
mod wait;

pub use cargo::cargo;
pub use command::{Command, CommandError, Output};
pub use daemon::DaemonError;
pub use dhclient::Dhclient;
pub use endpoint::{AttachError, Endpoint, EndpointConfig, MacAddr};
pub use etcd::Etcd;
pub use fabric::{Fabric, FabricError, Family};
pub use janitor::LAB_VARIABLE;
pub use lab::{Lab, LabError, NotRoot, require_root};
pub use netns::{Netns, NetnsError};
pub use node::{Node, Tunnel};
pub use ovs::{FailMode, Ovs};
pub use ovsdb_cluster::OvsdbCluster;
pub use ovsdb_server::{OvsdbServer, OvsdbServerBuilder, TlsFiles};
pub use process::{Process, Usage};
pub use wait::{Timeout, wait_until};

/// For [`Process::signal`].
pub use nix::sys::signal::Signal;
