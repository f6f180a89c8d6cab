//! The control plane's machine: etcd, the API server, the controller manager, the scheduler.
//!
//! It is no node: pods never run on it. What etcd holds is in memory, for speed, and is gone when the
//! machine loses power.

use crate::error::ClusterError;
use crate::machine::Machine;
use crate::pki::Pki;
use crate::settings::{API_PORT, CONTROL_PLANE, Settings};

/// Starts etcd and the API server, without waiting for them.
pub(crate) fn start_api(
    machine: &Machine,
    settings: &Settings,
    pki: &Pki,
) -> Result<(), ClusterError> {
    machine.spawn(
        "etcd",
        &[
            "etcd",
            "--name=cp",
            "--data-dir=/run/etcd",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--logger=zap",
            "--log-level=warn",
        ],
    )?;
    let mut args = apiserver(settings, pki);
    args.extend(settings.apiserver_args.iter().cloned());
    spawn(machine, "kube-apiserver", &args)
}

/// Starts those that need the API server.
pub(crate) fn start_controllers(
    machine: &Machine,
    settings: &Settings,
    pki: &Pki,
) -> Result<(), ClusterError> {
    let path = |name: &str| pki.path(name).display().to_string();
    let mut args = vec![
        format!("--kubeconfig={}", path("kube-controller-manager.conf")),
        "--leader-elect=false".to_owned(),
        format!("--service-cluster-ip-range={}", settings.service_ranges()),
        "--use-service-account-credentials=true".to_owned(),
        format!("--service-account-private-key-file={}", path("sa.key")),
        format!("--root-ca-file={}", path("ca.crt")),
        format!("--cluster-signing-cert-file={}", path("ca.crt")),
        format!("--cluster-signing-key-file={}", path("ca.key")),
    ];
    if settings.pod_cidrs {
        args.push("--allocate-node-cidrs=true".to_owned());
        args.push(format!("--cluster-cidr={}", settings.pod_ranges()));
    }
    spawn(machine, "kube-controller-manager", &args)?;
    let scheduler = [
        format!("--kubeconfig={}", path("kube-scheduler.conf")),
        "--leader-elect=false".to_owned(),
    ];
    spawn(machine, "kube-scheduler", &scheduler)
}

fn apiserver(settings: &Settings, pki: &Pki) -> Vec<String> {
    let path = |name: &str| pki.path(name).display().to_string();
    let address = settings.underlay(CONTROL_PLANE)[0];
    vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        format!("--advertise-address={address}"),
        format!("--secure-port={API_PORT}"),
        format!("--service-cluster-ip-range={}", settings.service_ranges()),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--client-ca-file={}", path("ca.crt")),
        format!("--tls-cert-file={}", path("apiserver.crt")),
        format!("--tls-private-key-file={}", path("apiserver.key")),
        format!("--kubelet-client-certificate={}", path("apiserver-kubelet-client.crt")),
        format!("--kubelet-client-key={}", path("apiserver-kubelet-client.key")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", path("sa.pub")),
        format!("--service-account-signing-key-file={}", path("sa.key")),
        format!("--requestheader-client-ca-file={}", path("front-ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", path("front-proxy.crt")),
        format!("--proxy-client-key-file={}", path("front-proxy.key")),
        // There is no kube-proxy on this machine: it dials the pods themselves.
        "--enable-aggregator-routing=true".to_owned(),
    ]
}

/// Starts a program that bears the daemon's name.
pub(crate) fn spawn(machine: &Machine, program: &str, args: &[String]) -> Result<(), ClusterError> {
    let mut command = vec![program];
    command.extend(args.iter().map(String::as_str));
    Ok(machine.spawn(program, &command)?)
}
