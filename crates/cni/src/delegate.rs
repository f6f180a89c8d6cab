//! Running another plugin for address management: `host-local`, `static`, `dhcp`.
//!
//! The agent calls this. It finds the plugin in `CNI_PATH`, gives it the whole configuration as the
//! specification says (section 4), bounds its time and output, and understands its answer. Plugins
//! older than the configuration's version are asked in the newest version that they know. Undoing
//! an ADD is the caller's. Everything here blocks: from async code, use a blocking thread.

mod process;

use crate::spec::{AddResult, Code, Command, Environment, Error, Version, is_identifier};
use serde::Deserialize;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// A plugin that addresses are managed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegate {
    name: String,
    program: PathBuf,
}

/// A delegate that did not do it.
#[derive(Debug, thiserror::Error)]
pub enum DelegateError {
    /// The name could be a path.
    #[error("{0:?} is not the name of a plugin")]
    Name(String),
    /// It is in none of the directories.
    #[error("the plugin {name} is in none of the directories of CNI_PATH ({path:?})")]
    NotFound {
        /// The plugin.
        name: String,
        /// Where it was looked for.
        path: String,
    },
    /// The configuration is not an object.
    #[error("the configuration cannot be passed on")]
    Config(#[source] serde_json::Error),
    /// It could not be started, fed or waited for.
    #[error("the plugin {name} could not be run")]
    Run {
        /// The plugin.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It took too long, and was killed.
    #[error("the plugin {name} did not end within {after:?}")]
    Deadline {
        /// The plugin.
        name: String,
        /// How long it had.
        after: Duration,
    },
    /// It refused, in the specification's way.
    #[error("the plugin {name} refused")]
    Refused {
        /// The plugin.
        name: String,
        /// What it said.
        source: Error,
    },
    /// It failed without an error document.
    #[error("the plugin {name} ended with {status} and {said:?}")]
    Died {
        /// The plugin.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        said: String,
    },
    /// It succeeded, but what it printed is no result.
    #[error("the result of the plugin {name} cannot be read")]
    Garbled {
        /// The plugin.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// It speaks no version in common with us.
    #[error("the plugin {name} speaks none of our versions up to {wanted}")]
    Versions {
        /// The plugin.
        name: String,
        /// The configuration's version.
        wanted: Version,
    },
}

impl From<DelegateError> for Error {
    /// What the runtime hears: a refusal as it was, with the delegate's name; the rest is ours.
    fn from(error: DelegateError) -> Self {
        let code = match &error {
            DelegateError::Refused { source, .. } => source.code,
            DelegateError::Deadline { .. } => Code::TRY_AGAIN_LATER,
            DelegateError::Name(_) | DelegateError::NotFound { .. } => Code::INVALID_CONFIG,
            _ => Code::DELEGATE_FAILED,
        };
        match error {
            DelegateError::Refused { name, source } => {
                Self::new(code, format!("{name}: {}", source.msg)).with_details(source.details)
            }
            _ => Self::new(code, error.to_string()).with_causes_of(&error),
        }
    }
}

impl Delegate {
    /// Looks for a plugin in the directories of `CNI_PATH`.
    pub fn find(name: &str, cni_path: &str) -> Result<Self, DelegateError> {
        if !is_identifier(name) {
            return Err(DelegateError::Name(name.to_owned()));
        }
        let candidates =
            cni_path.split(':').filter(|d| !d.is_empty()).map(|d| Path::new(d).join(name));
        let program = candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| {
            DelegateError::NotFound { name: name.to_owned(), path: cni_path.to_owned() }
        })?;
        Ok(Self { name: name.to_owned(), program })
    }

    /// The executable that was found.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs a command; ADD gives a result, the others none.
    ///
    /// GC and STATUS are newer than many plugins: one that does not know them has nothing to say.
    pub fn run(
        &self,
        environment: &Environment,
        config: &str,
        timeout: Duration,
    ) -> Result<Option<AddResult>, DelegateError> {
        let deadline = Instant::now() + timeout;
        let refused = match self.attempt(environment, config, deadline) {
            Err(DelegateError::Refused { source, .. })
                if may_be_too_old(environment.command, &source) =>
            {
                source
            }
            other => return other,
        };
        let document: Value = serde_json::from_str(config).map_err(DelegateError::Config)?;
        let wanted = Version::parse(document["cniVersion"].as_str())
            .map_err(|_| DelegateError::Refused { name: self.name.clone(), source: refused })?;
        let common = self.newest_common(wanted, deadline)?;
        if common < environment.command.since() {
            return Ok(None);
        }
        self.attempt(environment, &in_version(document, common), deadline)
    }

    fn attempt(
        &self,
        environment: &Environment,
        config: &str,
        deadline: Instant,
    ) -> Result<Option<AddResult>, DelegateError> {
        let printed = self.execute(environment, config, deadline)?;
        if environment.command != Command::Add {
            return Ok(None);
        }
        let garbled = |source| DelegateError::Garbled { name: self.name.clone(), source };
        AddResult::decode(&printed).map(Some).map_err(garbled)
    }

    fn execute(
        &self,
        environment: &Environment,
        config: &str,
        deadline: Instant,
    ) -> Result<Vec<u8>, DelegateError> {
        let started = Instant::now();
        let name = || self.name.clone();
        let finished = process::run(&self.program, environment, config.as_bytes(), deadline);
        let finished = finished
            .map_err(|source| DelegateError::Run { name: name(), source })?
            .ok_or_else(|| DelegateError::Deadline { name: name(), after: started.elapsed() })?;
        if finished.status.success() {
            return Ok(finished.stdout);
        }
        Err(match Error::decode(&finished.stdout) {
            Ok(source) => DelegateError::Refused { name: name(), source },
            Err(_) => {
                DelegateError::Died { name: name(), status: finished.status, said: finished.said() }
            }
        })
    }

    /// The newest version up to `wanted` that the plugin says it speaks.
    fn newest_common(&self, wanted: Version, deadline: Instant) -> Result<Version, DelegateError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Document {
            supported_versions: Vec<String>,
        }
        let environment = Environment {
            command: Command::Version,
            container_id: String::new(),
            netns: String::new(),
            ifname: String::new(),
            args: String::new(),
            path: String::new(),
            netns_override: false,
        };
        let printed =
            self.execute(&environment, &format!(r#"{{"cniVersion":"{wanted}"}}"#), deadline)?;
        let document: Document = serde_json::from_slice(&printed)
            .map_err(|source| DelegateError::Garbled { name: self.name.clone(), source })?;
        let spoken = |v: &Version| document.supported_versions.iter().any(|s| s == v.as_str());
        let common = Version::ALL.into_iter().rev().filter(|v| *v <= wanted).find(spoken);
        common.ok_or_else(|| DelegateError::Versions { name: self.name.clone(), wanted })
    }
}

/// Whether a refusal may only mean that the plugin is older than the call: it names the version, or
/// does not know a command that older versions did not have.
fn may_be_too_old(command: Command, refusal: &Error) -> bool {
    refusal.code == Code::INCOMPATIBLE_VERSION
        || refusal.code == Code::INVALID_ENVIRONMENT && !command.is_about_a_container()
}

/// The same configuration in another version, its previous result included.
fn in_version(mut document: Value, version: Version) -> String {
    document["cniVersion"] = Value::from(version.as_str());
    if let Ok(result) = AddResult::deserialize(&document["prevResult"]) {
        document["prevResult"] = serde_json::from_str(&result.render(version)).unwrap_or_default();
    } else if let Some(members) = document.as_object_mut() {
        members.remove("prevResult");
    }
    document.to_string()
}
