//! Everything of `osier-openflow` that reads what others wrote.
//!
//! No input may panic, take long or allocate much. Beyond that, each body checks what must hold of
//! an input that is understood: see [`wire`], [`text`] and [`session`].

pub mod session;
pub mod text;
pub mod wire;

/// A target: its name, which is also that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets of the crate.
#[allow(dead_code, reason = "for the replay; a fuzz target calls its own body alone")]
pub const TARGETS: &[Target] = &[
    ("of_message", wire::message),
    ("of_match", wire::matching),
    ("of_actions", wire::actions),
    ("of_instructions", wire::instructions),
    ("of_flow_mod", wire::flow_mod),
    ("of_flow_desc", wire::flow_desc),
    ("of_group", wire::group),
    ("of_meter", wire::meter),
    ("of_multipart_request", wire::multipart_request),
    ("of_multipart_reply", wire::multipart_reply),
    ("of_error", wire::error),
    ("of_packet_in2", wire::packet_in2),
    ("of_tlv_table", wire::tlv_table),
    ("of_bundle", wire::bundle),
    ("of_session", session::session),
    ("of_endpoint_text", session::endpoint_text),
    ("of_flow_text", text::flow),
    ("of_group_text", text::group),
    ("of_meter_text", text::meter),
];
