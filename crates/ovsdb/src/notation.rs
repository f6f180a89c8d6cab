//! The JSON notation of values (RFC 7047 section 5.1), as serde implementations that neither build
//! a tree nor recurse: the notation is at most four arrays deep, anything deeper is an error.
//!
//! ```text
//! <value> = <atom> | ["set", [<atom>*]] | ["map", [[<atom>, <atom>]*]]
//! <atom>  = string | number | boolean | ["uuid", string] | ["named-uuid", string]
//! ```
//!
//! Without a schema `1` may be an integer or a real: it is read as an integer, as ovsdb-server's
//! parser does, and [`ColumnType::conform`](crate::schema::ColumnType::conform) makes it right.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, SerializeTuple};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Uuid;
use crate::value::{Atom, Real, Value};

impl Serialize for Uuid {
    /// The bare string; [`Atom::Uuid`] is the tagged pair.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Uuid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a UUID")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Uuid, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

// === writing ===

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Real(real) => serializer.serialize_f64(real.get()),
            Self::Boolean(truth) => serializer.serialize_bool(*truth),
            Self::String(text) => serializer.serialize_str(text),
            Self::Uuid(uuid) => ("uuid", uuid).serialize(serializer),
            Self::NamedUuid(name) => ("named-uuid", &**name).serialize(serializer),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Atom(atom) => atom.serialize(serializer),
            Self::Set(_) => ("set", self.atoms()).serialize(serializer),
            Self::Map(_) => {
                let mut tuple = serializer.serialize_tuple(2)?;
                tuple.serialize_element("map")?;
                tuple.serialize_element(&Pairs(self.pairs()))?;
                tuple.end()
            }
        }
    }
}

struct Pairs<'a>(&'a [(Atom, Atom)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.0.len()))?;
        for pair in self.0 {
            seq.serialize_element(pair)?;
        }
        seq.end()
    }
}

// === reading ===

impl<'de> Deserialize<'de> for Atom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(Notation { composite: false })? {
            Value::Atom(atom) => Ok(atom),
            Value::Set(_) | Value::Map(_) => Err(D::Error::custom("expected an atom")),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Notation { composite: true })
    }
}

struct Notation {
    /// Whether sets and maps are allowed here: not inside sets and maps.
    composite: bool,
}

enum Tag {
    Set,
    Map,
    Uuid,
    NamedUuid,
}

impl<'de> Deserialize<'de> for Tag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Tag;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"set\", \"map\", \"uuid\" or \"named-uuid\"")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Tag, E> {
                match name {
                    "set" => Ok(Tag::Set),
                    "map" => Ok(Tag::Map),
                    "uuid" => Ok(Tag::Uuid),
                    "named-uuid" => Ok(Tag::NamedUuid),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(name), &self)),
                }
            }
        }
        deserializer.deserialize_str(Name)
    }
}

impl<'de> Visitor<'de> for Notation {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.composite { "an atom, a set or a map" } else { "an atom" })
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        match i64::try_from(number) {
            Ok(number) => Ok(number.into()),
            // Beyond 63 bits only a real can hold it.
            #[allow(clippy::cast_precision_loss)]
            Err(_) => self.visit_f64(number as f64),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
        // ovsdb-server reads `1.0` as the integer 1, whatever the column.
        #[allow(clippy::cast_possible_truncation)]
        if number.fract() == 0.0 && number.abs() <= EXACT {
            return Ok((number as i64).into());
        }
        let real = Real::new(number).ok_or_else(|| E::custom("number out of range"))?;
        Ok(Value::Atom(Atom::Real(real)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let tag: Tag = element(&mut seq)?;
        let value = match tag {
            Tag::Uuid => Value::Atom(Atom::Uuid(element(&mut seq)?)),
            Tag::NamedUuid => Value::Atom(Atom::NamedUuid(element::<_, String>(&mut seq)?.into())),
            Tag::Set if self.composite => {
                Value::strict_set(element(&mut seq)?).map_err(A::Error::custom)?
            }
            Tag::Map if self.composite => {
                Value::strict_map(element(&mut seq)?).map_err(A::Error::custom)?
            }
            Tag::Set | Tag::Map => return Err(A::Error::custom("a set or map inside another")),
        };
        match seq.next_element::<serde::de::IgnoredAny>()? {
            None => Ok(value),
            Some(_) => Err(A::Error::custom("expected a pair, found a longer array")),
        }
    }
}

fn element<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(seq: &mut A) -> Result<T, A::Error> {
    seq.next_element()?.ok_or_else(|| A::Error::custom("expected a pair, found a shorter array"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Value, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn every_form_both_ways() {
        for json in [
            "1",
            "-9223372036854775808",
            "1.5",
            // Found by fuzzing: was read as its neighbour.
            "3.333333333333334e+70",
            "true",
            r#""a\"b""#,
            r#"["uuid","00f1a2b3-0001-4abc-8def-0123456789ab"]"#,
            r#"["named-uuid","row1"]"#,
            r#"["set",[]]"#,
            r#"["set",[1,2]]"#,
            r#"["map",[]]"#,
            r#"["map",[["a",1],["b",2]]]"#,
            r#"["map",[[1,["uuid","00f1a2b3-0001-4abc-8def-0123456789ab"]]]]"#,
        ] {
            assert_eq!(serde_json::to_string(&read(json).unwrap()).unwrap(), json);
        }
        assert_eq!(read(r#"["set",["a"]]"#).unwrap(), Value::from("a"));
        assert_eq!(read("1.0").unwrap(), Value::from(1));
    }

    #[test]
    fn what_is_not_a_value() {
        for json in [
            "null",
            "{}",
            "[]",
            r#"["set"]"#,
            r#"["set",[],1]"#,
            r#"["sett",[]]"#,
            r#"["set",[["set",[]]]]"#,
            r#"["set",[1,1]]"#,
            r#"["map",[["a"]]]"#,
            r#"["map",[["a",1],["a",2]]]"#,
            r#"["uuid","1"]"#,
            r#"["uuid",1]"#,
            "1e999",
        ] {
            assert!(read(json).is_err(), "{json} was read as {:?}", read(json));
        }
        let deep = "[\"set\",[".repeat(100_000);
        assert!(read(&deep).is_err());
    }
}
