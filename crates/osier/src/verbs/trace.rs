//! `osier trace`: the way of a packet that is not sent.

use super::{asking, verdict};
use crate::client::Connection;
use crate::client::answers::Trace;
use crate::output::{Form, Output};
use crate::render::paint::Paint;
use crate::render::trace::{Depth, draw, has_arrived};
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
Each switch on the way is asked what it would do with the packet (ofproto/trace), by its own agent; \
no packet is sent. FROM is a port: namespace:pod, namespace:pod:interface, or one of its addresses. \
TO is a port, any address, or a Service and its port: svc/name:port, svc/namespace/name:port.

Exit codes: 0 if the packet arrives at the port, or, for an address outside, leaves towards it; 1 if \
it is dropped, lost, or could not be followed.

Examples:
  osier trace shop:web shop:db               # would a ping arrive?
  osier trace shop:web shop:db --tcp 5432    # would a connection?
  osier trace pod/web svc/db:5432            # which endpoint, and why?
  osier trace shop:web 192.0.2.7 --udp 53 -o wide
  osier trace shop:web shop:db --raw         # with what each switch said itself")]
pub(crate) struct Arguments {
    /// Who sends: a port (namespace:pod) or its address
    from: String,
    /// To whom: a port, an address, or svc/name:port
    to: String,
    /// A TCP segment to this port
    #[arg(long, value_name = "PORT", group = "protocol")]
    tcp: Option<u16>,
    /// A UDP datagram to this port
    #[arg(long, value_name = "PORT", group = "protocol")]
    udp: Option<u16>,
    /// A ping, which is also what is traced if nothing is said
    #[arg(long, group = "protocol")]
    icmp: bool,
    /// Sent from this port
    #[arg(long, value_name = "PORT", conflicts_with = "icmp")]
    source_port: Option<u16>,
    /// Show what the switches said, too
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    asking(&arguments.connection, async |client| {
        let answer: Value = client.post("/trace", &arguments.body()).await?;
        let trace: Trace = serde_json::from_value(answer.clone())
            .context("the trace is of another version: -o json shows it whole")?;
        let depth = |form| match (arguments.raw, form) {
            (true, _) => Depth::Raw,
            (false, Form::Wide) => Depth::Flows,
            (false, _) => Depth::Words,
        };
        let question = arguments.question();
        arguments
            .output
            .print(&answer, |form| draw(&question, &trace, depth(form), Paint::for_output()))?;
        let is_to_port =
            arguments.to.parse::<IpAddr>().is_err() && service(&arguments.to).is_none();
        Ok(verdict(has_arrived(&trace, is_to_port)))
    })
}

impl Arguments {
    fn packet(&self) -> (&'static str, Option<u16>) {
        match (self.tcp, self.udp) {
            (Some(port), _) => ("tcp", Some(port)),
            (_, Some(port)) => ("udp", Some(port)),
            _ => ("icmp", None),
        }
    }

    fn body(&self) -> Value {
        let (protocol, port) = self.packet();
        let mut body =
            json!({"from": port_name(&self.from), "to": port_name(&self.to), "protocol": protocol});
        let mut port = port;
        if let Some((name, number)) = service(&self.to) {
            body["to"] = format!("svc/{name}").into();
            port = port.or(number);
            // The Service knows what carries its port.
            if self.tcp.is_none() && self.udp.is_none() {
                body["protocol"] = Value::Null;
            }
        }
        for (field, port) in [("port", port), ("sourcePort", self.source_port)] {
            if let Some(port) = port {
                body[field] = port.into();
            }
        }
        body
    }

    fn question(&self) -> String {
        let (protocol, port) = self.packet();
        if let Some((name, own)) = service(&self.to) {
            let port = port.or(own).map(|port| format!(", port {port}")).unwrap_or_default();
            return format!("{} → service {name}{port}", port_name(&self.from));
        }
        let port = port.map(|port| format!(" {port}")).unwrap_or_default();
        format!("{} → {}, {protocol}{port}", port_name(&self.from), port_name(&self.to))
    }
}

/// A Service and its port, if it is one: `svc/name:port`, `svc/namespace/name:port`.
pub(super) fn service(text: &str) -> Option<(String, Option<u16>)> {
    let prefixes = ["svc/", "service/", "services/"];
    let rest = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let (name, port) = match rest.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port.parse().ok()),
        _ => (rest, None),
    };
    Some((port_name(&format!("pod/{name}")), port))
}

/// A port's name also as others write it: `namespace/pod`, and `pod/web` for one of the namespace
/// `default`.
pub(super) fn port_name(text: &str) -> String {
    let pod = text.strip_prefix("pod/").or_else(|| text.strip_prefix("pods/"));
    match pod {
        Some(pod) if !pod.contains(['/', ':']) => format!("default:{pod}"),
        Some(pod) => pod.replace('/', ":"),
        None => text.replace('/', ":"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::parsed;
    use super::*;

    fn body(line: &str) -> Value {
        parsed::<Arguments>(line.split_whitespace()).body()
    }

    #[test]
    fn options_become_a_packet() {
        assert_eq!(body("a:b c/d"), json!({"from": "a:b", "to": "c:d", "protocol": "icmp"}));
        assert_eq!(
            body("a:b 10.0.0.1 --tcp 80 --source-port 7"),
            json!({"from": "a:b", "to": "10.0.0.1", "protocol": "tcp", "port": 80, "sourcePort": 7})
        );
        assert_eq!(body("fd00::1 c:d --udp 53")["from"], "fd00::1");
        for (line, name) in [("svc/db:5432", "svc/default:db"), ("svc/shop/db:5432", "svc/shop:db")]
        {
            let said = body(&format!("pod/web {line}"));
            let expected =
                json!({"from": "default:web", "to": name, "protocol": null, "port": 5432});
            assert_eq!(said, expected);
        }
        assert_eq!(body("a:b svc/shop:db --udp 53")["protocol"], "udp");
        let pods = body("pod/web pod/shop/db");
        assert_eq!((&pods["from"], &pods["to"]), (&json!("default:web"), &json!("shop:db")));
    }
}
