//! `osier controller`: the controller itself, and what its administrator does beside it.

use super::credential::{CredentialCommand, Kept, Shared};
use crate::client::{Access, Client};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use osier_controller::Controller;
use osier_controller::config::{Config, DEFAULT_PATH, EtcdConfig};
use osier_etcd::{Access as EtcdAccess, Client as EtcdClient, Election, Etcd, Tls as EtcdTls};
use osier_kubernetes::Kubernetes;
use osier_store::{Embedded, History, OpenError, Options};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// How long a controller may take to copy its store.
const PATIENCE: Duration = Duration::from_mins(10);

#[derive(Debug, Args)]
#[command(after_help = "\
Without a command, runs the controller until it is told to stop. It logs to standard error;
OSIER_LOG=debug, or a filter such as osier_controller=debug, says more. At its first start it makes a
credential, and prints it to standard output, once.")]
pub(crate) struct Arguments {
    /// The configuration; the default one may be missing
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH, global = true)]
    config: PathBuf,
    /// Take the model from Kubernetes, also if the configuration does not say so
    #[arg(long)]
    kubernetes: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Who may use the API
    Credential {
        #[command(subcommand)]
        command: CredentialCommand,
    },
    /// Write all that a stopped controller knows as YAML, secrets included
    Export {
        /// Where to; standard output if it is not said
        file: Option<PathBuf>,
    },
    /// Replace all that a stopped controller knows by an export
    Import {
        /// The export
        file: PathBuf,
        /// Also if the store is not empty
        #[arg(long)]
        over: bool,
    },
    /// Copy the store, as it is at one moment; a controller that runs does it itself
    Backup {
        /// Where to: it must not exist
        file: PathBuf,
    },
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut config = Config::load(&arguments.config)?;
    if arguments.kubernetes {
        config.kubernetes.get_or_insert_default();
    }
    match &arguments.command {
        None => return serve(config),
        Some(Command::Credential { command }) => runtime(1)?.block_on(async {
            let kept = match &config.etcd {
                Some(etcd) => {
                    let client = EtcdClient::new(&access(etcd)?)?;
                    Kept::Shared(Shared::new(client, &config.cluster))
                }
                None => Kept::File(config.credentials()),
            };
            command.run(&kept).await
        })?,
        Some(command) => runtime(1)?.block_on(with_store(&config, command))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn runtime(threads: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all().build().context("there is no runtime")
}

/// Runs the controller until SIGTERM or SIGINT.
fn serve(config: Config) -> anyhow::Result<ExitCode> {
    let mut wanted = std::env::var("OSIER_LOG").unwrap_or_else(|_| "info".to_owned());
    if !wanted.contains("kube_client") {
        // Whoever asks the API server says himself what failed.
        wanted.push_str(",kube_client::client::builder=off");
    }
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    runtime(threads)?
        .block_on(async {
            let mut terminate =
                signal(SignalKind::terminate()).context("signals cannot be heard")?;
            let mut interrupt =
                signal(SignalKind::interrupt()).context("signals cannot be heard")?;
            let stop = async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            if config.kubernetes.is_some() {
                return Ok(Kubernetes::new(config).await?.run(stop).await?);
            }
            if let Some(etcd) = config.etcd.clone() {
                return one_of_several(config, &etcd, stop).await;
            }
            let authority = config.authority();
            let controller = Controller::start(config).await?;
            greet(&controller, &authority)?;
            Ok(controller.run(stop).await?)
        })
        .map(|()| ExitCode::SUCCESS)
}

/// Waits until it leads, then runs for as long as it does. Afterwards it ends, for its memory is as
/// good as another's: whoever started it starts it again.
async fn one_of_several(
    config: Config,
    etcd: &EtcdConfig,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let client = EtcdClient::new(&access(etcd)?)?;
    let ttl = Duration::from_secs(etcd.lease_seconds.into());
    let election = Election::new(client.clone(), &config.cluster, ttl);
    let name = etcd.name.clone().unwrap_or_else(|| config.api.listen.to_string());
    let mut stop = std::pin::pin!(stop);
    writeln!(std::io::stdout(), "waiting to lead")?;
    let leadership = tokio::select! {
        leadership = election.campaign(&name) => leadership,
        () = &mut stop => return Ok(()),
    };
    let store = Etcd::open(client.clone(), &config.cluster, History::default()).await?;
    let authority = config.authority();
    let shared = Shared::new(client, &config.cluster);
    let first_credential = shared.begin(&config.credentials()).await?;
    let (told, telling) = shared.follow().await?;
    let mut controller = Controller::with_credentials(config, Arc::new(store), told).await?;
    controller.first_credential = first_credential;
    greet(&controller, &authority)?;
    let mut is_deposed = false;
    let over = async {
        tokio::select! {
            () = leadership.keep() => is_deposed = true,
            () = &mut stop => {}
        }
    };
    let ended = controller.run(over).await;
    telling.abort();
    leadership.resign().await;
    ended?;
    if is_deposed {
        bail!("this controller leads no more");
    }
    Ok(())
}

/// Where etcd is and who we are to it, with what the files say.
fn access(etcd: &EtcdConfig) -> anyhow::Result<EtcdAccess> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
    };
    let mut access = EtcdAccess::open(&etcd.members);
    if let Some(files) = &etcd.tls {
        let mut tls = EtcdTls { authority: read(&files.ca_certificate)?, identity: None };
        if let Some((certificate, key)) = files.certificate.as_ref().zip(files.private_key.as_ref())
        {
            tls.identity = Some((read(certificate)?, read(key)?));
        }
        access.tls = Some(tls);
    }
    if let Some((user, file)) = etcd.user.as_ref().zip(etcd.password_file.as_ref()) {
        access.login = Some((user.clone(), read(file)?.trim().to_owned()));
    }
    Ok(access)
}

