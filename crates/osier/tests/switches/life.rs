//! A pod's life over REST, on a switch without an agent.

use crate::rig::{BRIDGE, Dial, PATIENCE, Rig, pod_path};
use osier_testbed::wait_until;

#[test]
fn a_pod_lives_and_ends_over_rest() {
    let rig = Rig::new(1, Rig::allowed());
    rig.put_node(0);
    rig.make_bridge(0, Dial::Switch);
    let stays = rig.pod(4, "stays", "red", 0);
    // The client first, the wire later.
    rig.put_pod(5, "goes", "red", 0, "10.11.1.5");
    let goes = rig.add_pod("goes", 0, "10.11.1.5", "red:goes");
    stays.reaches(goes.address);
    assert!(rig.flows(0).contains("10.11.1.5"));
    rig.delete(&pod_path(5));
    stays.loses(goes.address);
    let gone = || if rig.flows(0).contains("10.11.1.5") { Err("flows are left") } else { Ok(()) };
    wait_until("no flows of it", PATIENCE, gone).unwrap();
    // It comes again, and the wire is there already.
    rig.put_pod(6, "goes", "red", 0, "10.11.1.5");
    stays.reaches(goes.address);
    // The wire goes and nobody tells: in the end its pod does, too.
    rig.remove_pod(&goes);
    let aged = || match rig.curl("GET", &pod_path(6), None).0 {
        404 => Ok(()),
        status => Err(status),
    };
    wait_until("the pod to age", PATIENCE, aged).unwrap();
    assert_eq!(rig.curl("GET", &pod_path(4), None).0, 200, "who is there stays");
}

#[test]
fn a_switch_forwards_on_without_its_controller_and_is_driven_by_the_next() {
    let mut rig = Rig::new(1, Rig::allowed());
    rig.put_node(0);
    rig.make_bridge(0, Dial::Switch);
    let (one, other) = (rig.pod(4, "one", "red", 0), rig.pod(5, "other", "red", 0));
    one.reaches(other.address);
    rig.kill();
    assert!(!one.misses(other.address));
    rig.start();
    let late = rig.pod(6, "late", "red", 0);
    late.reaches(one.address);
    // The switch itself starts anew, without a flow.
    rig.fabric.nodes_mut()[0].kill_vswitchd();
    rig.fabric.nodes_mut()[0].start_vswitchd().unwrap();
    late.reaches(other.address);
}

/// A machine loses power and boots, twice: its database remembers a bridge, and wires that are no more. The
/// runtime removes those, as it does after a boot, and makes its pods again.
#[test]
fn a_machine_that_boots_is_driven_again() {
    let mut rig = Rig::new(2, Rig::allowed());
    for node in 0..2 {
        rig.put_node(node);
        rig.make_bridge(node, Dial::Switch);
    }
    let far = rig.pod(6, "far", "red", 1);
    let mut web = rig.pod(4, "web", "red", 0);
    for _ in 0..2 {
        far.reaches(web.address);
        let (address, host) = (web.address, web.host.clone());
        drop(web);
        rig.fabric.reboot(0).unwrap();
        rig.make_gateway(0);
        assert!(far.misses(address), "nobody has it");
        rig.node(0).ovs().vsctl(&["del-port", BRIDGE, &host]).unwrap();
        web = rig.pod(4, "web", "red", 0);
    }
    far.reaches(web.address);
    web.reaches([10, 11, 1, 1].into());
}
