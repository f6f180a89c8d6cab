//! Clients that stay with their endpoint.
//!
//! Who is chosen is learned in the same step, not by the datapath's hash: so two connections at once
//! do not choose apart. Each endpoint has a flow, since what is learned can name one but not translate
//! to it.
//!
//! A flow lasts 65,535 s at most, affinity up to a day. Where that is longer, the switch tells of the
//! end of what was learned, and what is left of the time is added below it ([`prolonged`]): with the
//! same cookie, so that it is forgotten with the endpoint, and with another priority, since what is
//! learned anew would keep the timeout of the flow that it replaces.

use super::balance::{self, Choice, select};
use super::priority;
use crate::conntrack::fields;
use crate::cookie::{CLASS_MASK, LEARNED, hash};
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::Register;
use osier_model::Backend;
use osier_openflow::action::{Action, Learn, LearnDst, LearnFlags, LearnSpec, LearnSrc, SetField};
use osier_openflow::field::{Field, IntoValue, Value};
use osier_openflow::flow::Flow;
use osier_openflow::group::SelectField;
use osier_openflow::instruction::Instructions;
use osier_openflow::message::{FlowRemoved, FlowRemovedReason};
use osier_openflow::subfield::Subfield;
use std::net::IpAddr;

/// The group of the Service that what was learned is of; `None` if it was not learned here, or has
/// not come to its end by itself.
pub(crate) fn group_of(removed: &FlowRemoved) -> Option<u32> {
    let learned = removed.cookie & CLASS_MASK == LEARNED
        && removed.table == Table::Affinity.number()
        && removed.reason == FlowRemovedReason::HardTimeout;
    let (group, _) = removed.matching.get_u128(Register::SERVICE.field())?;
    u32::try_from(group).ok().filter(|_| learned)
}

/// What keeps a client for the rest of its time, when what was learned lasted as long as a flow can.
pub(crate) fn prolonged(choice: &Choice, removed: &FlowRemoved) -> Option<Flow> {
    let left =
        choice.affinity?.checked_sub(removed.hard_timeout.into()).filter(|left| *left > 0)?;
    let endpoint = choice.backends.iter().find(|b| cookie(choice, b) == removed.cookie)?;
    let load = SetField::new(address_register(choice.ipv6), endpoint.address).ok()?;
    Some(Flow {
        table: removed.table,
        priority: priority::OTHERS,
        matching: removed.matching.clone(),
        cookie: removed.cookie,
        hard_timeout: u16::try_from(left).unwrap_or(u16::MAX),
        instructions: Instructions::from(vec![Action::SetField(load)]),
        ..Flow::default()
    })
}

/// Where the endpoint's address is while a client's is learned.
fn address_register(ipv6: bool) -> Field {
    if ipv6 { Field::xxreg(2) } else { Field::reg(8) }
}

/// The cookie of what an endpoint's flow learns.
fn cookie(choice: &Choice, backend: &Backend) -> u64 {
    LEARNED | hash(&format!("{:x}/{}/{}", choice.group, backend.address, backend.port))
}

/// Clients stay with their endpoint: a flow for each endpoint, which learns who its clients are.
pub(super) fn keep_clients(out: &mut Emitter, choice: &Choice) {
    let register = address_register(choice.ipv6);
    let at = |rule: Rule| rule.when(Register::SERVICE, choice.group);
    let shards = choice.shards();
    let client = if choice.ipv6 { Field::IPV6_SRC } else { Field::IPV4_SRC };
    let source = fields(choice.transport).map(|(_, source, _)| source);
    for (shard, backends) in (0..shards).zip(choice.dealt()) {
        let mut rule =
            at(Rule::new(Table::Endpoint, priority::NORMAL)).family(choice.ipv6).eq(register, 0_u8);
        if shards > 1 {
            rule = rule.masked(client, shard, shards - 1);
        }
        out.add(rule.then(Action::Group(choice.group + shard)));
        let go = Action::resubmit(Table::Endpoint.number());
        let to = |b: &Backend| -> Option<(u16, Vec<Action>)> {
            let address = SetField::new(register, b.address).ok()?;
            Some((1, vec![Action::SetField(address), go.clone()]))
        };
        // Whose time is over is led anew: by its address alone it would come to the same one.
        let whole = |field: Field| {
            let mask = Value::from_bytes(&vec![0xff; field.bytes()]);
            SelectField { field, mask }
        };
        let fields = [client].into_iter().chain(source).map(whole).collect();
        // By a hash, the switch prefers a heavier bucket by more than its weight: shares are buckets.
        let times = balance::times(&backends);
        let each = backends.iter().zip(times);
        let buckets = each.flat_map(|(b, times)| std::iter::repeat_n(b, times)).filter_map(to);
        out.add_group(select(choice.group + shard, "hash", fields, buckets));
    }
    let mut before: Option<IpAddr> = None;
    for backend in &choice.backends {
        // One address at two ports counts once: clients are kept by address.
        if before.replace(backend.address) == Some(backend.address) {
            continue;
        }
        out.add(
            at(Rule::new(Table::Endpoint, priority::HIGH))
                .family(choice.ipv6)
                .eq(register, backend.address)
                .then(learn(choice, backend))
                .then(choice.translate(backend)),
        );
    }
}

/// Learns that the client has this endpoint. Each new connection makes that last anew; it is
/// forgotten with the endpoint.
fn learn(choice: &Choice, backend: &Backend) -> Action {
    let (family, client) = match choice.ipv6 {
        false => (0x0800_u16, Field::IPV4_SRC),
        true => (0x86dd, Field::IPV6_SRC),
    };
    let same = |field| LearnSpec {
        src: LearnSrc::Field(Subfield::whole(field)),
        dst: LearnDst::Match(Subfield::whole(field)),
    };
    let constant = family.into_value(Field::ETH_TYPE).ok();
    let family = constant.map(|value| LearnSpec {
        src: LearnSrc::Value(value),
        dst: LearnDst::Match(Subfield::whole(Field::ETH_TYPE)),
    });
    let register = Subfield::whole(address_register(choice.ipv6));
    let address = LearnSpec { src: LearnSrc::Field(register), dst: LearnDst::Load(register) };
    let specs = family
        .into_iter()
        .chain([same(client), same(Register::SERVICE.field()), address])
        .collect();
    let seconds = choice.affinity.unwrap_or_default();
    let ends = u16::try_from(seconds);
    let told = if ends.is_err() { LearnFlags::SEND_FLOW_REM } else { LearnFlags::empty() };
    Action::Learn(Box::new(Learn {
        hard_timeout: ends.unwrap_or(u16::MAX),
        priority: priority::NORMAL,
        cookie: cookie(choice, backend),
        table: Table::Affinity.number(),
        flags: LearnFlags::DELETE_LEARNED | told,
        specs,
        ..Learn::default()
    }))
}
