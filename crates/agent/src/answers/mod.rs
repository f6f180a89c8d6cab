//! Questions of the switch: listened for, answered as `osier-answers` says, and counted. What policies
//! denied is logged, and answered by nobody.
//!
//! The switch bounds how many come, the session how many wait, and what is lost is asked again by
//! who needs it.

mod denied;
mod task;

pub(crate) use task::serve;
