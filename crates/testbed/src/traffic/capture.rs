//! Captures of an interface to a pcap file, by `tcpdump`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::TrafficError;
use crate::netns::Netns;
use crate::process::Process;
use crate::wait::wait_until;

const READY: Duration = Duration::from_secs(5);

/// A running capture; a guard. The file goes with the lab.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    netns: Netns,
    file: PathBuf,
}

impl Capture {
    /// Captures what matches a filter in tcpdump's words (empty: all); returns once it listens.
    pub fn start(netns: &Netns, interface: &str, filter: &str) -> Result<Self, TrafficError> {
        let lab = netns.lab();
        let file = lab.dir().join(format!("{interface}.{}.pcap", lab.serial()));
        let process = netns
            .command("tcpdump")
            // Packet by packet into the file, and as root, whose directory it is.
            .args(["--immediate-mode", "-U", "-Z", "root", "-i", interface, "-w"])
            .arg(&file)
            .args(filter.split_whitespace())
            .spawn()?;
        wait_until("tcpdump to listen", READY, || {
            let said = process.stderr();
            if said.contains("listening on") { Ok(()) } else { Err(said) }
        })?;
        Ok(Self { process, netns: netns.clone(), file })
    }

    /// The pcap file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The packets so far, as `tcpdump -r` prints them with these options, one a line.
    pub fn packets(&self, options: &[&str]) -> Result<Vec<String>, TrafficError> {
        let text = self
            .netns
            .command("tcpdump")
            .args(["-n", "-t", "-r"])
            .arg(&self.file)
            .args(options)
            .run()?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Ends the capture; the file is complete.
    pub fn stop(mut self) -> Result<PathBuf, TrafficError> {
        self.process.stop(Signal::SIGINT, READY)?;
        Ok(self.file.clone())
    }
}
