//! `osier flows`: connections as the switches track them.

use super::hits::Unanswered;
use super::trace::port_name;
use super::{asking, verdict};
use crate::client::{Client, ClientError, Connection};
use crate::output::{Form, Output};
use crate::render::flows::{Change, draw, draw_change, headings};
use crate::render::paint::Paint;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// How often it is asked while following.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "\
Every node is asked what its switch tracks: connections to Services, and those that policies are about. \
Pods that talk directly, without a policy, are not tracked and not shown. What both nodes of a connection \
tell is put together, and named.

Verdicts: allowed (by the rules that are named), open (no policy is about it), node (a node reaches its own \
pods always), itself (a pod by its Service), outlived (its rule is gone, and it lives on), denied (within \
the last minute; only with `policy.log` of the fabric).

Bytes are shown where the switch's tracker counts them: Linux' does with \
net.netfilter.nf_conntrack_acct=1, that of Open vSwitch in user space does not.

Exit codes: 0 if all nodes that were asked answered, 1 if some did not; they are named.

Examples:
  osier flows                                # all of them, once
  osier flows --pod shop/web -f              # what comes and goes at a pod, until Ctrl-C
  osier flows -n shop --verdict denied       # what policies stopped lately
  osier flows --service shop/db --node n1    # who uses a Service from a node
  osier flows --protocol udp --port 53 -o json | jq '.items[].source.name'")]
pub(crate) struct Arguments {
    /// Only of this pod (namespace/pod, namespace:pod) or address
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Only with a side in this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only to this Service: namespace/name
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
    /// Ask this node only
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only what policies say this of
    #[arg(long, value_enum)]
    verdict: Option<Judged>,
    /// Only of this protocol
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// Only from or to this port
    #[arg(long)]
    port: Option<u16>,
    /// Show no more than these
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Go on with what begins, changes and ends, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Judged {
    Open,
    Allowed,
    Node,
    Itself,
    Outlived,
    Denied,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
}

/// What the controller answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    items: Vec<Value>,
    #[serde(default)]
    left_out: u64,
    #[serde(default)]
    unanswered: Vec<Unanswered>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    asking(&arguments.connection, async |client| {
        if arguments.follow {
            return follow(client, arguments).await;
        }
        let value: Value = client.post("/flows", &arguments.body()).await?;
        let answer = Answer::deserialize(&value)?;
        let paint = Paint::for_output();
        arguments.output.print(&value, |form| draw(&answer.items, form == Form::Wide, paint))?;
        complain(&answer.complaints())?;
        Ok(verdict(answer.unanswered.is_empty()))
    })
}

impl Arguments {
    fn body(&self) -> Value {
        let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        let mut body = json!({"limit": self.limit});
        let said = [
            ("node", self.node.clone().map(Value::from)),
            ("pod", self.pod.as_deref().map(|pod| port_name(pod).into())),
            ("namespace", self.namespace.clone().map(Value::from)),
            ("service", self.service.as_deref().map(|name| service_name(name).into())),
            ("verdict", self.verdict.map(|verdict| word(&verdict).into())),
            ("protocol", self.protocol.map(|protocol| word(&protocol).into())),
            ("port", self.port.map(Value::from)),
        ];
        for (field, value) in said {
            if let Some(value) = value {
                body[field] = value;
            }
        }
        body
    }
}

/// As others write it: `svc/db`, `shop/db`, `shop:db`.
pub(super) fn service_name(text: &str) -> String {
    let bare = ["svc/", "service/", "services/"].iter().find_map(|p| text.strip_prefix(p));
    port_name(&format!("pod/{}", bare.unwrap_or(text)))
}

impl Answer {
    /// What of it is missing, in words.
    fn complaints(&self) -> Vec<String> {
        let mut said: Vec<String> =
            self.unanswered.iter().map(|missing| missing.problem.clone()).collect();
        if self.left_out > 0 {
            said.push(format!(
                "{} more are not shown: ask for fewer, or say --limit",
                self.left_out
            ));
        }
        said
    }
}

fn complain(complaints: &[String]) -> io::Result<()> {
    complaints.iter().try_for_each(|said| writeln!(io::stderr(), "osier: {said}"))
}

