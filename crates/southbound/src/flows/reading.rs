//! Asking the switch what it holds and what happens to it.

use super::apply::SyncError;
use super::driver::{Doubt, Driver};
use crate::SWITCH_CONFIG;
use osier_openflow::action::PacketInReason;
use osier_openflow::message::{
    AsyncConfig, AsyncMasks, FlowMonitor, FlowMonitorFlags, FlowRemovedReason, Message,
    MultipartRequest, PacketInFormat, ReplyBody,
};
use osier_openflow::session::{BatchError, RequestError, Session};
use tracing::{info, warn};

/// Both reasons of request-forward: groups and meters.
const FORWARD_ALL: u32 = 0b11;

impl Driver {
    /// Asks to be told of others' changes. Before anything is read: so none is missed.
    pub(super) async fn subscribe(&mut self, session: &Session) -> Result<(), SyncError> {
        let flags = FlowMonitorFlags::ADD
            | FlowMonitorFlags::REMOVED
            | FlowMonitorFlags::MODIFY
            | FlowMonitorFlags::INSTRUCTIONS;
        let monitor = FlowMonitor { id: 1, flags, ..FlowMonitor::default() };
        session.collect(MultipartRequest::FlowMonitor(vec![monitor])).await?;

        let questions = self.options.questions.as_ref();
        // Nothing else is to come over this session.
        let masks = AsyncMasks {
            packet_in: Some(questions.map_or(0, |_| 1 << PacketInReason::Action.to_u8())),
            port_status: Some(0),
            flow_removed: Some(questions.map_or(0, |_| 1 << FlowRemovedReason::HardTimeout as u8)),
            role_status: None,
            table_status: Some(0),
            request_forward: Some(FORWARD_ALL),
        };
        let mut wanted = vec![
            Message::SetAsync(AsyncConfig { secondary: masks, primary: masks }),
            Message::SetConfig(SWITCH_CONFIG),
        ];
        if let Some(questions) = questions {
            wanted.push(Message::SetControllerId(questions.controller));
            wanted.push(Message::SetPacketInFormat(PacketInFormat::PacketIn2));
        }
        self.forwards = match session.batch(wanted).await {
            Ok(()) => true,
            Err(BatchError::Unknown(error)) => return Err(error.into()),
            Err(error) => {
                warn!(%error, "groups and meters are polled");
                false
            }
        };
        Ok(())
    }

    /// Reads what is in doubt.
    pub(super) async fn read(&mut self, session: &Session) -> Result<(), SyncError> {
        let doubt = std::mem::take(&mut self.doubt);
        if doubt == Doubt::default() {
            return Ok(());
        }
        let mut changed = 0;
        if doubt.all || doubt.tlvs {
            changed += self.read_tlvs(session).await?;
        }
        if doubt.all || doubt.meters {
            changed += self.read_meters(session).await?;
        }
        if doubt.all || doubt.groups {
            changed += self.read_groups(session).await?;
        }
        if doubt.all {
            let found = self.read_flows(session).await?;
            self.count(|stats| {
                stats.resyncs += 1;
                stats.conflicts += self.desired.conflicts.len() as u64;
            });
            let wanted = self.desired.wanted_flows();
            info!(peer = session.peer(), found, wanted, "read all flows");
        } else if changed > 0 {
            info!(peer = session.peer(), changed, "somebody else changed groups, meters or maps");
            self.count(|stats| stats.drift_repaired += changed as u64);
        }
        Ok(())
    }

    pub(super) async fn read_tlvs(&mut self, session: &Session) -> Result<usize, SyncError> {
        match session.request(&Message::TlvTableRequest).await? {
            Message::TlvTableReply(table) => Ok(self.desired.read_tlvs(table.maps)),
            other => Err(SyncError::Answer(other.kind())),
        }
    }

    pub(super) async fn read_meters(&mut self, session: &Session) -> Result<usize, SyncError> {
        let mut meters = Vec::new();
        for part in session.collect(MultipartRequest::ALL_METERS).await? {
            if let ReplyBody::MeterDesc(some) = part.body {
                meters.extend(some);
            }
        }
        Ok(self.desired.read_meters(meters))
    }

    pub(super) async fn read_groups(&mut self, session: &Session) -> Result<usize, SyncError> {
        let mut groups = Vec::new();
        for part in session.collect(MultipartRequest::ALL_GROUPS).await? {
            if let ReplyBody::GroupDesc(some) = part.body {
                groups.extend(some);
            }
        }
        Ok(self.desired.read_groups(groups))
    }

    /// Compares flows as they come; gives their number.
    async fn read_flows(&mut self, session: &Session) -> Result<usize, RequestError> {
        let mut answer = session.multipart(MultipartRequest::all_flows()).await?;
        self.desired.begin_flows();
        let mut found = 0;
        while let Some(part) = answer.next().await {
            if let ReplyBody::FlowDesc(descs) = part?.body {
                found += descs.len();
                for desc in descs {
                    self.desired.found_flow(desc.flow);
                }
            }
        }
        self.desired.finish_flows();
        Ok(found)
    }
}
