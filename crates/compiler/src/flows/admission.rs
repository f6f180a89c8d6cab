//! How fast a port fills the connection tracker, which all share: connections that begin, and are
//! remembered, are counted against the port here that they come from, or that they go to from another
//! node. Those above its rate are dropped.
//!
//! Nothing else is counted: packets of connections that are known, and what nobody tracks.

use super::priority;
use crate::local::Attachment;
use crate::meters;
use crate::pipeline::Table;
use crate::plan::{Emitter, Rule};
use crate::registers::{Origin, Register};
use osier_openflow::action::Action;

/// Of a local port, at so many in a second.
pub(crate) fn flows(out: &mut Emitter, at: Attachment, rate: u32) {
    // Who went to a Service was counted before it was led to an endpoint.
    let counts =
        || Rule::new(Table::Admission, priority::NORMAL).when(Register::FROM_SERVICE, 0_u8);
    let begun = meters::begun_by(at.tag, rate);
    out.add(
        counts()
            .when(Register::FROM, Origin::Port as u8)
            .when(Register::IN_TAG, at.tag)
            .then(Action::Meter(begun.id)),
    );
    let received = meters::begun_with(at.tag, rate);
    out.add(
        counts()
            .when(Register::FROM, Origin::Tunnel as u8)
            .when(Register::OUT_PORT, at.ofport.0)
            .then(Action::Meter(received.id)),
    );
    out.add_meter(begun);
    out.add_meter(received);
}
