//! An etcd that speaks TLS only, wants a certificate, and a password besides.

use crate::rig::{PATIENCE, Rig};
use osier_testbed::{Etcd, Lab, Netns, wait_until};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

const ADDRESS: [u8; 4] = [203, 0, 113, 1];
const PASSWORD: &str = "a-password";

/// An authority, and a key with a certificate of it for etcd and for its clients.
fn papers(folder: &Path) {
    let write = |file: &str, text: String| fs::write(folder.join(file), text).unwrap();
    let mut authority = CertificateParams::new(vec!["authority".to_owned()]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    write("ca.pem", authority.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(authority, key);
    for name in ["etcd", "osier"] {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::from(ADDRESS)));
        let key = KeyPair::generate().unwrap();
        write(&format!("{name}.pem"), params.signed_by(&key, &issuer).unwrap().pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
    write("password", format!("{PASSWORD}\n"));
    write("wrong", "another\n".to_owned());
}

/// A request to a member over its JSON gateway.
fn post(netns: &Netns, folder: &Path, token: &str, what: &str, body: &str) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    let command = netns.command("curl").args(["--silent", "--fail-with-body", "--max-time", "5"]);
    let command = command.args(["--cacert", &file("ca.pem"), "--cert", &file("osier.pem")]);
    let command =
        command.args(["--key", &file("osier.key"), "-H", &format!("Authorization: {token}")]);
    command.args(["--data", body, &format!("https://203.0.113.1:2379/v3/{what}")]).run().unwrap()
}

fn start(lab: &Lab, folder: &Path) -> (Netns, Etcd) {
    papers(folder);
    let netns = Rig::etcd_netns(lab);
    let file = |name: &str| folder.join(name).display().to_string();
    let tls =
        ["--trusted-ca-file", &file("ca.pem"), "--cert-file", &file("etcd.pem"), "--key-file"];
    let mut more: Vec<String> = tls.iter().map(|&text| text.to_owned()).collect();
    more.extend([file("etcd.key"), "--client-cert-auth".to_owned()]);
    let etcd = Etcd::start_with(&netns, ADDRESS.into(), "https", more).unwrap();
    // etcd has no users without `root`. Keys are base64 here: `/osier/osier/` up to `/osier/osier0`.
    let permission = r#"{"name":"osier","perm":{"permType":2,
        "key":"L29zaWVyL29zaWVyLw==","range_end":"L29zaWVyL29zaWVyMA=="}}"#;
    let osier = format!(r#"{{"name":"osier","password":"{PASSWORD}"}}"#);
    for (what, body) in [
        ("auth/user/add", r#"{"name":"root","password":"r"}"#),
        ("auth/role/add", r#"{"name":"root"}"#),
        ("auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("auth/user/add", &osier),
        ("auth/role/add", r#"{"name":"osier"}"#),
        ("auth/role/grant", permission),
        ("auth/user/grant", r#"{"user":"osier","role":"osier"}"#),
        ("auth/enable", "{}"),
    ] {
        post(&netns, folder, "", what, body);
    }
    (netns, etcd)
}

/// The configuration of a controller, with these files.
fn config(folder: &Path, certificate: bool, password: &str) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    let identity =
        format!("certificate = '{}'\nprivate_key = '{}'\n", file("osier.pem"), file("osier.key"));
    format!(
        "user = 'osier'\npassword_file = '{}'\n[etcd.tls]\nca_certificate = '{}'\n{}",
        file(password),
        file("ca.pem"),
        if certificate { &identity } else { "" }
    )
}

#[test]
fn etcd_may_want_tls_a_certificate_and_a_password() {
    let lab = Lab::new().unwrap();
    let folder = lab.make_dir("papers").unwrap();
    let etcd = start(&lab, &folder);
    let mut rig = Rig::clustered_on(lab, etcd, 0, 2, &config(&folder, true, "password"));
    rig.seats[0].kill();
    rig.seats[1].await_ready();
    // Who has no certificate, or a wrong password, does not lead, and is told why.
    for (certificate, password, said) in
        [(true, "wrong", "invalid user ID or password"), (false, "password", "has not answered")]
    {
        let config = config(&folder, certificate, password);
        rig.reconfigure(0, &config);
        rig.seats[0].launch();
        let told = || match rig.seats[0].log() {
            log if log.contains(said) => Ok(()),
            log => Err(log),
        };
        wait_until(said, PATIENCE, told).unwrap();
        rig.seats[0].kill();
    }
}
