//! Rust types of columns: how `bool`, `i64`, `String`, [`Ref`], options, sets and maps of them
//! become values, and back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::TypedRow;
use crate::Uuid;
use crate::schema::Mismatch;
use crate::value::{Atom, Real, Value};

/// A Rust type for a column.
pub trait Datum: Sized + Default + PartialEq {
    /// Reads a value.
    fn from_value(value: &Value) -> Result<Self, Mismatch>;
    /// Makes the value.
    fn to_value(&self) -> Value;
}

/// A Rust type for an atom.
pub trait Scalar: Sized {
    /// In words, for errors.
    const EXPECTED: &'static str;
    /// Reads an atom.
    fn from_atom(atom: &Atom) -> Option<Self>;
    /// Makes the atom.
    fn to_atom(&self) -> Atom;
}

/// Implements [`Datum`] for exactly one atom. Not a blanket implementation: that would forbid the
/// ones for `Option`, sets and maps.
macro_rules! scalar_datum {
    ($({$($generics:tt)*})? $ty:ty) => {
        impl $(<$($generics)*>)? $crate::rows::Datum for $ty {
            fn from_value(
                value: &$crate::Value,
            ) -> Result<Self, $crate::schema::Mismatch> {
                $crate::rows::datum::read_one(value)
            }
            fn to_value(&self) -> $crate::Value {
                $crate::Value::Atom($crate::rows::datum::Scalar::to_atom(self))
            }
        }
    };
}
#[cfg(any(feature = "vswitch", feature = "ovn"))]
pub(crate) use scalar_datum;

/// The only atom of a value.
pub(crate) fn read_one<T: Scalar>(value: &Value) -> Result<T, Mismatch> {
    match value {
        Value::Atom(atom) => T::from_atom(atom).ok_or_else(|| mismatch(T::EXPECTED, value)),
        Value::Set(_) | Value::Map(_) => Err(mismatch(T::EXPECTED, value)),
    }
}

fn mismatch(expected: &str, value: &Value) -> Mismatch {
    Mismatch { expected: expected.to_owned(), found: format!("{value:?}") }
}

impl Scalar for bool {
    const EXPECTED: &'static str = "boolean";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Boolean(truth) = atom { Some(*truth) } else { None }
    }
    fn to_atom(&self) -> Atom {
        Atom::Boolean(*self)
    }
}

impl Scalar for i64 {
    const EXPECTED: &'static str = "integer";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Integer(number) = atom { Some(*number) } else { None }
    }
    fn to_atom(&self) -> Atom {
        Atom::Integer(*self)
    }
}

impl Scalar for Real {
    const EXPECTED: &'static str = "real";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Real(number) = atom { Some(*number) } else { None }
    }
    fn to_atom(&self) -> Atom {
        Atom::Real(*self)
    }
}

impl Scalar for String {
    const EXPECTED: &'static str = "string";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::String(text) = atom { Some(text.as_ref().to_owned()) } else { None }
    }
    fn to_atom(&self) -> Atom {
        self.as_str().into()
    }
}

impl Scalar for Uuid {
    const EXPECTED: &'static str = "uuid";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Uuid(uuid) = atom { Some(*uuid) } else { None }
    }
    fn to_atom(&self) -> Atom {
        Atom::Uuid(*self)
    }
}

scalar_datum!(bool);
scalar_datum!(i64);
scalar_datum!(Real);
scalar_datum!(String);
scalar_datum!(Uuid);
scalar_datum!({T: TypedRow} Ref<T>);

impl<T: Scalar + PartialEq> Datum for Option<T> {
    fn from_value(value: &Value) -> Result<Self, Mismatch> {
        match value {
            Value::Set(_) if value.is_empty() => Ok(None),
            _ => read_one(value).map(Some),
        }
    }
    fn to_value(&self) -> Value {
        self.as_ref().map_or_else(Value::empty_set, |one| Value::Atom(one.to_atom()))
    }
}

impl<T: Scalar + Ord> Datum for BTreeSet<T> {
    fn from_value(value: &Value) -> Result<Self, Mismatch> {
        let wrong = || mismatch(T::EXPECTED, value);
        if matches!(value, Value::Map(_)) {
            return Err(wrong());
        }
        value.atoms().iter().map(|atom| T::from_atom(atom).ok_or_else(wrong)).collect()
    }
    fn to_value(&self) -> Value {
        Value::set(self.iter().map(Scalar::to_atom))
    }
}

impl<K: Scalar + Ord, V: Scalar + PartialEq> Datum for BTreeMap<K, V> {
    fn from_value(value: &Value) -> Result<Self, Mismatch> {
        let wrong = || mismatch("map", value);
        if matches!(value, Value::Atom(_)) || (matches!(value, Value::Set(_)) && !value.is_empty())
        {
            return Err(wrong());
        }
        let pairs = value.pairs().iter();
        pairs.map(|(k, v)| K::from_atom(k).zip(V::from_atom(v)).ok_or_else(wrong)).collect()
    }
    fn to_value(&self) -> Value {
        Value::map(self.iter().map(|(k, v)| (k.to_atom(), v.to_atom())))
    }
}

/// A reference to a row of table `T`: one that exists, or one that the same transaction inserts.
pub struct Ref<T> {
    target: Atom,
    table: PhantomData<fn() -> T>,
}

impl<T> Ref<T> {
    /// To an existing row.
    pub fn new(uuid: Uuid) -> Self {
        Self { target: Atom::Uuid(uuid), table: PhantomData }
    }

    /// To a row the same transaction inserts under this name.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { target: Atom::NamedUuid(name.into()), table: PhantomData }
    }

    /// The row's identity; `None` while it is only a name.
    pub fn uuid(&self) -> Option<Uuid> {
        if let Atom::Uuid(uuid) = self.target { Some(uuid) } else { None }
    }

    /// As an atom, for conditions and mutations.
    pub fn atom(&self) -> &Atom {
        &self.target
    }
}

impl<T: TypedRow> Scalar for Ref<T> {
    const EXPECTED: &'static str = "uuid";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Uuid(uuid) = atom { Some(Self::new(*uuid)) } else { None }
    }
    fn to_atom(&self) -> Atom {
        self.target.clone()
    }
}

impl<T> Default for Ref<T> {
    fn default() -> Self {
        Self::new(Uuid::ZERO)
    }
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        Self { target: self.target.clone(), table: PhantomData }
    }
}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.target == other.target
    }
}

impl<T> Eq for Ref<T> {}

impl<T> PartialOrd for Ref<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ref<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.target.cmp(&other.target)
    }
}

impl<T: TypedRow> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", T::TABLE, self.target)
    }
}
