//! A switch with two pods and somebody else's things on it, kept by both reconcilers over
//! connections that can be cut.

use crate::chance::Chance;
use crate::churn::{Churn, Wanted};
use crate::proxy::Proxy;
use osier_openflow::session::{Backoff, Dialer, Endpoint as Socket, Options as SessionOptions};
use osier_ovsdb::rows::vswitch::{BridgeFailMode, BridgeProtocols};
use osier_ovsdb::session::{Config, Remote, Session};
use osier_southbound::flows::{self, CookieClass, FlowReconciler};
use osier_southbound::rows::{self, Restore, RestoreOptions, RowReconciler, monitor};
use osier_testbed::traffic::{Pinger, ping_until};
use osier_testbed::{Endpoint, EndpointConfig, Lab, Ovs};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::timeout;

pub(crate) const BRIDGE: &str = "br-int";
const PATIENCE: Duration = Duration::from_mins(1);
const FOREIGN_FLOW: &str = "cookie=0x77,table=9,priority=7,actions=drop";

pub(crate) struct Rig {
    pub(crate) restore: Restore,
    pub(crate) rows: RowReconciler,
    pub(crate) flows: FlowReconciler,
    pub(crate) database: Proxy,
    pub(crate) openflow: Proxy,
    pods: [Endpoint; 2],
    pub(crate) ovs: Ovs,
    wanted: Arc<Mutex<Wanted>>,
    foreign: String,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let lab = Lab::new().unwrap();
        let ovs = Ovs::start(&lab.netns("sw").unwrap(), "sw").unwrap();
        let database = Proxy::start(ovs.dir().join("proxy.db"), ovs.db_socket());
        let openflow = Proxy::start(ovs.dir().join("proxy.of"), ovs.mgmt_socket(BRIDGE));
        let rows = row_reconciler(&database);
        let bridge = rows::Bridge {
            name: BRIDGE.to_owned(),
            datapath_type: Some("netdev".to_owned()),
            fail_mode: Some(BridgeFailMode::Secure),
            protocols: [BridgeProtocols::OpenFlow13, BridgeProtocols::OpenFlow15].into(),
            ..rows::Bridge::default()
        };
        rows.put("bridge", rows::Plan::default().bridge(bridge)).await.unwrap().await.unwrap();
        // Pods' ports are made by `ovs-vsctl`: somebody else's, on our bridge.
        let pods = [("a", 1), ("b", 2)].map(|(name, port)| {
            Endpoint::attach(&ovs, BRIDGE, &EndpointConfig::numbered(name, port)).unwrap()
        });
        let set = ["add-br", "theirs", "--", "set", "bridge", "theirs", "datapath_type=netdev"];
        ovs.vsctl(&[&set[..], &["other_config:theirs=1", "external_ids:theirs=2"]].concat())
            .unwrap();
        ovs.vsctl(&["set", "bridge", BRIDGE, "other_config:theirs=3"]).unwrap();
        let flows = flow_reconciler(&openflow);
        let wire = ["in_port=1,actions=output:2", "in_port=2,actions=output:1"];
        let wire = wire.map(|flow| format!("cookie=0xa500000000000001,{flow}").parse().unwrap());
        flows.put("wire", flows::Plan::flows(wire)).await.unwrap().await.unwrap();
        let bridges: Vec<Box<dyn rows::Replays>> = vec![Box::new(flows.clone())];
        let restore = Restore::start(&rows, bridges, RestoreOptions::default());
        let wanted = Arc::default();
        let mut rig = Self {
            restore,
            rows,
            flows,
            database,
            openflow,
            pods,
            ovs,
            wanted,
            foreign: String::new(),
        };
        rig.add_foreign_flow();
        rig.foreign = rig.foreign_rows();
        rig.pings_again();
        rig
    }

    pub(crate) fn churn(&self, chance: &mut Chance) -> Churn {
        let rows = Some(self.rows.clone());
        Churn::start(rows, self.flows.clone(), Arc::clone(&self.wanted), chance.fork())
    }

    pub(crate) fn churn_flows(&self, chance: &mut Chance) -> Churn {
        Churn::start(None, self.flows.clone(), Arc::clone(&self.wanted), chance.fork())
    }

    /// Wants nothing but the wire, and waits for that.
    pub(crate) async fn rest(&self) {
        for owner in 0..crate::churn::OWNERS {
            drop(self.rows.remove(format!("ports {owner}")).await.unwrap());
            drop(self.flows.remove(format!("flows {owner}")).await.unwrap());
        }
        *self.wanted.lock().unwrap() = Wanted::default();
        self.converge().await;
        self.check();
    }

    /// Waits until the database, the switch and its flows are as wanted.
    pub(crate) async fn converge(&self) {
        let all = async {
            // Changes nothing, and is done only when the switch has acted on all before it.
            let nothing = rows::Transaction::new().remove("nobody").wait(rows::Wait::Switch);
            self.rows.settled().await.unwrap();
            self.rows.transaction(nothing).await.unwrap().await.unwrap();
            self.rows.wait_synced().await.unwrap();
            self.flows.settled().await.unwrap();
            self.flows.wait_synced().await.unwrap();
        };
        let converged = timeout(PATIENCE, all).await.is_ok();
        assert!(converged, "{:?}, {:?}", self.rows.status(), self.flows.status());
        assert_eq!(self.rows.troubles().await.unwrap(), []);
        assert_eq!(self.flows.status().troubles, 0);
    }

    /// Compares with what `ovs-vsctl` and `ovs-ofctl` show.
    pub(crate) fn check(&self) {
        let wanted = self.wanted.lock().unwrap().clone();
        let mut ports = wanted.port_names();
        ports.extend(self.pods.iter().map(|pod| pod.host_interface().to_owned()));
        let listed = self.ovs.vsctl(&["list-ports", BRIDGE]).unwrap();
        assert_eq!(listed.lines().map(str::to_owned).collect::<BTreeSet<_>>(), ports);
        let shown = self.ovs.ofctl(&["dump-ports-desc", BRIDGE]).unwrap();
        for port in &ports {
            assert!(shown.contains(&format!("({port})")), "{port} is not in the switch:\n{shown}");
        }
        assert_eq!(self.registers(), wanted.registers());
        assert_eq!(self.foreign_rows(), self.foreign);
        assert!(self.has_foreign_flow());
    }

    pub(crate) fn add_foreign_flow(&self) {
        self.ovs.ofctl(&["add-flow", BRIDGE, FOREIGN_FLOW]).unwrap();
    }

    /// Flows of others are theirs to bring back.
    pub(crate) fn expect_no_foreign_flow(&self) {
        assert!(!self.has_foreign_flow());
    }

    pub(crate) fn ping(&self) -> Pinger {
        Pinger::start(self.pods[0].netns(), self.target()).unwrap()
    }

    /// Waits until pings go through.
    pub(crate) fn pings_again(&self) {
        ping_until(self.pods[0].netns(), self.target(), PATIENCE).unwrap();
    }

    fn target(&self) -> IpAddr {
        self.pods[1].addresses().next().unwrap()
    }

    fn has_foreign_flow(&self) -> bool {
        let flows =
            self.ovs.ofctl(&["--no-stats", "dump-flows", BRIDGE, "cookie=0x77/-1"]).unwrap();
        flows.contains("priority=7")
    }

    fn registers(&self) -> BTreeSet<usize> {
        let flows = self.ovs.ofctl(&["--no-stats", "dump-flows", BRIDGE, "table=9"]).unwrap();
        let values =
            flows.lines().filter_map(|line| line.split_once("reg1=0x")?.1.split([' ', ',']).next());
        values.map(|value| usize::from_str_radix(value, 16).unwrap()).collect()
    }

    /// What others wrote, in rows of theirs and in ours.
    fn foreign_rows(&self) -> String {
        let columns = "--columns=_uuid,name,external_ids,other_config";
        let list = |table: &str, row: &str| self.ovs.vsctl(&[columns, "list", table, row]).unwrap();
        let mut text =
            list("bridge", "theirs") + &list("port", "theirs") + &list("interface", "theirs");
        for pod in &self.pods {
            text += &list("port", pod.host_interface());
            text += &list("interface", pod.host_interface());
        }
        text + &self.ovs.vsctl(&["get", "bridge", BRIDGE, "other_config"]).unwrap()
    }
}

fn row_reconciler(proxy: &Proxy) -> RowReconciler {
    let mut config = Config::new("Open_vSwitch", monitor());
    config.backoff.first = Duration::from_millis(10);
    config.backoff.most = Duration::from_millis(500);
    let session = Session::connect(vec![Remote::Unix(proxy.path().to_owned())], config);
    let options = rows::Options { paused: false, ..rows::Options::default() };
    RowReconciler::start(session, rows::Ownership::new("osier-", "faults"), options)
}

fn flow_reconciler(proxy: &Proxy) -> FlowReconciler {
    let backoff = Backoff { first: Duration::from_millis(10), most: Duration::from_millis(500) };
    let socket = Socket::Unix(proxy.path().to_owned());
    let dialer = Dialer::new(socket, SessionOptions::default(), backoff);
    let ownership = flows::Ownership {
        cookies: CookieClass { value: 0xa500 << 48, mask: 0xff00 << 48 },
        learned: None,
        groups: 1000..=1999,
        meters: 100..=199,
        tun_metadata: 0..=7,
    };
    let options = flows::Options { paused: false, ..flows::Options::default() };
    FlowReconciler::start(dialer, ownership, options)
}

/// Waits until `check` gives something.
pub(crate) async fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "no {what} within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
