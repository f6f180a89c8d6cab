//! Commands inside a lab's pods and nodes.
//!
//! Namespaces are known by their names here, as any other tool knows them: the keeper is not asked.

use crate::controller::take_credential;
use crate::error::LabError;
use crate::layout::Layout;
use nix::sched::{CloneFlags, setns};
use osier_testbed::LAB_VARIABLE;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::{Command, Output, Stdio};
use std::thread;

/// What the controller's place is called.
const CONTROLLER: &str = "controller";

/// Becomes a command inside a pod, a node or the controller's machine. Returns only if that fails.
///
/// In a node, Open vSwitch's tools find the node's switch, and where the controller is `osier` finds
/// it. What still runs when the lab goes down is
/// ended with it.
pub fn exec(layout: &Layout, place: &str, command: &[OsString]) -> LabError {
    let controller = layout.controller.as_ref().filter(|_| place == CONTROLLER);
    let (netns, switch) = match (layout.pod(place), layout.node(place), controller) {
        (Some(pod), ..) => (&pod.netns, None),
        (None, Some(node), _) => (&node.netns, Some(&node.dir)),
        (None, None, Some(controller)) => (&controller.netns, None),
        (None, None, None) => return no_such_place(layout, place),
    };
    let Some((program, args)) = command.split_first() else {
        return LabError::Exec {
            program: "nothing".to_owned(),
            source: io::ErrorKind::InvalidInput.into(),
        };
    };
    let mut command = Command::new(program);
    command.args(args).env(LAB_VARIABLE, &layout.id);
    if let Some(dir) = switch {
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, dir);
        }
    }
    if let Some(controller) = controller {
        // One that is not ready has the old one, or none: the command line says so.
        let _ = take_credential(&controller.dir);
        command.envs(controller.environment());
    }
    let source = match enter(netns) {
        Ok(()) => command.exec(),
        Err(e) => e,
    };
    LabError::Exec { program: program.to_string_lossy().into_owned(), source }
}

fn no_such_place(layout: &Layout, wanted: &str) -> LabError {
    let pods = layout.pods.iter().map(|pod| pod.name.as_str());
    let controller = layout.controller.iter().map(|_| CONTROLLER);
    let nodes = layout.nodes.iter().map(|n| n.name.as_str());
    let places: Vec<&str> = pods.chain(nodes).chain(controller).collect();
    let (lab, wanted) = (layout.spec.name.clone(), wanted.to_owned());
    LabError::NoSuchPlace { lab, wanted, known: places.join(", ") }
}

/// Runs a command inside a namespace to its end.
pub(crate) fn output(netns: &str, command: &mut Command) -> io::Result<Output> {
    let inside = || {
        enter(netns)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    // A thread of its own: nothing else is ever in the wrong namespace.
    let child = thread::scope(|scope| scope.spawn(inside).join())
        .unwrap_or_else(|panic| resume_unwind(panic))?;
    child.wait_with_output()
}

/// Takes the calling thread into a namespace.
fn enter(netns: &str) -> io::Result<()> {
    let namespace = File::open(format!("/run/netns/{netns}"))?;
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}
