//! What others do to the switch. Our own changes come abbreviated and are passed over.

use super::driver::Driver;
use osier_openflow::flow::Flow;
use osier_openflow::group::ALL_GROUPS;
use osier_openflow::message::{FlowRemovedReason, FlowUpdate, Message, MonitoredFlow, ReplyBody};
use osier_openflow::meter::ALL_METERS;
use osier_openflow::session::Event;
use rustc_hash::FxHashMap;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, warn};

/// How often each place was taken from us lately, so that two who want the same do not fight
/// forever.
#[derive(Debug, Default)]
pub(super) struct Fights {
    rounds: FxHashMap<u64, (u32, Instant)>,
}

// === impl Fights ===

impl Fights {
    /// In so much time…
    const WINDOW: Duration = Duration::from_secs(10);
    /// … a place is taken back so many times.
    const ROUNDS: u32 = 5;
    /// Places that are remembered.
    const MEMORY: usize = 4096;

    /// Whether to take this place back once more.
    fn contest(&mut self, place: u64, now: Instant) -> bool {
        let lately = |since: Instant| now.duration_since(since) < Self::WINDOW;
        if self.rounds.len() >= Self::MEMORY {
            self.rounds.retain(|_, (_, since)| lately(*since));
            if self.rounds.len() >= Self::MEMORY {
                return false;
            }
        }
        let (rounds, since) = self.rounds.entry(place).or_insert((0, now));
        if !lately(*since) {
            (*rounds, *since) = (0, now);
        }
        *rounds += 1;
        *rounds <= Self::ROUNDS
    }
}

// === impl Driver ===

impl Driver {
    /// Takes one event. Tells whether something may have to be put right.
    pub(super) fn event(&mut self, event: Event) -> bool {
        match event.message {
            Message::MultipartReply(reply) => match reply.body {
                ReplyBody::FlowMonitor(updates) => self.updates(updates),
                _ => false,
            },
            Message::RequestForward(forward) => self.forwarded(&forward.request),
            Message::PacketIn2(asked) => {
                if let Some(questions) = &self.options.questions {
                    // Whoever needs an answer asks again.
                    let _ = questions.to.try_send(asked);
                }
                false
            }
            Message::FlowRemoved(removed) => {
                if let Some(questions) = &self.options.questions
                    && questions.ended.try_send(removed).is_err()
                {
                    debug!("the end of a flow is not heard of");
                }
                false
            }
            Message::Error(error) => {
                debug!(%error, "an error about nothing that is waited for");
                false
            }
            _ => false,
        }
    }

    fn updates(&mut self, updates: Vec<FlowUpdate>) -> bool {
        let (marks, conflicts) = (self.desired.flows.marks(), self.desired.conflicts.len());
        for update in updates {
            self.update(update);
        }
        let marks = self.desired.flows.marks() - marks;
        let now = self.desired.conflicts.len();
        // A place that became free is no drift.
        let drift = marks.saturating_sub(conflicts.saturating_sub(now));
        self.count(|stats| {
            stats.drift_repaired += drift as u64;
            stats.conflicts += now.saturating_sub(conflicts) as u64;
        });
        marks > 0 || self.doubt.all
    }

    fn update(&mut self, update: FlowUpdate) {
        match update {
            FlowUpdate::Initial(flow) | FlowUpdate::Added(flow) | FlowUpdate::Modified(flow) => {
                let now = Instant::now();
                let fights = &mut self.fights;
                self.desired.heard_flow(whole(flow), |place| fights.contest(place, now));
            }
            FlowUpdate::Removed { flow, reason } => {
                use FlowRemovedReason::{HardTimeout, IdleTimeout};
                let expired = matches!(reason, HardTimeout | IdleTimeout);
                self.desired.heard_removal(&whole(flow), expired);
            }
            FlowUpdate::Abbreviated { .. } => {}
            // Read now, so as not to send by an old picture, and again when it tells of all.
            FlowUpdate::Paused => {
                warn!("too many changes: the switch does not tell of all of them for now");
                self.count(|stats| stats.monitor_pauses += 1);
                self.doubt.all = true;
            }
            FlowUpdate::Resumed => self.doubt.all = true,
        }
    }

    /// Somebody else changed a group or a meter, perhaps one of ours.
    fn forwarded(&mut self, request: &Message) -> bool {
        let ownership = &self.desired.ownership;
        match request {
            Message::GroupMod(change) => {
                let id = change.group.id;
                self.doubt.groups |= id == ALL_GROUPS || ownership.groups.contains(&id);
            }
            Message::MeterMod(change) => {
                let id = change.meter.id;
                self.doubt.meters |= id == ALL_METERS || ownership.meters.contains(&id);
            }
            _ => {}
        }
        self.doubt.groups || self.doubt.meters
    }
}

fn whole(flow: MonitoredFlow) -> Flow {
    Flow {
        table: flow.table,
        priority: flow.priority,
        matching: flow.matching,
        cookie: flow.cookie,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        instructions: flow.instructions,
        ..Flow::default()
    }
}
