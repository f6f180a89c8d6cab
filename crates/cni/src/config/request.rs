//! Calls of a runtime, normalised: environment and configuration together.

use super::{Header, Ipam, NetworkConfig, RuntimeConfig, decoding, runtime};
use crate::fields::{self, Fields};
use crate::spec::{
    AddResult, CniArgs, Environment, Error, Pod, check_identifier, check_interface_name,
};
use serde::Deserialize;

/// An interface of a container. With the network's name it is the key of all that an ADD makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment {
    /// The container.
    pub container_id: String,
    /// The interface's name in it.
    pub ifname: String,
}

impl Attachment {
    fn of(environment: &Environment) -> Self {
        Self { container_id: environment.container_id.clone(), ifname: environment.ifname.clone() }
    }
}

/// ADD and CHECK: an interface that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// Which interface of which container.
    pub attachment: Attachment,
    /// The path of the container's network namespace.
    pub netns: String,
    /// The pod, if the container is one's sandbox.
    pub pod: Option<Pod>,
    /// The configuration. The wishes of `CNI_ARGS` are in its `runtime`, unless it had its own.
    pub config: NetworkConfig,
    /// The result so far: that of the ADD for CHECK, that of the plugins before ours for ADD in a
    /// chain.
    pub prev_result: Option<AddResult>,
}

impl AttachRequest {
    /// Reads one.
    pub fn decode(environment: &Environment, config: &[u8]) -> Result<Self, Error> {
        environment.check()?;
        let document = fields::document(config)?;
        let fields = Fields::of(&document)?;
        let mut config = NetworkConfig::read(&fields)?;
        let args = CniArgs::parse(&environment.args)?;
        add_wishes(&mut config.runtime, &args);
        Ok(Self {
            attachment: Attachment::of(environment),
            netns: environment.netns.clone(),
            pod: args.pod,
            config,
            prev_result: prev_result(&fields)?,
        })
    }
}

/// `CNI_ARGS` is the oldest way to wish, and yields to the newer ones.
fn add_wishes(runtime: &mut RuntimeConfig, args: &CniArgs) {
    if runtime.ips.is_empty() {
        runtime.ips.clone_from(&args.ips);
    }
    runtime.mac = runtime.mac.or(args.mac);
}

fn prev_result(config: &Fields<'_>) -> Result<Option<AddResult>, Error> {
    let read = |value| AddResult::deserialize(value).map_err(|e| decoding("`prevResult`", e));
    config.get("prevResult").map(read).transpose()
}

/// DEL: an interface that is no longer wanted.
///
/// Only what is needed to find it is required. A runtime follows a failed ADD by a DEL with the
/// same configuration; were that refused for the same reasons, the pod could never go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachRequest {
    /// Which interface of which container.
    pub attachment: Attachment,
    /// The path of the container's network namespace, if it still exists.
    pub netns: Option<String>,
    /// The pod, if that can be read.
    pub pod: Option<Pod>,
    /// Version, name, type, the agent.
    pub header: Header,
    /// Who gave the addresses, if that can be read.
    pub ipam: Ipam,
    /// What ADD made, if the runtime kept it and it can be read.
    pub prev_result: Option<AddResult>,
}

impl DetachRequest {
    /// Reads one.
    pub fn decode(environment: &Environment, config: &[u8]) -> Result<Self, Error> {
        environment.check()?;
        let document = fields::document(config)?;
        let config = Fields::of(&document)?;
        Ok(Self {
            attachment: Attachment::of(environment),
            netns: Some(environment.netns.clone()).filter(|path| !path.is_empty()),
            pod: CniArgs::parse(&environment.args).ok().and_then(|args| args.pod),
            header: Header::read(&config)?,
            ipam: Ipam::read(&config).unwrap_or_default(),
            prev_result: prev_result(&config).ok().flatten(),
        })
    }
}

/// GC: all that is not listed may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcRequest {
    /// Version, name, type, the agent.
    pub header: Header,
    /// Who gave the addresses: a delegate has to collect as well.
    pub ipam: Ipam,
    /// The attachments to this network that are still valid.
    pub valid: Vec<Attachment>,
}

impl GcRequest {
    /// Reads one. A list that cannot be understood is an error: much would be deleted by mistake.
    pub fn decode(config: &[u8]) -> Result<Self, Error> {
        let document = fields::document(config)?;
        let config = Fields::of(&document)?;
        let attachment = |item: Fields<'_>| {
            let member = |name| item.text(name)?.ok_or_else(|| item.wrong(name, "is missing"));
            let (container_id, ifname) = (member("containerID")?, member("ifname")?);
            check_identifier(&item.name("containerID"), container_id).map_err(Error::config)?;
            check_interface_name(&item.name("ifname"), ifname).map_err(Error::config)?;
            Ok(Attachment { container_id: container_id.to_owned(), ifname: ifname.to_owned() })
        };
        let valid = runtime::valid_attachments(&config)?;
        Ok(Self {
            header: Header::read(&config)?,
            ipam: Ipam::read(&config)?,
            valid: valid.into_iter().map(attachment).collect::<Result<_, Error>>()?,
        })
    }
}
