//! Random plans, random rows of others, random drift, against an in-memory server: ours end as
//! wanted, what is others' ends as they left it.

use crate::lab::ownership;
use osier_ovsdb::cache::Snapshot;
use osier_ovsdb::error::Outcome;
use osier_ovsdb::monitor::Monitor;
use osier_ovsdb::rows::Ref;
use osier_ovsdb::rows::vswitch as db;
use osier_ovsdb::schema::Schema;
use osier_ovsdb::server::Server;
use osier_ovsdb::session::{Config, Event, Session};
use osier_ovsdb::{Condition, Mutation, Operation, Transaction, Uuid, Value};
use osier_southbound::rows::{
    Bridge, Options, Plan, Port, Qos, Queue, RowReconciler, Trouble, Wait, monitor,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    /// An owner wants these ports, on these bridges.
    Put(usize, Vec<usize>, Vec<WantedPort>),
    /// Somebody else makes a bridge with a port.
    ForeignBridge(usize, usize),
    /// Somebody else adds a port to a bridge, whosever it is.
    ForeignPort(usize, usize),
    /// Somebody else deletes a port, whosever it is.
    DeletePort(usize),
    /// Somebody else writes a key of theirs into a port, whosever it is.
    Annotate(usize, u8),
    /// Somebody else changes what is ours.
    Drift(usize, u8),
    /// All connections break.
    Disconnect,
    /// The reconciler ends, and another begins with the same plans.
    Restart,
}

#[derive(Debug, Clone)]
struct WantedPort {
    name: usize,
    bridge: usize,
    tag: Option<u16>,
    id: Option<u8>,
    queues: Vec<(u32, u8)>,
}

fn step() -> impl Strategy<Value = Step> {
    let port = (0..5usize, 0..3usize, any::<bool>(), any::<Option<bool>>(), 0..3usize).prop_map(
        |(name, bridge, tag, id, queues)| WantedPort {
            name,
            bridge,
            tag: tag.then_some(7),
            id: id.map(u8::from),
            queues: (0..queues).map(|n| (u32::try_from(n).unwrap(), 3)).collect(),
        },
    );
    let bridges = prop::collection::vec(0..3usize, 0..3);
    prop_oneof![
        6 => (0..3usize, bridges, prop::collection::vec(port, 0..4)).prop_map(|(o, b, p)| Step::Put(o, b, p)),
        1 => (0..3usize, 0..5usize).prop_map(|(b, p)| Step::ForeignBridge(b, p)),
        1 => (0..3usize, 0..5usize).prop_map(|(b, p)| Step::ForeignPort(b, p)),
        1 => (0..5usize).prop_map(Step::DeletePort),
        1 => (0..5usize, any::<u8>()).prop_map(|(p, v)| Step::Annotate(p, v)),
        1 => (0..5usize, 0..4u8).prop_map(|(p, v)| Step::Drift(p, v)),
        1 => Just(Step::Disconnect),
        1 => Just(Step::Restart),
    ]
}

fn plan(bridges: &[usize], ports: &[WantedPort]) -> Plan {
    let mut plan = Plan::default();
    for bridge in BTreeSet::from_iter(bridges) {
        plan.bridges.push(Bridge { name: format!("b{bridge}"), ..Bridge::default() });
    }
    let ports: BTreeMap<_, _> = ports.iter().map(|port| (port.name, port)).collect();
    for wanted in ports.into_values() {
        let mut port = Port::internal(format!("b{}", wanted.bridge), format!("p{}", wanted.name));
        port.tag = wanted.tag;
        if let Some(id) = wanted.id {
            port.external_ids.insert("iface-id".to_owned(), id.to_string());
        }
        if !wanted.queues.is_empty() {
            let queue = |dscp: u8| Queue { dscp: Some(dscp), ..Queue::default() };
            let queues = wanted.queues.iter().map(|(n, dscp)| (*n, queue(*dscp))).collect();
            port.qos = Some(Qos { kind: "linux-htb".to_owned(), queues, ..Qos::default() });
        }
        plan.ports.push(port);
    }
    plan
}