/// What people and scripts wait for.
fn greet(controller: &Controller, authority: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "api: https://{}", controller.api)?;
    writeln!(out, "agents: {}", controller.fleet)?;
    if let Some(restconf) = controller.restconf.0 {
        writeln!(out, "restconf: https://{restconf}")?;
    }
    if let Some(plain) = controller.restconf.1 {
        writeln!(out, "restconf in the clear: http://{plain}")?;
    }
    if let Some((manager, openflow)) = controller.switches {
        writeln!(out, "switches: {manager} {openflow}")?;
    }
    writeln!(out, "authority: {} sha256:{}", authority.display(), controller.authority)?;
    let (resources, took) = (controller.resources, controller.took.as_secs_f64());
    writeln!(out, "resources: {resources}, read in {took:.3} s")?;
    if let Some(credential) = &controller.first_credential {
        writeln!(out, "credential: {credential}")?;
        writeln!(out, "It may write, and is shown only now: keep it well.")?;
    }
    writeln!(out, "ready")?;
    Ok(out.flush()?)
}

/// What is done to the store of a controller that is stopped: while it runs, the file is its own.
async fn with_store(config: &Config, command: &Command) -> anyhow::Result<()> {
    let path = config.store();
    let is_import = matches!(command, Command::Import { .. });
    if !is_import && !path.exists() {
        bail!("{} does not exist: there is nothing to read", path.display());
    }
    if is_import {
        std::fs::create_dir_all(&config.state_dir)
            .with_context(|| format!("{} cannot be made", config.state_dir.display()))?;
    }
    let store = match (Embedded::open(&path, Options::default()), command) {
        (Err(OpenError::InUse { .. }), Command::Backup { file }) => {
            return backup_of_running(config, file).await;
        }
        (store, _) => store.context("this needs a controller that is stopped")?,
    };
    match command {
        Command::Export { file: None } => {
            osier_store::export(&store, std::io::stdout().lock()).await?;
        }
        Command::Export { file: Some(file) } => {
            let out = private(file)?;
            osier_store::export(&store, std::io::BufWriter::new(out)).await?;
        }
        Command::Import { file, over } => {
            let from = std::fs::File::open(file)
                .with_context(|| format!("{} cannot be read", file.display()))?;
            let imported = osier_store::import(&store, from, *over).await?;
            let (documents, position) = (imported.documents, imported.position);
            writeln!(std::io::stdout(), "{documents} documents imported, now at {position}")?;
        }
        Command::Backup { file } => {
            let position = store.backup(file).await?;
            writeln!(std::io::stdout(), "{} is a copy as of {position}", file.display())?;
        }
        Command::Credential { .. } => {}
    }
    Ok(())
}

/// Lets a controller that runs copy its store, and puts the copy where it is wanted.
async fn backup_of_running(config: &Config, file: &Path) -> anyhow::Result<()> {
    let access = Access::of_admin(&config.admin())?;
    let access = access.with_context(|| {
        format!("a controller runs, and {} does not say how to ask it", config.admin().display())
    })?;
    // Before it is asked: where nothing can be put, nothing need be copied.
    let mut copy = private(file)?;
    let copied = async {
        let answer: Value = Client::new(access, PATIENCE)?.change("/backup", &json!({})).await?;
        let field = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        let made = PathBuf::from(field("path"));
        let mut from = std::fs::File::open(&made)
            .with_context(|| format!("{} cannot be read", made.display()))?;
        let written = std::io::copy(&mut from, &mut copy).and_then(|_| copy.sync_all());
        written.with_context(|| format!("{} cannot be written", file.display()))?;
        // It lies where it was asked for.
        std::fs::remove_file(&made)
            .with_context(|| format!("{} cannot be removed", made.display()))?;
        anyhow::Ok(field("resourceVersion"))
    };
    match copied.await {
        Ok(position) => {
            Ok(writeln!(std::io::stdout(), "{} is a copy as of {position}", file.display())?)
        }
        Err(error) => {
            // Half a copy is none.
            let _ = std::fs::remove_file(file);
            Err(error)
        }
    }
}

/// A new file for its owner only: an export has secrets, and so has a store.
fn private(path: &Path) -> anyhow::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.with_context(|| format!("{} cannot be made", path.display()))
}
