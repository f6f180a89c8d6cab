//! What fails, while pods talk and others are made.

use crate::stream::Stream;
use crate::world::{PATIENCE, World};
use osier_kubelab::AGNHOST;
use std::time::{Duration, Instant};

/// Agents and the controller are killed, one after the other and together; pods are made meanwhile.
pub(crate) fn kills(world: &World) {
    let stream = Stream::start(world);
    for part in ["osier-agent", "osier-controller"] {
        for pod in world.parts(part) {
            let args = [
                "delete",
                &pod,
                "-n",
                "osier-system",
                "--grace-period=0",
                "--force",
                "--wait=false",
            ];
            world.cluster.kubectl(&args).unwrap();
        }
        let name = format!("during-{part}");
        let begun = Instant::now();
        world.start_pod(&name, "node-2");
        world.wait_for_pod(&name);
        println!(
            "a pod while {part} is killed: ready after {:.1} s",
            begun.elapsed().as_secs_f64()
        );
        world.wait_for_osier();
        world.talk("a", &world.addresses(&name)[0]);
    }
    stream.nothing_lost("agents and controller killed");
}

/// The API server is away: pods talk on, others are made, and nothing of them is forgotten when it
/// comes back.
pub(crate) fn outage(world: &World) {
    let stream = Stream::start(world);
    world.start_pod("remade", "node-2");
    world.wait_for_pod("remade");
    let control_plane = world.cluster.control_plane();
    control_plane.kill("kube-apiserver").unwrap();
    let away = Instant::now();
    remake(world, "remade", "node-2");
    println!("a pod while the API server is away: made and reached after {:.1?}", away.elapsed());
    // The outage itself, not a wait for anything.
    std::thread::sleep(Duration::from_mins(1).saturating_sub(away.elapsed()));
    control_plane.start("kube-apiserver").unwrap();
    world.cluster.wait_for_api().unwrap();
    world.cluster.wait_until_ready().unwrap();
    world.wait_for_osier();
    let begun = Instant::now();
    world.start_pod("after-outage", "node-1");
    world.wait_for_pod("after-outage");
    let ready = begun.elapsed().as_secs_f64();
    // Kubelet asks for its pods again after a wait that has grown with the outage, up to a minute.
    let times = "jsonpath={.metadata.creationTimestamp} {.status.startTime}";
    let times = world.cluster.kubectl(&["get", "pod", "after-outage", "-o", times]).unwrap();
    println!(
        "a pod after the outage: ready after {ready:.1} s; made, and begun by kubelet: {times}"
    );
    world.talk("b", &world.addresses("after-outage")[0]);
    stream.nothing_lost("API server away for a minute");
}

/// Ends a pod's sandbox, for which its kubelet makes another, and waits until that is reached. Nobody
/// asks the API server for anything.
fn remake(world: &World, pod: &str, node: &str) {
    let machine = world.cluster.node(node).unwrap().machine();
    let of = format!("external_ids:iface-id=\"default:{pod}\"");
    let address = || -> Result<String, String> {
        let columns = ["ovs-vsctl", "--bare", "--columns=external_ids", "find", "interface", &of];
        let ids = machine.run(&columns).map_err(|e| e.to_string())?;
        // The first of its addresses: one of each family is in there, after one another.
        let mut ids = ids.split([' ', ',', '"']);
        let found = ids.find_map(|id| id.trim().strip_prefix("ip-address="));
        found.map(str::to_owned).ok_or_else(|| "it has no port".to_owned())
    };
    let before = address().unwrap();
    let name = format!("labels.\"io.kubernetes.pod.name\"=={pod}");
    let sandbox = format!("{name},labels.\"io.cri-containerd.kind\"==sandbox");
    let sandbox =
        machine.run(&["ctr", "-n", "k8s.io", "containers", "ls", "-q", &sandbox]).unwrap();
    let kill = ["ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", sandbox.trim()];
    machine.run(&kill).unwrap();
    let reached = || {
        let now = address()?;
        if now == before {
            return Err(format!("it has {now} still"));
        }
        machine.run(&["ping", "-c1", "-W2", &now]).map_err(|e| e.to_string())
    };
    world.cluster.wait("another sandbox", PATIENCE, reached).unwrap();
}

