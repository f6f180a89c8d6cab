//! Methods on data: what changes, what is refused, and where.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use osier_restconf::{Datastore, Edit, Edited, ErrorTag, Method, Path, Problem, show};
use serde_json::{Value, json};

const POD: &str = "ac092d9b-e9eb-bae2-eed8-74aca2b7fa9c";
const OTHER: &str = "7ba91a3a-f17e-2ebb-edec-3bbbea27dca7";

fn try_edit(
    data: &mut Datastore,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Edited, Problem> {
    let path = Path::parse(path)?;
    let body = Some(body).filter(|body| !body.is_null());
    let edited = Edit { method, path: &path, body }.of(data)?;
    data.apply(&edited.changes);
    Ok(edited)
}

fn edit(data: &mut Datastore, method: Method, path: &str, body: &Value) -> Edited {
    try_edit(data, method, path, body).unwrap_or_else(|problem| panic!("{path}: {problem}"))
}

fn get(data: &Datastore, path: &str) -> Option<Value> {
    let path = Path::parse(path).unwrap();
    let found = data.get(&path.steps)?;
    Some(show(path.flavour, path.target().unwrap(), found))
}

/// As printed in the documents that describe the interface.
#[test]
fn the_documents_samples_are_taken_as_printed() {
    let mut data = Datastore::default();
    let sample = |name: &str| -> Value {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        serde_json::from_str(&std::fs::read_to_string(format!("{folder}/{name}")).unwrap()).unwrap()
    };
    // The documents do not say the method: both have to work.
    for method in [Method::Put, Method::Post] {
        let mut data = Datastore::default();
        let pool = sample("post-dhcp-allocation-pool.json");
        edit(
            &mut data,
            method,
            "/restconf/config/dhcp_allocation_pool:dhcp_allocation_pool/",
            &pool,
        );
        edit(&mut data, method, "/restconf/config/pod:coe", &sample("post-pod-coe.json"));
        let service = sample("put-service-information.json");
        edit(&mut data, method, "/restconf/config/service:service-information", &service);
        assert_eq!(data.units().count(), 3);
    }
    edit(&mut data, Method::Post, "/restconf/config/pod:coe", &sample("post-pod-coe.json"));
    let found = get(&data, &format!("/rests/data/pod:coe/pods={POD}")).unwrap();
    assert_eq!(
        found,
        json!({"pod:pods": [{
            "version": "Some version", "uid": POD,
            "interface": [{
                "uid": OTHER, "ip-address": "0.147.0.7", "segmentation-id": "0",
                "network-id": "fbad80df-b0b4-0580-8d14-11fcaced2ac6", "network-type": "FLAT",
            }],
        }]})
    );
}

#[test]
fn an_entry_is_made_replaced_merged_and_removed() {
    let mut data = Datastore::default();
    let path = format!("/restconf/config/pod:coe/pods/{POD}");
    let pod = |name: &str| json!({"pods": [{"uid": POD, "name": name, "port-mac-address": ""}]});
    assert!(edit(&mut data, Method::Put, &path, &pod("web")).is_new);
    let again = edit(&mut data, Method::Put, &path, &pod("web"));
    assert!(!again.is_new && again.changes.is_empty(), "nothing is another");
    let more =
        json!({"pods": [{"uid": POD, "interface": [{"uid": POD, "ip-address": "10.0.0.1"}]}]});
    edit(&mut data, Method::Patch, &path, &more);
    let found = get(&data, &path).unwrap();
    assert_eq!(found["pods"][0]["name"], "web");
    assert_eq!(found["pods"][0]["interface"][0]["ip-address"], "10.0.0.1");
    edit(&mut data, Method::Put, &path, &pod("db"));
    assert_eq!(get(&data, &path).unwrap()["pods"][0].get("interface"), None, "it was replaced");
    for _ in 0..2 {
        edit(&mut data, Method::Delete, &path, &Value::Null);
        assert_eq!(get(&data, &path), None);
    }
}

#[test]
fn what_is_in_an_entry_can_be_edited_alone() {
    let mut data = Datastore::default();
    let entry = format!("/rests/data/pod:coe/pods={POD}");
    edit(&mut data, Method::Put, &entry, &json!({"pod:pods": [{"uid": POD, "name": "web"}]}));
    let interface = json!({"pod:interface": [{"uid": OTHER, "ip-address": "10.0.0.9"}]});
    edit(&mut data, Method::Post, &entry, &interface);
    let twice = try_edit(&mut data, Method::Post, &entry, &interface).unwrap_err();
    assert_eq!(twice.tag, ErrorTag::DataExists);
    let leaf = format!("{entry}/interface={OTHER}/ip-address");
    edit(&mut data, Method::Put, &leaf, &json!({"ip-address": "10.0.0.10"}));
    assert_eq!(get(&data, &leaf), Some(json!({"pod:ip-address": "10.0.0.10"})));
    edit(&mut data, Method::Delete, &format!("{entry}/interface={OTHER}"), &Value::Null);
    assert_eq!(get(&data, &entry), Some(json!({"pod:pods": [{"uid": POD, "name": "web"}]})));
    for (method, path, body, tag) in [
        (Method::Delete, format!("{entry}/uid"), json!(null), ErrorTag::BadElement),
        (Method::Put, format!("{entry}/uid"), json!({"uid": OTHER}), ErrorTag::BadElement),
        (Method::Put, leaf.clone(), json!({"ip-address": "10.0.0.1"}), ErrorTag::DataMissing),
        (
            Method::Patch,
            format!("/rests/data/pod:coe/pods={OTHER}"),
            json!({"pods": [{"uid": OTHER}]}),
            ErrorTag::DataMissing,
        ),
    ] {
        assert_eq!(try_edit(&mut data, method, &path, &body).unwrap_err().tag, tag, "{path}");
    }
}

#[test]
fn a_container_is_replaced_merged_and_emptied() {
    let mut data = Datastore::default();
    let path = "/rests/data/pod:coe";
    let pods = |uids: &[&str]| {
        let pods: Vec<Value> = uids.iter().map(|uid| json!({"uid": uid})).collect();
        json!({"pod:coe": {"pods": pods}})
    };
    assert!(edit(&mut data, Method::Put, path, &pods(&[POD])).is_new);
    let replaced = edit(&mut data, Method::Put, path, &pods(&[OTHER]));
    assert!(!replaced.is_new);
    assert_eq!(replaced.changes.len(), 2, "one came, and one went");
    edit(&mut data, Method::Patch, path, &pods(&[POD]));
    assert_eq!(data.units().count(), 2);
    let refused = try_edit(&mut data, Method::Post, "/rests/data", &pods(&[POD])).unwrap_err();
    assert_eq!(refused.tag, ErrorTag::DataExists);
    edit(&mut data, Method::Delete, path, &Value::Null);
    assert_eq!(data.units().count(), 0);
    assert_eq!(get(&data, path), None);
    edit(&mut data, Method::Post, "/rests/data", &pods(&[POD]));
    assert_eq!(data.all().len(), 1);
}

#[test]
fn what_contradicts_itself_is_refused_and_nothing_changes() {
    let mut data = Datastore::default();
    let entry = format!("/restconf/config/pod:coe/pods/{POD}");
    for (method, path, body, tag) in [
        (Method::Put, entry.as_str(), json!({"pods": [{"uid": OTHER}]}), ErrorTag::BadElement),
        (Method::Put, &entry, json!({"services": [{"uid": POD}]}), ErrorTag::BadElement),
        (Method::Put, &entry, json!({"pods": []}), ErrorTag::BadElement),
        (
            Method::Put,
            &entry,
            json!({"pods": [{"uid": POD}, {"uid": OTHER}]}),
            ErrorTag::BadElement,
        ),
        (
            Method::Put,
            &entry,
            json!({"pods": [{"uid": POD, "labels": {}}]}),
            ErrorTag::UnknownElement,
        ),
        (Method::Put, &entry, json!({"pods": [{"uid": POD, "name": []}]}), ErrorTag::InvalidValue),
        (Method::Put, &entry, json!({"pods": [{"name": "x"}]}), ErrorTag::MissingElement),
        (Method::Put, &entry, json!({}), ErrorTag::MalformedMessage),
        (Method::Put, &entry, json!(null), ErrorTag::MalformedMessage),
        (Method::Put, "/restconf/config/pod:coe/pods", json!({"pods": []}), ErrorTag::InvalidValue),
        (Method::Put, "/rests/data", json!({"pod:coe": {}}), ErrorTag::OperationNotSupported),
        (Method::Delete, "/rests/data", json!(null), ErrorTag::OperationNotSupported),
        (
            Method::Put,
            "/rests/data/elan:elan-instances",
            json!({"elan:elan-instances": {}}),
            ErrorTag::OperationNotSupported,
        ),
    ] {
        let refused = try_edit(&mut data, method, path, &body).unwrap_err();
        assert_eq!(refused.tag, tag, "{path} {body}: {refused}");
        assert_eq!(data.units().count(), 0);
    }
    let refused = try_edit(
        &mut data,
        Method::Put,
        &entry,
        &json!({"pods": [{"uid": POD, "host-ip-address": "10.0.0"}]}),
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!("/pod:coe/pods[uid='{POD}'][1]/host-ip-address: it has to be an address")
    );
}
