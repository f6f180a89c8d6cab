//! Values of fields as text, by the field's format.

use super::token::ParseError;
use crate::field::{Field, Format, IntoValue, Mac, Value, to_u128};
use crate::port_no::PortNo;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bits of `ct_state`, by name.
const CT_STATE: [(u128, &str); 8] = [
    (0x01, "new"),
    (0x02, "est"),
    (0x04, "rel"),
    (0x08, "rpl"),
    (0x10, "inv"),
    (0x20, "trk"),
    (0x40, "snat"),
    (0x80, "dnat"),
];
const TCP_FLAGS: [(u128, &str); 9] = [
    (0x001, "fin"),
    (0x002, "syn"),
    (0x004, "rst"),
    (0x008, "psh"),
    (0x010, "ack"),
    (0x020, "urg"),
    (0x040, "ece"),
    (0x080, "cwr"),
    (0x100, "ns"),
];
const TUNNEL_FLAGS: [(u128, &str); 1] = [(0x1, "oam")];
/// Fragments: value and mask by name. Bit 0 is "is a fragment", bit 1 "is a later one".
const FRAGMENT: [(u128, u128, &str); 5] =
    [(0, 3, "no"), (1, 1, "yes"), (1, 3, "first"), (3, 3, "later"), (0, 2, "not_later")];

fn flag_names(format: Format) -> Option<&'static [(u128, &'static str)]> {
    match format {
        Format::CtState => Some(&CT_STATE),
        Format::TcpFlags => Some(&TCP_FLAGS),
        Format::TunnelFlags => Some(&TUNNEL_FLAGS),
        _ => None,
    }
}

/// `0x…` as C's `%#x` has it: no prefix on zero.
pub(super) fn hex(out: &mut dyn fmt::Write, v: u128) -> fmt::Result {
    if v == 0 { out.write_char('0') } else { write!(out, "{v:#x}") }
}

/// Bytes as one hexadecimal number without leading zeros.
pub(super) fn hex_bytes(out: &mut dyn fmt::Write, bytes: &[u8]) -> fmt::Result {
    let mut significant = bytes.iter().skip_while(|b| **b == 0);
    let Some(first) = significant.next() else { return out.write_str("0") };
    write!(out, "{first:#x}")?;
    significant.try_for_each(|b| write!(out, "{b:02x}"))
}

/// Names of set bits with `|`, or `+set-clear` where a mask says which count.
pub(super) fn flags(
    out: &mut dyn fmt::Write,
    names: &[(u128, &str)],
    value: u128,
    mask: Option<u128>,
) -> fmt::Result {
    let name = |out: &mut dyn fmt::Write, bit: u128| match names.iter().find(|(b, _)| *b == bit) {
        Some((_, name)) => out.write_str(name),
        None => write!(out, "{bit:#x}"),
    };
    let bits = |of: u128| (0..128).map(|i| 1_u128 << i).filter(move |bit| of & bit != 0);
    match mask {
        None if value == 0 => out.write_char('0'),
        None => bits(value).enumerate().try_for_each(|(i, bit)| {
            if i > 0 {
                out.write_char('|')?;
            }
            name(out, bit)
        }),
        Some(mask) => bits(mask).try_for_each(|bit| {
            out.write_char(if value & bit == 0 { '-' } else { '+' })?;
            name(out, bit)
        }),
    }
}

/// The name of a fragment match.
pub(super) fn fragment(value: u128, mask: u128) -> &'static str {
    let named = FRAGMENT.iter().find(|(v, m, _)| (*v, *m) == (value & mask, mask));
    match (named, value, mask) {
        (Some((.., name)), ..) => name,
        (None, 0, 1) => "no",
        (None, 2, 2) => "later",
        _ => "<error>",
    }
}

/// The low 32 bits.
fn low_32(v: u128) -> u32 {
    u32::try_from(v & u128::from(u32::MAX)).expect("32 bits are 32 bits")
}

/// An address with its mask as a prefix length if it is one.
pub(super) fn ipv4(out: &mut dyn fmt::Write, value: u128, mask: Option<u128>) -> fmt::Result {
    write!(out, "{}", Ipv4Addr::from(low_32(value)))?;
    let Some(mask) = mask.map(low_32) else { return Ok(()) };
    let ones = mask.leading_ones();
    match mask.checked_shl(ones).unwrap_or(0) {
        0 => write!(out, "/{ones}"),
        _ => write!(out, "/{}", Ipv4Addr::from(mask)),
    }
}

/// An address with its mask as a prefix length if it is one.
pub(super) fn ipv6(out: &mut dyn fmt::Write, value: u128, mask: Option<u128>) -> fmt::Result {
    ipv6_address(out, value)?;
    let Some(mask) = mask else { return Ok(()) };
    let ones = mask.leading_ones();
    out.write_char('/')?;
    match mask.checked_shl(ones).unwrap_or(0) {
        0 => write!(out, "{ones}"),
        _ => ipv6_address(out, mask),
    }
}