/// The database, our reconciler, and somebody else.
struct World {
    server: Server,
    dir: tempfile::TempDir,
    rows: RowReconciler,
    other: Session,
    plans: BTreeMap<usize, Plan>,
    /// Rows of others.
    foreign: BTreeSet<Uuid>,
    /// The interfaces of their ports.
    foreign_interfaces: BTreeMap<Uuid, Uuid>,
    notes: BTreeMap<Uuid, String>,
}

fn start(dir: &tempfile::TempDir) -> RowReconciler {
    let remote = format!("unix:{}", dir.path().join("db.sock").display()).parse().unwrap();
    let mut config = Config::new("Open_vSwitch", monitor());
    config.backoff.first = Duration::from_millis(1);
    let session = Session::connect(vec![remote], config);
    RowReconciler::start(
        session,
        ownership(),
        Options { wait: Wait::Database, ..Options::default() },
    )
}

impl World {
    async fn new() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../ovsdb/schemas/vswitch.ovsschema");
        let schema: Schema = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let server = Server::new(schema);
        let dir = tempfile::TempDir::new().unwrap();
        let socket = dir.path().join("db.sock");
        server.listen(&format!("punix:{}", socket.display())).await.unwrap();
        let tables = Monitor::new().table::<db::OpenVSwitch>().table::<db::Bridge>();
        let tables = tables.table::<db::Port>().table::<db::Interface>();
        let tables = tables.table::<db::QoS>().table::<db::Queue>();
        let mut config = Config::new("Open_vSwitch", tables);
        config.backoff.first = Duration::from_millis(1);
        let remote = format!("unix:{}", socket.display()).parse().unwrap();
        let other = Session::connect(vec![remote], config);
        let rows = start(&dir);
        rows.resume().await.unwrap();
        let mut world = Self {
            server,
            dir,
            rows,
            other,
            plans: BTreeMap::new(),
            foreign: BTreeSet::new(),
            foreign_interfaces: BTreeMap::new(),
            notes: BTreeMap::new(),
        };
        world
            .transact(|transaction| {
                transaction.insert(&db::OpenVSwitch::default());
            })
            .await;
        world
    }

    async fn transact(&mut self, build: impl FnOnce(&mut Transaction)) -> Option<Vec<Outcome>> {
        let mut transaction = Transaction::new("somebody else");
        build(&mut transaction);
        self.other.transact(&transaction, PATIENCE).await.ok()
    }

    /// All rows, as somebody else sees them.
    async fn snapshot(&self) -> std::sync::Arc<Snapshot> {
        // What comes behind an answer is not older than it.
        self.other.transact(&Transaction::new("nothing"), PATIENCE).await.unwrap();
        let mut events = self.other.subscribe(16).await.unwrap();
        match events.next().await {
            Some(Event::Snapshot { snapshot, .. }) => snapshot,
            other => panic!("{other:?}"),
        }
    }

    async fn port(&self, name: usize) -> Option<Uuid> {
        let name = format!("p{name}");
        let snapshot = self.snapshot().await;
        let found = snapshot.typed::<db::Port>().map(Result::unwrap).find(|port| port.name == name);
        found.map(|port| port.uuid)
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Put(owner, bridges, ports) => {
                let plan = plan(bridges, ports);
                let settling = self.rows.put(format!("o{owner}"), plan.clone()).await.unwrap();
                // A clash with another owner changes nothing.
                let outcome = settling.await;
                if !matches!(outcome, Err(osier_southbound::rows::ChangeError::Rejected(_))) {
                    self.plans.insert(*owner, plan);
                }
            }
            Step::ForeignBridge(bridge, port) => {
                let bridge = db::Bridge { name: format!("b{bridge}"), ..Default::default() };
                self.foreign_rows(format!("p{port}"), Err(bridge)).await;
            }
            Step::ForeignPort(bridge, port) => {
                let name = format!("b{bridge}");
                let snapshot = self.snapshot().await;
                let mut bridges = snapshot.typed::<db::Bridge>().map(Result::unwrap);
                if let Some(bridge) = bridges.find(|bridge| bridge.name == name) {
                    self.foreign_rows(format!("p{port}"), Ok(bridge.uuid)).await;
                }
            }
            Step::DeletePort(name) => {
                if let Some(port) = self.port(*name).await {
                    self.foreign.remove(&port);
                    if let Some(interface) = self.foreign_interfaces.remove(&port) {
                        self.foreign.remove(&interface);
                    }
                    self.transact(|transaction| {
                        transaction.push(Operation::Mutate {
                            table: "Bridge".into(),
                            conditions: vec![],
                            mutations: vec![Mutation::delete("ports", port)],
                        });
                    })
                    .await;
                }
            }
            Step::Annotate(name, note) => {
                if let Some(port) = self.port(*name).await {
                    let note = note.to_string();
                    let pair = Value::map([("theirs".into(), note.as_str().into())]);
                    let keys = Value::set(["theirs".into()]);
                    let mutations = vec![
                        Mutation::delete("other_config", keys),
                        Mutation::insert("other_config", pair),
                    ];
                    self.transact(|transaction| {
                        transaction.mutate("Port", port, mutations);
                    })
                    .await;
                    self.notes.insert(port, note);
                }
            }
            Step::Drift(name, how) => self.drift(*name, *how).await,
            Step::Disconnect => self.server.disconnect_all(),
            Step::Restart => {
                self.rows = start(&self.dir);
                for (owner, plan) in &self.plans {
                    drop(self.rows.put(format!("o{owner}"), plan.clone()).await.unwrap());
                }
                self.rows.resume().await.unwrap();
            }
        }
    }

    /// Makes a port on a bridge that is there, or on a new one.
    async fn foreign_rows(&mut self, name: String, bridge: Result<Uuid, db::Bridge>) {
        let interface = db::Interface { name: name.clone(), ..Default::default() };
        let mut port = db::Port { name, ..Default::default() };
        let outcome = self
            .transact(|transaction| {
                port.interfaces = BTreeSet::from([transaction.insert(&interface)]);
                let port = transaction.insert(&port);
                match bridge {
                    Ok(bridge) => {
                        let insertion = Mutation::insert("ports", port.atom().clone());
                        transaction.mutate("Bridge", bridge, vec![insertion]);
                    }
                    Err(mut bridge) => {
                        bridge.ports = BTreeSet::from([port]);
                        let bridge = transaction.insert(&bridge);
                        let mutations = vec![Mutation::insert("bridges", bridge.atom().clone())];
                        let (table, conditions) = ("Open_vSwitch".into(), vec![]);
                        transaction.push(Operation::Mutate { table, conditions, mutations });
                    }
                }
            })
            .await;
        let rows = outcome.into_iter().flatten().filter_map(|outcome| match outcome {
            Outcome::Inserted(row) => Some(row),
            _ => None,
        });
        let rows: Vec<_> = rows.collect();
        if let [interface, port, ..] = rows[..] {
            self.foreign_interfaces.insert(port, interface);
        }
        self.foreign.extend(rows);
    }

    async fn drift(&mut self, name: usize, how: u8) {
        let Some(port) = self.port(name).await.filter(|port| !self.foreign.contains(port)) else {
            return;
        };
        // A column that is not named is not ours: what they put there stays.
        let ports = || self.plans.values().flat_map(|plan| &plan.ports);
        if how == 0 && !ports().any(|port| port.name == format!("p{name}") && port.tag.is_some()) {
            return;
        }
        self.transact(|transaction| {
            let mark = Value::set(["osier-owner".into()]);
            match how {
                0 => transaction.update("Port", port, vec![("tag".into(), 9.into())]),
                1 => transaction.mutate("Port", port, vec![Mutation::delete("external_ids", mark)]),
                2 => transaction.update("Port", port, vec![("qos".into(), Value::empty_set())]),
                _ => transaction.push(Operation::Update {
                    table: "Interface".into(),
                    conditions: vec![Condition::equal("name", format!("p{name}"))],
                    row: vec![("type".into(), "".into())],
                }),
            };
        })
        .await;
    }

    /// Waits until the reconciler has seen all and done all.
    async fn settle(&self) {
        let settled = async {
            self.rows.session().ready().await.unwrap();
            let seen = Transaction::new("see");
            while self.rows.session().transact(&seen, PATIENCE).await.is_err() {}
            self.rows.settled().await.unwrap();
            self.rows.wait_synced().await.unwrap();
        };
        tokio::time::timeout(PATIENCE, settled).await.expect("it settles");
    }

    async fn check(&self) {
        let snapshot = self.snapshot().await;
        let typed = Tables::new(&snapshot);
        let troubles = self.rows.troubles().await.unwrap();
        let refused: BTreeSet<String> = troubles.iter().map(|trouble| place(trouble)).collect();
        let mut wanted = BTreeSet::new();
        for plan in self.plans.values() {
            for bridge in
                plan.bridges.iter().filter(|b| !refused.contains(&format!("Bridge {:?}", b.name)))
            {
                let row = &typed.bridges[&bridge.name];
                assert!(typed.root.bridges.contains(&Ref::new(row.uuid)));
                wanted.insert(row.uuid);
            }
            for port in
                plan.ports.iter().filter(|p| !refused.contains(&format!("Port {:?}", p.name)))
            {
                typed.check_port(port, &mut wanted);
            }
        }
        // Nothing of ours is left that nobody wants, but for what cannot be as wanted: that stays
        // as it was.
        let stays = typed.rows_of(&refused);
        for row in typed.marked() {
            let wanted = wanted.contains(&row) || stays.contains(&row);
            assert!(wanted, "{row} is ours and unwanted; {troubles:?}");
        }
        for row in &self.foreign {
            assert!(typed.uuids.contains(row), "{row}, of somebody else, is gone");
            assert!(!wanted.contains(row), "{row} is somebody else's");
        }
        for (port, interface) in &self.foreign_interfaces {
            typed.check_foreign(*port, *interface);
        }
        for port in typed.ports.values() {
            let note = self.notes.get(&port.uuid);
            assert_eq!(port.other_config.get("theirs"), note, "{}", port.name);
        }
    }
}

