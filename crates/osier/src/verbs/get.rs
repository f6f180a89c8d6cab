//! `osier get`: resources as a table, or whole.

use super::{asking, hits, pods};
use crate::client::answers::{Event, EventKind};
use crate::client::{Client, Connection, Follower, Listing, News};
use crate::kinds::{self, What};
use crate::render::paint::Paint;
use crate::render::table::{self, Table};
use clap::{Args, ValueEnum};
use osier_resource::{API_VERSION, Kind};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use time::OffsetDateTime;

const EXAMPLES: &str = "\
Examples:
  osier get networks                      # all networks
  osier get net blue -o yaml > blue.yaml  # one, to be changed and applied again
  osier get ports -l tenant=shop -o wide  # with labels, MAC addresses and more
  osier get nodes -w                      # and then every change, until Ctrl-C
  osier get ports -o name | wc -l         # for scripts
  osier get pods -A                       # pods of all namespaces, and how their ports are";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{}\n\n{EXAMPLES}", kinds::HELP))]
pub(crate) struct Arguments {
    /// What: networks, ports, nodes...
    #[arg(value_parser = kinds::parser_of_what(), ignore_case = true, value_name = "KIND")]
    what: What,
    /// Only these
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// How to show it
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "table")]
    form: Form,
    /// Only those with these labels: key=value,key2!=value2,key3
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "names")]
    selector: Option<String>,
    /// Go on with what changes
    #[arg(short, long)]
    watch: bool,
    /// Pods of this namespace
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Pods of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    connection: Connection,
}

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    Table,
    /// For people with wide screens: more of it
    Wide,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
    /// Only kind and name, a line each
    Name,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let kind = match arguments.what {
        What::Kind(kind) => kind,
        What::Pods => return of_pods(arguments),
    };
    asking(&arguments.connection, async |client| {
        let mut printer = Printer::new(kind, arguments.form, false);
        let mut listing = found(client, kind, arguments).await?;
        if kind == Kind::NetworkPolicy && arguments.form != Form::Name {
            hits::fill(client, &mut listing.items).await?;
        }
        let is_one = arguments.names.len() == 1;
        printer.print_all(&listing.items, is_one)?;
        if arguments.watch {
            let selector = arguments.selector.as_deref();
            let mut follower = Follower::new(client, kind, selector, &listing);
            follow(&mut follower, &arguments.names, &mut printer).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn of_pods(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    pods::refuse(arguments.watch, arguments.selector.as_ref())?;
    asking(&arguments.connection, async |client| {
        let namespace = (!arguments.all_namespaces).then_some(arguments.namespace.as_str());
        let meant = pods::Meant { names: &arguments.names, namespace };
        pods::print(client, arguments.form, meant).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What is asked for.
async fn found(client: &Client, kind: Kind, arguments: &Arguments) -> anyhow::Result<Listing> {
    let Arguments { names, selector, .. } = arguments;
    if names.is_empty() || arguments.watch {
        let mut listing = client.list(kind, selector.as_deref()).await?;
        listing.items.retain(|item| is_meant(names, item));
        return Ok(listing);
    }
    let mut listing = Listing::default();
    for name in names {
        listing.items.push(client.object(kind, name).await?);
    }
    Ok(listing)
}

/// Prints changes until there is an error, or nobody reads on.
pub(super) async fn follow(
    follower: &mut Follower<'_>,
    names: &[String],
    printer: &mut Printer,
) -> anyhow::Result<()> {
    loop {
        match follower.next().await? {
            News::Event(event) if is_meant(names, &event.object) => printer.print_event(&event)?,
            News::Event(_) => {}
            News::Away(error) => {
                let error = anyhow::Error::new(error);
                writeln!(io::stderr(), "osier: {error:#}; waiting for it")?;
            }
            News::Back => writeln!(io::stderr(), "osier: it is back")?,
        }
    }
}

fn is_meant(names: &[String], item: &Value) -> bool {
    names.is_empty() || names.iter().any(|name| name == table::name(item))
}

/// Prints resources of one kind, and later ones below earlier ones.
pub(super) struct Printer {
    kind: Kind,
    form: Form,
    /// Whether what happened is said.
    with_events: bool,
    /// The columns so far.
    widths: Vec<usize>,
    paint: Paint,
}

// === impl Printer ===

impl Printer {
    pub(super) fn new(kind: Kind, form: Form, with_events: bool) -> Self {
        Self { kind, form, with_events, widths: Vec::new(), paint: Paint::for_output() }
    }

    /// All resources, as one whole.
    fn print_all(&mut self, items: &[Value], is_one: bool) -> anyhow::Result<()> {
        let whole = || match items {
            [item] if is_one => item.clone(),
            items => {
                let kind = format!("{}List", self.kind);
                json!({"apiVersion": API_VERSION, "kind": kind, "items": items})
            }
        };
        let text = match self.form {
            Form::Json => serde_json::to_string_pretty(&whole())? + "\n",
            Form::Yaml => with_newline(serde_saphyr::to_string(&whole())?),
            Form::Name => items.iter().map(|item| self.called(item) + "\n").collect(),
            Form::Table | Form::Wide if items.is_empty() => {
                // Not a result: a program that counts lines must count none.
                writeln!(io::stderr(), "there are no {}", self.kind.plural())?;
                return Ok(());
            }
            Form::Table | Form::Wide => {
                let table = self.table(items.iter().map(|item| (None, item)), true);
                self.widths = table.widths();
                table.draw("", self.paint)
            }
        };
        print(&text)
    }

    /// The headings, for changes alone.
    pub(super) fn print_headings(&mut self) -> anyhow::Result<()> {
        if !matches!(self.form, Form::Table | Form::Wide) {
            return Ok(());
        }
        let table = self.table(std::iter::empty(), true);
        // Rows are not known yet: some room for them.
        self.widths = table.widths().into_iter().map(|width| width.max(10)).collect();
        print(&table.draw_at(&self.widths, "", self.paint))
    }

    /// One change.
    pub(super) fn print_event(&mut self, event: &Event) -> anyhow::Result<()> {
        let word = word(event.kind);
        let text = match self.form {
            Form::Json => json!({"type": word, "object": event.object}).to_string() + "\n",
            Form::Yaml => {
                let document = json!({"type": word, "object": event.object});
                format!("---\n{}", with_newline(serde_saphyr::to_string(&document)?))
            }
            Form::Name => format!("{} {}\n", word.to_lowercase(), self.called(&event.object)),
            Form::Table | Form::Wide => {
                let is_first = self.widths.is_empty();
                let table =
                    self.table(std::iter::once((Some(event.kind), &event.object)), is_first);
                let fresh = table.widths();
                self.widths.resize(fresh.len(), 0);
                for (width, fresh) in self.widths.iter_mut().zip(fresh) {
                    *width = fresh.max(*width);
                }
                table.draw_at(&self.widths, "", self.paint)
            }
        };
        print(&text)
    }

    fn table<'a>(
        &self,
        items: impl Iterator<Item = (Option<EventKind>, &'a Value)>,
        with_headings: bool,
    ) -> Table {
        let (wide, now) = (self.form == Form::Wide, OffsetDateTime::now_utc());
        let event = |word: &str| self.with_events.then(|| word.to_owned());
        let mut table = Table::bare();
        if with_headings {
            let headings = table::headings(self.kind, wide).into_iter().map(str::to_owned);
            table = Table::new(event("EVENT").into_iter().chain(headings));
        }
        for (kind, item) in items {
            let mut row = table::row(self.kind, item, wide, now);
            if !self.with_events && kind == Some(EventKind::Deleted) {
                row[0].push_str(" (deleted)");
            }
            table.push(event(kind.map_or("", word)).into_iter().chain(row));
        }
        table
    }

    fn called(&self, item: &Value) -> String {
        kinds::called(self.kind, table::name(item))
    }
}

fn word(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Added => "ADDED",
        EventKind::Modified => "MODIFIED",
        EventKind::Deleted => "DELETED",
        EventKind::Bookmark => "BOOKMARK",
        EventKind::Error => "ERROR",
    }
}

fn with_newline(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}
