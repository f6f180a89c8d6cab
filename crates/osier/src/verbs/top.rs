//! `osier top`: who is used most.

use super::asking;
use super::hits::{Unanswered, complain};
use super::status::CLEAR;
use super::verdict;
use crate::client::{Client, ClientError, Connection};
use crate::output::{Form, Output};
use crate::render::paint::Paint;
use crate::render::top::{Traffic, draw};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often it is asked while watching: the switch is up to a second late with what it counts.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osier top services              # Services by what came to them
  osier top services -w           # again and again, with rates")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Connections and bytes of Services, from the switches' counters
    #[command(visible_alias = "svc")]
    Services(Services),
}

#[derive(Debug, Args)]
#[command(after_help = "\
OPEN are connections that are tracked now, BEGUN those that were led to an endpoint since the switches have \
their flows, REFUSED packets to which nobody was there to answer; summed over all nodes, each connection at \
the node where it begins. Services that nothing came to are left out.

BYTES are counted, both ways, where the fabric says `accounting: true`: two flows more for each address and \
port of a Service. Without it they are those of open connections, if the nodes' kernels count them \
(net.netfilter.nf_conntrack_acct=1).

Exit codes: 0 if all nodes answered, 1 if some did not; they are named.

Examples:
  osier top services                         # all
  osier top services -n shop --sort open     # of a namespace, by open connections
  osier top services shop/db -w              # one, again and again, with rates
  osier top services -o json | jq '.items[] | select(.refused > 0).service'")]
struct Services {
    /// Only these: namespace/name
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only of this namespace
    #[arg(short, long, value_name = "NAME", conflicts_with = "names")]
    namespace: Option<String>,
    /// What most of stands first; bytes if they are counted, else connections that were begun, if it is not said
    #[arg(long, value_enum)]
    sort: Option<Sort>,
    /// Show no more than these
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Show it again and again, with what came in a second, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    Name,
    Open,
    Begun,
    Refused,
    Bytes,
}

/// What the controller answers.
#[derive(Debug, Deserialize)]
struct Answer {
    items: Vec<Traffic>,
    #[serde(default)]
    unanswered: Vec<Unanswered>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Verb::Services(services) = &arguments.verb;
    asking(&services.connection, async |client| {
        if services.watch {
            return services.show_again(client).await;
        }
        let answer = services.ask(client).await?;
        let value = json!({"kind": "ServiceTrafficList", "items": answer.items});
        services.output.print(&value, |_| draw(&answer.items, None, Paint::for_output()))?;
        complain(&answer.unanswered)?;
        Ok(verdict(answer.unanswered.is_empty()))
    })
}

impl Services {
    /// Those that are meant, in order.
    async fn ask(&self, client: &Client) -> Result<Answer, ClientError> {
        let mut answer: Answer = client.get("/traffic/services").await?;
        self.choose(&mut answer.items);
        Ok(answer)
    }

    fn choose(&self, items: &mut Vec<Traffic>) {
        let names: Vec<String> = self.names.iter().map(|n| super::flows::service_name(n)).collect();
        items.retain(|item| {
            let namespace = item.service.split(':').next().unwrap_or_default();
            (names.is_empty() || names.contains(&item.service))
                && self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
        });
        let is_counted = items.iter().any(|item| item.bytes.is_some());
        let usual = if is_counted { Sort::Bytes } else { Sort::Begun };
        // Those that are equal stay in the order of their names.
        items.sort_by_key(|item| match self.sort.unwrap_or(usual) {
            Sort::Name => Reverse(0),
            Sort::Open => Reverse(item.open),
            Sort::Begun => Reverse(item.begun),
            Sort::Refused => Reverse(item.refused),
            Sort::Bytes => Reverse(item.bytes.unwrap_or_default()),
        });
        items.truncate(self.limit.unwrap_or(usize::MAX));
    }

    /// Shows it until somebody ends us.
    async fn show_again(&self, client: &Client) -> anyhow::Result<ExitCode> {
        let (paint, is_terminal) = (Paint::for_output(), io::stdout().is_terminal());
        let mut before: Option<(Instant, BTreeMap<String, Traffic>)> = None;
        loop {
            let text = match self.ask(client).await {
                Ok(answer) => {
                    complain(&answer.unanswered)?;
                    let value = json!({"kind": "ServiceTrafficList", "items": answer.items});
                    let now = Instant::now();
                    let since = before.as_ref().map(|(at, items)| (now.duration_since(*at), items));
                    let text = match self.output.form {
                        Form::Json => Value::to_string(&value) + "\n",
                        Form::Yaml => format!("---\n{}", serde_saphyr::to_string(&value)?),
                        Form::Table | Form::Wide => draw(&answer.items, since, paint),
                    };
                    let items = answer.items.into_iter().map(|item| (item.service.clone(), item));
                    before = Some((now, items.collect()));
                    text
                }
                // What is refused stays refused; who is away may come back.
                Err(error) if !error.is_absence() => return Err(error.into()),
                Err(error) => format!("✗ {:#}\n", anyhow::Error::new(error)),
            };
            let clear = if is_terminal { CLEAR } else { "" };
            let mut stdout = io::stdout();
            stdout.write_all(format!("{clear}{text}").as_bytes())?;
            stdout.flush()?;
            tokio::time::sleep(EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::parsed;
    use super::*;

    fn chosen(line: &str) -> Vec<String> {
        let services: Services = parsed(line.split_whitespace());
        let item = |service: &str, open, begun, bytes| Traffic {
            service: service.to_owned(),
            open,
            begun,
            bytes,
            ..Traffic::default()
        };
        let mut items =
            vec![item("a:x", 1, 9, Some(5)), item("b:y", 2, 3, None), item("b:z", 0, 4, Some(7))];
        services.choose(&mut items);
        items.into_iter().map(|item| item.service).collect()
    }

    #[test]
    fn services_are_chosen_and_sorted() {
        assert_eq!(chosen(""), ["b:z", "a:x", "b:y"]);
        assert_eq!(chosen("--sort open --limit 2"), ["b:y", "a:x"]);
        assert_eq!(chosen("--sort begun"), ["a:x", "b:z", "b:y"]);
        assert_eq!(chosen("-n b --sort name"), ["b:y", "b:z"]);
        assert_eq!(chosen("svc/a/x b:y"), ["a:x", "b:y"]);
    }
}