fn place(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Conflict { place, .. }
        | Trouble::NoBridge { place, .. }
        | Trouble::Kept { place, .. } => place.clone(),
        other => panic!("{other}"),
    }
}

struct Tables {
    root: db::OpenVSwitch,
    bridges: BTreeMap<String, db::Bridge>,
    ports: BTreeMap<String, db::Port>,
    interfaces: BTreeMap<String, db::Interface>,
    qos: BTreeMap<Uuid, db::QoS>,
    queues: BTreeMap<Uuid, db::Queue>,
    uuids: BTreeSet<Uuid>,
}

impl Tables {
    fn new(snapshot: &Snapshot) -> Self {
        let bridges: Vec<db::Bridge> = snapshot.typed().map(Result::unwrap).collect();
        let ports: Vec<db::Port> = snapshot.typed().map(Result::unwrap).collect();
        let interfaces: Vec<db::Interface> = snapshot.typed().map(Result::unwrap).collect();
        let qos: Vec<db::QoS> = snapshot.typed().map(Result::unwrap).collect();
        let queues: Vec<db::Queue> = snapshot.typed().map(Result::unwrap).collect();
        let uuids = bridges.iter().map(|row| row.uuid).chain(ports.iter().map(|row| row.uuid));
        let uuids = uuids.chain(interfaces.iter().map(|row| row.uuid)).collect();
        Self {
            root: snapshot.typed().next().unwrap().unwrap(),
            bridges: bridges.into_iter().map(|row| (row.name.clone(), row)).collect(),
            ports: ports.into_iter().map(|row| (row.name.clone(), row)).collect(),
            interfaces: interfaces.into_iter().map(|row| (row.name.clone(), row)).collect(),
            qos: qos.into_iter().map(|row| (row.uuid, row)).collect(),
            queues: queues.into_iter().map(|row| (row.uuid, row)).collect(),
            uuids,
        }
    }

