//! The cluster's authority, which signs the certificates of agents and controllers: a Secret.
//!
//! Whoever makes it first has made it for all; it is never overwritten.

use crate::error::{KubernetesError, is_conflict};
use crate::scribe;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use osier_fleet::Authority;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The Secret.
pub(crate) const SECRET: &str = "osier-authority";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The authority, in PEM.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The cluster's authority; made now if there is none.
pub(crate) async fn load(
    client: &Client,
    namespace: &str,
    cluster: &str,
) -> Result<Kept, KubernetesError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let fail = |what: &str, source| KubernetesError::Api {
        what: format!("{what} Secret {namespace}/{SECRET}"),
        source: Box::new(source),
    };
    if let Some(secret) = secrets.get_opt(SECRET).await.map_err(|e| fail("reading", e))? {
        return read(secret);
    }
    let authority = Authority::generate(cluster, SystemTime::now())?;
    let kept = Kept {
        certificate: osier_controller::certificate_pem(&authority),
        key: authority.key_pem(),
    };
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = BTreeMap::from([
        (CERTIFICATE.to_owned(), bytes(&kept.certificate)),
        (KEY.to_owned(), bytes(&kept.key)),
    ]);
    let secret = Secret {
        metadata: ObjectMeta { name: Some(SECRET.to_owned()), ..ObjectMeta::default() },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    match secrets.create(&scribe::ours(), &secret).await {
        Ok(_) => Ok(kept),
        // Another controller was faster: its is everybody's.
        Err(error) if is_conflict(&error) => {
            read(secrets.get(SECRET).await.map_err(|e| fail("reading", e))?)
        }
        Err(error) => Err(fail("making", error)),
    }
}

fn read(secret: Secret) -> Result<Kept, KubernetesError> {
    let mut data = secret.data.unwrap_or_default();
    let mut text = |key: &str| {
        let bytes = data.remove(key).ok_or(KubernetesError::Authority(SECRET))?;
        String::from_utf8(bytes.0).map_err(|_| KubernetesError::Authority(SECRET))
    };
    Ok(Kept { certificate: text(CERTIFICATE)?, key: text(KEY)? })
}
