//! The project's own tools, run as `cargo xtask TOOL`.

mod rows;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("rows") => rows::write_all(),
        _ => bail!("usage: cargo xtask rows"),
    }
}
