//! How results are shown: as a table for people, as JSON or YAML for programs.
//!
//! A verb gives one value; how it looks for people is the library's that owns it.

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::{self, Write};

/// The width that is assumed where there is no terminal.
const DEFAULT_WIDTH: u16 = 80;

/// The option that verbs with a result have.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// How to show it
    #[arg(short = 'o', long = "output", value_name = "FORM", default_value = "table")]
    pub(crate) form: Form,
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
}

impl Output {
    /// Prints a value; `text` makes it readable for people.
    pub(crate) fn print<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(Form) -> String,
    ) -> anyhow::Result<()> {
        let mut text = match self.form {
            form @ (Form::Table | Form::Wide) => text(form),
            Form::Json => serde_json::to_string_pretty(value)?,
            Form::Yaml => serde_saphyr::to_string(value)?,
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(io::stdout().write_all(text.as_bytes())?)
    }
}

/// The columns of the terminal that results go to.
pub(crate) fn width() -> usize {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or(DEFAULT_WIDTH, |(width, _)| width.0).into()
}
