//! The process that outlives a lab in order to remove it.
//!
//! `Drop` is not run on ctrl-C, on `process::exit` or on SIGKILL, so it cannot own the cleanup. The
//! janitor can: it sits in a process group of its own, where the terminal's ctrl-C does not reach
//! it, and reads its standard input. However the owner ends, the kernel closes the pipe. A normal
//! end closes it too, then waits: there is one way to clean up, and each run exercises it.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Names the lab in the environment of each of its processes: who carries it goes with the lab.
pub const LAB_VARIABLE: &str = "OSIER_TESTBED_LAB";

#[derive(Debug)]
pub(crate) struct Janitor(Child);

impl Janitor {
    pub(crate) fn start(lab: &str, dir: &Path) -> io::Result<Self> {
        Command::new("sh")
            .args(["-c", include_str!("janitor.sh"), "osier-janitor", lab])
            .arg(dir)
            .arg(LAB_VARIABLE)
            // A lab within a lab: the outer janitor must not end the inner one before its work.
            .env_remove(LAB_VARIABLE)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
    }

    /// Lets the janitor clean up and returns its complaints, one a line.
    pub(crate) fn dismiss(&mut self) -> io::Result<String> {
        drop(self.0.stdin.take());
        let mut complaints = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut complaints)?;
        }
        self.0.wait()?;
        Ok(complaints)
    }
}
