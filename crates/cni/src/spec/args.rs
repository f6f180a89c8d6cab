//! `CNI_ARGS`: what Kubernetes' runtimes say about the pod, and two older wishes.

use super::{Cidr, Error, Mac, check_identifier};

/// The pod that a container is the sandbox of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pod {
    /// `K8S_POD_NAMESPACE`.
    pub namespace: String,
    /// `K8S_POD_NAME`.
    pub name: String,
    /// `K8S_POD_UID`; older runtimes do not say it.
    pub uid: Option<String>,
}

/// `CNI_ARGS`, read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CniArgs {
    /// The pod, if there is one.
    pub pod: Option<Pod>,
    /// `K8S_POD_INFRA_CONTAINER_ID`.
    pub infra_container_id: Option<String>,
    /// `IP`: the addresses that are wished for.
    pub ips: Vec<Cidr>,
    /// `MAC`: the address that is wished for.
    pub mac: Option<Mac>,
}

impl CniArgs {
    /// Reads `KEY=value;KEY=value`. A key that we do not know is an error unless
    /// `IgnoreUnknown` says otherwise, as the reference library has it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut args = Self::default();
        let (mut namespace, mut name, mut uid) = (None, None, None);
        let (mut unknown, mut ignore_unknown) = (None, false);
        for pair in text.split(';').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                Error::environment(format!("CNI_ARGS: {pair:?} is not written as KEY=value"))
            })?;
            match key {
                "IgnoreUnknown" => ignore_unknown = flag(value)?,
                "K8S_POD_NAMESPACE" => namespace = identifier(key, value)?,
                "K8S_POD_NAME" => name = identifier(key, value)?,
                "K8S_POD_UID" => uid = identifier(key, value)?,
                "K8S_POD_INFRA_CONTAINER_ID" => args.infra_container_id = identifier(key, value)?,
                "IP" => args.ips = addresses(value)?,
                "MAC" if value.is_empty() => {}
                "MAC" => args.mac = Some(value.parse().map_err(|e| wrong(key, e))?),
                other => unknown = unknown.or(Some(other)),
            }
        }
        if let (Some(key), false) = (unknown, ignore_unknown) {
            let msg =
                format!("CNI_ARGS: the key {key:?} is unknown; add IgnoreUnknown=1 to pass it");
            return Err(Error::environment(msg));
        }
        args.pod = match (namespace, name) {
            (Some(namespace), Some(name)) => Some(Pod { namespace, name, uid }),
            (None, None) => None,
            _ => {
                let msg = "CNI_ARGS: K8S_POD_NAMESPACE and K8S_POD_NAME belong together: set both";
                return Err(Error::environment(msg));
            }
        };
        Ok(args)
    }
}

fn wrong(key: &str, error: impl std::fmt::Display) -> Error {
    Error::environment(format!("CNI_ARGS: {key}: {error}"))
}

/// An empty value is as good as none: some runtimes set the keys for containers that are no pods.
fn identifier(key: &str, value: &str) -> Result<Option<String>, Error> {
    if value.is_empty() {
        return Ok(None);
    }
    check_identifier(key, value).map_err(|e| Error::environment(format!("CNI_ARGS: {e}")))?;
    Ok(Some(value.to_owned()))
}

fn addresses(value: &str) -> Result<Vec<Cidr>, Error> {
    let texts = value.split(',').map(str::trim).filter(|text| !text.is_empty());
    texts.map(|text| Cidr::parse_or_host(text).map_err(|e| wrong("IP", e))).collect()
}

fn flag(value: &str) -> Result<bool, Error> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(wrong("IgnoreUnknown", format_args!("{value:?} is neither 1 nor 0"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_containerd_says_reads() {
        let args = CniArgs::parse(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;\
             K8S_POD_INFRA_CONTAINER_ID=c0ffee;K8S_POD_UID=0a1b-2c;OTHER=x=y",
        )
        .unwrap();
        let pod = args.pod.unwrap();
        assert_eq!(
            (&*pod.namespace, &*pod.name, pod.uid.as_deref()),
            ("shop", "web-0", Some("0a1b-2c"))
        );
        assert_eq!(args.infra_container_id.as_deref(), Some("c0ffee"));
    }

    #[test]
    fn wishes_read() {
        let args = CniArgs::parse("IP=10.1.2.3,fd00::3/64;MAC=02:00:00:00:00:07;").unwrap();
        let ips: Vec<String> = args.ips.iter().map(ToString::to_string).collect();
        assert_eq!(ips, ["10.1.2.3/32", "fd00::3/64"]);
        assert_eq!(args.mac.unwrap().to_string(), "02:00:00:00:00:07");
        assert_eq!(CniArgs::parse("").unwrap(), CniArgs::default());
        assert_eq!(CniArgs::parse("K8S_POD_NAME=;K8S_POD_NAMESPACE=").unwrap().pod, None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("FOO=BAR;ABC=123", "\"FOO\" is unknown"),
            ("FOO=BAR;IgnoreUnknown=0", "\"FOO\" is unknown"),
            ("IgnoreUnknown=maybe", "IgnoreUnknown"),
            ("FOO", "KEY=value"),
            ("K8S_POD_NAME=a", "belong together"),
            ("K8S_POD_NAME=a:b;K8S_POD_NAMESPACE=x", "K8S_POD_NAME \"a:b\""),
            ("IP=10.1.2", "IP: \"10.1.2\""),
            ("MAC=x", "MAC: \"x\""),
        ] {
            let error = CniArgs::parse(text).unwrap_err();
            assert_eq!(error.code.0, 4, "{text}");
            assert!(
                error.msg.starts_with("CNI_ARGS: ") && error.msg.contains(says),
                "{}",
                error.msg
            );
        }
    }
}
