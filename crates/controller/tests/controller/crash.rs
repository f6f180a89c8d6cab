//! A controller that is killed: nothing that it acknowledged is lost, and no address is given twice.

use crate::rig::{BASE, config, resource, until};
use osier_controller::Controller;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

const FOLDER: &str = "OSIER_TEST_CONTROLLER";

/// The victim: a controller, which says where it is.
#[test]
#[ignore = "run by the test that kills it"]
fn victim() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let controller = Controller::start(config(Path::new(&folder))).await.unwrap();
        println!("api={}", controller.api);
        if let Some(credential) = &controller.first_credential {
            println!("credential={credential}");
        }
        println!("ready=");
        controller.run(std::future::pending()).await.unwrap();
    });
}

/// A victim that is alive, and what it said.
struct Victim {
    child: Child,
    api: String,
    credential: Option<String>,
}

impl Victim {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::victim", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut api, mut credential) = (String::new(), None);
        for line in lines {
            let line = line.unwrap();
            match line.rsplit_once('=') {
                Some((word, value)) if word.ends_with("api") => value.clone_into(&mut api),
                Some((word, value)) if word.ends_with("credential") => {
                    credential = Some(value.to_owned());
                }
                Some((word, _)) if word.ends_with("ready") => break,
                _ => {}
            }
        }
        assert!(!api.is_empty(), "it did not start");
        Self { child, api, credential }
    }

    /// The body, if the answer is a success.
    fn curl(
        &self,
        folder: &Path,
        credential: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<Value> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail", "--max-time", "30", "--cacert"]);
        command.arg(folder.join("authority.pem"));
        command.args(["-H", &format!("Authorization: Bearer {credential}")]);
        if let Some(body) = body {
            command.args(["--data-binary", &body.to_string()]);
        }
        let output = command.arg(format!("https://{}{BASE}{path}", self.api)).output().unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_was_acknowledged_survives_being_killed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let mut victim = Victim::start(path);
    let credential = victim.credential.clone().unwrap();
    let items = json!({"items": [
        resource("Node", "n1", &json!({"tunnel": "192.0.2.1"})),
        resource("Network", "blue", &json!({"subnets": [{"cidr": "10.5.0.0/20"}]})),
    ]});
    victim.curl(path, &credential, "/apply", Some(&items)).unwrap();
    let mut acknowledged: Vec<Value> = Vec::new();
    for round in 0..3 {
        let heard = AtomicUsize::new(0);
        let made = std::thread::scope(|scope| {
            let (victim, credential, heard) = (&victim, &credential, &heard);
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    scope.spawn(move || {
                        let port = |n| {
                            let name = format!("r{round}:w{writer}-{n}");
                            resource("Port", &name, &json!({"network": "blue", "node": "n1"}))
                        };
                        let made = |n| {
                            let made = victim.curl(path, credential, "/ports", Some(&port(n)))?;
                            heard.fetch_add(1, Ordering::Relaxed);
                            Some(made)
                        };
                        (0..200).map_while(made).collect::<Vec<Value>>()
                    })
                })
                .collect();
            // In the middle of it.
            until("some writes", || (heard.load(Ordering::Relaxed) >= 12).then_some(()));
            let pid = nix::unistd::Pid::from_raw(victim.child.id().try_into().unwrap());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        acknowledged.extend(made);
        victim.child.wait().unwrap();
        victim = Victim::start(path);
        assert_eq!(victim.credential, None);
        for port in &acknowledged {
            let name = port["metadata"]["name"].as_str().unwrap();
            let is = victim.curl(path, &credential, &format!("/ports/{name}"), None);
            assert_eq!(is.as_ref(), Some(port));
        }
    }
    let all = victim.curl(path, &credential, "/ports?limit=10000", None).unwrap();
    let all = all["items"].as_array().unwrap().clone();
    let addresses: BTreeSet<String> =
        all.iter().map(|port| port["status"]["addresses"][0].to_string()).collect();
    assert_eq!(addresses.len(), all.len(), "an address was given twice");
    assert!(all.len() >= acknowledged.len() && acknowledged.len() >= 36);
}
