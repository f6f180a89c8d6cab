//! `dhclient` with all that Debian does around it, in a namespace, with an `/etc` of its own.

use crate::command::{Command, CommandError};
use crate::{Lab, Netns, Process};
use std::path::PathBuf;

/// A client of one family; see the module.
#[derive(Debug)]
pub struct Dhclient {
    netns: Netns,
    family: &'static str,
    interface: String,
    etc: PathBuf,
}

impl Dhclient {
    /// A client of IPv4 or IPv6 that has not asked yet.
    pub fn new(
        lab: &Lab,
        netns: &Netns,
        is_ipv6: bool,
        interface: &str,
    ) -> Result<Self, CommandError> {
        let family = if is_ipv6 { "-6" } else { "-4" };
        let etc = lab.dir().join(format!("etc-{}{family}", netns.name()));
        netns.run(&["cp", "-a", "/etc", &etc.display().to_string()])?;
        Ok(Self { netns: netns.clone(), family, interface: interface.to_owned(), etc })
    }

    fn command(&self, flag: &str) -> Command {
        let (etc, at) = (self.etc.display(), self.etc.join("dhclient"));
        let (leases, pid) = (at.with_extension("leases"), at.with_extension("pid"));
        let script = format!(
            "mount --bind {etc} /etc && exec dhclient {} -v -lf {} -pf {} {flag} {}",
            self.family,
            leases.display(),
            pid.display(),
            self.interface,
        );
        self.netns.command("unshare").args(["-m", "sh", "-c", &script])
    }

    /// Asks, and renews, until it is stopped.
    pub fn start(&self) -> Result<Process, CommandError> {
        self.command("-d").spawn()
    }

    /// Gives the lease back, as at the end of a machine.
    pub fn release(&self) -> Result<(), CommandError> {
        self.command("-r").output().map(drop)
    }

    /// What it wrote of name servers.
    pub fn resolv_conf(&self) -> String {
        std::fs::read_to_string(self.etc.join("resolv.conf")).unwrap_or_default()
    }
}