/// Tells what changes until somebody ends us.
async fn follow(client: &Client, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (paint, form) = (Paint::for_output(), arguments.output.form);
    let (mut known, mut said, mut widths) = (BTreeMap::new(), Vec::new(), Vec::new());
    if matches!(form, Form::Table | Form::Wide) {
        print(&headings(form == Form::Wide, &mut widths, paint))?;
    }
    loop {
        let complaints = match ask(client, arguments).await {
            Ok(answer) => {
                let complaints = answer.complaints();
                let now = answer.items.into_iter().map(|flow| (key(&flow), flow)).collect();
                for (change, flow) in changes(&known, &now) {
                    let text = match form {
                        Form::Json => {
                            json!({"event": change.word(), "flow": flow}).to_string() + "\n"
                        }
                        Form::Yaml => {
                            let document = json!({"event": change.word(), "flow": flow});
                            format!("---\n{}", serde_saphyr::to_string(&document)?)
                        }
                        Form::Table | Form::Wide => {
                            draw_change(change, flow, form == Form::Wide, &mut widths, paint)
                        }
                    };
                    print(&text)?;
                }
                known = now;
                complaints
            }
            // What is refused stays refused; who is away may come back.
            Err(error) if !error.is_absence() => return Err(error.into()),
            Err(error) => vec![format!("{:#}; waiting for it", anyhow::Error::new(error))],
        };
        if complaints != said {
            complain(&complaints)?;
            said = complaints;
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn ask(client: &Client, arguments: &Arguments) -> Result<Answer, ClientError> {
    client.post("/flows", &arguments.body()).await
}

/// What makes it the same connection as before.
fn key(flow: &Value) -> String {
    let side = |name: &str| format!("{} {}", flow[name]["address"], flow[name]["port"]);
    let is_denied = flow["denied"].is_object();
    format!("{} {} {} {is_denied}", flow["protocol"], side("source"), side("target"))
}

/// What begins, what is told of otherwise, and what ended.
fn changes<'a>(
    known: &'a BTreeMap<String, Value>,
    now: &'a BTreeMap<String, Value>,
) -> Vec<(Change, &'a Value)> {
    let is_other = |was: &Value, flow: &Value| {
        ["state", "verdict", "by"].iter().any(|field| was[field] != flow[field])
            || was["denied"]["times"] != flow["denied"]["times"]
    };
    let begun = now.iter().filter_map(|(key, flow)| match known.get(key) {
        None => Some((Change::Begun, flow)),
        Some(was) if is_other(was, flow) => Some((Change::Changed, flow)),
        Some(_) => None,
    });
    let ended = known.iter().filter(|(key, _)| !now.contains_key(*key));
    // What was denied a minute ago has not ended.
    let ended = ended.filter(|(_, flow)| !flow["denied"].is_object());
    begun.chain(ended.map(|(_, flow)| (Change::Ended, flow))).collect()
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::super::line::parsed;
    use super::*;

    fn body(line: &str) -> Value {
        parsed::<Arguments>(line.split_whitespace()).body()
    }

    #[test]
    fn options_become_a_question() {
        assert_eq!(body(""), json!({"limit": 10_000}));
        assert_eq!(
            body(
                "--pod shop/web -n shop --service svc/shop/db --node n1 --verdict denied --limit 5"
            ),
            json!({"limit": 5, "pod": "shop:web", "namespace": "shop", "service": "shop:db",
                   "node": "n1", "verdict": "denied"})
        );
        assert_eq!(body("--service db")["service"], "default:db");
        assert_eq!(
            body("--protocol icmp --pod fd00::1 --port 80"),
            json!({"limit": 10_000, "protocol": "icmp", "pod": "fd00::1", "port": 80})
        );
    }

    #[test]
    fn what_follows_is_what_differs() {
        let flow = |port: u16, state: &str| {
            let side = json!({"address": "10.0.0.1", "port": port});
            json!({"protocol": "tcp", "source": side, "target": {"address": "10.0.0.2"}, "state": state})
        };
        let all = |flows: &[Value]| flows.iter().map(|f| (key(f), f.clone())).collect();
        let before: BTreeMap<String, Value> =
            all(&[flow(1, "ESTABLISHED"), flow(2, "ESTABLISHED"), flow(3, "ESTABLISHED")]);
        let now = all(&[flow(1, "ESTABLISHED"), flow(2, "TIME_WAIT"), flow(4, "SYN_SENT")]);
        let told: Vec<(Change, u64)> = changes(&before, &now)
            .into_iter()
            .map(|(change, flow)| (change, flow["source"]["port"].as_u64().unwrap()))
            .collect();
        assert_eq!(told, [(Change::Changed, 2), (Change::Begun, 4), (Change::Ended, 3)]);
        assert!(changes(&now, &now).is_empty());
    }
}
