//! Roles: which of several controllers may change the switch (6.3.6).

use crate::wire::{DecodeError, Problem, Reader, Writer};

/// A controller's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// As it is: only asks.
    NoChange,
    /// Full access, as others have it.
    Equal,
    /// Full access, at most one; the one before becomes secondary.
    Primary,
    /// Reads only.
    Secondary,
}

/// Asks for a role, or tells it.
///
/// ```text
///  8      12   16              24
/// +------+----+---------------+
/// | role | 0  | generation    |   struct ofp_role_request, 7.3.9
/// +------+----+---------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleRequest {
    /// The role.
    pub role: Role,
    /// Counts the elections: the switch refuses an older one than it saw.
    pub generation_id: u64,
}

/// Why the switch changed the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleReason {
    /// Another controller became primary.
    PrimaryRequest,
    /// The switch's configuration changed.
    Config,
    /// An experimenter's reason.
    Experimenter,
}

/// The switch changed the role: role 32, reason 8, pad 24, generation 64
/// (`struct ofp_role_status`, 7.4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleStatus {
    /// The new role.
    pub role: Role,
    /// Why.
    pub reason: RoleReason,
    /// The election.
    pub generation_id: u64,
}

// === impl Role ===

impl Role {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        Ok(match r.u32("role")? {
            0 => Self::NoChange,
            1 => Self::Equal,
            2 => Self::Primary,
            3 => Self::Secondary,
            other => return Err(start.error("role", Problem::Unknown(other.into()))),
        })
    }
}

// === impl RoleRequest ===

impl RoleRequest {
    pub(super) fn encode(self, w: &mut Writer) {
        w.u32(self.role as u32);
        w.zeros(4);
        w.u64(self.generation_id);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let role = Role::read(r)?;
        r.skip("role request", 4)?;
        Ok(Self { role, generation_id: r.u64("role request")? })
    }
}

// === impl RoleStatus ===

impl RoleStatus {
    pub(super) fn encode(self, w: &mut Writer) {
        w.u32(self.role as u32);
        w.u8(self.reason as u8);
        w.zeros(3);
        w.u64(self.generation_id);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "role status";
        let role = Role::read(r)?;
        let start = r.clone();
        let reason = match r.u8(WHAT)? {
            0 => RoleReason::PrimaryRequest,
            1 => RoleReason::Config,
            2 => RoleReason::Experimenter,
            other => return Err(start.error(WHAT, Problem::Unknown(other.into()))),
        };
        r.skip(WHAT, 3)?;
        Ok(Self { role, reason, generation_id: r.u64(WHAT)? })
    }
}
