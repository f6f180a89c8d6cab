//! The part of Helm's templates that our chart uses, and not a word more: what is unknown here is
//! an error, so that `deploy/osier.yaml` can be made, and checked, without Helm. A test compares the
//! outcome with that of the real one.
//!
//! There are values (`.Values.a.b`, `.Release.Namespace`, `.Chart.AppVersion`), texts and numbers,
//! `if`/`else`/`end`, comments, and the functions of [`Function`], called or piped to.

use anyhow::{Context, Result, bail, ensure};
use osier_oci::sha256;
use serde_json::Value;

/// Renders a template with everything that it may name: `Values`, `Release`, `Chart`.
pub(super) fn render(template: &str, scope: &Value) -> Result<String> {
    let pieces = pieces(template)?;
    let mut out = String::new();
    // Of each `if` that is open: whether its branch counts, and whether what is around does.
    let mut open: Vec<(bool, bool)> = Vec::new();
    for piece in pieces {
        let counts = open.last().is_none_or(|(counts, _)| *counts);
        match piece {
            Piece::Text(text) if counts => out.push_str(text),
            Piece::Action(action) => match action.split_once(' ').unwrap_or((action, "")) {
                ("if", condition) => {
                    let holds = counts && is_truth(&evaluate(condition, scope)?);
                    open.push((holds, counts));
                }
                ("else", "") => {
                    let (held, around) = open.last_mut().context("`else` without `if`")?;
                    *held = *around && !*held;
                }
                ("end", "") => drop(open.pop().context("`end` without `if`")?),
                _ if action.starts_with("/*") => {}
                _ if counts => out.push_str(&printed(&evaluate(action, scope)?)),
                _ => {}
            },
            Piece::Text(_) => {}
        }
    }
    ensure!(open.is_empty(), "`if` without `end`");
    Ok(out)
}

enum Piece<'a> {
    Text(&'a str),
    Action(&'a str),
}

/// Cuts a template at its braces; a dash beside them takes the white space there away.
fn pieces(template: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    let mut trim = false;
    while let Some(start) = rest.find("{{") {
        let mut text = if trim { rest[..start].trim_start() } else { &rest[..start] };
        let length = rest[start..].find("}}").context("braces that nobody closes")?;
        let mut action = &rest[start + 2..start + length];
        if let Some(dashed) = action.strip_prefix("- ") {
            (action, text) = (dashed, text.trim_end());
        }
        trim = action.ends_with(" -");
        pieces.push(Piece::Text(text));
        pieces.push(Piece::Action(action.strip_suffix(" -").unwrap_or(action).trim()));
        rest = &rest[start + length + 2..];
    }
    pieces.push(Piece::Text(if trim { rest.trim_start() } else { rest }));
    Ok(pieces)
}

/// `function argument… | function argument…`: what is piped is the last argument.
fn evaluate(pipeline: &str, scope: &Value) -> Result<Value> {
    let mut piped: Option<Value> = None;
    for stage in pipeline.split(" | ") {
        let mut words = stage.split_whitespace();
        let first = words.next().context("an empty action")?;
        let arguments = words.map(|word| operand(word, scope)).chain(piped.map(Ok));
        let arguments: Vec<Value> = arguments.collect::<Result<_>>()?;
        piped = Some(if let Some(function) = Function::named(first) {
            function.call(&arguments).with_context(|| stage.to_owned())?
        } else {
            ensure!(arguments.is_empty(), "{first:?} is no function of the chart's");
            operand(first, scope)?
        });
    }
    piped.context("an empty action")
}

/// A value by its path, a text, or a number.
fn operand(word: &str, scope: &Value) -> Result<Value> {
    let Some(path) = word.strip_prefix('.') else {
        return serde_json::from_str(word).with_context(|| format!("{word:?} is no value"));
    };
    let mut value = scope;
    for name in path.split('.') {
        value = value.get(name).with_context(|| format!("there is no value {word}"))?;
    }
    Ok(value.clone())
}

#[derive(Debug, Clone, Copy)]
enum Function {
    Default,
    Indent,
    Quote,
    Sha256,
    Json,
    Yaml,
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "default" => Self::Default,
            "nindent" => Self::Indent,
            "quote" => Self::Quote,
            "sha256sum" => Self::Sha256,
            "toJson" => Self::Json,
            "toYaml" => Self::Yaml,
            _ => return None,
        })
    }

    fn call(self, arguments: &[Value]) -> Result<Value> {
        let text = match (self, arguments) {
            (Self::Default, [otherwise, value]) => {
                return Ok(if is_truth(value) { value.clone() } else { otherwise.clone() });
            }
            (Self::Indent, [Value::Number(width), value]) => {
                let width = usize::try_from(width.as_u64().context("a width below zero")?)?;
                let line = format!("\n{}", " ".repeat(width));
                format!("{line}{}", printed(value).replace('\n', &line))
            }
            (Self::Quote, [value]) => Value::String(printed(value)).to_string(),
            (Self::Sha256, [value]) => {
                sha256(printed(value).as_bytes()).trim_start_matches("sha256:").to_owned()
            }
            (Self::Json, [value]) => value.to_string(),
            (Self::Yaml, [value]) => serde_saphyr::to_string(value)?.trim_end().to_owned(),
            _ => bail!("{self:?} does not take {} such arguments", arguments.len()),
        };
        Ok(Value::String(text))
    }
}

fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// As Go's templates have it: nothing, zero and what is empty are false.
fn is_truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(template: &str) -> String {
        let values = json!({"a": {"b": "x", "no": false, "n": 7, "l": [1, {"k": "v"}], "e": ""}});
        render(template, &json!({"Values": values})).unwrap_or_else(|e| format!("{e:#}"))
    }

    #[test]
    fn what_the_chart_uses_works() {
        for (template, expected) in [
            ("{{ .Values.a.b }}:{{ .Values.a.n }}", "x:7"),
            ("{{ .Values.a.b | quote }} {{ toJson .Values.a.l }}", "\"x\" [1,{\"k\":\"v\"}]"),
            ("{{ .Values.a.e | default .Values.a.b }}", "x"),
            ("k: {{- toYaml .Values.a.l | nindent 2 }}", "k:\n  - 1\n  - k: v"),
            ("1\n{{- if .Values.a.no }}\n2\n{{- else }}\n3\n{{- end }}\n4", "1\n3\n4"),
            ("{{ if .Values.a.b }}{{ if .Values.a.e }}1{{ end }}2{{ end }}", "2"),
            ("{{ if .Values.a.no }}{{ if .Values.a.b }}1{{ else }}2{{ end }}{{ end }}3", "3"),
            ("a {{- /* why */ -}} b", "ab"),
        ] {
            assert_eq!(said(template), expected, "{template}");
        }
        // echo -n x | sha256sum
        assert!(said("{{ .Values.a.b | sha256sum }}").starts_with("2d711642b726b044"));
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for (template, expected) in [
            ("{{ .Values.a.x }}", "there is no value .Values.a.x"),
            ("{{ range .Values.a }}{{ end }}", "\"range\" is no function of the chart's"),
            ("{{ if .Values.a.b }}", "`if` without `end`"),
            ("{{ end }}", "`end` without `if`"),
            ("{{ .Values.a.b", "braces that nobody closes"),
            ("{{ nindent .Values.a.b }}", "nindent .Values.a.b: Indent does not take 1"),
        ] {
            assert!(said(template).starts_with(expected), "{template}: {}", said(template));
        }
    }
}
