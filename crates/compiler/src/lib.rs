//! From a node's view and its ports to flows and groups: pure and incremental.
//!
//! [`Compiler::apply`] takes one change and returns the plans of those owners whose flows may
//! differ now: the object itself, and what refers to it. Nothing recomputes the world. The result
//! of any sequence of changes is that of compiling the end from nothing ([`Compiler::all`]).
//!
//! The pipeline is declared in [`pipeline`], registers in [`registers`]; what each kind of object
//! becomes stands in one file each under `flows/`.

mod compile;
mod cookie;
mod flows;
mod local;
mod meters;
pub mod pipeline;
mod plan;
mod question;
pub mod registers;

pub use compile::{CompileError, Compiled, Compiler, DEFAULT_VNI};
pub use cookie::{CLASS, CLASS_MASK, LEARNED, Owner};
pub use flows::flood::GROUPS;
pub use local::{Attachment, LocalPorts};
pub use meters::METERS;
pub use plan::{Plan, RuleError, RuleProblem};
pub use question::{CONTROLLER_ID, Question};
