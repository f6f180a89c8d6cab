//! A whole cluster with the reference network: it carries traffic, its faults are faults and end, and
//! nothing of it stays. Run by `make soak`; what runs in CI is the cluster with Osier itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_kubelab::{AGNHOST, Cluster, ClusterError, Settings};
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(2);

fn start_pod(cluster: &Cluster, name: &str, node: &str) {
    let pod = format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: echo}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 1
  containers: [{{name: agnhost, image: \"{AGNHOST}\", args: [netexec]}}]
"
    );
    cluster.apply(&pod).unwrap();
}

fn wait_for_pod(cluster: &Cluster, name: &str) -> String {
    let pod = format!("pod/{name}");
    cluster.kubectl(&["wait", &pod, "--for=condition=Ready", "--timeout=100s"]).unwrap();
    cluster.kubectl(&["get", &pod, "-o", "jsonpath={.status.podIP}"]).unwrap()
}

fn talk(cluster: &Cluster, from: &str, to: &str) {
    let url = format!("http://{to}:8080/hostname");
    cluster
        .wait("an answer", PATIENCE, || {
            cluster.kubectl(&["exec", from, "--", "curl", "-s", "-m", "2", &url])
        })
        .unwrap();
}

fn is_ready(cluster: &Cluster, node: &str) -> Result<bool, String> {
    let query = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    let status = cluster.kubectl(&["get", "node", node, "-o", query]).map_err(|e| e.to_string())?;
    Ok(status == "True")
}

#[test]
#[ignore = "minutes: run by `make soak`"]
fn soak_of_faults_in_a_cluster() {
    let cluster = Cluster::up(Settings { dual: true, ..Settings::default() }).unwrap();
    cluster.install_reference_network().unwrap();
    cluster.install_dns().unwrap();
    start_pod(&cluster, "a", "node-1");
    start_pod(&cluster, "b", "node-2");
    let (_, b) = (wait_for_pod(&cluster, "a"), wait_for_pod(&cluster, "b"));
    talk(&cluster, "a", &b);
    let found = cluster.kubectl(&[
        "exec",
        "a",
        "--",
        "dig",
        "+short",
        "kube-dns.kube-system.svc.cluster.local",
    ]);
    assert_eq!(found.unwrap().trim(), "10.96.0.10");

    // The API server goes and comes back; pods are where they were.
    let control_plane = cluster.control_plane();
    control_plane.kill("kube-apiserver").unwrap();
    assert!(cluster.kubectl(&["get", "--raw", "/readyz"]).is_err());
    control_plane.start("kube-apiserver").unwrap();
    cluster.wait_for_api().unwrap();
    talk(&cluster, "a", &b);

    // A kubelet is killed; its pods do not notice.
    let machine = cluster.node("node-2").unwrap().machine();
    let before = machine.pid_of("kubelet").unwrap();
    machine.kill("kubelet").unwrap();
    machine.start("kubelet").unwrap();
    assert_ne!(machine.pid_of("kubelet").unwrap(), before);
    talk(&cluster, "a", &b);

    // A node loses power; its pods run again after it boots, with the images on its disk.
    cluster.reboot("node-2").unwrap();
    for daemon in ["containerd", "kubelet", "kube-proxy", "ovs-vswitchd", "ovsdb-server"] {
        assert!(machine.daemons()[daemon].is_none(), "{daemon} ended");
    }
    cluster.install_reference_network().unwrap();
    let restarted = "jsonpath={.status.containerStatuses[0].restartCount}";
    cluster
        .wait("the pod to run again", PATIENCE, || {
            match cluster.kubectl(&["get", "pod", "b", "-o", restarted]) {
                Ok(count) if count == "1" => Ok(()),
                Ok(count) => Err(count),
                Err(e) => Err(e.to_string()),
            }
        })
        .unwrap();
    let b = wait_for_pod(&cluster, "b");
    talk(&cluster, "a", &b);

    // A cut cable is noticed, and mends.
    cluster.set_link("node-2", false).unwrap();
    cluster
        .wait("the node to be missed", PATIENCE, || match is_ready(&cluster, "node-2") {
            Ok(false) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .unwrap();
    cluster.set_link("node-2", true).unwrap();
    cluster.wait_until_ready().unwrap();

    let (id, dir) = (cluster.lab().id().to_owned(), cluster.lab().dir().to_owned());
    drop(cluster);
    assert!(!dir.exists());
    for place in ["/run/netns", "/sys/fs/cgroup", "/sys/fs/cgroup/memory"] {
        let names = fs::read_dir(place).into_iter().flatten().flatten();
        let left = names.filter(|entry| entry.file_name().to_string_lossy().contains(&id)).count();
        assert_eq!(left, 0, "{place}");
    }
}

#[test]
#[ignore = "starts daemons: run by `make soak`"]
fn soak_of_a_cluster_that_cannot_start() {
    let apiserver_args = vec!["--no-such-flag".to_owned()];
    let error = Cluster::up(Settings { apiserver_args, ..Settings::default() }).unwrap_err();
    let ClusterError::Kept { logs, source } = error else { panic!("{error}") };
    let said = source.to_string();
    assert!(said.contains("kube-apiserver on cp: exit status: 1"), "{said}");
    let log = fs::read_to_string(logs.join("cp/kube-apiserver.log")).unwrap();
    assert!(log.contains("unknown flag: --no-such-flag"), "{log}");
    fs::remove_dir_all(logs).unwrap();
}
