//! `osier capture`: a pod's packets, recorded on its node and sent here as pcap.

use super::asking;
use super::trace::port_name;
use crate::client::{Connection, escaped};
use crate::pcap::Counter;
use anyhow::{Context, bail};
use clap::Args;
use http_body_util::BodyExt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
Records until so many seconds or packets are over, or until Ctrl-C.

Examples:
  osier capture shop:web -w web.pcap --seconds 10
  osier capture shop:web --count 20 | tcpdump -n -r -   # read it while it comes
  osier capture shop:web | tcpdump -n -r - 'tcp port 80'
  osier capture shop:web | wireshark -k -i -")]
pub(crate) struct Arguments {
    /// Whose packets: namespace:pod, or namespace:pod:interface
    pod: String,
    /// Write to this file; to standard output if none is named, or for -
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// For so long
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// At most so many packets
    #[arg(long, value_name = "PACKETS")]
    count: Option<u32>,
    /// At most so many bytes of each
    #[arg(long, value_name = "BYTES")]
    snaplen: Option<u32>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let file = arguments.write.as_deref().filter(|path| *path != Path::new("-"));
    if file.is_none() && io::stdout().is_terminal() {
        bail!("pcap is nothing for a terminal: give -w FILE, or pipe it to `tcpdump -n -r -`");
    }
    asking(&arguments.connection, async |client| {
        // Asked first, so that a wrong name leaves no empty file.
        let mut body = client.stream(&arguments.path()).await?;
        let mut sink: Box<dyn Write> = match file {
            None => Box::new(io::stdout()),
            Some(path) => Box::new(
                File::create(path)
                    .with_context(|| format!("{} cannot be written", path.display()))?,
            ),
        };
        let mut counter = Counter::default();
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                _ = tokio::signal::ctrl_c() => None,
            };
            let Some(frame) = frame else { break };
            let frame =
                frame.map_err(anyhow::Error::from_boxed).context("the capture broke off")?;
            if let Some(bytes) = frame.data_ref() {
                sink.write_all(bytes)?;
                sink.flush()?;
                counter.add(bytes);
            }
        }
        writeln!(io::stderr(), "{} packets of {}", counter.packets(), arguments.pod)?;
        Ok(ExitCode::SUCCESS)
    })
}

impl Arguments {
    fn path(&self) -> String {
        let mut path =
            format!("/ports/{}/capture?seconds={}", escaped(&port_name(&self.pod)), self.seconds);
        for (name, value) in [
            ("count", self.count.map(|count| count.to_string())),
            ("snaplen", self.snaplen.map(|bytes| bytes.to_string())),
        ] {
            if let Some(value) = value {
                path.extend(["&", name, "=", &value]);
            }
        }
        path
    }
}
