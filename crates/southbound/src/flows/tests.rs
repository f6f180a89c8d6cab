//! Random plans, and random deeds of others on a simulated switch, against a naive model.

use super::batch::{Batch, Change, Ref};
use super::error::Trouble;
use super::{CookieClass, Desired, Owner, Ownership, Plan, Transaction};
use osier_openflow::action::Action;
use osier_openflow::field::Field;
use osier_openflow::flow::{Flow, FlowCommand};
use osier_openflow::group::{Bucket, Group, GroupCommand};
use osier_openflow::instruction::Instructions;
use osier_openflow::matching::Match;
use osier_openflow::message::{ErrorCode, ErrorMessage, TlvCommand, TlvMap};
use osier_openflow::meter::{Meter, MeterBand, MeterCommand, MeterFlags};
use osier_openflow::port_no::PortNo;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const OURS: u64 = 0xa500 << 48;
const LEARNED: u64 = 0xa5ee << 48;
const FOREIGN: u64 = 0x77;
/// The simulated switch refuses flows that output here.
const REFUSED: u8 = 9;

type Key = (u8, u16, Vec<u8>);

fn ownership() -> Ownership {
    Ownership {
        cookies: CookieClass { value: OURS, mask: 0xff00 << 48 },
        learned: Some(CookieClass { value: LEARNED, mask: 0xffff << 48 }),
        groups: 10..=19,
        meters: 20..=29,
        tun_metadata: 0..=3,
    }
}

/// A few places, a few contents: so they meet.
fn flow(cookie: u64, place: u8, output: u8) -> Flow {
    let matching = match place % 3 {
        0 => Match::any(),
        1 => Match::builder().eq(Field::ETH_TYPE, 0x0800_u16).build().unwrap(),
        _ => Match::builder().eq(Field::IN_PORT, 7_u32).build().unwrap(),
    };
    let instructions = Instructions::from(vec![Action::output(PortNo(output.into()))]);
    let (table, priority) = (place / 3 % 2, (place / 6).into());
    Flow { table, priority, matching, cookie, instructions, ..Flow::default() }
}

fn group(id: u8, output: u8) -> Group {
    let buckets = vec![Bucket::from(vec![Action::output(PortNo(output.into()))])];
    Group { id: id.into(), buckets, ..Group::default() }
}

fn meter(id: u8, rate: u8) -> Meter {
    let bands = vec![MeterBand::drop(rate.into(), 0)];
    Meter { id: id.into(), flags: MeterFlags::KBPS, bands }
}

fn key(flow: &Flow) -> Key {
    (flow.table, flow.priority, flow.matching.as_oxms().to_vec())
}

/// A switch, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq)]
struct Switch {
    flows: BTreeMap<Key, Flow>,
    groups: BTreeMap<u32, Group>,
    meters: BTreeMap<u32, Meter>,
    tlvs: BTreeMap<u16, TlvMap>,
}

impl Switch {
    /// Does a change, or refuses it.
    fn apply(&mut self, change: &Change) -> Result<(), ErrorMessage> {
        match change {
            Change::Flow(m) if m.command == FlowCommand::Add => {
                if m.flow.instructions.apply == [Action::output(PortNo(REFUSED.into()))] {
                    return Err(ErrorMessage { code: ErrorCode::TABLE_FULL, data: Vec::new() });
                }
                self.flows.insert(key(&m.flow), m.flow.clone());
            }
            Change::Flow(m) => {
                assert_eq!(m.command, FlowCommand::DeleteStrict);
                let is_meant = |flow: &mut Flow| flow.cookie & m.cookie_mask == m.flow.cookie;
                let key = key(&m.flow);
                if self.flows.get_mut(&key).is_some_and(is_meant) {
                    self.flows.remove(&key);
                }
            }
            Change::Group(m) if m.command == GroupCommand::Delete => {
                self.groups.remove(&m.group.id);
            }
            Change::Group(m) => {
                self.groups.insert(m.group.id, m.group.clone());
            }
            Change::Meter(m) => {
                let exists = self.meters.contains_key(&m.meter.id);
                assert_eq!(exists, m.command != MeterCommand::Add, "{m:?}");
                self.meters.remove(&m.meter.id);
                if m.command != MeterCommand::Delete {
                    self.meters.insert(m.meter.id, m.meter.clone());
                }
            }
            Change::Tlv(m) => {
                for map in &m.maps {
                    let old = self.tlvs.remove(&map.index);
                    match m.command {
                        TlvCommand::Add => {
                            assert_eq!(old, None);
                            self.tlvs.insert(map.index, *map);
                        }
                        _ => assert_eq!(old, Some(*map)),
                    }
                }
            }
        }
        Ok(())
    }

