//! The cluster's certificates, and the kubeconfigs of those who have one.
//!
//! Names and groups are those that Kubernetes gives rights to by itself: see "PKI certificates and
//! requirements" in its documentation. Keys are of P-256, which costs microseconds.

use crate::error::{ClusterError, file};
use crate::settings::{API_SERVICE, CONTROL_PLANE, Settings};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// The cluster's authority, and the folder with all that it signed.
#[derive(Debug)]
pub(crate) struct Pki {
    dir: PathBuf,
    authority: Issuer<'static, KeyPair>,
    api: String,
}

impl Pki {
    /// Makes the authorities and the control plane's certificates in `dir`.
    pub(crate) fn create(dir: PathBuf, settings: &Settings) -> Result<Self, ClusterError> {
        fs::create_dir_all(&dir).map_err(file("make", &dir))?;
        let authority = make_authority(&dir, "ca")?;
        let front = make_authority(&dir, "front-ca")?;
        let pki = Self { dir, authority, api: settings.api_url() };

        let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut alternatives = Vec::new();
        for name in
            names.iter().map(|&n| n.to_owned()).chain([format!("{}.cluster.local", names[2])])
        {
            alternatives.push(SanType::DnsName(name.try_into()?));
        }
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let addresses = settings.underlay(CONTROL_PLANE);
        let addresses = addresses.iter().chain(&API_SERVICE).chain([&loopback]);
        alternatives.extend(addresses.map(|&address| SanType::IpAddress(address)));
        issue(&pki.dir, &pki.authority, "apiserver", "kube-apiserver", None, alternatives)?;
        issue(&pki.dir, &front, "front-proxy", "front-proxy-client", None, Vec::new())?;

        let service_accounts = KeyPair::generate()?;
        write(&pki.dir.join("sa.key"), &service_accounts.serialize_pem())?;
        write(&pki.dir.join("sa.pub"), &service_accounts.public_key_pem())?;
        pki.client(
            "apiserver-kubelet-client",
            "kube-apiserver-kubelet-client",
            Some("system:masters"),
        )?;
        pki.client("admin", "kubernetes-admin", Some("system:masters"))?;
        for component in ["kube-controller-manager", "kube-scheduler", "kube-proxy"] {
            pki.client(component, &format!("system:{component}"), None)?;
        }
        Ok(pki)
    }

    /// A certificate for a client, and a kubeconfig for use inside of the cluster's machines.
    pub(crate) fn client(
        &self,
        file: &str,
        name: &str,
        group: Option<&str>,
    ) -> Result<PathBuf, ClusterError> {
        issue(&self.dir, &self.authority, file, name, group, Vec::new())?;
        self.kubeconfig(&format!("{file}.conf"), file, &self.api)
    }

    /// A kubeconfig for who reaches the API server elsewhere, with the certificate of `client`.
    pub(crate) fn kubeconfig(
        &self,
        name: &str,
        client: &str,
        server: &str,
    ) -> Result<PathBuf, ClusterError> {
        let path = self.path(name);
        let dir = self.dir.display();
        let text = format!(
            "apiVersion: v1
kind: Config
current-context: osier
clusters: [{{name: osier, cluster: {{server: \"{server}\", certificate-authority: {dir}/ca.crt}}}}]
users: [{{name: {client}, user: {{client-certificate: {dir}/{client}.crt, client-key: {dir}/{client}.key}}}}]
contexts: [{{name: osier, context: {{cluster: osier, user: {client}}}}}]
"
        );
        write(&path, &text)?;
        Ok(path)
    }

    /// A file of the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

fn make_authority(dir: &Path, name: &str) -> Result<Issuer<'static, KeyPair>, ClusterError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name, None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    write(&dir.join(format!("{name}.crt")), &params.self_signed(&key)?.pem())?;
    write(&dir.join(format!("{name}.key")), &key.serialize_pem())?;
    Ok(Issuer::new(params, key))
}

fn issue(
    dir: &Path,
    authority: &Issuer<'static, KeyPair>,
    file: &str,
    name: &str,
    group: Option<&str>,
    alternatives: Vec<SanType>,
) -> Result<(), ClusterError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name, group);
    params.subject_alt_names = alternatives;
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    write(&dir.join(format!("{file}.crt")), &params.signed_by(&key, authority)?.pem())?;
    write(&dir.join(format!("{file}.key")), &key.serialize_pem())
}

fn subject(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject.push(DnType::CommonName, name);
    subject
}

fn write(path: &Path, text: &str) -> Result<(), ClusterError> {
    fs::write(path, text).map_err(file("write", path))
}
