//! Stands in the place of a CNI plugin: runs the plugin, and notes how long that took.
//!
//! Plugins of both sides are measured by it, in the same way. What it costs itself lies outside of
//! what it measures.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Where plugins are while it stands in their place.
const PLUGINS: &str = "/opt/cni/timed";
/// A line for each call: command, container, plugin, nanoseconds.
const TIMES: &str = "/run/cni-times";

fn main() -> ExitCode {
    let own = env::args_os().next().unwrap_or_default();
    let name = Path::new(&own).file_name().unwrap_or_default();
    let begun = Instant::now();
    let status = Command::new(Path::new(PLUGINS).join(name)).status();
    let took = begun.elapsed();
    note(&name.to_string_lossy(), took);
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            let code = status.code().or(status.signal()).and_then(|code| u8::try_from(code).ok());
            ExitCode::from(code.unwrap_or(1))
        }
        Err(error) => {
            eprintln!("{}: {error}", name.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}

/// In one write, so that calls of the same moment do not mix. What cannot be noted is missed by who
/// reads.
fn note(plugin: &str, took: Duration) {
    let said = |name| env::var(name).unwrap_or_else(|_| "-".to_owned());
    let (command, container) = (said("CNI_COMMAND"), said("CNI_CONTAINERID"));
    let line = format!("{command} {container} {plugin} {}\n", took.as_nanos());
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(TIMES) {
        let _ = file.write_all(line.as_bytes());
    }
}
