//! `osier policy`: what policies say, without a packet.

use super::trace::{port_name, service};
use super::{asking, verdict};
use crate::client::Connection;
use crate::output::Output;
use crate::render::paint::{Paint, Tone};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// What is asked of policies.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osier policy test --from shop:web --to shop:db --port 5432   # may it connect, and why?
  osier policy test --from 192.0.2.7 --to shop/web --port 80   # may somebody outside?")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// May one connect to another? Which rules say so?
    Test(Test),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Answered from the model, and the same as the switches do: no packet is sent, no node is asked. FROM and \
TO are workloads (namespace:pod, namespace/pod), nodes, or addresses; TO may be a Service \
(svc/name, svc/namespace/name), which is judged by the pods behind it.

Exit codes: 0 if it may be, 1 if it may not.

Examples:
  osier policy test --from shop:web --to shop:db --port 5432
  osier policy test --from 192.0.2.7 --to shop/web --port 80
  osier policy test --from shop:web --to svc/shop/db --port 5432
  osier policy test --from n1 --to shop:web          # a node reaches its own pods, always")]
struct Test {
    /// Who connects
    #[arg(long)]
    from: String,
    /// To whom
    #[arg(long)]
    to: String,
    /// At which port; without one, what has no ports, such as a ping
    #[arg(long)]
    port: Option<u16>,
    /// What carries it
    #[arg(long, value_enum, default_value_t = Protocol::Tcp, requires = "port")]
    protocol: Protocol,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Verb::Test(test) = &arguments.verb;
    asking(&test.connection, async |client| {
        let answer: Value = client.post("/policy/test", &test.body()).await?;
        test.output.print(&answer, |_| draw(&answer, Paint::for_output()))?;
        Ok(verdict(answer["passes"] == true))
    })
}

impl Test {
    fn body(&self) -> Value {
        let mut body = json!({"from": port_name(&self.from), "to": port_name(&self.to)});
        let mut port = self.port;
        if let Some((name, own)) = service(&self.to) {
            body["to"] = format!("svc/{name}").into();
            port = port.or(own);
        }
        if let Some(port) = port {
            body["port"] = port.into();
            body["protocol"] = format!("{:?}", self.protocol).to_lowercase().into();
        }
        body
    }
}

fn draw(answer: &Value, paint: Paint) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (word, tone) = match answer["passes"] == true {
        true => ("allowed", Tone::Good),
        false => ("denied", Tone::Bad),
    };
    let mut drawn = format!("{}: {}\n", paint.tone(tone, word), text(&answer["why"]));
    for side in ["from", "to"] {
        let (name, identity) = (text(&answer[side]["name"]), &answer[side]["identity"]);
        let address =
            answer[side]["address"].as_str().map(|a| format!(", {a}")).unwrap_or_default();
        // It is text: writing cannot fail.
        let _ = writeln!(drawn, "  {side:<5}{name} (identity {identity}{address})");
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_word_and_its_reasons() {
        let answer = json!({"passes": false, "why": "ingress is denied: no rule of shop:db allows it",
            "from": {"name": "shop:web", "identity": 256, "address": "10.244.1.5"},
            "to": {"name": "shop:db", "identity": 257, "address": null}});
        let drawn = draw(&answer, Paint::OFF);
        assert_eq!(
            drawn,
            "denied: ingress is denied: no rule of shop:db allows it\n  from shop:web (identity 256, \
             10.244.1.5)\n  to   shop:db (identity 257)\n"
        );
    }
}
