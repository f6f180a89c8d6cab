//! The plugin called as a runtime calls it, with anything in its environment and its input.

use crate::lab::executables;
use crate::runtime::{NETWORK, Runtime};
use osier_testbed::Netns;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// One call, of a container of its own unless told otherwise.
#[derive(Clone)]
pub(crate) struct Invocation {
    variables: Vec<(&'static str, OsString)>,
    pub(crate) config: Value,
    input: Option<Vec<u8>>,
}

impl Invocation {
    /// A call without faults.
    pub(crate) fn new(runtime: &Runtime, command: &str, netns: &Netns) -> Self {
        let variables = [
            ("CNI_COMMAND", command.to_owned()),
            ("CNI_CONTAINERID", format!("container-{}", netns.name())),
            ("CNI_NETNS", format!("/run/netns/{}", netns.name())),
            ("CNI_IFNAME", "eth0".to_owned()),
            ("CNI_PATH", runtime.path()),
        ];
        let config = json!({"cniVersion": "1.1.0", "name": NETWORK, "type": "osier",
            "agentSocket": runtime.socket()});
        let variables = variables.map(|(name, value)| (name, value.into())).into();
        Self { variables, config, input: None }
    }

    /// With another value of a variable.
    pub(crate) fn set(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self = self.without(name);
        self.variables.push((name, value.into()));
        self
    }

    /// Without a variable.
    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.variables.retain(|(other, _)| *other != name);
        self
    }

    /// With a member of the configuration.
    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.config[member] = value.into();
        self
    }

    /// With these bytes instead of a configuration.
    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// Another command for the same container.
    pub(crate) fn then(&self, command: &str) -> Self {
        self.clone().set("CNI_COMMAND", command)
    }

    pub(crate) fn run(&self) -> Output {
        let mut child = self.command().stdin(Stdio::piped()).spawn().unwrap();
        let config = self.config.to_string().into_bytes();
        // It may refuse before it has read all.
        let _ = child.stdin.take().unwrap().write_all(self.input.as_ref().unwrap_or(&config));
        child.wait_with_output().unwrap()
    }

    /// The process, without its input.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(executables().join("osier-cni"));
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// It must succeed: what it printed.
    pub(crate) fn does(&self) -> Value {
        let output = self.run();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        if output.stdout.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// It must fail with this code, and say something: what.
    pub(crate) fn fails(&self, code: u32) -> String {
        let told = failure(&self.run());
        assert_eq!(told["code"], code, "{told}");
        format!("{} {}", told["msg"].as_str().unwrap(), told["details"])
    }
}

/// The error of a call that failed, in the specification's form.
pub(crate) fn failure(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told: Value = serde_json::from_str(&said).unwrap();
    assert!(told["cniVersion"].is_string() && told["code"].is_u64(), "{told}");
    assert!(!told["msg"].as_str().unwrap().is_empty(), "{told}");
    told
}
