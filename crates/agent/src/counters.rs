//! What the switch's flows have counted, by what they are for: rules of policies, Services.
//!
//! Only who asks for it makes the switch tell, over a session of its own. The switch is up to a second
//! late with what it counts.

use crate::Chain;
use crate::asks;
use crate::config::Config;
use crate::metrics::{Metrics, SwitchCounts};
use crate::switch::Switch;
use osier_compiler::pipeline::{POLICIES, Table};
use osier_compiler::{Compiler, CookieRange, PIPELINE, Question, RULES, SERVICES};
use osier_fleet::ask::{Counted, RuleHits};
use osier_model::{Direction, RuleRef, ServiceName};
use osier_openflow::action::Action;
use osier_openflow::field::Field;
use osier_openflow::flow::Flow;
use osier_openflow::instruction::Instructions;
use osier_openflow::message::{FlowRequest, MultipartRequest, ReplyBody};
use osier_openflow::session::{ConnectError, Endpoint, Options, RequestError, Session};
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;
use tracing::warn;

/// How long metrics wait for the switch.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the switch's counters are not known.
#[derive(Debug, Error)]
pub(crate) enum CountError {
    /// Nobody answers.
    #[error("the switch cannot be asked what it counted")]
    Connect(#[from] ConnectError),
    /// It does not tell.
    #[error("the switch does not tell what it counted")]
    Request(#[from] RequestError),
}

/// Completes metrics with what the switch tells now.
pub(crate) async fn refresh(config: &Config, switch: &Switch, metrics: &Metrics) {
    let counts = match timeout(PATIENCE, counts(config, switch)).await {
        Ok(Ok(counts)) => Some(counts),
        Ok(Err(error)) => {
            warn!(error = %Chain(&error), "metrics are without what the switch counted");
            None
        }
        Err(_) => {
            warn!("metrics are without what the switch counted: it takes too long");
            None
        }
    };
    metrics.set_switch(counts);
}

async fn counts(config: &Config, switch: &Switch) -> Result<SwitchCounts, CountError> {
    let held = |compiler: &Compiler| {
        let view = compiler.view();
        let slices = view.endpoints().values().flat_map(BTreeMap::values);
        SwitchCounts {
            policies: view.policies().len(),
            services: view.services().len(),
            endpoints: slices.map(|slice| slice.endpoints.len()).sum(),
            ..SwitchCounts::default()
        }
    };
    let held = switch.with_compiler(held).await;
    let tracked = match asks::control(config) {
        Ok(control) => control.connection_count().await.ok(),
        Err(_) => None,
    };
    let counters = Counters::open(config).await?;
    let counts = SwitchCounts {
        rules: counters.rules(switch).await?,
        denied: counters.denied().await?,
        begun: counters.begun().await?,
        tracked,
        ..held
    };
    counters.close().await;
    Ok(counts)
}

/// What a Service's flows have counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Led {
    /// Packets that began connections.
    pub(crate) begun: u64,
    /// Packets that were refused.
    pub(crate) refused: u64,
    /// All that went through, if the fabric says that it is counted.
    pub(crate) counted: Counted,
}

/// A switch that is asked.
pub(crate) struct Counters(Session);

// === impl Counters ===

impl Counters {
    pub(crate) async fn open(config: &Config) -> Result<Self, CountError> {
        let socket = config.ovs_run_dir.join(format!("{}.mgmt", config.bridge));
        let (session, _events) =
            Session::connect(&Endpoint::Unix(socket), Options::default()).await?;
        Ok(Self(session))
    }

    pub(crate) async fn close(self) {
        self.0.close().await;
    }

    /// How often each rule granted a connection: the packets that were judged. Rules that say the same
    /// count together.
    pub(crate) async fn rules(&self, switch: &Switch) -> Result<Vec<RuleHits>, CountError> {
        let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
        for table in POLICIES {
            let count =
                |flow: Flow, packets, _| *counted.entry(flow.cookie).or_default() += packets;
            self.flows(table, RULES, count).await?;
        }
        let told = |compiler: &Compiler| {
            let mut hits: BTreeMap<RuleRef, u64> = BTreeMap::new();
            for (rule, cookie) in compiler.rule_cookies() {
                for rule in compiler.rules(rule) {
                    let packets = counted.get(&cookie).copied().unwrap_or_default();
                    *hits.entry(rule.clone()).or_default() += packets;
                }
            }
            hits.into_iter().map(|(rule, connections)| RuleHits { rule, connections }).collect()
        };
        Ok(switch.with_compiler(told).await)
    }

