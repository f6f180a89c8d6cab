//! The project's own tools, run as `cargo xtask TOOL`.

mod check;
mod docs;
mod rows;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("check") => check::run().and_then(|()| docs::check()),
        Some("docs") => docs::write(),
        Some("rows") => rows::write_all(),
        _ => bail!("usage: cargo xtask check|docs|rows"),
    }
}
