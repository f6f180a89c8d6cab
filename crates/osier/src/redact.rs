//! Texts without their secrets, for people who did not see them before.
//!
//! Removed are private keys, what follows `Bearer`, the values of fields and settings whose names
//! speak of secrets, and secrets that are known as such. Too much is better than too little.

use serde_json::Value;

/// What stands in their place.
const REMOVED: &str = "<removed>";
/// Parts of names whose values are nobody's business.
const NAMES: [&str; 8] =
    ["token", "credential", "password", "passwd", "secret", "psk", "private_key", "privatekey"];
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Removes secrets; `known` are those that are known.
pub(crate) fn text(text: &str, known: &[&str]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut in_key = false;
    for line in text.split_inclusive('\n') {
        if line.contains(BEGIN) && line.contains("PRIVATE KEY") {
            clean.push_str(REMOVED);
            clean.push('\n');
            in_key = !line.contains(END);
        } else if in_key {
            in_key = !line.contains(END);
        } else {
            clean.push_str(&settings(&bearer(line)));
        }
    }
    known
        .iter()
        .filter(|secret| !secret.is_empty())
        .fold(clean, |clean, secret| clean.replace(*secret, REMOVED))
}

/// Removes secrets from JSON.
pub(crate) fn value(value: &mut Value, known: &[&str]) {
    match value {
        Value::String(inner) => *inner = text(inner, known),
        Value::Array(items) => items.iter_mut().for_each(|item| self::value(item, known)),
        Value::Object(map) => {
            for (name, inner) in map {
                match inner {
                    Value::String(_) | Value::Number(_) if is_secret(name) => {
                        *inner = REMOVED.into();
                    }
                    inner => self::value(inner, known),
                }
            }
        }
        _ => {}
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    // Where a secret is, is none.
    let is_place = ["file", "path", "dir", "ttl", "seconds"].iter().any(|end| name.ends_with(end));
    !is_place && NAMES.iter().any(|secret| name.contains(secret))
}

/// Removes what follows `Bearer`.
fn bearer(line: &str) -> String {
    let Some(at) = line.to_ascii_lowercase().find("bearer ") else { return line.to_owned() };
    let (before, rest) = line.split_at(at + "bearer ".len());
    let end = rest.find(is_end).unwrap_or(rest.len());
    format!("{before}{REMOVED}{}", &rest[end..])
}

/// Removes values of `name=value`, `name: value` and `"name": "value"`.
fn settings(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['=', ':']) {
        let (before, after) = rest.split_at(at + 1);
        clean.push_str(before);
        rest = after;
        let name = before[..at].trim_end_matches(['"', '\'', ' ']);
        let start = name.rfind(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
        if is_secret(&name[start.map_or(0, |start| start + 1)..]) {
            let begin = rest.find(|c| !" \t\"'".contains(c)).unwrap_or(rest.len());
            let end = rest[begin..].find(is_end).map_or(rest.len(), |end| begin + end);
            if end > begin {
                clean.push_str(&rest[..begin]);
                clean.push_str(REMOVED);
                rest = &rest[end..];
            }
        }
    }
    clean + rest
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || "\"',;})]".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        for (line, clean) in [
            ("node n1 joined\n", "node n1 joined\n"),
            ("Authorization: Bearer abc.def, x\n", "Authorization: Bearer <removed>, x\n"),
            ("token=s3cret level=info", "token=<removed> level=info"),
            ("join-token: \"s3cret\"", "join-token: \"<removed>\""),
            (r#"{"credential":"s3cret","node":"n1"}"#, r#"{"credential":"<removed>","node":"n1"}"#),
            ("options:psk=s3cret, key=7", "options:psk=<removed>, key=7"),
            ("token-file = /etc/osier/token", "token-file = /etc/osier/token"),
            ("at 12:00:01 n_packets=3", "at 12:00:01 n_packets=3"),
            ("my own word", "my own <removed>"),
        ] {
            assert_eq!(text(line, &["word"]), clean);
        }
    }

    #[test]
    fn private_keys_go_whole_and_certificates_stay() {
        let pem = |kind: &str| format!("{BEGIN}{kind}-----\nMIIB\nAAAA\n{END}{kind}-----\n");
        let all = format!("a\n{}{}b\n", pem("EC PRIVATE KEY"), pem("CERTIFICATE"));
        assert_eq!(text(&all, &[]), format!("a\n{REMOVED}\n{}b\n", pem("CERTIFICATE")));
    }

    #[test]
    fn json_is_cleaned_at_any_depth() {
        let mut all = json!({"a": [{"joinToken": "x", "ttlSeconds": 5}], "log": "token=y\n",
            "tokens": {"n1": "free"}, "password": 7});
        value(&mut all, &["free"]);
        assert_eq!(
            all,
            json!({"a": [{"joinToken": REMOVED, "ttlSeconds": 5}], "log": format!("token={REMOVED}\n"),
                "tokens": {"n1": REMOVED}, "password": REMOVED})
        );
    }
}