    /// Packets that no rule granted, by direction: what matched nothing where rules are, or was asked
    /// about since it is logged.
    pub(crate) async fn denied(&self) -> Result<BTreeMap<Direction, u64>, CountError> {
        let mut denied = BTreeMap::new();
        let mut answer = self.0.multipart(MultipartRequest::TableStats).await?;
        while let Some(part) = answer.next().await {
            let ReplyBody::TableStats(tables) = part?.body else { continue };
            for stats in tables {
                if let Some(direction) = direction_of(stats.table) {
                    denied.insert(direction, stats.lookups.saturating_sub(stats.matched));
                }
            }
        }
        for table in POLICIES {
            let Some(direction) = direction_of(table.number()) else { continue };
            let count = |flow: Flow, packets, _| {
                if is_asked(&flow, Question::Denied { direction }) {
                    *denied.entry(direction).or_default() += packets;
                }
            };
            self.flows(table, PIPELINE, count).await?;
        }
        Ok(denied)
    }

    /// What each Service's flows have counted.
    pub(crate) async fn services(
        &self,
        switch: &Switch,
    ) -> Result<BTreeMap<ServiceName, Led>, CountError> {
        let mut counted: BTreeMap<u64, Led> = BTreeMap::new();
        for table in [Table::Service, Table::Account] {
            let count = |flow: Flow, packets, bytes| {
                counted.entry(flow.cookie).or_default().add(&flow, Counted { packets, bytes });
            };
            self.flows(table, SERVICES, count).await?;
        }
        let told = |compiler: &Compiler| {
            let told = compiler.service_cookies().filter_map(|(name, cookie)| {
                let led = counted.get(&cookie)?;
                Some((name.clone(), led.clone()))
            });
            told.collect()
        };
        Ok(switch.with_compiler(told).await)
    }

    /// Packets that began connections to Services, refused ones included.
    async fn begun(&self) -> Result<u64, CountError> {
        let mut begun = 0;
        let request = of(Table::Service, SERVICES);
        let mut answer = self.0.multipart(MultipartRequest::Aggregate(request)).await?;
        while let Some(part) = answer.next().await {
            if let ReplyBody::Aggregate(stats) = part?.body {
                begun += stats.packets.unwrap_or_default();
            }
        }
        Ok(begun)
    }

    /// Flows of a table that one kind of owners has: what each has counted, packets and bytes.
    async fn flows(
        &self,
        table: Table,
        range: CookieRange,
        mut count: impl FnMut(Flow, u64, u64),
    ) -> Result<(), CountError> {
        let request = of(table, range);
        let mut answer = self.0.multipart(MultipartRequest::FlowDesc(request)).await?;
        while let Some(part) = answer.next().await {
            let ReplyBody::FlowDesc(flows) = part?.body else { continue };
            for told in flows {
                let (packets, bytes) = (told.stats.packets, told.stats.bytes);
                count(told.flow, packets.unwrap_or_default(), bytes.unwrap_or_default());
            }
        }
        Ok(())
    }
}

// === impl Led ===

impl Led {
    fn add(&mut self, flow: &Flow, seen: Counted) {
        if is_asked(flow, Question::Reject) {
            self.refused += seen.packets;
            return;
        }
        // Whom no range of sources names is dropped.
        if flow.instructions == Instructions::drop() {
            return;
        }
        self.counted.packets += seen.packets;
        self.counted.bytes += seen.bytes;
        // Flows that only count look at what a connection was begun to.
        if flow.matching.get_u128(Field::CT_TP_DST).is_none() {
            self.begun += seen.packets;
        }
    }
}

fn of(table: Table, cookies: CookieRange) -> FlowRequest {
    let CookieRange { value: cookie, mask: cookie_mask } = cookies;
    FlowRequest { table: table.number(), cookie, cookie_mask, ..FlowRequest::default() }
}

/// Whether a flow asks the agent this.
fn is_asked(flow: &Flow, question: Question) -> bool {
    flow.instructions.apply.iter().any(|action| match action {
        Action::Controller(asked) => Question::decode(&asked.userdata) == Some(question),
        _ => false,
    })
}

/// Of which side a table judges.
fn direction_of(table: u8) -> Option<Direction> {
    match table {
        table if table == Table::EgressPolicy.number() => Some(Direction::Egress),
        table if table == Table::IngressPolicy.number() => Some(Direction::Ingress),
        _ => None,
    }
}
