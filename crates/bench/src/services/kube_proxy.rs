//! The rival: the real kube-proxy on a node of a real cluster, with the same Services in its API server.

use super::{PORT, TARGET, address, endpoints};
use anyhow::{Context, Result, ensure};
use osier_kubelab::{Cluster, Machine, Proxy, Settings};
use osier_testbed::{Netns, Process, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(2);
/// Objects are made over so many connections at once.
const WRITERS: usize = 8;
const NAMESPACE: &str = "default";
const DAEMON: &str = "kube-proxy";

/// A cluster whose only node runs kube-proxy when it is told to.
pub(super) struct KubeProxy {
    /// The way to the API server: a connection that asks for no certificate.
    _proxy: Process,
    socket: PathBuf,
    mode: &'static str,
    cluster: Cluster,
}

impl KubeProxy {
    /// Brings it up, with so many Services and without kube-proxy.
    pub(super) fn start(mode: &'static str, services: usize) -> Result<Self> {
        let args = ["--service-cluster-ip-range=10.96.0.0/14", "--max-requests-inflight=2000"];
        let settings = Settings {
            nodes: 1,
            proxy: Proxy::None,
            switch: false,
            verbose: false,
            apiserver_args: args.map(str::to_owned).into(),
            ..Settings::default()
        };
        let cluster = Cluster::up(settings)?;
        // Nothing else runs meanwhile: what controllers would do with so many objects is not compared.
        for name in ["kube-controller-manager", "kube-scheduler"] {
            cluster.control_plane().kill(name)?;
        }
        cluster.nodes()[0].machine().kill("kubelet")?;
        let socket = cluster.lab().dir().join("api.sock");
        let proxy = cluster.kubectl_command().arg("proxy").arg("--unix-socket").arg(&socket);
        let proxy = proxy.spawn()?;
        wait_until("kubectl proxy", PATIENCE, || UnixStream::connect(&socket))?;
        let rival = Self { _proxy: proxy, socket, mode, cluster };
        rival.populate(services)?;
        rival.netns()?.ip("route add 10.96.0.0/14 via 172.22.0.1")?;
        Ok(rival)
    }

    fn machine(&self) -> &Machine {
        self.cluster.nodes()[0].machine()
    }

    pub(super) fn netns(&self) -> Result<Netns> {
        Ok(self.machine().netns()?)
    }

    fn populate(&self, services: usize) -> Result<()> {
        let write = |writer: usize| -> Result<()> {
            let mut api = self.api()?;
            for number in (writer..services).step_by(WRITERS) {
                let asked = [0, services - 1].contains(&number).then_some(0);
                api.ask(
                    "POST",
                    &format!("/api/v1/namespaces/{NAMESPACE}/services"),
                    &service(number),
                )?;
                api.ask("POST", &slices(""), &slice(number, asked))?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS).map(|n| scope.spawn(move || write(n))).collect();
            writers.into_iter().try_for_each(|writer| {
                writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?
            })
        })
    }

    /// Starts kube-proxy, which changes rules as soon as it may.
    pub(super) fn start_proxy(&self) -> Result<()> {
        let kubeconfig = self.cluster.lab().dir().join("pki/kube-proxy.conf");
        let config = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {{kubeconfig: {}, qps: 1000, burst: 2000}}
clusterCIDR: 10.64.0.0/16
mode: {}
conntrack: {{maxPerCore: 0, min: 0}}
iptables: {{minSyncPeriod: 0s, syncPeriod: 1h}}
nftables: {{minSyncPeriod: 0s, syncPeriod: 1h}}
oomScoreAdj: 0
",
            kubeconfig.display(),
            self.mode
        );
        self.machine().write("/var/lib/kube-proxy/config.yaml", config)?;
        let program = self.cluster.kubernetes().program(DAEMON).display().to_string();
        let args =
            [&program, "--config=/var/lib/kube-proxy/config.yaml", "--hostname-override=node-1"];
        Ok(self.machine().spawn(DAEMON, &args)?)
    }

    /// Ends kube-proxy, and takes its rules away.
    pub(super) fn clear(&self) -> Result<()> {
        self.machine().kill(DAEMON)?;
        let netns = self.netns()?;
        netns.command("nft").args(["flush", "ruleset"]).deadline(PATIENCE).run()?;
        Ok(())
    }

    /// A connection to the API server.
    pub(super) fn api(&self) -> Result<Api> {
        Ok(Api(BufReader::new(UnixStream::connect(&self.socket)?)))
    }

    /// Another endpoint of a Service is the ready one.
    pub(super) fn change(api: &mut Api, service: usize, ready: usize) -> Result<()> {
        api.ask("PUT", &slices(&format!("/s{service}-a")), &slice(service, Some(ready)))
    }

    /// CPU time so far of kube-proxy, of what it ran, and of what it runs.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let pid = self.machine().pid_of(DAEMON)?;
        let mut ticks = ticks(pid)?;
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            // Threads and children may end meanwhile; then their parent has their ticks.
            let children = std::fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            ticks += children.filter_map(|child| self::ticks(child).ok()).sum::<u64>();
        }
        Ok(Duration::from_millis(ticks * 10))
    }
}

/// What a process used, and those that it waited for.
fn ticks(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // proc(5): fields 14 to 17, behind a name in parentheses.
    let fields = stat.rsplit_once(')').context("a process has a name")?.1;
    let ticks = fields.split_whitespace().skip(11).take(4).map(str::parse::<u64>);
    Ok(ticks.collect::<Result<Vec<_>, _>>()?.iter().sum())
}

fn slices(name: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices{name}")
}

fn service(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": format!("s{number}")},
        "spec": {
            "clusterIP": address(number),
            "ports": [{"name": "p", "protocol": "UDP", "port": PORT, "targetPort": TARGET}],
        },
    })
}

fn slice(number: usize, asked: Option<usize>) -> Value {
    let endpoint = |(address, ready): (String, bool)| json!({"addresses": [address], "conditions": {"ready": ready}});
    let endpoints: Vec<Value> = endpoints(number, asked).into_iter().map(endpoint).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("s{number}-a"),
            "labels": {"kubernetes.io/service-name": format!("s{number}")},
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "p", "protocol": "UDP", "port": TARGET}],
    })
}

/// A connection that asks one thing at a time.
pub(super) struct Api(BufReader<UnixStream>);

impl Api {
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<()> {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut status = String::new();
        self.0.read_line(&mut status)?;
        let answer = self.body()?;
        let code = status.split_whitespace().nth(1).unwrap_or_default();
        ensure!(code.starts_with('2'), "{method} {path}: {status}: {answer}");
        Ok(())
    }

    /// Reads the headers and the body, which has a length or comes in chunks.
    fn body(&mut self) -> Result<String> {
        let mut length = None;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = Some(value.trim().parse::<usize>()?);
            }
        }
        let mut body = Vec::new();
        match length {
            Some(length) => {
                body.resize(length, 0);
                self.0.read_exact(&mut body)?;
            }
            None => loop {
                let length = usize::from_str_radix(self.line()?.trim(), 16)?;
                let mut chunk = vec![0; length];
                self.0.read_exact(&mut chunk)?;
                self.line()?;
                body.extend(chunk);
                if length == 0 {
                    break;
                }
            },
        }
        Ok(String::from_utf8(body)?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.0.read_line(&mut line)? > 0, "the API server hung up");
        Ok(line.trim_end().to_owned())
    }
}
