//! What clients of RESTCONF send: a method, a path and a body, against data that is there.
//!
//! The first byte is the method; then the path, up to a line's end; the rest is the body.

use osier_restconf::{Coe, Datastore, Edit, Isolation, Method, Path, Schema, read, show};
use serde_json::Value;

/// A target: its name, which is also that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets of the crate.
#[allow(dead_code, reason = "for the replay; a fuzz target calls its own body alone")]
pub const TARGETS: &[Target] = &[("rc_request", request)];

const UID: &str = "00000000-0000-0000-0000-000000000001";

/// One pod, one Service, one pool.
fn data() -> Datastore {
    let mut data = Datastore::default();
    let unit = |path: &str, text: &str| (path.to_owned(), serde_json::from_str(text).ok());
    data.apply(&[
        unit(
            &format!("pod:coe/pods={UID}"),
            r#"{"uid":"00000000-0000-0000-0000-000000000001","name":"web","network-NS":"shop",
                "host-ip-address":"192.0.2.1","interface":[
                {"uid":"00000000-0000-0000-0000-000000000001","ip-address":"10.0.0.1"}]}"#,
        ),
        unit(
            &format!("service:service-information/services={UID}"),
            r#"{"uid":"00000000-0000-0000-0000-000000000001","name":"db","network-NS":"shop",
                "cluster-ip-address":"10.96.0.1","service-ports":[{"name":"","port":80}]}"#,
        ),
        unit(
            "dhcp_allocation_pool:dhcp_allocation_pool/network=shop",
            r#"{"network-id":"shop","allocation-pool":[{"subnet":"10.0.0.0/24"}]}"#,
        ),
    ]);
    data
}

/// What is taken can be undone, is kept in one spelling, and can be shown; what it means to the model
/// can be learnt and forgotten.
pub fn request(input: &[u8]) {
    let Some((method, rest)) = input.split_first() else { return };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let Ok(path) = std::str::from_utf8(&rest[..end]) else { return };
    let Ok(path) = Path::parse(path) else { return };
    let method = match method % 4 {
        0 => Method::Put,
        1 => Method::Post,
        2 => Method::Patch,
        _ => Method::Delete,
    };
    let body: Option<Value> =
        rest.get(end + 1..).and_then(|body| serde_json::from_slice(body).ok());
    let mut data = data();
    let before: Vec<_> = data.units().map(|(p, v)| (p.clone(), v.clone())).collect();
    let Ok(edited) = (Edit { method, path: &path, body: body.as_ref() }).of(&data) else { return };
    let undo = data.apply(&edited.changes);
    if let (Some(found), Some(target)) = (data.get(&path.steps), path.target()) {
        show(path.flavour, target, found);
    }
    for (root, whole) in data.all() {
        let mut notes = osier_restconf::Normalised::default();
        assert_eq!(read(root, &whole, "", &mut notes).as_ref(), Ok(&whole), "it has one spelling");
        assert!(notes.is_empty() && Schema::get().module(&root.module).is_some());
    }
    let mut coe = Coe::new(Isolation::Namespaces);
    if coe.learn(&undo).is_ok()
        && let Ok((targets, undo)) = coe.learn(&edited.changes)
    {
        for target in targets {
            coe.wanted(&target);
        }
        coe.undo(undo);
    }
    data.apply(&undo);
    assert!(data.units().map(|(p, v)| (p.clone(), v.clone())).eq(before));
}
