//! Answers as text for people. Values in, text out: nothing here asks anyone, so every picture is
//! tested as text.

pub(crate) mod check;
pub(crate) mod describe;
pub(crate) mod flows;
pub(crate) mod moment;
pub(crate) mod paint;
#[cfg(test)]
mod recorded;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod top;
pub(crate) mod trace;
