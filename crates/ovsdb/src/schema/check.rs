//! Compares values with column types: [`ColumnType::conform`] is about representation (what the
//! server sent must have the type it declared), [`ColumnType::check`] about constraints (what a
//! client may write).

use std::fmt;

use super::{AtomicType, BaseType, ColumnType, Constraint};
use crate::value::{Atom, Real, Value};

/// A value has another type than its column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct Mismatch {
    /// The column's type, in words.
    pub expected: String,
    /// What was found, in words.
    pub found: String,
}

/// A value of the right type breaks a constraint of its column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Too few or too many elements.
    #[error("{found} elements where {min} to {max} are allowed")]
    Count {
        /// Elements found.
        found: usize,
        /// The fewest.
        min: u32,
        /// The most.
        max: u32,
    },
    /// An atom outside of the allowed range, length or enumeration.
    #[error("{atom} is not {allowed}")]
    Atom {
        /// The atom.
        atom: Atom,
        /// What is allowed, in words.
        allowed: String,
    },
}

impl ColumnType {
    /// The value as this type has it: integers become reals where a real is meant. An error if it
    /// is of another type; the number of elements is not looked at, as differences have any.
    pub fn conform(&self, value: Value) -> Result<Value, Mismatch> {
        let real = |base: &BaseType| base.atomic == AtomicType::Real;
        if real(&self.key) || self.value.as_ref().is_some_and(real) {
            return self.conform_reals(&value);
        }
        let fits = match (&self.value, &value) {
            (None, Value::Atom(_) | Value::Set(_)) => {
                value.atoms().iter().all(|atom| self.key.holds(atom))
            }
            (Some(second), Value::Map(_)) => {
                value.pairs().iter().all(|(k, v)| self.key.holds(k) && second.holds(v))
            }
            // An empty map is sometimes written as an empty set, and the server takes it.
            (Some(_), Value::Set(_)) if value.is_empty() => return Ok(Value::empty_map()),
            _ => false,
        };
        if fits { Ok(value) } else { Err(self.mismatch(&value)) }
    }

    fn conform_reals(&self, value: &Value) -> Result<Value, Mismatch> {
        let wrong = || self.mismatch(value);
        let adopt = |base: &BaseType, atom: &Atom| base.adopt(atom).ok_or_else(wrong);
        match (&self.value, value) {
            (None, Value::Atom(_) | Value::Set(_)) => {
                let atoms: Result<Vec<_>, _> =
                    value.atoms().iter().map(|atom| adopt(&self.key, atom)).collect();
                Ok(Value::set(atoms?))
            }
            (Some(second), Value::Map(_)) => {
                let pairs: Result<Vec<_>, _> = value
                    .pairs()
                    .iter()
                    .map(|(k, v)| Ok((adopt(&self.key, k)?, adopt(second, v)?)))
                    .collect();
                Ok(Value::map(pairs?))
            }
            _ => Err(wrong()),
        }
    }

    fn mismatch(&self, value: &Value) -> Mismatch {
        let wrong_atom = value.atoms().iter().find(|atom| !self.key.holds(atom)).or_else(|| {
            value.pairs().iter().find_map(|(k, v)| match &self.value {
                Some(second) if self.key.holds(k) => (!second.holds(v)).then_some(v),
                _ => Some(k),
            })
        });
        let kind = match value {
            Value::Atom(_) => "an atom",
            Value::Set(_) => "a set",
            Value::Map(_) => "a map",
        };
        let found = match wrong_atom {
            Some(atom) => format!("{kind} with {} {atom}", Kind(atom)),
            None => kind.to_owned(),
        };
        Mismatch { expected: self.to_string(), found }
    }

    /// Whether a conforming value keeps the constraints.
    pub fn check(&self, value: &Value) -> Result<(), Violation> {
        let found = value.len();
        if found < self.min as usize || found > self.max as usize {
            return Err(Violation::Count { found, min: self.min, max: self.max });
        }
        self.check_atoms(value)
    }

    /// Whether each atom keeps its constraint, however many there are.
    pub fn check_atoms(&self, value: &Value) -> Result<(), Violation> {
        value.atoms().iter().try_for_each(|atom| self.key.check(atom))?;
        value.pairs().iter().try_for_each(|(key, second)| {
            self.key.check(key)?;
            self.value.as_ref().map_or(Ok(()), |base| base.check(second))
        })
    }
}

impl BaseType {
    fn holds(&self, atom: &Atom) -> bool {
        matches!(
            (self.atomic, atom),
            (AtomicType::Integer, Atom::Integer(_))
                | (AtomicType::Real, Atom::Real(_) | Atom::Integer(_))
                | (AtomicType::Boolean, Atom::Boolean(_))
                | (AtomicType::String, Atom::String(_))
                | (AtomicType::Uuid, Atom::Uuid(_) | Atom::NamedUuid(_))
        )
    }

    fn adopt(&self, atom: &Atom) -> Option<Atom> {
        match (self.atomic, atom) {
            #[expect(clippy::cast_precision_loss, reason = "the notation writes 1.0 as 1")]
            (AtomicType::Real, Atom::Integer(number)) => Real::new(*number as f64).map(Atom::Real),
            _ => self.holds(atom).then(|| atom.clone()),
        }
    }

    fn check(&self, atom: &Atom) -> Result<(), Violation> {
        let holds = match (&self.constraint, atom) {
            (Constraint::Enum(values), _) => values.contains(atom),
            (Constraint::Integers(min, max), Atom::Integer(number)) => {
                (min..=max).contains(&number)
            }
            (Constraint::Reals(min, max), Atom::Real(number)) => (min..=max).contains(&number),
            (Constraint::Length(min, max), Atom::String(text)) => {
                (*min as usize..=*max as usize).contains(&text.chars().count())
            }
            _ => true,
        };
        let allowed = || self.constraint.to_string();
        if holds { Ok(()) } else { Err(Violation::Atom { atom: atom.clone(), allowed: allowed() }) }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Enum(values) => {
                let words: Vec<_> = values.iter().map(ToString::to_string).collect();
                write!(f, "one of {}", words.join(", "))
            }
            Self::Integers(min, max) => write!(f, "in the range {min} to {max}"),
            Self::Reals(min, max) => write!(f, "in the range {} to {}", min.get(), max.get()),
            Self::Length(min, max) => write!(f, "{min} to {max} characters long"),
            Self::Row(reference) => write!(f, "a row of {}", reference.table),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.value, self.min, self.max) {
            (None, 1, 1) => write!(f, "{}", self.key.atomic),
            (None, 0, 1) => write!(f, "optional {}", self.key.atomic),
            (None, ..) => write!(f, "set of {}", self.key.atomic),
            (Some(value), ..) => write!(f, "map of {} to {}", self.key.atomic, value.atomic),
        }
    }
}

impl fmt::Display for AtomicType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        })
    }
}

struct Kind<'a>(&'a Atom);

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Atom::Integer(_) => "integer",
            Atom::Real(_) => "real",
            Atom::Boolean(_) => "boolean",
            Atom::String(_) => "string",
            Atom::Uuid(_) | Atom::NamedUuid(_) => "uuid",
        })
    }
}
