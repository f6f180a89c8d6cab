//! The environment that a runtime calls a plugin in (specification, section 2, "Parameters").

use super::{Code, Error, Version};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// What the runtime wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Command {
    /// Attach a container to the network.
    Add,
    /// Detach it.
    Del,
    /// See whether it is as its ADD left it.
    Check,
    /// Say whether an ADD could be served.
    Status,
    /// Remove what belongs to no valid attachment.
    Gc,
    /// Say which versions are supported.
    Version,
}

impl Command {
    const ALL: [Self; 6] =
        [Self::Add, Self::Del, Self::Check, Self::Status, Self::Gc, Self::Version];

    /// As it is written in `CNI_COMMAND`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Status => "STATUS",
            Self::Gc => "GC",
            Self::Version => "VERSION",
        }
    }

    /// The first version of the specification that has the command.
    pub const fn since(self) -> Version {
        match self {
            Self::Add | Self::Del | Self::Version => Version::V0_1_0,
            Self::Check => Version::V0_4_0,
            Self::Status | Self::Gc => Version::V1_1_0,
        }
    }

    /// Whether the command is about one container's interface.
    pub const fn is_about_a_container(self) -> bool {
        matches!(self, Self::Add | Self::Del | Self::Check)
    }

    fn parse(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|c| c.as_str() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Error::environment(format!("CNI_COMMAND {text:?} is unknown: it is one of {known}"))
        })
    }

    /// Refuses a command that the configuration's version does not have yet.
    pub fn require(self, version: Version) -> Result<(), Error> {
        if version >= self.since() {
            return Ok(());
        }
        let msg = format!(
            "cniVersion {version} has no {}: write {} or later in the configuration",
            self.as_str(),
            self.since()
        );
        Err(Error::new(Code::INCOMPATIBLE_VERSION, msg))
    }
}

/// The variables of a call. What is not set is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    /// `CNI_COMMAND`.
    pub command: Command,
    /// `CNI_CONTAINERID`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// `CNI_NETNS`: the path of the container's network namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub netns: String,
    /// `CNI_IFNAME`: the interface's name in the container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ifname: String,
    /// `CNI_ARGS`, unread: see [`super::CniArgs`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub args: String,
    /// `CNI_PATH`: where plugins are looked for, separated by colons.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// `CNI_NETNS_OVERRIDE`: the namespace may be the plugin's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub netns_override: bool,
}

impl Environment {
    /// Reads the variables through `get` and checks those that the command needs.
    pub fn read(get: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let text = |name: &str| match get(name).map(OsString::into_string) {
            None => Ok(String::new()),
            Some(Ok(text)) => Ok(text),
            Some(Err(_)) => Err(Error::environment(format!("{name} is not UTF-8"))),
        };
        let command = text("CNI_COMMAND")?;
        if command.is_empty() {
            return Err(Error::environment("CNI_COMMAND is not set"));
        }
        let netns_override = text("CNI_NETNS_OVERRIDE")?;
        let environment = Self {
            command: Command::parse(&command)?,
            container_id: text("CNI_CONTAINERID")?,
            netns: text("CNI_NETNS")?,
            ifname: text("CNI_IFNAME")?,
            args: text("CNI_ARGS")?,
            path: text("CNI_PATH")?,
            netns_override: netns_override == "1" || netns_override.eq_ignore_ascii_case("true"),
        };
        environment.check()?;
        Ok(environment)
    }

    /// Checks what the command needs, naming every variable that is missing, or the first that is
    /// wrong.
    pub fn check(&self) -> Result<(), Error> {
        if !self.command.is_about_a_container() {
            return Ok(());
        }
        // DEL comes without a namespace when that is gone already.
        let needs_netns = self.command != Command::Del;
        let missing: Vec<&str> = [
            ("CNI_CONTAINERID", self.container_id.is_empty()),
            ("CNI_NETNS", needs_netns && self.netns.is_empty()),
            ("CNI_IFNAME", self.ifname.is_empty()),
        ]
        .into_iter()
        .filter_map(|(name, is_missing)| is_missing.then_some(name))
        .collect();
        if !missing.is_empty() {
            let msg = format!("{} needs {} to be set", self.command.as_str(), missing.join(", "));
            return Err(Error::environment(msg));
        }
        check_identifier("CNI_CONTAINERID", &self.container_id).map_err(Error::environment)?;
        check_interface_name("CNI_IFNAME", &self.ifname).map_err(Error::environment)?;
        if !self.netns.is_empty() && (!self.netns.starts_with('/') || self.netns.contains('\0')) {
            let msg = format!("CNI_NETNS {:?} is not an absolute path", self.netns);
            return Err(Error::environment(msg));
        }
        Ok(())
    }
}

/// Whether a text is what the specification allows for containers and networks: a letter or digit,
/// then those, `_`, `.` and `-`.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Says what is wrong with an identifier. The specification sets no length; 253 is Kubernetes'.
pub(crate) fn check_identifier(what: &str, text: &str) -> Result<(), String> {
    if !is_identifier(text) {
        return Err(format!(
            "{what} {text:?} must begin with a letter or digit, followed by letters, digits, '_', '.' or '-'"
        ));
    }
    if text.len() > 253 {
        return Err(format!("{what} has {} characters, more than 253", text.len()));
    }
    Ok(())
}

