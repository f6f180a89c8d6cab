//! Open vSwitch: whether it answers, and how old it is.

use super::{Plan, failed, skipped, warning, well};
use crate::client::answers::Check;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const NAME: &str = "Open vSwitch";
const OLDEST: (u32, u32) = (3, 1);
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest answer that is read.
const LONGEST: usize = 1 << 16;

pub(super) fn check(plan: &Plan) -> Check {
    let place = plan.database.display();
    match (ask(&plan.database), plan.brings_switch) {
        (Err(_), true) => well(NAME, "none of its own: Osier brings it along"),
        (Ok(_), true) => failed(
            NAME,
            format!("one runs already, at {place}"),
            "use it (ovs.install=false), or stop it on all nodes",
        ),
        (Err(error), false) if error.kind() == io::ErrorKind::PermissionDenied => {
            skipped(NAME, format!("{place} is for root only: run this as root"))
        }
        (Err(error), false) => failed(
            NAME,
            format!("nobody answers at {place}: {error}"),
            "install openvswitch-switch and start it, or let Osier bring it along (ovs.install=true)",
        ),
        (Ok(answer), false) => age(version_of(&answer).as_deref()),
    }
}

fn age(version: Option<&str>) -> Check {
    let (major, minor) = OLDEST;
    match version {
        Some(version) if numbers(version) >= OLDEST => well(NAME, format!("{version} answers")),
        Some(version) => failed(
            NAME,
            format!("{version} is too old"),
            format!("use {major}.{minor} or newer, or let Osier bring it along (ovs.install=true)"),
        ),
        None => warning(
            NAME,
            "its database answers, but does not say the switch's version",
            format!("see that ovs-vswitchd runs, and is {major}.{minor} or newer"),
        ),
    }
}

/// Asks the database for the switch's own row (RFC 7047, section 4.1.3).
fn ask(socket: &Path) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let select =
        json!({"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["ovs_version"]});
    let question = json!({"method": "transact", "params": ["Open_vSwitch", select], "id": 0});
    stream.write_all(question.to_string().as_bytes())?;
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while heard.len() < LONGEST {
        let count = stream.read(&mut buffer)?;
        heard.extend_from_slice(&buffer[..count]);
        // Nothing tells where it ends, but that it is whole.
        if let Ok(answer) = serde_json::from_slice(&heard) {
            return Ok(answer);
        }
        if count == 0 {
            break;
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is no database of a switch"))
}

/// A column that may be empty is a set: `["set", []]`.
fn version_of(answer: &Value) -> Option<String> {
    let version = answer.pointer("/result/0/rows/0/ovs_version")?.as_str()?;
    Some(version.to_owned())
}

fn numbers(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answers::CheckResult;

    #[test]
    fn versions_are_compared_as_numbers() {
        let result = |version| age(version).result;
        assert_eq!(result(Some("3.1.0")), CheckResult::Ok);
        assert_eq!(result(Some("3.10.2")), CheckResult::Ok);
        assert_eq!(result(Some("2.17.9")), CheckResult::Failed);
        assert_eq!(result(None), CheckResult::Warning);
    }

    #[test]
    fn an_empty_version_is_none() {
        let answer = |version: Value| json!({"result": [{"rows": [{"ovs_version": version}]}]});
        assert_eq!(version_of(&answer(json!("3.1.0"))).as_deref(), Some("3.1.0"));
        assert_eq!(version_of(&answer(json!(["set", []]))), None);
        assert_eq!(version_of(&json!({"error": "unknown database"})), None);
    }
}
