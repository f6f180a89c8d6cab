//! The commands we use, with typed arguments and results.

use super::TextError;
use super::client::{CallError, Client};
use super::conntrack::{Connection, Flush, parse_connections};
use super::coverage::{Counter, parse_coverage, parse_memory};
use super::datapath::{Datapath, Upcalls, parse_datapaths, parse_upcalls};

/// Why a typed command has no result.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The text cannot be read.
    #[error("the daemon's text has another form than we know")]
    Text(#[from] TextError),
}

impl Client {
    /// What would become of a packet (`ofproto/trace`), for people. More arguments are options such
    /// as `-generate`, or a packet in hex.
    pub async fn trace(
        &self,
        bridge: &str,
        flow: &str,
        more: &[&str],
    ) -> Result<String, CallError> {
        self.call("ofproto/trace", &[&[bridge, flow], more].concat()).await
    }

    /// The tracked connections of a zone, or of all. With the time each has left.
    pub async fn connections(&self, zone: Option<u16>) -> Result<Vec<Connection>, CommandError> {
        let zone = zone.map(|zone| format!("zone={zone}"));
        let arguments: Vec<&str> = ["-s"].into_iter().chain(zone.as_deref()).collect();
        Ok(parse_connections(&self.call("dpctl/dump-conntrack", &arguments).await?)?)
    }

    /// How many connections are tracked (`dpctl/ct-get-nconns`).
    pub async fn connection_count(&self) -> Result<u64, CommandError> {
        let text = self.call("dpctl/ct-get-nconns", &[]).await?;
        let wrong = || TextError::new("dpctl/ct-get-nconns", 1, "a number", &text);
        Ok(text.trim().parse().map_err(|_| wrong())?)
    }

    /// Forgets tracked connections.
    pub async fn flush_connections(&self, which: &Flush) -> Result<(), CallError> {
        let arguments = which.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.call("dpctl/flush-conntrack", &arguments).await?;
        Ok(())
    }

    /// How busy the slow path is (`upcall/show`), a datapath each.
    pub async fn upcalls(&self) -> Result<Vec<Upcalls>, CommandError> {
        Ok(parse_upcalls(&self.call("upcall/show", &[]).await?)?)
    }

    /// Datapaths, their bridges and ports (`dpif/show`).
    pub async fn datapaths(&self) -> Result<Vec<Datapath>, CommandError> {
        Ok(parse_datapaths(&self.call("dpif/show", &[]).await?)?)
    }

    /// How often what happened (`coverage/show`); what never happened is left out.
    pub async fn coverage(&self) -> Result<Vec<Counter>, CommandError> {
        Ok(parse_coverage(&self.call("coverage/show", &[]).await?)?)
    }

    /// How often one thing happened (`coverage/read-counter`).
    pub async fn coverage_counter(&self, name: &str) -> Result<u64, CommandError> {
        let text = self.call("coverage/read-counter", &[name]).await?;
        let command = "coverage/read-counter";
        let wrong = |_| TextError::new(command, 1, "a number", &text);
        Ok(text.trim().parse().map_err(wrong)?)
    }

    /// What the daemon holds in memory (`memory/show`): names and amounts.
    pub async fn memory(&self) -> Result<Vec<(String, u64)>, CommandError> {
        Ok(parse_memory(&self.call("memory/show", &[]).await?)?)
    }

    /// The daemon's name and version, in its words.
    pub async fn version(&self) -> Result<String, CallError> {
        self.call("version", &[]).await
    }
}
