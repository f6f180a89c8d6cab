//! Plans: what an owner wants of the switch, and the builder that flows are written with.

use crate::pipeline::Table;
use crate::registers::Register;
use osier_openflow::action::{Action, SetField, SetFieldError};
use osier_openflow::field::{Field, IntoValue, Value};
use osier_openflow::flow::Flow;
use osier_openflow::group::Group;
use osier_openflow::instruction::Instructions;
use osier_openflow::matching::{Match, MatchBuilder, MatchError};
use osier_openflow::message::TlvMap;
use osier_openflow::meter::Meter;
use osier_openflow::subfield::Subfield;
use std::collections::BTreeMap;
use std::net::IpAddr;
use thiserror::Error;

/// All that one owner wants of the switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Which Geneve option is which field.
    pub tlvs: Vec<TlvMap>,
    /// Meters.
    pub meters: Vec<Meter>,
    /// Groups.
    pub groups: Vec<Group>,
    /// Flows.
    pub flows: Vec<Flow>,
}

/// A flow that cannot be: a defect of the compiler, told instead of hidden.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{table}: {problem}")]
pub struct RuleError {
    /// The table that it was for.
    pub table: &'static str,
    /// What is wrong.
    #[source]
    pub problem: RuleProblem,
}

/// What is wrong with a flow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleProblem {
    /// Its match.
    #[error("the match")]
    Match(#[from] MatchError),
    /// An action.
    #[error("an action")]
    Set(#[from] SetFieldError),
}

/// One flow in the making: a table, a match, what to do, and where to go on.
#[derive(Debug, Clone)]
#[must_use]
pub(crate) struct Rule {
    table: Table,
    priority: u16,
    matching: MatchBuilder,
    family: Option<bool>,
    /// Value and mask of each register: several fields may share one.
    registers: BTreeMap<Field, (u32, u32)>,
    actions: Vec<Action>,
    next: Option<Table>,
    error: Option<RuleProblem>,
}

// === impl Rule ===

impl Rule {
    pub(crate) fn new(table: Table, priority: u16) -> Self {
        Self {
            table,
            priority,
            matching: Match::builder(),
            family: None,
            registers: BTreeMap::new(),
            actions: Vec::new(),
            next: None,
            error: None,
        }
    }

    /// The field has this value.
    pub(crate) fn eq(mut self, field: Field, value: impl IntoValue) -> Self {
        self.matching = self.matching.eq(field, value);
        self
    }

    /// The register has this value.
    pub(crate) fn when(mut self, register: Register, value: impl Into<u32>) -> Self {
        let (value, mask) = register.matching(value.into());
        let bits = self.registers.entry(register.field()).or_default();
        *bits = (bits.0 | value, bits.1 | mask);
        self
    }

    /// The same, before or after others.
    pub(crate) fn with_priority(mut self, priority: u16) -> Self {
        self.priority = priority;
        self
    }

    /// IP of a family; to say it again says nothing new.
    pub(crate) fn family(mut self, ipv6: bool) -> Self {
        if self.family.replace(ipv6) == Some(ipv6) {
            return self;
        }
        self.eq(Field::ETH_TYPE, if ipv6 { 0x86dd_u16 } else { 0x0800 })
    }

    /// IP of the address' family.
    pub(crate) fn ip(self, address: IpAddr) -> Self {
        self.family(address.is_ipv6())
    }

    /// The address that packets go to is of this prefix.
    pub(crate) fn destined(mut self, prefix: ipnet::IpNet) -> Self {
        let field = if prefix.addr().is_ipv4() { Field::IPV4_DST } else { Field::IPV6_DST };
        self = self.ip(prefix.addr());
        self.matching = self.matching.prefix(field, prefix.addr(), prefix.prefix_len());
        self
    }

    /// The address that packets come from.
    pub(crate) fn sourced(self, address: IpAddr) -> Self {
        let field = if address.is_ipv4() { Field::IPV4_SRC } else { Field::IPV6_SRC };
        self.ip(address).eq(field, address)
    }

    /// The address that packets come from is of this prefix.
    pub(crate) fn sourced_in(mut self, prefix: ipnet::IpNet) -> Self {
        let field = if prefix.addr().is_ipv4() { Field::IPV4_SRC } else { Field::IPV6_SRC };
        self = self.ip(prefix.addr());
        self.matching = self.matching.prefix(field, prefix.addr(), prefix.prefix_len());
        self
    }

    /// Some bits of a field have this value.
    pub(crate) fn masked(
        mut self,
        field: Field,
        value: impl IntoValue,
        mask: impl IntoValue,
    ) -> Self {
        self.matching = self.matching.masked(field, value, mask);
        self
    }

    /// To a group of devices: the lowest bit of the first byte.
    pub(crate) fn multicast(mut self) -> Self {
        let group = 1_u64 << 40;
        self.matching = self.matching.masked(Field::ETH_DST, group, group);
        self
    }

    /// Does this next.
    pub(crate) fn then(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// Sets a field.
    pub(crate) fn set(mut self, field: Field, value: impl IntoValue) -> Self {
        match SetField::new(field, value) {
            Ok(set) => self.actions.push(Action::SetField(set)),
            Err(e) => self.error = self.error.or(Some(e.into())),
        }
        self
    }

    /// Sets a register.
    pub(crate) fn load(mut self, register: Register, value: impl Into<u32>) -> Self {
        match register.load(value.into()) {
            Ok(action) => self.actions.push(action),
            Err(e) => self.error = self.error.or(Some(e.into())),
        }
        self
    }

    /// Goes through a table, and comes back.
    pub(crate) fn through(self, table: Table) -> Self {
        self.then(Action::resubmit(table.number()))
    }

    /// Copies bits.
    pub(crate) fn copy(self, src: Subfield, dst: Subfield) -> Self {
        self.then(Action::Move { src, dst })
    }

    /// Forgets the ingress port, so that the packet may leave where it came in.
    pub(crate) fn forget_in_port(self) -> Self {
        self.set(Field::IN_PORT_NXM, Value::from_bytes(&[0, 0]))
    }

    /// Then goes on in a table.
    pub(crate) fn to(mut self, table: Table) -> Self {
        self.next = Some(table);
        self
    }

    fn build(mut self, cookie: u64) -> Result<Flow, RuleError> {
        let table = self.table.name();
        let fail = |problem| RuleError { table, problem };
        if let Some(problem) = self.error {
            return Err(fail(problem));
        }
        let registers = self.registers.into_iter();
        let matching = registers
            .fold(self.matching, |m, (register, (value, mask))| m.masked(register, value, mask))
            .build()
            .map_err(|e| fail(e.into()))?;
        let mut goto_table = None;
        match self.next {
            Some(next) if next > self.table => goto_table = Some(next.number()),
            Some(next) => self.actions.push(Action::resubmit(next.number())),
            None => {}
        }
        let instructions =
            Instructions { apply: self.actions, goto_table, ..Instructions::default() };
        let (table, priority) = (self.table.number(), self.priority);
        Ok(Flow { table, priority, matching, cookie, instructions, ..Flow::default() })
    }
}

/// Collects the flows of one owner under its cookie.
#[derive(Debug)]
pub(crate) struct Emitter {
    cookie: u64,
    plan: Result<Plan, RuleError>,
}

// === impl Emitter ===

impl Emitter {
    pub(crate) fn new(cookie: u64) -> Self {
        Self { cookie, plan: Ok(Plan::default()) }
    }

    /// Adds a flow.
    pub(crate) fn add(&mut self, rule: Rule) {
        let Ok(plan) = &mut self.plan else { return };
        match rule.build(self.cookie) {
            Ok(flow) => plan.flows.push(flow),
            Err(e) => self.plan = Err(e),
        }
    }

    /// Adds a group.
    pub(crate) fn add_group(&mut self, group: Group) {
        if let Ok(plan) = &mut self.plan {
            plan.groups.push(group);
        }
    }

    /// Adds a meter.
    pub(crate) fn add_meter(&mut self, meter: Meter) {
        if let Ok(plan) = &mut self.plan {
            plan.meters.push(meter);
        }
    }

    /// Adds a Geneve option.
    pub(crate) fn add_tlv(&mut self, tlv: TlvMap) {
        if let Ok(plan) = &mut self.plan {
            plan.tlvs.push(tlv);
        }
    }

    /// The plan, or the first flow that could not be.
    pub(crate) fn finish(self) -> Result<Plan, RuleError> {
        self.plan
    }
}
