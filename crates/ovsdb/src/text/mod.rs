//! The text of values and rows as `ovs-vsctl` prints and reads it: `{a=b, "c d"="1"}`, `[x, y]`,
//! the `list`, `table` and `json` formats. Exact to the byte, so that people and scripts who know
//! `ovs-vsctl` know our output too.

mod parse;
mod print;
mod table;

pub use parse::{TextError, parse_atom, parse_value};
pub use print::{print_bare, print_value};
pub use table::{Cells, Table};
