//! What a switch itself tells of its flows, by `ovs-ofctl`: how many there are, and which change when.

use anyhow::{Context, Result};
use osier_testbed::Ovs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use crate::node::PATIENCE;

/// Hears of each flow that the switch gets, changes or loses.
pub(crate) struct FlowMonitor {
    process: Child,
    events: mpsc::Receiver<(Instant, String)>,
}

/// Flow changes that were heard of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changes {
    pub(crate) count: usize,
    /// When the last of them was.
    pub(crate) last: Option<Instant>,
}

/// How many flows a bridge has.
pub(crate) fn count(ovs: &Ovs, bridge: &str) -> Result<usize> {
    let text = ovs.ofctl(&["dump-aggregate", bridge])?;
    let count = text.split_once("flow_count=").map(|(_, count)| count.trim());
    count.and_then(|count| count.parse().ok()).with_context(|| {
        format!("no number of flows in what `ovs-ofctl dump-aggregate` said: {text}")
    })
}

// === impl FlowMonitor ===

impl FlowMonitor {
    /// Follows `br-int` of the switch whose directory this is.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let socket = format!("unix:{}", dir.join("br-int.mgmt").display());
        // It tells on standard error, a line a flow, at once.
        let mut process = Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow15", "monitor", &socket, "watch:!initial"])
            .env("OVS_RUNDIR", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("ovs-ofctl cannot be run")?;
        let stderr = process.stderr.take().context("it is piped")?;
        let (tell, events) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if line.contains("event=") && tell.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, events })
    }

    /// Waits until the switch has told of a new flow with some text.
    pub(crate) fn await_added(&self, text: &str) -> Result<()> {
        let mut last = String::new();
        loop {
            let event = self.events.recv_timeout(PATIENCE);
            last = event.with_context(|| format!("no flow with {text}; the last was: {last}"))?.1;
            if last.contains("event=ADDED") && last.contains(text) {
                return Ok(());
            }
        }
    }

    /// What was heard since it was last asked.
    pub(crate) fn changes(&self) -> Changes {
        let since =
            |changes: Changes, (at, _)| Changes { count: changes.count + 1, last: Some(at) };
        self.events.try_iter().fold(Changes { count: 0, last: None }, since)
    }
}

impl Drop for FlowMonitor {
    fn drop(&mut self) {
        // It may have ended with its switch.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