/// Says what is wrong with an interface's name: the rules of the specification, which are Linux'.
pub(crate) fn check_interface_name(what: &str, name: &str) -> Result<(), String> {
    let reason = if name.is_empty() {
        "is empty"
    } else if name.len() > 15 {
        "is longer than 15 bytes"
    } else if matches!(name, "." | "..") {
        "is a directory's name"
    } else if name.chars().any(|c| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control()) {
        "contains '/', ':', a space or a control character"
    } else {
        return Ok(());
    };
    Err(format!("{what} {name:?} {reason}: choose a name such as eth0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: [(&str, &str); 6] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c0ffee_1.2-3"),
        ("CNI_NETNS", "/run/netns/x"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", "IgnoreUnknown=1"),
        ("CNI_PATH", "/opt/cni/bin:/usr/lib/cni"),
    ];

    fn read_with(changes: &[(&str, &str)]) -> Result<Environment, Error> {
        Environment::read(|name| {
            let all = changes.iter().chain(&FULL);
            let value = all.clone().find(|(n, _)| *n == name).map(|(_, v)| *v)?;
            Some(value.into())
        })
    }

    #[test]
    fn a_full_environment_reads() {
        let environment = read_with(&[("CNI_NETNS_OVERRIDE", "True")]).unwrap();
        assert_eq!(environment.command, Command::Add);
        assert_eq!(environment.path, "/opt/cni/bin:/usr/lib/cni");
        assert!(environment.netns_override);
        assert!(!read_with(&[]).unwrap().netns_override);
    }

    #[test]
    fn what_a_command_needs_is_named() {
        let empty = [("CNI_CONTAINERID", ""), ("CNI_NETNS", ""), ("CNI_IFNAME", "")];
        let message = |command| {
            let mut changes = empty.to_vec();
            changes.push(("CNI_COMMAND", command));
            read_with(&changes).map_err(|e| (e.code.0, e.msg))
        };
        let all = "needs CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME to be set";
        assert_eq!(message("ADD").unwrap_err(), (4, format!("ADD {all}")));
        assert_eq!(message("CHECK").unwrap_err(), (4, format!("CHECK {all}")));
        let del = "DEL needs CNI_CONTAINERID, CNI_IFNAME to be set";
        assert_eq!(message("DEL").unwrap_err(), (4, del.to_owned()));
        for command in ["STATUS", "GC", "VERSION"] {
            assert!(message(command).is_ok(), "{command}");
        }
        assert!(message("UPDATE").unwrap_err().1.contains("CNI_COMMAND \"UPDATE\""));
        assert!(message("add").is_err());
    }

    #[test]
    fn del_does_without_a_namespace() {
        assert_eq!(read_with(&[("CNI_COMMAND", "DEL"), ("CNI_NETNS", "")]).unwrap().netns, "");
    }

    #[test]
    fn wrong_values_are_code_4_and_named() {
        let long = "c".repeat(254);
        let wrong = [
            ("CNI_IFNAME", "sixteen-letters-"),
            ("CNI_IFNAME", "a/b"),
            ("CNI_IFNAME", "a:b"),
            ("CNI_IFNAME", "a b"),
            ("CNI_IFNAME", "a\tb"),
            ("CNI_IFNAME", "a\u{a0}b"),
            ("CNI_IFNAME", "."),
            ("CNI_IFNAME", ".."),
            ("CNI_CONTAINERID", "-x"),
            ("CNI_CONTAINERID", "../../etc"),
            ("CNI_CONTAINERID", "a b"),
            ("CNI_CONTAINERID", &long),
            ("CNI_NETNS", "run/netns/x"),
        ];
        for (name, value) in wrong {
            let error = read_with(&[(name, value)]).unwrap_err();
            assert_eq!(error.code, Code::INVALID_ENVIRONMENT, "{name}={value}");
            assert!(error.msg.starts_with(name), "{}", error.msg);
        }
        assert!(read_with(&[("CNI_IFNAME", "fifteen-letters")]).is_ok());
    }

    #[test]
    fn values_that_are_no_text_are_named() {
        use std::os::unix::ffi::OsStringExt;
        let error = Environment::read(|_| Some(OsString::from_vec(vec![0xff]))).unwrap_err();
        assert_eq!(error.msg, "CNI_COMMAND is not UTF-8");
    }

    #[test]
    fn commands_need_their_version() {
        assert!(Command::Check.require(Version::V0_4_0).is_ok());
        for (command, version) in [
            (Command::Check, Version::V0_3_1),
            (Command::Gc, Version::V1_0_0),
            (Command::Status, Version::V1_0_0),
        ] {
            let error = command.require(version).unwrap_err();
            assert_eq!(error.code, Code::INCOMPATIBLE_VERSION);
        }
    }
}
