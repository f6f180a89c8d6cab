//! The two macros that generated files call: one for a table, one for an enumeration of strings.

use std::sync::Arc;

use super::{Datum, DecodeError};
use crate::row::Row;

/// Reads one column of a row; its default if the row has no such column.
pub(crate) fn column<T: Datum>(row: &Row, column: &'static str) -> Result<T, DecodeError> {
    row.get(column).map_or_else(
        || Ok(T::default()),
        |value| {
            T::from_value(value).map_err(|source| DecodeError {
                table: Arc::clone(row.table()),
                column,
                row: row.uuid(),
                source,
            })
        },
    )
}

/// A table: its struct, its column names as constants, and [`TypedRow`](crate::rows::TypedRow).
macro_rules! table {
    ($row:ident $table:literal { $($field:ident: $ty:ty = $name:ident $column:literal,)* }) => {
        #[doc = concat!("A row of table `", $table, "`.")]
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[expect(missing_docs, reason = "fields are columns; the database's manual page has them")]
        pub struct $row {
            pub uuid: $crate::Uuid,
            $(pub $field: $ty,)*
        }

        impl $row {
            $(
                #[doc = concat!("The name of column `", $column, "`.")]
                pub const $name: &'static str = $column;
            )*
        }

        impl $crate::rows::TypedRow for $row {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$($column,)*];

            fn from_row(row: &$crate::Row) -> Result<Self, $crate::rows::DecodeError> {
                Ok(Self {
                    uuid: row.uuid(),
                    $($field: $crate::rows::column(row, $column)?,)*
                })
            }

            fn fields(&self) -> $crate::Fields {
                let mut fields = $crate::Fields::new();
                $(if self.$field != <$ty>::default() {
                    fields.push(($column.into(), $crate::rows::Datum::to_value(&self.$field)));
                })*
                fields
            }

            fn field(&self, column: &str) -> Option<$crate::Value> {
                match column {
                    $($column => Some($crate::rows::Datum::to_value(&self.$field)),)*
                    _ => None,
                }
            }

            fn uuid(&self) -> $crate::Uuid {
                self.uuid
            }
        }
    };
}
pub(crate) use table;

/// An enumeration of strings. A newer schema may know more: those are `Other`.
macro_rules! string_enum {
    ($name:ident { $($variant:ident = $text:literal,)* }) => {
        #[doc = concat!("Values of an enumerated column: `", stringify!($name), "`.")]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the values are documented with their column")]
        pub enum $name {
            $($variant,)*
            /// A value this schema does not know.
            Other(Box<str>),
        }

        impl $name {
            /// As in the database.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl Default for $name {
            /// What the database takes for a column that is not given.
            fn default() -> Self {
                Self::Other(Box::default())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    _ => Self::Other(text.into()),
                }
            }
        }

        impl $crate::rows::datum::Scalar for $name {
            const EXPECTED: &'static str = "string";
            fn from_atom(atom: &$crate::Atom) -> Option<Self> {
                if let $crate::Atom::String(text) = atom { Some((&**text).into()) } else { None }
            }
            fn to_atom(&self) -> $crate::Atom {
                self.as_str().into()
            }
        }

        $crate::rows::datum::scalar_datum!($name);
    };
}
pub(crate) use string_enum;
