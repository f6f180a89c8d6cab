//! A real switch of its own to measure on: it is filled, counted and emptied by `ovs-ofctl`, never
//! by the code that is measured.

use crate::flows;
use anyhow::{Context, Result, ensure};
use osier_openflow::session::Endpoint;
use osier_testbed::{Endpoint as TestEndpoint, EndpointConfig, FailMode, Lab, Ovs, wait_until};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const BRIDGE: &str = "br-int";
/// What may take long here takes seconds.
const PATIENCE: Duration = Duration::from_mins(1);
/// A daemon that used less CPU in this time than a tenth of it is idle.
const PAUSE: Duration = Duration::from_millis(200);

/// A switch with one bridge, empty at first; goes with its owner.
#[derive(Debug)]
pub(crate) struct Switch {
    ovs: Ovs,
    lab: Lab,
}

impl Switch {
    pub(crate) fn start() -> Result<Self> {
        let lab = Lab::new()?;
        let ovs = Ovs::start(&lab.netns("switch")?, "switch")?;
        ovs.add_bridge(BRIDGE, FailMode::Secure)?;
        Ok(Self { ovs, lab })
    }

    /// Where its bridge speaks OpenFlow.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.ovs.mgmt_socket(BRIDGE))
    }

    /// Where its database listens.
    pub(crate) fn db_socket(&self) -> PathBuf {
        self.ovs.db_socket()
    }

    /// Attaches a pod.
    pub(crate) fn attach(&self, config: &EndpointConfig) -> Result<TestEndpoint> {
        Ok(TestEndpoint::attach(&self.ovs, BRIDGE, config)?)
    }

    pub(crate) fn vsctl(&self, args: &[&str]) -> Result<()> {
        Ok(self.ovs.vsctl(args).map(drop)?)
    }

    pub(crate) fn kill_vswitchd(&mut self) {
        self.ovs.kill_vswitchd();
    }

    pub(crate) fn start_vswitchd(&mut self) -> Result<()> {
        Ok(self.ovs.start_vswitchd()?)
    }

    /// Keeps a text in a file that goes with the switch.
    pub(crate) fn keep(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.lab.dir().join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// `ovs-ofctl` as the rival: a plain child that says nothing, with the bridge as its argument
    /// behind `options`, the command included.
    pub(crate) fn ofctl(&self, options: &[&str]) -> Command {
        let mut command = Command::new("ovs-ofctl");
        command
            .args([
                "-O",
                "OpenFlow15",
                "-vconsole:err",
                &format!("--timeout={}", PATIENCE.as_secs()),
            ])
            .args(options)
            .arg(self.endpoint().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Fails unless it has so many flows.
    pub(crate) fn expect_flows(&self, wanted: usize) -> Result<()> {
        let count = flows::count(&self.ovs, BRIDGE)?;
        ensure!(count == wanted, "the switch has {count} flows instead of {wanted}");
        Ok(())
    }

    /// Its flows as `ovs-ofctl` prints them, without counters.
    pub(crate) fn flows(&self) -> Result<BTreeSet<String>> {
        let text = self.ovs.ofctl(&["--no-stats", "dump-flows", BRIDGE])?;
        // The first line is the reply's header; lines of flows start with a space.
        Ok(text.lines().filter(|line| line.starts_with(' ')).map(str::to_owned).collect())
    }

    /// Deletes all flows and waits until that has cost what it costs: rules are freed later than
    /// the switch says that they are gone.
    pub(crate) fn clear(&self) -> Result<()> {
        self.ovs.ofctl(&["del-flows", BRIDGE])?;
        self.expect_flows(0)?;
        self.settle()
    }

    /// Waits until `ovs-vswitchd` rests.
    pub(crate) fn settle(&self) -> Result<()> {
        let cpu = || self.ovs.vswitchd_usage().map(|usage| usage.cpu);
        let mut before = cpu()?;
        wait_until("ovs-vswitchd to rest", PATIENCE, || {
            std::thread::sleep(PAUSE);
            let now = cpu().map_err(|error| error.to_string())?;
            let used = now.saturating_sub(std::mem::replace(&mut before, now));
            if used < PAUSE / 10 { Ok(()) } else { Err(format!("{used:?} of CPU in {PAUSE:?}")) }
        })?;
        Ok(())
    }
}
