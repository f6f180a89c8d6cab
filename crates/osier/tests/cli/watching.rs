//! Watches: every change once, also across a restart of the controller.

use crate::controller::Controller;
use serde_json::Value;

fn router(name: &str) -> String {
    format!("{{apiVersion: osier.dev/v1alpha1, kind: Router, metadata: {{name: {name}}}}}")
}

#[test]
fn a_watch_goes_on_when_the_controller_comes_back() {
    let mut controller = Controller::start();
    controller.ok_with("apply -f -", &router("first"));
    let watch = controller.start_command("watch routers -o json");
    let event: Value = serde_json::from_str(&watch.until("first")).unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&"ADDED".into(), &"Router".into()));
    let table = controller.start_command("get routers -w");
    table.until("first");

    controller.ok_with("apply -f -", &router("second"));
    assert!(watch.until("second").contains("\"ADDED\""));
    table.until("second");
    controller
        .ok_with("apply -f -", &router("second").replace("second}", "second, labels: {a: b}}"));
    assert!(watch.until("second").contains("\"MODIFIED\""));

    controller.kill();
    controller.restart();
    controller.ok("delete router first");
    assert!(watch.until("first").contains("\"DELETED\""));
    table.until("first (deleted)");
    controller.ok_with("apply -f -", &router("third"));
    // Nothing was told twice, and nothing is missing.
    let mut line = watch.until("");
    while line.contains("\"second\"") {
        line = watch.until("");
    }
    assert!(line.contains("third") && line.contains("ADDED"), "{line}");
}

#[test]
fn events_stand_in_a_table() {
    let controller = Controller::start();
    let watch = controller.start_command("watch rt");
    assert!(watch.until("EVENT").starts_with("EVENT"));
    controller.ok_with("apply -f -", &router("one"));
    assert!(watch.until("one").starts_with("ADDED "));
    controller.ok("delete rt one");
    assert!(watch.until("one").starts_with("DELETED "));
}
