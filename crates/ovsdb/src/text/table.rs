//! Rows in the formats of `ovs-vsctl --format`: `list` (the default of `list` and `find`), `table`
//! and `json`.

use std::fmt::Write as _;
use std::sync::Arc;

use super::{print_bare, print_value};
use crate::row::{Layout, Row};
use crate::schema::ColumnType;
use crate::value::Value;

/// How a cell of the `list` and `table` formats is written (`--data`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cells {
    /// `{a=b}`.
    #[default]
    Text,
    /// `a=b`.
    Bare,
    /// `["map",[["a","b"]]]`.
    Json,
}

/// Rows and columns to print.
#[derive(Debug)]
pub struct Table<'a> {
    columns: Vec<(String, ColumnType)>,
    rows: Vec<&'a Row>,
    cells: Cells,
}

impl<'a> Table<'a> {
    /// Rows with `_uuid` and all columns of their layout, as `ovs-vsctl list` shows them.
    pub fn new(layout: &Layout, rows: impl IntoIterator<Item = &'a Arc<Row>>) -> Self {
        let columns = layout.columns().iter().map(|(name, c)| (name.to_string(), c.ty.clone()));
        Self {
            columns: std::iter::once(("_uuid".to_owned(), ColumnType::UUID))
                .chain(columns)
                .collect(),
            rows: rows.into_iter().map(AsRef::as_ref).collect(),
            cells: Cells::Text,
        }
    }

    /// Only these columns, in this order (`--columns`); unknown ones are left out.
    #[must_use]
    pub fn columns(mut self, names: &[&str]) -> Self {
        let find = |name: &&str| self.columns.iter().find(|(n, _)| n == name).cloned();
        self.columns = names.iter().filter_map(find).collect();
        self
    }

    /// How cells are written.
    #[must_use]
    pub fn cells(mut self, cells: Cells) -> Self {
        self.cells = cells;
        self
    }

    /// One line a column, an empty line between rows.
    pub fn list(&self) -> String {
        let mut out = String::new();
        for (position, row) in self.rows.iter().enumerate() {
            if position > 0 {
                out.push('\n');
            }
            for (name, ty) in &self.columns {
                let _ = writeln!(out, "{name:<20}: {}", self.cell(row, name, ty));
            }
        }
        out
    }

    /// One line a row, under headings.
    pub fn table(&self) -> String {
        let mut lines =
            vec![self.columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), Vec::new()];
        for row in &self.rows {
            lines.push(self.columns.iter().map(|(name, ty)| self.cell(row, name, ty)).collect());
        }
        let width = |column: usize| {
            lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        lines[1] = widths.iter().map(|&width| "-".repeat(width)).collect();
        let mut out = String::new();
        for line in lines {
            for (position, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let space = if position > 0 { " " } else { "" };
                // The original pads by bytes.
                let pad = width - cell.len();
                let _ = write!(out, "{space}{cell}{:pad$}", "");
            }
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        }
        out
    }

    /// `{"data": [[value]], "headings": [name]}`, in one line.
    pub fn json(&self) -> String {
        let data: Vec<Vec<Value>> = self
            .rows
            .iter()
            .map(|row| self.columns.iter().map(|(name, _)| value(row, name)).collect())
            .collect();
        let headings: Vec<_> = self.columns.iter().map(|(name, _)| name).collect();
        let table = Json { data, headings };
        serde_json::to_string(&table).expect("values have a JSON form") + "\n"
    }

    fn cell(&self, row: &Row, name: &str, ty: &ColumnType) -> String {
        let value = value(row, name);
        match self.cells {
            Cells::Text => print_value(ty, &value),
            Cells::Bare => print_bare(&value),
            Cells::Json => serde_json::to_string(&value).expect("values have a JSON form"),
        }
    }
}

#[derive(serde::Serialize)]
struct Json<'a> {
    data: Vec<Vec<Value>>,
    headings: Vec<&'a String>,
}

fn value(row: &Row, name: &str) -> Value {
    match name {
        "_uuid" => row.uuid().into(),
        _ => row.get(name).cloned().unwrap_or_else(Value::empty_set),
    }
}
