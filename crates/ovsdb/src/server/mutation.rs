//! Applies mutations (RFC 7047 section 5.1) to values.

use super::transaction::Failure;
use crate::op::Mutator;
use crate::schema::{AtomicType, ColumnType};
use crate::value::{Atom, Real, Value};

/// What a mutation may be made with: arithmetic takes any number, the rest what the column takes.
pub(super) fn operand(ty: &ColumnType, mutator: Mutator, by: Value) -> Result<Value, Failure> {
    let keys = ColumnType { value: None, ..ty.clone() };
    let ty = match mutator {
        // Keys alone may be deleted from a map.
        Mutator::Delete if !matches!(by, Value::Map(_)) => &keys,
        Mutator::Insert | Mutator::Delete => ty,
        _ => return Ok(by),
    };
    let by = ty.conform(by)?;
    ty.check_atoms(&by)?;
    Ok(by)
}

/// The value after a mutation.
pub(super) fn apply(
    ty: &ColumnType,
    held: &Value,
    mutator: Mutator,
    by: &Value,
) -> Result<Value, Failure> {
    let value = match mutator {
        Mutator::Insert => insert(held, by),
        Mutator::Delete => delete(held, by),
        arithmetic => {
            let Value::Atom(by) = by else { return Err(Failure::syntax("expected a number")) };
            let atoms: Result<Vec<_>, _> = held
                .atoms()
                .iter()
                .map(|atom| calculate(ty.key.atomic, atom, arithmetic, by))
                .collect();
            Value::strict_set(atoms?).map_err(|_| {
                Failure::new("constraint violation", "Result of mutation is not a set.")
            })?
        }
    };
    Ok(value)
}

fn insert(held: &Value, by: &Value) -> Value {
    match held {
        Value::Map(_) => Value::map(by.pairs().iter().chain(held.pairs()).cloned()),
        Value::Atom(_) | Value::Set(_) => {
            Value::set(held.atoms().iter().chain(by.atoms()).cloned())
        }
    }
}

fn delete(held: &Value, by: &Value) -> Value {
    match held {
        Value::Map(_) => Value::map(
            held.pairs()
                .iter()
                .filter(|(key, second)| by.get(key) != Some(second) && !by.atoms().contains(key))
                .cloned(),
        ),
        Value::Atom(_) | Value::Set(_) => {
            Value::set(held.atoms().iter().filter(|atom| !by.atoms().contains(atom)).cloned())
        }
    }
}

fn calculate(ty: AtomicType, held: &Atom, mutator: Mutator, by: &Atom) -> Result<Atom, Failure> {
    let zero = || Failure::new("domain error", "Division by zero.");
    let range = || {
        let symbol = mutator.symbol();
        Failure::new("range error", format!("Result of \"{symbol}\" operation is out of range."))
    };
    match (ty, held, by) {
        (AtomicType::Integer, Atom::Integer(a), Atom::Integer(b)) => {
            let result = match mutator {
                Mutator::Add => a.checked_add(*b),
                Mutator::Subtract => a.checked_sub(*b),
                Mutator::Multiply => a.checked_mul(*b),
                Mutator::Divide | Mutator::Remainder if *b == 0 => return Err(zero()),
                Mutator::Divide => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            Ok(Atom::Integer(result.ok_or_else(range)?))
        }
        (AtomicType::Real, Atom::Real(a), b) => {
            let b = match b {
                Atom::Real(b) => b.get(),
                #[expect(clippy::cast_precision_loss, reason = "a real was meant")]
                Atom::Integer(b) => *b as f64,
                _ => return Err(Failure::syntax("expected real")),
            };
            let result = match mutator {
                Mutator::Add => a.get() + b,
                Mutator::Subtract => a.get() - b,
                Mutator::Multiply => a.get() * b,
                Mutator::Divide if b == 0.0 => return Err(zero()),
                Mutator::Divide => a.get() / b,
                _ => return Err(Failure::syntax("reals have no remainder")),
            };
            Ok(Atom::Real(Real::new(result).ok_or_else(range)?))
        }
        _ => Err(Failure::syntax("expected a number")),
    }
}
