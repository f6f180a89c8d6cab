//! Routers.

use crate::id::VrfId;
use crate::name::RouterName;
use serde::{Deserialize, Serialize};

/// An L3 domain: joins networks, and has an address space of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Its name.
    pub name: RouterName,
    /// Its number in the datapath.
    pub vrf: VrfId,
}
