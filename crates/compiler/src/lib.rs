//! From a node's view and its ports to flows and groups: pure and incremental.
//!
//! [`Compiler::apply`] takes one change and returns the plans of those owners whose flows may
//! differ now: the object itself, and what refers to it. Nothing recomputes the world. The result
//! of any sequence of changes is that of compiling the end from nothing ([`Compiler::all`]).
//!
//! The pipeline is declared in [`pipeline`], registers in [`registers`]; what each kind of object
//! becomes stands in one file each under `flows/`.

mod compile;
pub mod conntrack;
mod cookie;
mod flows;
mod link;
mod local;
mod meters;
pub mod pipeline;
mod plan;
mod policies;
mod question;
pub mod registers;
mod services;

pub use compile::{CompileError, Compiled, Compiler, DEFAULT_VNI, TUN_METADATA};
pub use cookie::{CLASS, CLASS_MASK, CookieRange, LEARNED, Owner, PIPELINE, RULES, SERVICES};
pub use link::Link;
pub use local::{Attachment, LocalPorts};
pub use meters::METERS;
pub use plan::{Plan, RuleError, RuleProblem};
pub use policies::{Article, Clause, RuleId};
pub use question::{CONTROLLER_ID, Question};
pub use services::{NODE_PORT_ADDRESSES, STAND_INS, Use, stand_in};

/// The groups of ours: of floods, and of Services.
pub const GROUPS: std::ops::RangeInclusive<u32> =
    *flows::flood::FLOOD_GROUPS.start()..=*services::SERVICE_GROUPS.end();
