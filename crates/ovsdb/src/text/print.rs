//! Prints values ("Database Values" in ovs-vsctl(8)).

use std::fmt::{self, Write as _};

use crate::Uuid;
use crate::schema::ColumnType;
use crate::value::{Atom, Value};

impl fmt::Display for Atom {
    /// As `ovs-vsctl` prints it; a named UUID as `@name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Real(number) => f.write_str(&significant(number.get())),
            Self::Boolean(truth) => write!(f, "{truth}"),
            Self::String(text) if needs_quotes(text) => {
                f.write_str(&serde_json::to_string(&**text).map_err(|_| fmt::Error)?)
            }
            Self::String(text) => f.write_str(text),
            Self::Uuid(uuid) => write!(f, "{uuid}"),
            Self::NamedUuid(name) => write!(f, "@{name}"),
        }
    }
}

/// The text of a column's value. The type decides whether one element stands in brackets.
pub fn print_value(ty: &ColumnType, value: &Value) -> String {
    let mut out = String::new();
    let brackets = ty.max > 1 || value.is_empty();
    let (open, close) = if ty.is_map() { ('{', '}') } else { ('[', ']') };
    if brackets {
        out.push(open);
    }
    write_items(&mut out, value, ", ", |out, atom| {
        let _ = write!(out, "{atom}");
    });
    if brackets {
        out.push(close);
    }
    out
}

/// The text of `--data=bare`: no quotes, no brackets, items separated by spaces.
pub fn print_bare(value: &Value) -> String {
    let mut out = String::new();
    write_items(&mut out, value, " ", |out, atom| {
        let _ = match atom {
            Atom::String(text) => write!(out, "{text}"),
            other => write!(out, "{other}"),
        };
    });
    out
}

fn write_items(out: &mut String, value: &Value, between: &str, put: impl Fn(&mut String, &Atom)) {
    for (position, atom) in value.atoms().iter().enumerate() {
        if position > 0 {
            out.push_str(between);
        }
        put(out, atom);
    }
    for (position, (key, second)) in value.pairs().iter().enumerate() {
        if position > 0 {
            out.push_str(between);
        }
        put(out, key);
        out.push('=');
        put(out, second);
    }
}

/// Whether a string could be taken for something else.
pub(super) fn needs_quotes(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let word = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && text.bytes().all(plain);
    !word || text == "true" || text == "false" || text.parse::<Uuid>().is_ok()
}

/// C's `%.15g`, which ovs-vsctl prints reals with.
fn significant(number: f64) -> String {
    const DIGITS: i32 = 15;
    if number == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{number:.*e}", (DIGITS - 1) as usize);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| {
        let digits = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            text
        };
        digits.to_owned()
    };
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        trim(&format!("{number:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_as_ovs_vsctl_quotes_them() {
        for (text, printed) in [
            ("br0", "br0"),
            ("y-z.w", "y-z.w"),
            ("_b", "_b"),
            ("", "\"\""),
            ("1a", "\"1a\""),
            ("true", "\"true\""),
            ("a b", "\"a b\""),
            ("a:b", "\"a:b\""),
            ("a/b", "\"a/b\""),
            ("zé", "\"zé\""),
            ("abcdef12", "abcdef12"),
            ("a0f1a2b3-0001", "a0f1a2b3-0001"),
            ("a0f1a2b3-0001-4abc-8def-0123456789ab", "\"a0f1a2b3-0001-4abc-8def-0123456789ab\""),
            ("\u{8}\u{c}\n\r\u{1f}<>&", "\"\\b\\f\\n\\r\\u001f<>&\""),
        ] {
            assert_eq!(Atom::from(text).to_string(), printed);
        }
    }

    #[test]
    fn reals_as_c_prints_them() {
        for (number, printed) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1.0 / 3.0, "0.333333333333333"),
            (1.5e300, "1.5e+300"),
        ] {
            assert_eq!(significant(number), printed);
        }
    }
}