    fn others(&self) -> Vec<&Flow> {
        let class = ownership();
        let is_ours = |f: &Flow| class.origin(f.cookie) == super::ownership::Origin::Ours;
        self.flows.values().filter(|flow| !is_ours(flow)).collect()
    }
}

/// Reads all of the switch.
fn read(desired: &mut Desired, switch: &Switch) {
    desired.read_tlvs(switch.tlvs.values().copied());
    desired.read_meters(switch.meters.values().cloned());
    desired.read_groups(switch.groups.values().cloned());
    desired.begin_flows();
    switch.flows.values().for_each(|flow| desired.found_flow(flow.clone()));
    desired.finish_flows();
}

/// Sends all that differs, as the driver does. Gives the number of messages.
fn send(desired: &mut Desired, switch: &mut Switch) -> usize {
    let mut sent = 0;
    while !desired.is_settled() {
        let before = desired.before_bundle();
        sent += deliver(desired, switch, &before);
        for (slot, hash) in desired.suspects() {
            let place = key(&desired.flows.get(slot).unwrap().item);
            let found = switch.flows.get(&place).cloned();
            desired.resolve(slot, hash, found.as_ref());
        }
        let bundle = desired.bundle();
        sent += deliver(desired, switch, &bundle);
        let after = desired.after_bundle();
        sent += deliver(desired, switch, &after);
    }
    sent
}

/// All of a batch or nothing.
fn deliver(desired: &mut Desired, switch: &mut Switch, batch: &Batch) -> usize {
    let mut next = switch.clone();
    for (at, change) in desired.changes(batch).enumerate() {
        if let Err(error) = next.apply(&change) {
            let item: Ref = batch.refs[at];
            let (what, text, owners) = desired.describe(item);
            let owner = desired.name(&owners);
            let trouble = Trouble::Refused { owner, what, text, error };
            desired.refuse(&owners, &Arc::new(trouble));
            return 0;
        }
    }
    *switch = next;
    desired.done(batch);
    batch.len()
}

#[derive(Debug, Clone)]
enum Step {
    /// Owners and what they want from now on.
    Plans(Vec<(u8, Wish)>),
    /// Somebody puts a flow: cookie, place, output. We hear of it, or not.
    Flow(u64, u8, u8, bool),
    /// Somebody deletes the flow of a place. We hear of it, or not.
    Delete(u8, bool),
    /// Somebody changes or deletes a group, meter or TLV map.
    Others(u8, Option<u8>),
    Send,
    Read,
    /// The switch is empty, and read.
    Restart,
}

/// Places and contents.
#[derive(Debug, Clone, Default)]
struct Wish {
    flows: Vec<(u8, u8)>,
    others: Vec<(u8, u8)>,
}

impl Wish {
    fn plan(&self) -> Plan {
        let mut plan = Plan::flows(self.flows.iter().map(|(place, out)| flow(OURS, *place, *out)));
        for (id, content) in &self.others {
            match id % 3 {
                0 => plan.groups.push(group(10 + id, *content)),
                1 => plan.meters.push(meter(20 + id, 1 + content)),
                _ => plan.tlvs.push(tlv(id % 4, *content)),
            }
        }
        plan
    }
}

