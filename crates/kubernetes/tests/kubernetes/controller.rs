//! A controller of a test.

use crate::server::{NAMESPACE, Server};
use osier_controller::config::{Config, KubernetesConfig, LeaseConfig};
use osier_kubernetes::Kubernetes;
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A controller in this process. Dropped without a word it is as good as killed.
pub(crate) struct Controller {
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    pub(crate) config: Config,
    _folder: TempDir,
}

/// How tests configure it: `number` tells controllers apart.
pub(crate) fn config(server: &Server, folder: &TempDir, number: u16) -> Config {
    let at = |port: u16| SocketAddr::from(([0, 0, 0, 0], port + 10 * number));
    let mut config = Config { state_dir: folder.path().to_owned(), ..Config::default() };
    config.api.listen = at(6645);
    config.fleet.listen = at(6646);
    config.kubernetes = Some(KubernetesConfig {
        kubeconfig: Some(server.account("osier-controller")),
        namespace: Some(NAMESPACE.to_owned()),
        advertise: Some([192, 0, 2, 100].into()),
        lease: LeaseConfig { duration_seconds: 4, renew_seconds: 3, retry_seconds: 1 },
        ..KubernetesConfig::default()
    });
    config
}

impl Controller {
    pub(crate) async fn start(server: &Server, number: u16) -> Self {
        Self::with(server, number, |_| {}).await
    }

    pub(crate) async fn with(
        server: &Server,
        number: u16,
        change: impl FnOnce(&mut KubernetesConfig),
    ) -> Self {
        log();
        let folder = TempDir::new().unwrap();
        let mut config = config(server, &folder, number);
        change(config.kubernetes.as_mut().unwrap());
        let kubernetes = Kubernetes::new(config.clone()).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let ended = kubernetes.run(async { drop(stopped.await) }).await;
            ended.unwrap();
        });
        Self { stop: Some(stop), task: Some(task), config, _folder: folder }
    }

    /// Where agents of a machine connect to it.
    pub(crate) fn fleet(&self, machine: &str) -> String {
        format!("{machine}:{}", self.config.fleet.listen.port())
    }

    /// Stops it in order.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.take().unwrap().await.unwrap();
    }

    /// Ends it at once, without giving anything back.
    pub(crate) async fn kill(mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        let _ = task.await;
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// What controllers say is shown with tests that fail.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("OSIER_LOG")
        .unwrap_or_else(|_| "info,kube_client::client::builder=off".into());
    let writer = tracing_subscriber::fmt::TestWriter::new();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let _ = log.with_ansi(false).try_init();
}
