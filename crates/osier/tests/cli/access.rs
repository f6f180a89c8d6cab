//! Who may ask, whom we trust, and what is said when nobody answers.

use crate::controller::{Controller, OSIER, PATIENCE, run};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Instant;

#[test]
fn credentials_are_checked_and_have_roles() {
    let controller = Controller::start();
    let forged = controller.secret("forged", "osier_nobody_00");
    let mut command = controller.command("get nodes");
    command.env("OSIER_CREDENTIAL_FILE", &forged);
    let said = run(command, "");
    assert!(said.code == 1 && said.err.contains("`osier login` takes a new one"), "{said:?}");
    assert!(!said.err.contains("osier_nobody_00"), "{said:?}");

    let mut command = Command::new(OSIER);
    command.args(["controller", "credential", "add", "--role=read", "--name=guest", "--config"]);
    command.arg(controller.path("controller.toml"));
    let guest = run(command, "");
    assert_eq!(guest.code, 0, "{guest:?}");
    let guest = controller.secret("guest", &guest.out);
    let as_guest = |line: &str, input: &str| {
        let mut command = controller.command(line);
        command.env("OSIER_CREDENTIAL_FILE", &guest);
        run(command, input)
    };
    // The file of credentials is looked at now and then.
    let end = Instant::now() + PATIENCE;
    while as_guest("get nodes", "").code != 0 {
        assert!(Instant::now() < end, "{:?}", as_guest("get nodes", ""));
    }
    let router = "{apiVersion: osier.dev/v1alpha1, kind: Router, metadata: {name: r}}";
    let said = as_guest("apply -f -", router);
    assert!(said.code == 1 && said.err.contains("need one of role write"), "{said:?}");
    assert_eq!(controller.run("get routers").out, "");

    fs::set_permissions(&guest, fs::Permissions::from_mode(0o644)).unwrap();
    let said = as_guest("get nodes", "");
    assert!(said.code == 1 && said.err.contains("chmod 600"), "{said:?}");
}

#[test]
fn only_the_pinned_authority_is_trusted() {
    let (ours, other) = (Controller::start(), Controller::start());
    let mut command = ours.command("get nodes");
    command.env("OSIER_CA", other.path("state/authority.pem"));
    let said = run(command, "");
    assert!(
        said.code == 1 && said.err.contains("another authority than the pinned one"),
        "{said:?}"
    );

    let mut command = ours.command("get nodes");
    command.env("OSIER_CA", ours.path("credential"));
    let said = run(command, "");
    assert!(said.err.contains("holds no certificate of an authority"), "{said:?}");
}

#[test]
fn who_does_not_answer_is_told_apart() {
    let mut controller = Controller::start();
    controller.kill();
    for line in ["get nodes", "status", "check", "describe node n1", "trace a:b c:d"] {
        let said = controller.fails(line);
        assert!(said.contains("no controller answers at https://127.0.0.1:"), "{said}");
        assert!(said.contains("systemctl status osier-controller"), "{said}");
    }
    let several = format!("get nodes --server {},127.0.0.1:1", controller.server);
    let said = controller.fails(&several);
    assert!(said.contains("no controller answers at any of https://127.0.0.1:"), "{said}");
    assert!(said.contains("none of them leads now"), "{said}");
    // One that takes connections and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = controller.command("get nodes --timeout 1");
    command.env("OSIER_SERVER", mute.local_addr().unwrap().to_string());
    let said = run(command, "");
    assert!(said.code == 1 && said.err.contains("did not answer within 1 s"), "{said:?}");

    let said = run(controller.bare("get nodes --server http://127.0.0.1"), "");
    assert!(said.code == 2 && said.err.contains("only https"), "{said:?}");
}

/// Of several controllers one answers; the others refuse, or hang.
#[test]
fn whoever_leads_is_found() {
    let controller = Controller::start();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let several = format!("127.0.0.1:1,{},{}", mute.local_addr().unwrap(), controller.server);
    let mut command = controller.command("get nodes --timeout 20");
    command.env("OSIER_SERVER", &several);
    let said = run(command, "");
    assert_eq!(said.code, 0, "{said:?}");
    let login = format!("login {several} --ca state/authority.pem --credential-file credential");
    for line in [login.as_str(), "get nodes"] {
        let said = run(controller.bare(line), "");
        assert_eq!(said.code, 0, "{line}: {said:?}");
    }
}

#[test]
fn a_login_is_remembered_and_can_be_forgotten() {
    let controller = Controller::start();
    let login = format!("login {} --ca state/authority.pem", controller.server);
    let said = run(controller.bare(&login), "osier_nobody_00\n");
    assert!(said.code == 1 && said.err.contains("osier login"), "{said:?}");
    let config = controller.path("home/.config/osier/config.toml");
    assert!(!config.exists());

    let credential = fs::read_to_string(controller.path("credential")).unwrap();
    let said = run(controller.bare(&login), &format!("{credential}\n"));
    assert!(said.code == 0 && !said.out.contains(&credential), "{said:?}");
    assert_eq!(fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
    let ok = |line: &str| {
        let said = run(controller.bare(line), "");
        assert_eq!(said.code, 0, "{line}: {said:?}");
        said.out
    };
    ok("get nodes");
    assert!(ok("context list").contains("default  https://127.0.0.1:"));
    ok(&format!(
        "context add {} --ca state/authority.pem --name b --credential-file credential",
        controller.server
    ));
    ok("context use default");
    ok("get nodes --context b");
    let said = run(controller.bare("get nodes --context c"), "");
    assert!(said.err.contains("there is no context \"c\": there are b, default"), "{said:?}");
    ok("context remove b");
    assert!(!ok("context list -o json").contains(&credential));

    fs::set_permissions(&config, fs::Permissions::from_mode(0o640)).unwrap();
    let said = run(controller.bare("get nodes"), "");
    assert!(said.code == 1 && said.err.contains("can be read by others (mode 640)"), "{said:?}");
}

#[test]
fn what_the_controller_leaves_for_its_administrator_is_a_context() {
    let controller = Controller::start();
    let admin = controller.path("state/admin.toml");
    assert_eq!(fs::metadata(&admin).unwrap().permissions().mode() & 0o777, 0o600);
    let admin = fs::read_to_string(admin).unwrap();
    controller.secret("local.toml", &format!("current = \"local\"\n[contexts.local]\n{admin}"));
    let mut command = controller.bare("get nodes");
    command.env("OSIER_CONFIG", controller.path("local.toml"));
    let said = run(command, "");
    assert_eq!(said.code, 0, "{said:?}");
}
