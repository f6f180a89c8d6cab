//! `osier prepare-ovs`: the switch's database, made or brought to this release's schema before
//! `ovsdb-server` starts, as `ovs-ctl` does where there is a shell.

use anyhow::{Context, bail, ensure};
use clap::Args;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Beside a database that is Osier's own, and goes with it.
pub(super) const MARK: &str = ".made-by-osier";

#[derive(Debug, Args)]
#[command(after_help = "\
For the daemon set osier-ovs. It refuses where an Open vSwitch runs already.

Examples:
  osier prepare-ovs --database /etc/openvswitch/conf.db")]
pub(crate) struct Arguments {
    /// The database
    #[arg(long, value_name = "FILE", default_value = "/etc/openvswitch/conf.db")]
    database: PathBuf,
    /// What is in it
    #[arg(long, value_name = "FILE", default_value = "/usr/share/openvswitch/vswitch.ovsschema")]
    schema: PathBuf,
    /// Where a running one would be
    #[arg(long, value_name = "SOCKET", default_value = "/run/openvswitch/db.sock")]
    socket: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { database, schema, socket } = arguments;
    if UnixStream::connect(socket).is_ok() {
        bail!(
            "an Open vSwitch runs on this node already (it answers at {}): use that one \
             (ovs.install=false), or stop it",
            socket.display()
        );
    }
    let (file, schema) = (text(database)?, text(schema)?);
    let done = if !database.exists() {
        let folder = database.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        // One that is cut short has no row: it is made beside its place.
        let beside = format!("{file}.new");
        let _ = std::fs::remove_file(&beside);
        tool(&["create", &beside, schema])?;
        let row = r#"["Open_vSwitch",{"op":"insert","table":"Open_vSwitch","row":{}}]"#;
        tool(&["transact", &beside, row])?;
        // Its lock stays behind under the name that it had.
        let _ = std::fs::remove_file(folder.join(lock_of(Path::new(&beside))));
        std::fs::write(folder.join(MARK), "")?;
        std::fs::rename(&beside, database)?;
        "made"
    } else if tool(&["needs-conversion", file, schema])?.trim() == "yes" {
        tool(&["convert", file, schema])?;
        "brought up to date"
    } else {
        "as it should be"
    };
    writeln!(std::io::stdout(), "{file}: {done}")?;
    Ok(ExitCode::SUCCESS)
}

/// As Open vSwitch names it.
pub(super) fn lock_of(database: &Path) -> String {
    format!(".{}.~lock~", database.file_name().unwrap_or_default().to_string_lossy())
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is no text", path.display()))
}

fn tool(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("ovsdb-tool").args(arguments).output();
    let output = output.context("ovsdb-tool cannot be run: it comes with Open vSwitch")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ovsdb-tool {}: {}", arguments[0], said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
