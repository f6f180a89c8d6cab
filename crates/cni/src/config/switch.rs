//! What configurations of older systems say about the switch itself.
//!
//! There the plugin set up the bridge, its manager and its controller. Here the agent owns them;
//! the settings are read and checked, so that it can say where they differ from its own.

use crate::fields::Fields;
use crate::spec::{Error, check_interface_name};
use std::net::IpAddr;

/// Settings that the older plugins applied to the switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchSettings {
    /// `manager`, `mgrPort`, `mgrActive` as a target of Open vSwitch: `tcp:192.0.2.1:6640`.
    pub manager: Option<String>,
    /// `controller`, `ctlrPort`, `ctlrActive`: `tcp:192.0.2.1:6653` or `ptcp:6653`.
    pub controller: Option<String>,
    /// `externalIntf`: the interface towards the outside.
    pub external_interface: Option<String>,
    /// `externalIp`: its address.
    pub external_ip: Option<IpAddr>,
    /// `clusterId`: the prefix of `iface-id` in `odlovs-cni`.
    pub cluster_id: Option<String>,
    /// `vtepIps`: the tunnel ends.
    pub vtep_ips: Vec<IpAddr>,
}

impl SwitchSettings {
    pub(super) fn read(config: &Fields<'_>) -> Result<Self, Error> {
        let Places { flat, nested } = places(config)?;
        let mut settings = Self::read_from(&flat)?;
        if let Some(nested) = nested {
            let other = Self::read_from(&nested)?;
            settings.manager = settings.manager.or(other.manager);
            settings.controller = settings.controller.or(other.controller);
            settings.external_interface = settings.external_interface.or(other.external_interface);
            settings.external_ip = settings.external_ip.or(other.external_ip);
            settings.cluster_id = settings.cluster_id.or(other.cluster_id);
            if settings.vtep_ips.is_empty() {
                settings.vtep_ips = other.vtep_ips;
            }
        }
        Ok(settings)
    }

    fn read_from(config: &Fields<'_>) -> Result<Self, Error> {
        let external_interface = config.text("externalIntf")?;
        if let Some(name) = external_interface {
            check_interface_name(&config.name("externalIntf"), name).map_err(Error::config)?;
        }
        let vtep =
            |text: &str| text.parse().map_err(|_| config.wrong("vtepIps", not_an_address(text)));
        Ok(Self {
            manager: target(config, "manager", "mgrPort", "mgrActive", 6640)?,
            controller: target(config, "controller", "ctlrPort", "ctlrActive", 6653)?,
            external_interface: external_interface.map(str::to_owned),
            external_ip: ip(config, "externalIp")?,
            cluster_id: config.text("clusterId")?.map(str::to_owned),
            vtep_ips: config.texts("vtepIps")?.into_iter().map(vtep).collect::<Result<_, _>>()?,
        })
    }
}

/// Where switch settings are: beside the others in `odlovs-cni`, in `ovsConfig` or
/// `runtimeConfig.ovsConfig` in the two forms of `odlcoe`.
struct Places<'a> {
    flat: Fields<'a>,
    nested: Option<Fields<'a>>,
}

fn places<'a>(config: &Fields<'a>) -> Result<Places<'a>, Error> {
    let mut nested = config.object("ovsConfig")?;
    if nested.is_none()
        && let Some(runtime) = config.object("runtimeConfig")?
    {
        nested = runtime.object("ovsConfig")?;
    }
    Ok(Places { flat: config.clone(), nested })
}

fn not_an_address(text: &str) -> String {
    format!("is {text:?}: write an IPv4 or IPv6 address")
}

fn ip(config: &Fields<'_>, member: &str) -> Result<Option<IpAddr>, Error> {
    let Some(text) = config.text(member)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| config.wrong(member, not_an_address(text)))
}

/// `active` dials out, as in `odlovs-cni`; otherwise the switch listens.
fn target(
    config: &Fields<'_>,
    address: &str,
    port: &str,
    active: &str,
    default_port: u64,
) -> Result<Option<String>, Error> {
    let host = ip(config, address)?;
    let number = config.number(port, 1..=65535)?;
    let dials = config.flag(active)?;
    if host.is_none() && number.is_none() && dials.is_none() {
        return Ok(None);
    }
    let number = number.unwrap_or(default_port);
    match (dials.unwrap_or(false), host) {
        (false, _) => Ok(Some(format!("ptcp:{number}"))),
        (true, Some(IpAddr::V4(host))) => Ok(Some(format!("tcp:{host}:{number}"))),
        (true, Some(IpAddr::V6(host))) => Ok(Some(format!("tcp:[{host}]:{number}"))),
        (true, None) => {
            Err(config
                .wrong(address, format_args!("is missing, and {} is true", config.name(active))))
        }
    }
}

/// The bridge, from the most particular place that names one.
pub(super) fn bridge(config: &Fields<'_>) -> Result<Option<String>, Error> {
    let Places { flat, nested } = places(config)?;
    let ovs = config.object("ovs")?;
    let candidates = [
        (ovs, "bridge"),
        (nested, "ovsBridge"),
        (Some(flat.clone()), "ovsBridge"),
        (Some(flat), "bridge"),
    ];
    for (place, member) in candidates {
        let Some(place) = place else { continue };
        if let Some(name) = place.text(member)? {
            check_interface_name(&place.name(member), name).map_err(Error::config)?;
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

/// `ovs.vxlan`: decimal, as a text (`"00042"` is 42) or a number.
pub(super) fn vni(config: &Fields<'_>) -> Result<Option<u32>, Error> {
    const BOUNDS: std::ops::RangeInclusive<u64> = 1..=0x00ff_ffff;
    let Some(ovs) = config.object("ovs")? else { return Ok(None) };
    let number = match ovs.get("vxlan") {
        Some(value) if value.is_string() => ovs.parsed("vxlan", |text| {
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse().ok().filter(|n| digits && BOUNDS.contains(n));
            number.ok_or_else(|| format!("{text:?} is no VNI: write a number from 1 to 16777215"))
        })?,
        _ => ovs.number("vxlan", BOUNDS)?,
    };
    Ok(number.and_then(|n| u32::try_from(n).ok()))
}