/// As the C library prints it: `std` differs in addresses that embed IPv4 (`::1.2.3.4`).
pub(super) fn ipv6_address(out: &mut dyn fmt::Write, value: u128) -> fmt::Result {
    let address = Ipv6Addr::from(value);
    let compatible = value >> 32 == 0 && value >> 16 != 0;
    match compatible {
        true => write!(out, "::{}", Ipv4Addr::from(low_32(value))),
        false => write!(out, "{address}"),
    }
}

pub(super) fn ethernet(out: &mut dyn fmt::Write, value: u128, mask: Option<u128>) -> fmt::Result {
    let mac = |v: u128| {
        let bytes = v.to_be_bytes();
        Mac([bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]])
    };
    write!(out, "{}", mac(value))?;
    mask.map_or(Ok(()), |mask| write!(out, "/{}", mac(mask)))
}

/// A value as `set_field` and `learn` show it.
pub(super) fn write(
    out: &mut dyn fmt::Write,
    field: Field,
    value: &[u8],
    mask: Option<&[u8]>,
) -> fmt::Result {
    let (number, number_mask) = (to_u128(value), mask.map(to_u128));
    match field.format() {
        Format::Ipv4 => ipv4(out, number, number_mask),
        Format::Ipv6 => ipv6(out, number, number_mask),
        Format::Ethernet => ethernet(out, number, number_mask),
        Format::Port if mask.is_none() => write!(out, "{}", port(field, number)),
        Format::Fragment => out.write_str(fragment(number, number_mask.unwrap_or(3))),
        Format::PacketType => packet_type(out, number),
        Format::CtState | Format::TcpFlags | Format::TunnelFlags => {
            flags(out, flag_names(field.format()).unwrap_or(&[]), number, number_mask)
        }
        Format::Port | Format::Decimal | Format::Hexadecimal => {
            match field.format() {
                Format::Hexadecimal => hex_bytes(out, value)?,
                _ => write!(out, "{number}")?,
            }
            let Some(mask) = mask else { return Ok(()) };
            out.write_char('/')?;
            hex_bytes(out, mask)
        }
    }
}

fn port(field: Field, number: u128) -> PortNo {
    match field {
        Field::IN_PORT_NXM => PortNo::from_16((number & 0xffff) as u16),
        _ => PortNo(low_32(number)),
    }
}

/// `(namespace,type)`; a whole Ethernet packet is `eth`.
pub(super) fn packet_type(out: &mut dyn fmt::Write, value: u128) -> fmt::Result {
    write!(out, "({},", value >> 16)?;
    hex(out, value & 0xffff)?;
    out.write_char(')')
}

/// A number: decimal, `0x` hexadecimal, or `0` octal, as C's `strtoull` with base 0.
pub(super) fn number(what: &str, text: &str) -> Result<u128, ParseError> {
    let bad = || ParseError::new(format!("{what}: {text:?} is not a number"));
    let parsed = if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        u128::from_str_radix(digits, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        u128::from_str_radix(&text[1..], 8)
    } else {
        text.parse()
    };
    if text.starts_with("0x+") || text.starts_with('+') {
        return Err(bad());
    }
    parsed.map_err(|_| bad())
}

/// A number of at most `max`.
pub(super) fn bounded<T: TryFrom<u128>>(what: &str, text: &str) -> Result<T, ParseError> {
    let v = number(what, text)?;
    T::try_from(v).map_err(|_| {
        let bits = 8 * size_of::<T>();
        ParseError::new(format!("{what}: {text} does not fit {bits} bits"))
    })
}

/// A port by number or reserved name.
pub(super) fn parse_port(text: &str) -> Result<PortNo, ParseError> {
    PortNo::by_name(text).map_or_else(|| bounded("port", text).map(PortNo), Ok)
}

/// A field's value, and its mask where one is given.
pub(super) fn parse(field: Field, text: &str) -> Result<(Value, Option<Value>), ParseError> {
    let fits = |v: u128| v.into_value(field).map_err(|e| ParseError::new(e.to_string()));
    if let Some(names) = flag_names(field.format())
        && let Some((value, mask)) = parse_flags(field, names, text)?
    {
        return Ok((fits(value)?, mask.map(fits).transpose()?));
    }
    match field.format() {
        Format::Fragment => {
            if let Some((v, m, _)) = FRAGMENT.iter().find(|(.., n)| *n == text) {
                return Ok((fits(*v)?, Some(fits(*m)?)));
            }
        }
        Format::PacketType => return Ok((fits(parse_packet_type(text)?)?, None)),
        // A part of a port's number is just bits; `ovs-ofctl` prints them so, too.
        Format::Port if !text.contains('/') => {
            let port = parse_port(text)?;
            let number = match field {
                Field::IN_PORT_NXM => port.to_16().map(u32::from),
                _ => Some(port.0),
            };
            let number = number
                .ok_or_else(|| ParseError::new(format!("{field}: {text} has no 16-bit form")))?;
            return Ok((fits(number.into())?, None));
        }
        _ => {}
    }
    if field.is_tun_metadata() {
        return parse_long(field, text);
    }
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (value, Some(mask)),
        None => (text, None),
    };
    let value = fits(parse_number(field, value)?)?;
    let mask = mask.map(|m| parse_mask(field, m).and_then(fits)).transpose()?;
    Ok((value, mask))
}

