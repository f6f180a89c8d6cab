//! What another process must know of a cluster in order to use it.

use osier_testbed::LAB_VARIABLE;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;

/// The facts of a cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Layout {
    /// The lab's name.
    pub id: String,
    /// The lab's folder.
    pub dir: PathBuf,
    /// Where Kubernetes' programs are.
    pub programs: PathBuf,
    /// For kubectl on the host.
    pub kubeconfig: PathBuf,
    /// For clients inside of the machines.
    pub kubeconfig_inside: PathBuf,
    /// The machines; the control plane comes first.
    pub machines: Vec<Place>,
}

/// A machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its PID 1, as the host numbers it.
    pub init: u32,
}

impl Layout {
    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.machines.len().saturating_sub(1)
    }

    /// A command inside of a machine; `None` if there is no such machine.
    pub fn command(&self, machine: &str, program: &str) -> Option<Command> {
        let init = self.machines.iter().find(|place| place.name == machine)?.init.to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &init, "-m", "-u", "-i", "-n", "-p", "--", program])
            .env("PATH", format!("{}:/usr/sbin:/sbin:{path}", self.programs.display()))
            .env("KUBECONFIG", &self.kubeconfig_inside)
            // What still runs when the cluster goes is ended with it.
            .env(LAB_VARIABLE, &self.id);
        Some(command)
    }
}
