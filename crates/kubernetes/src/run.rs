//! The process: waits to lead, leads, and waits again.
//!
//! Leading has a runtime of its own. When the lease is lost, that is thrown away with all its tasks,
//! connections and clients, so that nothing of it can go on, whatever it was about to do.

use crate::announce::Announcer;
use crate::authority::{self, Kept};
use crate::client::{client, courteous, way};
use crate::courtesy::Courtesy;
use crate::election::{Election, Held};
use crate::error::{KubernetesError, failed};
use crate::lead::{Setup, lead};
use crate::problems::Whose;
use crate::standby;
use kube::Client;
use osier_controller::config::{Config, KubernetesConfig};
use ring::rand::{SecureRandom, SystemRandom};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Where our objects are, unless told otherwise.
const NAMESPACE: &str = "osier-system";
/// How long the parts of leading have to end: less than others wait for the lease.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the next try after leading failed by itself.
const PAUSE: Duration = Duration::from_secs(2);

/// A controller in Kubernetes.
pub struct Kubernetes {
    config: Config,
    settings: KubernetesConfig,
    way: kube::Config,
    namespace: String,
    identity: String,
    /// The pod that this is.
    pod: Option<String>,
}

// === impl Kubernetes ===

impl Kubernetes {
    /// With a configuration that has `[kubernetes]`; the API server need not be there yet.
    pub async fn new(config: Config) -> Result<Self, KubernetesError> {
        let settings = config.kubernetes.clone().ok_or(KubernetesError::Unconfigured)?;
        let way = way(&settings).await?;
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let namespace = settings.namespace.clone().or_else(|| said("POD_NAMESPACE"));
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let pod = said("POD_NAME");
        let name = pod.clone().unwrap_or_else(|| machine.trim().to_owned());
        let mut random = [0; 8];
        // Two that start at once need only differ.
        let _ = SystemRandom::new().fill(&mut random);
        let random = u64::from_be_bytes(random);
        Ok(Self {
            config,
            settings,
            way,
            namespace: namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
            identity: format!("{name}_{random:016x}"),
            pod,
        })
    }

    /// Runs until it is told to stop.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), KubernetesError> {
        let mut stop = std::pin::pin!(stop);
        // Its connection is its own: renewing waits for nobody.
        let client = client(&self.way)?;
        let lease = self.settings.lease;
        let election = Election::new(client.clone(), &self.namespace, self.identity.clone(), lease);
        let election = match &self.pod {
            Some(pod) => election.reborn(format!("{pod}_")),
            None => election,
        };
        let prepared = async {
            let standby = standby::serve(self.config.api.listen);
            tokio::select! {
                authority = self.authority(&client) => Ok(authority),
                failed = standby => Err(failed.err().unwrap_or(KubernetesError::Ended("standby"))),
            }
        };
        let authority = tokio::select! {
            prepared = prepared => prepared?,
            () = &mut stop => return Ok(()),
        };
        let announcer = Announcer::new(
            client.clone(),
            &self.namespace,
            self.advertised().to_string(),
            authority.certificate.clone(),
        );
        if self.advertised().ip().is_unspecified() {
            tracing::error!(
                "agents cannot find this controller: set [kubernetes] advertise, or POD_IP"
            );
        }
        let announcing = Ending(tokio::spawn(announcer.clone().keep()));
        loop {
            tracing::info!(identity = self.identity, "standby");
            let mut held = tokio::select! {
                held = election.acquire() => held,
                failed = standby::serve(self.config.api.listen) => {
                    return Err(failed.err().unwrap_or(KubernetesError::Ended("standby")));
                }
                () = &mut stop => return Ok(()),
            };
            let leading = Leading::begin(&self, &announcer, &authority, &held)?;
            match leading.until(&election, &mut held, stop.as_mut()).await {
                End::Stopped => {
                    drop(announcing);
                    election.release(held).await;
                    return Ok(());
                }
                End::Lost(why) => tracing::warn!(why, "the lease is lost: leading ended"),
                End::Failed(why) => {
                    tracing::error!(why, "leading failed");
                    // Another may do better.
                    election.release(held).await;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// The cluster's authority, as soon as it can be had.
    async fn authority(&self, client: &Client) -> Kept {
        let mut wait = Duration::from_secs(1);
        loop {
            match authority::load(client, &self.namespace, &self.config.cluster).await {
                Ok(kept) => return kept,
                Err(error) => tracing::warn!(error = %failed(&error), "there is no authority yet"),
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(15));
        }
    }

    /// Where agents find us.
    fn advertised(&self) -> SocketAddr {
        let mut listen = self.config.fleet.listen;
        let said = std::env::var("POD_IP").ok().and_then(|ip| ip.parse().ok());
        if let Some(address) = self.settings.advertise.or(said) {
            listen.set_ip(address);
        }
        listen
    }
}

/// A task that ends with its handle.
struct Ending(JoinHandle<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How leading ended.
enum End {
    Stopped,
    Lost(String),
    Failed(String),
}

/// A runtime that is thrown away, wherever that happens.
struct Own(Option<tokio::runtime::Runtime>);

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Leading, on a runtime of its own.
struct Leading {
    runtime: Own,
    task: JoinHandle<Result<(), KubernetesError>>,
    stop: oneshot::Sender<()>,
}

// === impl Leading ===

impl Leading {
    fn begin(
        of: &Kubernetes,
        announcer: &Announcer,
        authority: &Kept,
        held: &Held,
    ) -> Result<Self, KubernetesError> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(threads).thread_name("leading").enable_all().build();
        let runtime = runtime.map_err(KubernetesError::Runtime)?;
        let guard = runtime.enter();
        let courtesy = Courtesy::default();
        let setup = Setup {
            config: of.config.clone(),
            kubernetes: of.settings.clone(),
            client: courteous(&of.way, &courtesy)?,
            courtesy,
            lease: Whose::lease(&of.namespace, held.uid()),
            namespace: of.namespace.clone(),
            identity: of.identity.clone(),
            authority: authority.clone(),
            announcer: announcer.clone(),
            is_pod: of.pod.is_some(),
            term: held.term(),
        };
        drop(guard);
        let (stop, stopped) = oneshot::channel();
        let task = runtime.spawn(lead(setup, stopped));
        Ok(Self { runtime: Own(Some(runtime)), task, stop })
    }

    /// Leads for as long as the lease holds.
    async fn until(
        self,
        election: &Election,
        held: &mut Held,
        stop: impl Future<Output = ()>,
    ) -> End {
        let Self { mut runtime, mut task, stop: tell } = self;
        let said = |ended: Result<Result<(), KubernetesError>, tokio::task::JoinError>| match ended
        {
            Ok(Ok(())) => "it ended".to_owned(),
            Ok(Err(error)) => failed(&error),
            Err(panic) => panic.to_string(),
        };
        let end = tokio::select! {
            why = election.keep(held) => End::Lost(why),
            ended = &mut task => End::Failed(said(ended)),
            () = stop => {
                // What agents and clients were told to the end is told.
                drop(tell);
                let _ = tokio::time::timeout(GRACE, task).await;
                End::Stopped
            }
        };
        let runtime = runtime.0.take();
        let ended = tokio::task::spawn_blocking(move || {
            if let Some(runtime) = runtime {
                runtime.shutdown_timeout(GRACE);
            }
        });
        // A thread that does not end holds nothing that anybody could use.
        let _ = tokio::time::timeout(2 * GRACE, ended).await;
        end
    }
}