fn parse_number(field: Field, text: &str) -> Result<u128, ParseError> {
    let bad = |kind: &str| ParseError::new(format!("{field}: {text:?} is not {kind}"));
    Ok(match field.format() {
        Format::Ipv4 => {
            text.parse::<Ipv4Addr>().map_err(|_| bad("an IPv4 address"))?.to_bits().into()
        }
        Format::Ipv6 => text.parse::<Ipv6Addr>().map_err(|_| bad("an IPv6 address"))?.to_bits(),
        Format::Ethernet => {
            let mac: Mac = text.parse().map_err(|_| bad("an Ethernet address"))?;
            to_u128(&mac.0)
        }
        _ => number(field.name(), text)?,
    })
}

/// A mask is written as its value is; addresses also take a prefix length.
fn parse_mask(field: Field, text: &str) -> Result<u128, ParseError> {
    let is_address = matches!(field.format(), Format::Ipv4 | Format::Ipv6);
    match text.parse::<u32>() {
        Ok(len) if is_address => {
            let bits = u32::from(field.bits());
            if len > bits {
                return Err(ParseError::new(format!("{field}: /{len} is longer than {bits} bits")));
            }
            let ones = field.valid_bits();
            Ok(ones & !ones.checked_shr(len).unwrap_or(0))
        }
        _ => parse_number(field, text),
    }
}

/// `+a-b` sets and clears; `a|b` is exact. `None` if it is a number instead.
fn parse_flags(
    field: Field,
    names: &[(u128, &str)],
    text: &str,
) -> Result<Option<(u128, Option<u128>)>, ParseError> {
    let bit = |name: &str| match names.iter().find(|(_, n)| *n == name) {
        Some((bit, _)) => Ok(*bit),
        None => number(field.name(), name)
            .map_err(|_| ParseError::new(format!("{field}: there is no flag {name:?}"))),
    };
    if text.starts_with(['+', '-']) {
        let (mut value, mut mask) = (0, 0);
        let mut rest = text;
        while let Some(sign) = rest.chars().next() {
            let end = rest[1..].find(['+', '-']).map_or(rest.len(), |at| at + 1);
            let flag = bit(&rest[1..end])?;
            mask |= flag;
            if sign == '+' {
                value |= flag;
            }
            rest = &rest[end..];
        }
        return Ok(Some((value, Some(mask))));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    let value = text.split('|').try_fold(0, |v, name| bit(name).map(|b| v | b))?;
    Ok(Some((value, None)))
}

fn parse_packet_type(text: &str) -> Result<u128, ParseError> {
    let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    let bad = || ParseError::new(format!("packet_type: {text:?} is not (namespace,type)"));
    let (namespace, kind) = inner.split_once(',').ok_or_else(bad)?;
    let namespace: u16 = bounded("packet_type", namespace.trim())?;
    let kind: u16 = bounded("packet_type", kind.trim())?;
    Ok(u128::from(namespace) << 16 | u128::from(kind))
}

/// Values of up to 124 bytes.
fn parse_long(field: Field, text: &str) -> Result<(Value, Option<Value>), ParseError> {
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (long_bytes(field, value)?, Some(long_bytes(field, mask)?)),
        None => (long_bytes(field, text)?, None),
    };
    let Some(mask) = mask else { return Ok((Value::from_bytes(&value), None)) };
    let len = value.len().max(mask.len());
    let padded = |bytes: Vec<u8>| {
        let mut out = vec![0; len - bytes.len()];
        out.extend(bytes);
        Value::from_bytes(&out)
    };
    Ok((padded(value), Some(padded(mask))))
}

fn long_bytes(field: Field, text: &str) -> Result<Vec<u8>, ParseError> {
    let Some(digits) = text.strip_prefix("0x") else {
        let v = number(field.name(), text)?.to_be_bytes();
        let zeros = v.iter().take_while(|b| **b == 0).count().min(15);
        return Ok(v[zeros..].to_vec());
    };
    let bad = || ParseError::new(format!("{field}: {text:?} is not a number of up to 124 bytes"));
    if digits.is_empty() || !digits.is_ascii() || digits.len() > 2 * field.bytes() {
        return Err(bad());
    }
    let even = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    (0..even.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&even[i..i + 2], 16).map_err(|_| bad()))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::flow::Flow;

    #[test]
    fn bits_of_a_port_print_with_their_mask() {
        // As ovs-ofctl prints it; found by fuzzing: the mask was left out.
        let flow: Flow = "actions=load:0xab->NXM_OF_IN_PORT[0..7]".parse().unwrap();
        assert_eq!(flow.to_string(), "actions=set_field:171/0xff->in_port");
        assert_eq!(flow.to_string().parse(), Ok(flow));
        let flow: Flow = "in_port=LOCAL actions=load:7->NXM_OF_IN_PORT[]".parse().unwrap();
        assert_eq!(flow.to_string(), "in_port=LOCAL actions=set_field:7->in_port");
    }
}
