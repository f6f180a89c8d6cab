//! The task that listens for questions and sends answers, over a session of its own: a flood of
//! questions never stands in the way of flows. It also gives clients of Services the rest of their
//! time, where that is longer than a flow can last.

use super::denied::Denials;
use crate::Chain;
use crate::switch::Switch;
use osier_answers::{Reply, advertisements, reply};
use osier_compiler::{CONTROLLER_ID, Compiler, Question};
use osier_openflow::action::PacketInReason;
use osier_openflow::flow::FlowMod;
use osier_openflow::message::{
    AsyncConfig, AsyncMasks, FlowRemovedReason, Message, PacketIn2, PacketInFormat, PacketOut,
};
use osier_openflow::session::{Backoff, BatchError, Dialer, Endpoint, Events, Options, Session};
use osier_southbound::SWITCH_CONFIG;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};

/// Bytes of questions that wait. What does not fit is lost, and asked again by who needs it.
const WAITING: usize = 256 * 1024;

/// How often routers tell of themselves: many times in the time that it holds.
const ADVERTISE: Duration = Duration::from_mins(10);

#[derive(Debug, Error)]
#[error("the switch does not let us listen")]
struct ListenError(#[from] BatchError);

/// Answers for ever.
pub(crate) async fn serve(management: &Path, switch: &Switch) {
    let options = Options { event_buffer: WAITING, ..Options::default() };
    let endpoint = Endpoint::Unix(management.to_owned());
    let mut dialer = Dialer::new(endpoint, options, Backoff::default());
    loop {
        let (session, events) = dialer.next().await;
        match listen(&session).await {
            Ok(()) => answer(&session, events, switch).await,
            Err(error) => warn!(error = %Chain(&error), "questions of the switch are not answered"),
        }
        session.close().await;
    }
}

/// Asks for questions and for flows that end by themselves, and for nothing else.
async fn listen(session: &Session) -> Result<(), ListenError> {
    let masks = AsyncMasks {
        packet_in: Some(1 << PacketInReason::Action.to_u8()),
        port_status: Some(0),
        flow_removed: Some(1 << FlowRemovedReason::HardTimeout as u8),
        role_status: None,
        table_status: Some(0),
        request_forward: Some(0),
    };
    let wanted = [
        Message::SetControllerId(CONTROLLER_ID),
        Message::SetPacketInFormat(PacketInFormat::PacketIn2),
        Message::SetAsync(AsyncConfig { secondary: masks, primary: masks }),
        Message::SetConfig(SWITCH_CONFIG),
    ];
    Ok(session.batch(wanted).await?)
}

/// Answers until the session ends.
async fn answer(session: &Session, mut events: Events, switch: &Switch) {
    let mut denials = Denials::new(switch.denied().clone());
    let mut advertise = interval(ADVERTISE);
    advertise.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            _ = advertise.tick() => {
                for packet in switch.with_compiler(advertisements).await {
                    if session.send(&Message::PacketOut(packet)).await.is_err() {
                        return;
                    }
                }
                continue;
            }
        };
        let Some(event) = event else { return };
        let answer = match event.message {
            Message::PacketIn2(asked) => {
                let answer = answer_packet(&asked, &mut denials, switch).await;
                answer.map(Message::PacketOut)
            }
            Message::FlowRemoved(removed) => {
                let look = |compiler: &Compiler| compiler.prolonged(&removed);
                let flow = switch.with_compiler(look).await;
                flow.map(|flow| Message::FlowMod(FlowMod::add(flow)))
            }
            _ => None,
        };
        if let Some(answer) = answer
            && session.send(&answer).await.is_err()
        {
            return;
        }
    }
}

async fn answer_packet(
    asked: &PacketIn2,
    denials: &mut Denials,
    switch: &Switch,
) -> Option<PacketOut> {
    if let Some(question) = Question::decode(&asked.userdata) {
        switch.metrics().asked(question.name());
    }
    let look = |compiler: &Compiler| {
        denials.log(compiler, asked);
        reply(compiler, asked)
    };
    let Reply { packet, lease } = switch.with_compiler(look).await;
    debug!(userdata = ?asked.userdata, answered = packet.is_some(), ?lease, "asked");
    if let Some((family, event)) = lease {
        switch.metrics().leased(family.name(), event.name());
    }
    packet
}
