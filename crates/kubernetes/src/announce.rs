//! Where agents find their controllers: a ConfigMap that is mounted in the agents' pods.
//!
//! Each controller keeps its own line in it, also one that does not lead. It is written only when
//! that changes something, for every node reads it anew then.

use crate::error::{KubernetesError, failed, is_conflict};
use crate::scribe;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The ConfigMap.
pub(crate) const CONFIG_MAP: &str = "osier-controllers";
const ADDRESSES: &str = "addresses";
const AUTHORITY: &str = "authority.pem";
/// How often somebody else's change of it is looked for.
const LOOK: Duration = Duration::from_mins(1);
/// Tries after somebody was faster.
const TRIES: usize = 5;

/// One who announces.
#[derive(Clone)]
pub(crate) struct Announcer {
    maps: Api<ConfigMap>,
    /// `host:port` of our port for agents.
    address: String,
    authority: String,
}

// === impl Announcer ===

impl Announcer {
    pub(crate) fn new(client: Client, namespace: &str, address: String, authority: String) -> Self {
        Self { maps: Api::namespaced(client, namespace), address, authority }
    }

    /// Keeps our line there, for ever.
    pub(crate) async fn keep(self) {
        let mut wait = Duration::from_secs(1);
        loop {
            match self.write(&|_| true).await {
                Ok(()) => wait = LOOK,
                Err(error) => {
                    tracing::warn!(error = %failed(&error), "agents may not find this controller");
                    wait = (wait * 2).min(LOOK);
                }
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes the lines of controllers away that are no longer there.
    pub(crate) async fn forget_all_but(&self, living: &[IpAddr]) -> Result<(), KubernetesError> {
        let is_living = |line: &str| {
            let host = line.rsplit_once(':').map_or(line, |(host, _)| host);
            let host = host.trim_matches(['[', ']']);
            host.parse::<IpAddr>().is_ok_and(|host| living.contains(&host))
        };
        self.write(&is_living).await
    }

    /// Makes it what it should be: our line, and those others' that are kept.
    async fn write(&self, keep: &(dyn Fn(&str) -> bool + Sync)) -> Result<(), KubernetesError> {
        let fail = |source| KubernetesError::Api {
            what: format!("writing ConfigMap {CONFIG_MAP}"),
            source: Box::new(source),
        };
        for left in (0..TRIES).rev() {
            let found = self.maps.get_opt(CONFIG_MAP).await.map_err(fail)?;
            let data = found.as_ref().and_then(|map| map.data.as_ref());
            let wanted = self.data(data, keep);
            if data == Some(&wanted) {
                return Ok(());
            }
            let is_new = found.is_none();
            let metadata =
                ObjectMeta { name: Some(CONFIG_MAP.to_owned()), ..ObjectMeta::default() };
            let mut map = found.unwrap_or(ConfigMap { metadata, ..ConfigMap::default() });
            map.data = Some(wanted);
            let parameters = scribe::ours();
            let written = match is_new {
                true => self.maps.create(&parameters, &map).await,
                // Our version of it has to be the current one.
                false => self.maps.replace(CONFIG_MAP, &parameters, &map).await,
            };
            match written {
                Ok(_) => return Ok(()),
                Err(error) if is_conflict(&error) && left > 0 => {}
                Err(error) => return Err(fail(error)),
            }
        }
        Ok(())
    }

    fn data(
        &self,
        found: Option<&BTreeMap<String, String>>,
        keep: &(dyn Fn(&str) -> bool + Sync),
    ) -> BTreeMap<String, String> {
        let mut data = found.cloned().unwrap_or_default();
        let lines = data.get(ADDRESSES).map(String::as_str).unwrap_or_default().lines();
        let mut lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.retain(|line| *line == self.address || keep(line));
        if !lines.contains(&self.address.as_str()) {
            lines.push(&self.address);
        }
        data.insert(ADDRESSES.to_owned(), lines.join("\n") + "\n");
        data.insert(AUTHORITY.to_owned(), self.authority.clone());
        data
    }
}