    fn check_port(&self, port: &Port, wanted: &mut BTreeSet<Uuid>) {
        let row = &self.ports[&port.name];
        wanted.insert(row.uuid);
        for bridge in self.bridges.values() {
            let has = bridge.ports.contains(&Ref::new(row.uuid));
            assert_eq!(has, bridge.name == port.bridge, "{} on {}", port.name, bridge.name);
        }
        assert_eq!(row.tag, port.tag.map(i64::from));
        assert_eq!(row.external_ids.get("iface-id"), port.external_ids.get("iface-id"));
        let interface = &self.interfaces[&port.interfaces[0].name];
        assert_eq!(row.interfaces, BTreeSet::from([Ref::new(interface.uuid)]));
        assert_eq!(interface.r#type, "internal");
        wanted.insert(interface.uuid);
        assert_eq!(row.qos.is_some(), port.qos.is_some(), "{}", port.name);
        let Some(qos) = &port.qos else { return };
        let held = row.qos.as_ref().and_then(Ref::uuid).unwrap();
        let held = &self.qos[&held];
        wanted.insert(held.uuid);
        assert_eq!(held.queues.len(), qos.queues.len());
        for (number, queue) in &qos.queues {
            let held = &self.queues[&held.queues[&i64::from(*number)].uuid().unwrap()];
            assert_eq!(held.dscp, queue.dscp.map(i64::from));
            wanted.insert(held.uuid);
        }
    }

    /// A port of somebody else has what they gave it, and nothing of ours.
    fn check_foreign(&self, port: Uuid, interface: Uuid) {
        let port = self.ports.values().find(|row| row.uuid == port).unwrap();
        let interface = self.interfaces.values().find(|row| row.uuid == interface).unwrap();
        assert_eq!((port.tag, &port.qos, &*interface.r#type), (None, &None, ""));
        assert_eq!(port.interfaces, BTreeSet::from([Ref::new(interface.uuid)]));
        assert!(port.external_ids.is_empty() && interface.external_ids.is_empty());
    }

    /// The rows of places.
    fn rows_of(&self, places: &BTreeSet<String>) -> BTreeSet<Uuid> {
        let held = |table: &str, name: &str| places.contains(&format!("{table} {name:?}"));
        let bridges = self.bridges.values().filter(|row| held("Bridge", &row.name));
        let mut rows: BTreeSet<Uuid> = bridges.map(|row| row.uuid).collect();
        for port in self.ports.values().filter(|row| held("Port", &row.name)) {
            rows.insert(port.uuid);
            rows.extend(port.interfaces.iter().filter_map(Ref::uuid));
        }
        let qos = self.qos.values().map(|row| (row.uuid, &row.external_ids));
        let tagged = qos.chain(self.queues.values().map(|row| (row.uuid, &row.external_ids)));
        let tagged =
            tagged.filter(|(_, ids)| ids.get("osier-port").is_some_and(|p| held("Port", p)));
        rows.extend(tagged.map(|(uuid, _)| uuid));
        rows
    }

    /// All rows with our mark.
    fn marked(&self) -> impl Iterator<Item = Uuid> {
        let bridges = self.bridges.values().map(|row| (row.uuid, &row.external_ids));
        let ports = self.ports.values().map(|row| (row.uuid, &row.external_ids));
        let interfaces = self.interfaces.values().map(|row| (row.uuid, &row.external_ids));
        let qos = self.qos.values().map(|row| (row.uuid, &row.external_ids));
        let queues = self.queues.values().map(|row| (row.uuid, &row.external_ids));
        let all = bridges.chain(ports).chain(interfaces).chain(qos).chain(queues);
        let ours = all.filter(|(_, ids)| ids.get("osier-owner").is_some_and(|id| id == "test"));
        ours.map(|(uuid, _)| uuid)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ours_end_as_wanted_and_others_as_they_were(steps in prop::collection::vec(step(), 1..14)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in &steps {
                world.step(step).await;
                world.settle().await;
                world.check().await;
            }
        });
    }
}