fn tlv(index: u8, content: u8) -> TlvMap {
    // No option is mapped twice.
    TlvMap { class: index.into(), kind: content, len: 4, index: index.into() }
}

fn wish() -> impl Strategy<Value = Wish> {
    let output = prop_oneof![60 => 1..4_u8, 1 => Just(REFUSED)];
    let flows = prop::collection::vec((0..9_u8, output), 0..6);
    let others = prop::collection::vec((0..9_u8, 0..2_u8), 0..4);
    (flows, others).prop_map(|(flows, others)| Wish { flows, others })
}

/// A wish that nobody refuses, for different places.
fn tame() -> impl Strategy<Value = Wish> {
    wish().prop_map(|wish| {
        let flows: BTreeMap<_, _> = wish.flows.into_iter().collect();
        let flows = flows.into_iter().filter(|(_, output)| *output != REFUSED).collect();
        let others: BTreeMap<_, _> = wish.others.into_iter().map(|(id, c)| (id % 4, c)).collect();
        Wish { flows, others: others.into_iter().collect() }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let cookie = prop_oneof![Just(FOREIGN), Just(LEARNED), Just(OURS), Just(OURS + 1)];
    prop_oneof![
        5 => prop::collection::vec((0..5_u8, wish()), 1..3).prop_map(Step::Plans),
        2 => (cookie, 0..9_u8, 1..4_u8, any::<bool>())
            .prop_map(|(cookie, place, out, heard)| Step::Flow(cookie, place, out, heard)),
        2 => (0..9_u8, any::<bool>()).prop_map(|(place, heard)| Step::Delete(place, heard)),
        1 => (0..9_u8, prop::option::of(0..2_u8)).prop_map(|(id, c)| Step::Others(id, c)),
        4 => Just(Step::Send),
        2 => Just(Step::Read),
        1 => Just(Step::Restart),
    ]
}

/// What everybody wants, naively.
#[derive(Debug, Clone, Default)]
struct Model {
    plans: BTreeMap<u8, Plan>,
}

impl Model {
    /// Takes the plans if no two want different things in one place.
    fn take(&mut self, plans: &[(u8, Wish)]) -> bool {
        let mut next = self.clone();
        for (owner, wish) in plans {
            next.plans.insert(*owner, wish.plan());
        }
        let fits = next.is_consistent();
        if fits {
            *self = next;
        }
        fits
    }

    fn is_consistent(&self) -> bool {
        fn unique<K: Ord, T: PartialEq>(all: impl Iterator<Item = (K, T)>) -> bool {
            let mut seen: BTreeMap<K, T> = BTreeMap::new();
            all.into_iter().all(|(key, item)| {
                let fits = seen.get(&key).is_none_or(|other| *other == item);
                seen.insert(key, item);
                fits
            })
        }
        let plans = || self.plans.values();
        unique(plans().flat_map(|p| p.flows.iter().map(|f| (key(f), f))))
            && unique(plans().flat_map(|p| p.groups.iter().map(|g| (g.id, g))))
            && unique(plans().flat_map(|p| p.meters.iter().map(|m| (m.id, m))))
            && unique(plans().flat_map(|p| p.tlvs.iter().map(|t| (t.index, t))))
    }

    /// What the switch should hold if nobody is refused anything and `others` stay.
    fn switch(&self, others: &[&Flow]) -> Switch {
        let mut switch = Switch::default();
        for plan in self.plans.values() {
            switch.flows.extend(plan.flows.iter().map(|f| (key(f), f.clone())));
            switch.groups.extend(plan.groups.iter().map(|g| (g.id, g.clone())));
            switch.meters.extend(plan.meters.iter().map(|m| (m.id, m.clone())));
            switch.tlvs.extend(plan.tlvs.iter().map(|t| (t.index, *t)));
        }
        switch.flows.extend(others.iter().map(|f| (key(f), (*f).clone())));
        switch
    }

    /// Whether somebody wants what the switch refuses.
    fn is_refusable(&self) -> bool {
        let mut flows = self.plans.values().flat_map(|plan| &plan.flows);
        flows.any(|f| f.instructions.apply == [Action::output(PortNo(REFUSED.into()))])
    }
}

fn transaction(plans: &[(u8, Wish)]) -> Transaction {
    plans.iter().fold(Transaction::new(), |t, (owner, wish)| {
        t.put(Owner::from(format!("owner {owner}")), wish.plan())
    })
}

/// Everything together, with what others did since the last reading.
struct World {
    desired: Desired,
    switch: Switch,
    model: Model,
    /// Whether something happened that we were not told.
    unheard: bool,
    /// Places that were taken from us and that we may take back.
    contested: BTreeSet<Key>,
}

impl World {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Plans(plans) => {
                let taken = self.desired.transact(transaction(plans));
                assert_eq!(taken.is_ok(), self.model.take(plans), "{taken:?}");
            }
            Step::Flow(cookie, place, output, heard) => {
                let flow = flow(*cookie, *place, *output);
                self.switch.flows.insert(key(&flow), flow.clone());
                let place = key(&flow);
                self.contested.remove(&place);
                match heard {
                    true => self.desired.heard_flow(flow, |_| {
                        self.contested.insert(place);
                        *output != 3
                    }),
                    false => self.unheard = true,
                }
            }
            Step::Delete(place, heard) => {
                let place = key(&flow(0, *place, 0));
                if let Some(flow) = self.switch.flows.remove(&place) {
                    match heard {
                        true => self.desired.heard_removal(&flow, false),
                        false => self.unheard = true,
                    }
                }
            }
            Step::Others(id, content) => self.meddle(*id, *content),
            Step::Send => self.send(),
            Step::Read => {
                read(&mut self.desired, &self.switch);
                self.unheard = false;
            }
            Step::Restart => {
                self.switch = Switch::default();
                read(&mut self.desired, &self.switch);
                self.unheard = false;
            }
        }
    }

    /// Somebody changes a group, meter or TLV map; the driver would ask for them.
    fn meddle(&mut self, id: u8, content: Option<u8>) {
        let switch = &mut self.switch;
        switch.groups.remove(&(10 + u32::from(id)));
        switch.meters.remove(&(20 + u32::from(id)));
        switch.tlvs.remove(&u16::from(id % 4));
        if let Some(content) = content {
            switch.groups.insert(10 + u32::from(id), group(10 + id, content));
            switch.meters.insert(20 + u32::from(id), meter(20 + id, 1 + content));
            switch.tlvs.insert(u16::from(id % 4), tlv(id % 4, content));
        }
        self.desired.read_tlvs(self.switch.tlvs.values().copied());
        self.desired.read_meters(self.switch.meters.values().cloned());
        self.desired.read_groups(self.switch.groups.values().cloned());
    }

    fn send(&mut self) {
        // Only with a true picture is nothing of others harmed.
        if self.unheard {
            read(&mut self.desired, &self.switch);
            self.unheard = false;
        }
        let before = self.switch.clone();
        send(&mut self.desired, &mut self.switch);
        let kept: BTreeSet<Key> = self.switch.others().into_iter().map(key).collect();
        for flow in before.others() {
            let place = key(flow);
            assert!(kept.contains(&place) || self.contested.contains(&place), "lost {flow}");
        }
        self.contested.clear();
        if !self.model.is_refusable() {
            let refused = self.desired.refused.values().count();
            assert_eq!(refused, 0);
            assert_eq!(self.switch, self.model.switch(&self.switch.others()));
            let in_conflict = self
                .switch
                .others()
                .into_iter()
                .filter(|flow| self.desired.flows().any(|wanted| key(wanted) == key(flow)));
            assert_eq!(self.desired.conflicts.len(), in_conflict.count());
        }
        // Settled means settled: what is equal is not sent again.
        read(&mut self.desired, &self.switch);
        if !self.model.is_refusable() {
            assert_eq!(send(&mut self.desired, &mut self.switch), 0);
            // Neither by one who starts anew, and knows the plans before it knows the switch.
            let mut fresh = Desired::new(ownership());
            for (owner, plan) in &self.model.plans {
                let transaction = Transaction::new().put(owner.to_string(), plan.clone());
                fresh.transact(transaction).unwrap();
            }
            read(&mut fresh, &self.switch);
            assert_eq!(send(&mut fresh, &mut self.switch), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_switch_becomes_what_is_wanted(steps in prop::collection::vec(step(), 1..40)) {
        let desired = Desired::new(ownership());
        let mut world = World {
            desired,
            switch: Switch::default(),
            model: Model::default(),
            unheard: false,
            contested: BTreeSet::new(),
        };
        for step in &steps {
            world.step(step);
        }
        world.send();
        // And all of it goes.
        let everybody: Vec<_> = (0..5).map(|owner| (owner, Wish::default())).collect();
        world.step(&Step::Plans(everybody));
        world.send();
        prop_assert_eq!(&world.switch, &Model::default().switch(&world.switch.others()));
        prop_assert!(world.desired.owners.is_empty() && world.desired.by_name.is_empty());
        prop_assert_eq!(world.desired.wanted_flows(), 0);
    }

    /// One who is refused keeps what it had; nobody else notices.
    #[test]
    fn the_refused_keep_what_they_had(
        first in tame(), mut second in tame(), others in prop::collection::vec(tame(), 1..4),
    ) {
        let (mut desired, mut switch) = (Desired::new(ownership()), Switch::default());
        desired.transact(transaction(&[(0, first.clone())])).unwrap();
        send(&mut desired, &mut switch);
        let before = switch.clone();
        second.flows.push((17, REFUSED));
        desired.transact(transaction(&[(0, second)])).unwrap();
        let mut alone = Switch::default();
        for (owner, wish) in (1..).zip(&others) {
            if desired.transact(transaction(&[(owner, wish.clone())])).is_ok() {
                let plan = wish.plan();
                alone.flows.extend(plan.flows.iter().map(|f| (key(f), f.clone())));
                alone.groups.extend(plan.groups.iter().map(|g| (g.id, g.clone())));
            }
        }
        send(&mut desired, &mut switch);
        prop_assert_eq!(desired.refused.len(), 1);
        for (place, flow) in &alone.flows {
            prop_assert_eq!(switch.flows.get(place), Some(flow));
        }
        for (place, flow) in &before.flows {
            prop_assert_eq!(switch.flows.get(place), alone.flows.get(place).or(Some(flow)));
        }
        for (id, group) in &before.groups {
            prop_assert_eq!(switch.groups.get(id), alone.groups.get(id).or(Some(group)));
        }
        // Its next plan is free of the past.
        desired.transact(transaction(&[(0, first)])).ok();
        send(&mut desired, &mut switch);
        let mut back = desired;
        read(&mut back, &switch);
        prop_assert_eq!(send(&mut back, &mut switch), 0);
    }
}

#[test]
fn a_map_that_goes_and_comes_back_is_not_sent() {
    let (mut desired, mut switch) = (Desired::new(ownership()), Switch::default());
    let wish = Wish { flows: Vec::new(), others: vec![(2, 1)] };
    desired.transact(transaction(&[(0, wish.clone())])).unwrap();
    assert_eq!(send(&mut desired, &mut switch), 1);
    desired.transact(transaction(&[(0, Wish::default())])).unwrap();
    desired.transact(transaction(&[(1, wish)])).unwrap();
    // While flows use it, a switch would not let it go.
    assert_eq!(send(&mut desired, &mut switch), 0);
    assert_eq!(switch.tlvs.len(), 1);
}
