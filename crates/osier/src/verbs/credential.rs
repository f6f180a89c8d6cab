//! `osier controller credential`: who may use the API. A controller alone has a file of them; several
//! share a list in etcd, which is written by whoever may write there, also while none of them runs.

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Subcommand;
use osier_controller::credentials::{self, Credential, CredentialError, FIRST, Role};
use osier_etcd::{Client, Register};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Where the list is, in etcd.
const NAME: &str = "credentials";
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often a change is tried that others come before.
const TRIES: u32 = 20;

#[derive(Debug, Subcommand)]
pub(super) enum CredentialCommand {
    /// Make a credential, and print it, once
    Add {
        /// What it is good for: read or write
        #[arg(long)]
        role: Role,
        /// Whose it is, for people
        #[arg(long)]
        name: String,
    },
    /// List credentials, without their secrets
    List,
    /// Revoke a credential, by its id or its name
    Revoke {
        /// The id or the name
        which: String,
    },
}

/// Where credentials are kept.
pub(super) enum Kept {
    File(PathBuf),
    Shared(Shared),
}

/// The list that several controllers share.
pub(super) struct Shared(Register);

// === impl CredentialCommand ===

impl CredentialCommand {
    pub(super) async fn run(&self, kept: &Kept) -> anyhow::Result<()> {
        let mut out = std::io::stdout();
        match self {
            Self::Add { role, name } => {
                let text = kept.change(|all| credentials::insert(all, name, *role)).await?;
                writeln!(out, "{text}")?;
            }
            Self::List => {
                writeln!(out, "{:<10}{:<8}{:<22}NAME", "ID", "ROLE", "CREATED")?;
                for one in kept.list().await? {
                    writeln!(out, "{:<10}{:<8}{:<22}{}", one.id, one.role, one.created, one.name)?;
                }
            }
            Self::Revoke { which } => {
                let gone = kept.change(|all| credentials::remove(all, which)).await?;
                writeln!(out, "{gone} revoked")?;
            }
        }
        Ok(())
    }
}

// === impl Kept ===

impl Kept {
    async fn list(&self) -> anyhow::Result<Vec<Credential>> {
        match self {
            Self::File(path) => Ok(credentials::list(path)?),
            Self::Shared(shared) => shared.list().await,
        }
    }

    async fn change<T>(
        &self,
        edit: impl Fn(&mut Vec<Credential>) -> Result<T, CredentialError>,
    ) -> anyhow::Result<T> {
        match self {
            Self::File(path) => {
                let folder = path.parent().unwrap_or(Path::new("."));
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("{} cannot be made", folder.display()))?;
                Ok(credentials::change(path, edit)?)
            }
            Self::Shared(shared) => shared.change(edit).await,
        }
    }
}

// === impl Shared ===

impl Shared {
    pub(super) fn new(client: Client, cluster: &str) -> Self {
        Self(Register::new(client, cluster, NAME))
    }

    async fn list(&self) -> anyhow::Result<Vec<Credential>> {
        decoded(self.0.read().await?.value.as_ref())
    }

    async fn change<T>(
        &self,
        edit: impl Fn(&mut Vec<Credential>) -> Result<T, CredentialError>,
    ) -> anyhow::Result<T> {
        for _ in 0..TRIES {
            let read = self.0.read().await?;
            let mut all = decoded(read.value.as_ref())?;
            let outcome = edit(&mut all)?;
            let text = serde_json::to_vec_pretty(&all).context("credentials make no list")?;
            if read.value.as_deref() == Some(text.as_slice())
                || self.0.replace(&read, text.into()).await?
            {
                return Ok(outcome);
            }
        }
        bail!("others change the credentials all the time: try again")
    }

    /// For a controller that begins to lead: where there are none yet, those of its file are taken over,
    /// which it had when each had its own; else a first one is made, and its text told.
    pub(super) async fn begin(&self, file: &Path) -> anyhow::Result<Option<String>> {
        let own = credentials::list(file)?;
        self.change(|all| {
            if !all.is_empty() {
                return Ok(None);
            }
            all.extend(own.iter().cloned());
            match all.is_empty() {
                true => credentials::insert(all, FIRST, Role::Write).map(Some),
                false => Ok(None),
            }
        })
        .await
    }

    /// Tells of the list as it is, again and again, for as long as the task is let run.
    pub(super) async fn follow(
        self,
    ) -> anyhow::Result<(watch::Receiver<Vec<Credential>>, JoinHandle<()>)> {
        let (tell, told) = watch::channel(self.list().await?);
        let telling = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                match self.list().await {
                    Ok(all) => {
                        let replace = |known: &mut Vec<Credential>| {
                            let is_new = *known != all;
                            *known = all;
                            is_new
                        };
                        tell.send_if_modified(replace);
                    }
                    // Whoever may come, may still come.
                    Err(error) => tracing::warn!(%error, "the credentials are as they were"),
                }
            }
        });
        Ok((told, telling))
    }
}

fn decoded(value: Option<&Bytes>) -> anyhow::Result<Vec<Credential>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    serde_json::from_slice(value).context("what etcd has is no list of credentials")
}
