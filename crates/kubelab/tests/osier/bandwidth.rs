//! Pods that say how much they may send and receive.

use crate::world::World;

/// The limit of both ways, in bits a second.
const LIMIT: f64 = 10e6;
/// Enough for a second's worth at once, which a limit lets through, not to matter much.
const BYTES: &str = "6M";

pub(crate) fn is_limited(world: &World) {
    let limits = "{kubernetes.io/ingress-bandwidth: 10M, kubernetes.io/egress-bandwidth: 10M}";
    world.start_pod_with("slow", "node-2", &format!("annotations: {limits}"));
    world.wait_for_pod("slow");
    for pod in ["a", "slow"] {
        let serve =
            format!("dd if=/dev/zero of=/tmp/zeros bs={BYTES} count=1 && httpd -p 8000 -h /tmp");
        world.cluster.kubectl(&["exec", pod, "--", "sh", "-c", &serve]).unwrap();
    }
    let free = rate(world, "b", "a");
    let (egress, ingress) = (rate(world, "a", "slow"), rate(world, "slow", "a"));
    println!(
        "without a limit {:.0} Mbit/s; with one of 10: egress {:.1}, ingress {:.1}",
        free / 1e6,
        egress / 1e6,
        ingress / 1e6
    );
    assert!(egress < 1.5 * LIMIT && ingress < 1.5 * LIMIT, "{egress} and {ingress} bits a second");
    world.cluster.kubectl(&["delete", "pod", "slow", "--wait=false"]).unwrap();
}

/// Bits a second that a pod receives from another.
fn rate(world: &World, to: &str, from: &str) -> f64 {
    let url = format!("http://{}:8000/zeros", world.addresses(from)[0]);
    let curl = ["curl", "-sf", "-o", "/dev/null", "-w", "%{speed_download}", &url];
    let said = world.cluster.kubectl(&[&["exec", to, "--"], &curl[..]].concat()).unwrap();
    said.trim().parse::<f64>().unwrap() * 8.0
}
