//! Tables: headings in capitals, columns as wide as they must be, two blanks between.

use super::moment;
use super::paint::{Paint, Tone};
use osier_resource::{Kind, Resource};
use serde_json::Value;
use time::OffsetDateTime;

const GAP: &str = "  ";
const NONE: &str = "-";

/// What stands in a row and a column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

/// Rows below headings.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

// === impl Cell ===

impl Cell {
    pub(crate) fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(Tone::Plain, text)
    }
}

// === impl Table ===

impl Table {
    /// One with these headings.
    pub(crate) fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let row = headings.into_iter().map(|text| Cell::toned(Tone::Strong, text)).collect();
        Self { rows: vec![row] }
    }

    /// One without.
    pub(crate) fn bare() -> Self {
        Self::default()
    }

    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// How wide each column must be.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width =
            |column: usize| self.rows.iter().filter_map(|row| Some(row.get(column)?.width())).max();
        (0..columns).map(|column| width(column).unwrap_or_default()).collect()
    }

    /// As text, each line behind `indent`.
    pub(crate) fn draw(&self, indent: &str, paint: Paint) -> String {
        self.draw_at(&self.widths(), indent, paint)
    }

    /// As text, with columns at least that wide: so rows that come later stand below earlier ones.
    pub(crate) fn draw_at(&self, widths: &[usize], indent: &str, paint: Paint) -> String {
        let mut text = String::new();
        for row in &self.rows {
            text.push_str(indent);
            for (index, cell) in row.iter().enumerate() {
                text.push_str(&paint.tone(cell.tone, &cell.text));
                if index + 1 < row.len() {
                    let width = widths.get(index).copied().unwrap_or_default();
                    text.push_str(&" ".repeat(width.saturating_sub(cell.width())));
                    text.push_str(GAP);
                }
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }
}

/// The headings of resources of a kind.
pub(crate) fn headings(kind: Kind, wide: bool) -> Vec<&'static str> {
    let mut headings = kind.columns(wide);
    headings.push("AGE");
    headings
}

/// A resource's row. Of one that this version cannot read, the name.
pub(crate) fn row(kind: Kind, value: &Value, wide: bool, now: OffsetDateTime) -> Vec<String> {
    let mut cells = Resource::from_value(value).map_or_else(
        |_| {
            let unread = vec![NONE.to_owned(); kind.columns(wide).len() - 1];
            [vec![name(value).to_owned()], unread].concat()
        },
        |resource| resource.row(wide),
    );
    let made = value.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    cells.push(made.map_or_else(|| NONE.to_owned(), |made| moment::ago(made, now)));
    cells
}

/// The name of a resource.
pub(crate) fn name(value: &Value) -> &str {
    value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn network(name: &str, spec: &Value) -> Value {
        let metadata = json!({"name": name, "creationTimestamp": "2026-01-01T10:00:00Z"});
        json!({"apiVersion": "osier.dev/v1alpha1", "kind": "Network", "metadata": metadata, "spec": spec})
    }

    #[test]
    fn resources_stand_in_columns() {
        let now = moment::read("2026-01-01T12:00:00Z").unwrap();
        let mut table = Table::new(headings(Kind::Network, false));
        let subnets = json!([{"cidr": "10.0.0.0/24", "gateway": "10.0.0.1"}]);
        for value in [
            network("blue", &json!({"vni": 4096, "router": "shop", "subnets": subnets})),
            network("a-longer-name", &json!({})),
            network("newer", &json!({"unheard": "of"})),
        ] {
            table.push(row(Kind::Network, &value, false, now));
        }
        let said = "\
NAME           VNI   ROUTER  SUBNETS      AGE
blue           4096  shop    10.0.0.0/24  2 h
a-longer-name  -     -       -            2 h
newer          -     -       -            2 h
";
        assert_eq!(table.draw("", Paint::OFF), said);
    }
}