/// Many more pods come and end than a node has addresses, and stay in the API server when they have
/// ended: what they had is given to others, and nothing of them stays on the node.
pub(crate) fn completed(world: &World) {
    const PODS: usize = 600;
    let job = format!(
        "apiVersion: batch/v1
kind: Job
metadata: {{name: many}}
spec:
  completions: {PODS}
  parallelism: 20
  template:
    spec:
      nodeName: node-1
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{{name: ends, image: \"{AGNHOST}\", command: [\"true\"]}}]
"
    );
    let begun = Instant::now();
    let machine = world.cluster.node("node-1").unwrap().machine();
    let ports = || -> Result<usize, String> {
        let all = ["ovs-vsctl", "--bare", "--columns=name", "find", "interface", "type=\"\""];
        Ok(machine.run(&all).map_err(|e| e.to_string())?.split_whitespace().count())
    };
    let before = ports().unwrap();
    world.cluster.apply(&job).unwrap();
    let done = ["get", "job", "many", "-o", "jsonpath={.status.succeeded}"];
    let all_done = || match world.cluster.kubectl(&done) {
        Ok(count) if count == PODS.to_string() => Ok(()),
        Ok(count) => Err(format!("{count} of {PODS} are done")),
        Err(e) => Err(e.to_string()),
    };
    world.cluster.wait("all pods to end", Duration::from_mins(15), all_done).unwrap();
    let none_left = || match ports()? {
        now if now == before => Ok(()),
        now => Err(format!("{now} ports, where {before} were")),
    };
    world.cluster.wait("their ports to go", PATIENCE, none_left).unwrap();
    println!("{PODS} pods came and ended in {:.0?}", begun.elapsed());
    world.start_pod("after-many", "node-1");
    world.wait_for_pod("after-many");
    world.talk("b", &world.addresses("after-many")[0]);
}

/// A node loses power, and boots.
pub(crate) fn reboot(world: &World) {
    world.cluster.reboot("node-2").unwrap();
    let begun = Instant::now();
    let restarted = "jsonpath={.status.containerStatuses[0].restartCount}";
    let again = || match world.cluster.kubectl(&["get", "pod", "b", "-o", restarted]) {
        Ok(count) if count.trim() == "1" => Ok(()),
        Ok(count) => Err(count),
        Err(e) => Err(e.to_string()),
    };
    world.cluster.wait("the pod to run again", PATIENCE, again).unwrap();
    world.wait_for_osier();
    world.wait_for_pod("b");
    for address in world.addresses("b") {
        world.talk("a", &address);
    }
    println!("pods of a node that rebooted talk after {:.1} s", begun.elapsed().as_secs_f64());
}

/// A node is taken out of the cluster and comes back with another address, and other addresses for pods.
pub(crate) fn readdressed(world: &World) {
    let cluster = &world.cluster;
    let before = (world.node_address("node-2"), cluster.pod_cidrs("node-2").unwrap());
    let begun = Instant::now();
    cluster.readdress("node-2").unwrap();
    // Nobody runs them any more, and nobody but the cluster's garbage collector would say so.
    let leftover = ["delete", "pod", "-A", "--field-selector=spec.nodeName=node-2"];
    cluster.kubectl(&[&leftover[..], &["--force", "--grace-period=0"]].concat()).unwrap();
    cluster.route_pods().unwrap();
    cluster.wait_until_ready().unwrap();
    world.wait_for_osier();
    let after = (world.node_address("node-2"), cluster.pod_cidrs("node-2").unwrap());
    assert_ne!(before.0, after.0);
    world.start_pod("b", "node-2");
    world.wait_for_pod("b");
    for address in world.addresses("b") {
        world.talk("a", &address);
    }
    world.reach_from_the_node("node-1", "b");
    println!(
        "a node was {} with {:?}, is {} with {:?}; its pods talk after {:.1} s",
        before.0,
        before.1,
        after.0,
        after.1,
        begun.elapsed().as_secs_f64()
    );
}
