//! Policies, as a node's switch applies them.

use osier_model::RuleRef;
use serde::{Deserialize, Serialize};

/// How often a rule granted something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleHits {
    /// Which rule. Rules that say the same, whichever policies they stand in, count together.
    pub rule: RuleRef,
    /// Connections that it granted: what came of them later is not judged again.
    pub connections: u64,
}
