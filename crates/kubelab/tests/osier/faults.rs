//! What fails, while pods talk and others are made.

use crate::stream::Stream;
use crate::world::{PATIENCE, World};
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

/// The API server is away: pods talk on, and nothing of them is forgotten when it comes back.
pub(crate) fn outage(world: &World) {
    let stream = Stream::start(world);
    let control_plane = world.cluster.control_plane();
    control_plane.kill("kube-apiserver").unwrap();
    // The outage itself, not a wait for anything.
    std::thread::sleep(Duration::from_mins(1));
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
