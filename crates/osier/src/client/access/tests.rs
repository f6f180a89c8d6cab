use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Files as they may lie about.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn resolve(&self, given: &Connection) -> Result<Access, String> {
        let resolved = given.resolve(&self.path("config.toml"), &self.path("admin.toml"));
        resolved.map_err(|error| error.to_string())
    }
}

fn nothing() -> Connection {
    Connection {
        context: None,
        server: None,
        ca: None,
        credential_file: None,
        kubeconfig: None,
        kube_context: None,
        osier_namespace: NAMESPACE.to_owned(),
        timeout: 30,
    }
}

fn context(host: &str, ca: &str, credential: &str) -> String {
    format!("server = \"https://{host}\"\nca = \"{ca}\"\ncredential = \"{credential}\"\n")
}

fn two_contexts() -> String {
    format!(
        "current = \"a\"\n[contexts.a]\n{}[contexts.b]\n{}",
        context("a:1", "CA-A", "cred-a"),
        context("b:1", "CA-B", "cred-b")
    )
}

#[test]
fn who_knows_nobody_is_told_all_ways() {
    let said = Home::new().resolve(&nothing()).unwrap_err();
    for way in ["osier login", "--ca", "as root on the controller's machine"] {
        assert!(said.contains(way), "{said}");
    }
}

#[test]
fn options_go_before_contexts_and_these_before_the_machine() {
    let home = Home::new();
    home.secret("admin.toml", &context("127.0.0.1:9", "CA-L", "cred-l"));
    let access = home.resolve(&nothing()).unwrap();
    assert_eq!(access.server.to_string(), "https://127.0.0.1:9");
    assert_eq!(access.origin, "The credential of this machine's controller");

    home.secret("config.toml", &two_contexts());
    let access = home.resolve(&nothing()).unwrap();
    assert_eq!(access.credential.expose(), "cred-a");
    let b = Connection { context: Some("b".to_owned()), ..nothing() };
    assert_eq!(home.resolve(&b).unwrap().credential.expose(), "cred-b");

    let elsewhere = Connection { server: Some("c:7".parse().unwrap()), ..nothing() };
    let access = home.resolve(&elsewhere).unwrap();
    assert_eq!(
        (access.server.to_string().as_str(), access.authority.as_str()),
        ("https://c:7", "CA-A")
    );

    let all = Connection {
        server: Some("c:7".parse().unwrap()),
        ca: Some(home.secret("ca.pem", "CA-C")),
        credential_file: Some(home.secret("credential", "cred-c\n")),
        ..nothing()
    };
    // A broken file of contexts is in nobody's way.
    home.secret("config.toml", "nonsense");
    let access = home.resolve(&all).unwrap();
    assert_eq!((access.authority.as_str(), access.credential.expose()), ("CA-C", "cred-c"));
}

#[test]
fn a_credential_is_not_shown_to_another_authoritys_servers() {
    let home = Home::new();
    home.secret("config.toml", &two_contexts());
    let ca = Connection { ca: Some(home.secret("ca.pem", "CA-X")), ..nothing() };
    let said = home.resolve(&ca).unwrap_err();
    assert!(said.contains("another authority than context a: give --credential-file"), "{said}");
    let same = Connection { ca: Some(home.secret("ca.pem", "CA-A\n")), ..nothing() };
    assert_eq!(home.resolve(&same).unwrap().credential.expose(), "cred-a");
}

#[test]
fn unknown_contexts_and_open_files_are_refused() {
    let home = Home::new();
    let config = home.secret("config.toml", &two_contexts());
    let c = Connection { context: Some("c".to_owned()), ..nothing() };
    let said = home.resolve(&c).unwrap_err();
    assert_eq!(said, "there is no context \"c\": there are a, b");
    fs::set_permissions(config, fs::Permissions::from_mode(0o644)).unwrap();
    let said = home.resolve(&nothing()).unwrap_err();
    assert!(said.contains("can be read by others (mode 644)"), "{said}");
}
