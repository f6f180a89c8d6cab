//! The manual and the completions, made from the arguments themselves.

use crate::controller::{OSIER, run};
use std::process::Command;

#[test]
fn every_verb_has_a_page_with_examples() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(OSIER);
    command.arg("man").arg(folder.path());
    assert_eq!(run(command, "").code, 0);
    for page in ["osier", "osier-get", "osier-apply", "osier-trace", "osier-node"] {
        let path = folder.path().join(format!("{page}.1"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(".TH") && text.contains("  osier "), "{page}: {text}");
    }
}

#[test]
fn shells_complete_kinds() {
    for shell in ["bash", "zsh"] {
        let mut command = Command::new(OSIER);
        command.args(["completions", shell]);
        let said = run(command, "");
        assert!(said.code == 0 && said.out.contains("networks"), "{shell}");
    }
}
