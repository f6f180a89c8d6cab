//! The project's own tools, run as `cargo xtask TOOL`.

mod cargo;
mod check;
mod deploy;
mod docs;
mod image;
mod plugin;
mod rows;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    match std::env::args().nth(1).as_deref() {
        Some("check") => {
            check::run()?;
            docs::check()?;
            deploy::check()
        }
        Some("cni") => {
            println!("{}", plugin::build()?.display());
            Ok(())
        }
        Some("deploy") => deploy::run(&arguments),
        Some("docs") => docs::write(),
        Some("image") => image::run(&arguments),
        Some("rows") => rows::write_all(),
        _ => bail!("usage: cargo xtask check|cni|deploy|docs|image|rows"),
    }
}
