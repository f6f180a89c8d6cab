//! Where kube-proxy leads to Services, by the service gateways of nodes: controllers, the store, switches and
//! all of them restart, again and again, while a pod asks a Service.

use crate::proxy::proxy;
use crate::rig::{PATIENCE, Rig};
use crate::tended::{MODEL, agent, plugin, pod_called};
use osier_testbed::{Netns, Process, wait_until};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SERVICE: &str = "10.96.0.10";
const TARGET: u16 = 7007;
/// Answers before and behind what is done.
const ANSWERS: usize = 30;
/// How long nobody may answer when switches start anew.
const GAP: Duration = Duration::from_secs(10);

/// A pod that asks a Service by one connection after the other.
struct Asker {
    thread: JoinHandle<(usize, Duration)>,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
}

// === impl Asker ===

impl Asker {
    fn start(from: &Netns) -> Self {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (from, until, count) = (from.clone(), Arc::clone(&stop), Arc::clone(&answers));
        let thread = std::thread::spawn(move || {
            let (mut failed, mut gap, mut last) = (0, Duration::ZERO, Instant::now());
            while !until.load(Ordering::Relaxed) {
                match ask(&from) {
                    Ok(()) => {
                        gap = gap.max(last.elapsed());
                        last = Instant::now();
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => failed += 1,
                }
            }
            (failed, gap)
        });
        let asker = Self { thread, stop, answers };
        asker.await_more();
        asker
    }

    fn await_more(&self) {
        let count = || self.answers.load(Ordering::Relaxed);
        let enough = count() + ANSWERS;
        let heard = || if count() >= enough { Ok(()) } else { Err(count()) };
        wait_until("answers of the Service", PATIENCE * 2, heard).unwrap();
    }

    /// How often nobody answered, and for how long at most.
    fn stop(self) -> (usize, Duration) {
        self.await_more();
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn ask(from: &Netns) -> io::Result<()> {
    let at = SocketAddr::new(SERVICE.parse().unwrap(), 80);
    let mut stream = from.tcp_connect(at).map_err(io::Error::other)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    if said == "hello" { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn answer(pod: &Netns, address: IpAddr) {
    let listener = pod.tcp_listen(SocketAddr::new(address, TARGET)).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"hello");
        }
    });
}

/// The Service, as the switch has to know it: answers of its endpoints go back by the gateway.
fn service(endpoints: &[IpAddr]) -> String {
    let endpoints: Vec<String> = endpoints.iter().map(|a| format!("{{ address: {a} }}")).collect();
    format!(
        "
apiVersion: osier.dev/v1alpha1
kind: Service
metadata: {{ name: 'red:web' }}
spec: {{ addresses: [{SERVICE}], ports: [{{ port: 80 }}] }}
---
apiVersion: osier.dev/v1alpha1
kind: Endpoints
metadata: {{ name: 'red:web-1' }}
spec: {{ service: 'red:web', ports: [{{ port: {TARGET} }}], endpoints: [{}] }}
",
        endpoints.join(", ")
    )
}

/// Two controllers, two nodes with agents, a pod that asks, and endpoints on both.
struct Site {
    _agents: [Process; 2],
    _pods: Vec<(Netns, IpAddr)>,
    client: Netns,
    rig: Rig,
}

// === impl Site ===

impl Site {
    fn new() -> Self {
        let rig = Rig::clustered(2, 2, "");
        let fabric = r#"services: ["10.96.0.0/16"], serviceGateway: true"#;
        rig.apply(&MODEL.replace(r#""10.1.0.0/16"]"#, &format!(r#""10.1.0.0/16"], {fabric}"#)));
        let plugin = plugin();
        let agents = [0, 1].map(|node| agent(&rig, node));
        let make = |name: &str, node| pod_called(name, &rig, &plugin, node, "");
        let pods = vec![make("near", 0), make("far", 1)];
        let client = make("client", 0).0;
        let endpoints: Vec<IpAddr> = pods.iter().map(|(_, address)| *address).collect();
        for (netns, address) in &pods {
            answer(netns, *address);
        }
        rig.apply(&service(&endpoints));
        (0..2).for_each(|n| proxy(rig.node(n).netns(), &[(SERVICE, endpoints.clone())], TARGET));
        let site = Self { _agents: agents, _pods: pods, client, rig };
        wait_until("the Service", PATIENCE, || ask(&site.client)).unwrap();
        let svc = site.rig.node(0).ovs().vsctl(&["get", "interface", "osier-svc", "ofport"]);
        svc.expect("pods get there by the service gateway");
        site
    }

    /// Does something while a pod asks: how often nobody answered, and for how long at most.
    fn asked_while(&mut self, what: impl FnOnce(&mut Self)) -> (usize, Duration) {
        let asker = Asker::start(&self.client);
        what(self);
        asker.stop()
    }

    fn etcd(&mut self) -> &mut osier_testbed::Etcd {
        &mut self.rig.etcd.as_mut().unwrap().1
    }

    fn restart_switches(&mut self, nodes: &[usize]) {
        let of = self.rig.fabric.nodes_mut();
        for node in nodes {
            of[*node].kill_vswitchd();
        }
        for node in nodes {
            of[*node].start_vswitchd().unwrap();
        }
    }

    /// Both controllers end, and one of them leads again.
    fn restart_controllers(&mut self) {
        self.rig.seats.iter_mut().for_each(crate::seat::Seat::launch);
        let ready = |site: &Self| site.rig.seats.iter().any(crate::seat::Seat::is_ready);
        let leads = || if ready(self) { Ok(()) } else { Err("nobody leads") };
        wait_until("a leader", PATIENCE, leads).unwrap();
    }
}

#[test]
#[ignore = "takes half a minute: make soak"]
fn soak_gateways_lead_through_reboots() {
    let mut site = Site::new();
    let (failed, _) = site.asked_while(|site| {
        for _ in 0..2 {
            // The standby, the leader, both.
            site.rig.seats[1].launch();
            site.rig.seats[0].kill();
            site.rig.seats[1].await_ready();
            site.rig.seats[0].launch();
            site.rig.seats[1].kill();
            site.rig.seats[0].await_ready();
            site.restart_controllers();
        }
        // The store.
        for member in 0..3 {
            site.etcd().kill(member);
        }
        for member in 0..3 {
            site.etcd().revive(member).unwrap();
        }
        site.restart_controllers();
    });
    assert_eq!(failed, 0, "who only forwards needs no controller");
    for nodes in [&[0][..], &[0], &[1], &[0, 1]] {
        let (_, gap) = site.asked_while(|site| site.restart_switches(nodes));
        assert!(gap < GAP, "nobody answered for {gap:?}");
    }
    // All at once.
    let (_, gap) = site.asked_while(|site| {
        (0..2).for_each(|seat| site.rig.seats[seat].kill());
        (0..3).for_each(|member| site.etcd().kill(member));
        site.restart_switches(&[0, 1]);
        (0..3).for_each(|member| site.etcd().revive(member).unwrap());
        site.restart_controllers();
    });
    assert!(gap < GAP, "nobody answered for {gap:?}");
}
