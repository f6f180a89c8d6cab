//! What was checked: a line each, the worst last, with what to do about it.

use super::paint::{Paint, Tone};
use super::table::{Cell, Table};
use crate::client::answers::{Check, CheckResult};
use std::fmt::Write as _;

/// All checks, and how many are not well.
pub(crate) fn draw(checks: &[Check], paint: Paint) -> String {
    let mut table = Table::new(["CHECK", "NODE", "RESULT", "DETAIL"]);
    for check in checks {
        table.push([
            Cell::from(check.name.as_str()),
            check.node.as_deref().filter(|node| !node.is_empty()).unwrap_or("-").into(),
            result(check.result),
            check.detail.as_str().into(),
        ]);
    }
    let mut text = table.draw("", paint);
    let mut troubles = 0;
    for check in checks.iter().filter(|check| check.is_trouble()) {
        troubles += 1;
        let place = check.node.as_deref().filter(|n| !n.is_empty()).map(|n| format!(" on {n}"));
        let _ = write!(text, "\n{}{}: {}", check.name, place.unwrap_or_default(), check.detail);
        if !check.advice.is_empty() {
            let _ = write!(text, "\n  → {}", check.advice);
        }
        text.push('\n');
    }
    let line = match troubles {
        0 => paint.tone(Tone::Good, "✓ all is well"),
        n => paint.tone(Tone::Bad, &format!("✗ {n} of {} checks need a look", checks.len())),
    };
    let _ = writeln!(text, "\n{line}");
    text
}

fn result(result: CheckResult) -> Cell {
    match result {
        CheckResult::Ok => Cell::toned(Tone::Good, "✓ ok"),
        CheckResult::Warning => Cell::toned(Tone::Warning, "! warning"),
        CheckResult::Failed => Cell::toned(Tone::Bad, "✗ failed"),
        CheckResult::Skipped => Cell::toned(Tone::Faint, "- skipped"),
    }
}

// === impl Check ===

impl Check {
    fn is_trouble(&self) -> bool {
        matches!(self.result, CheckResult::Warning | CheckResult::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn checks_come_with_advice() {
        let checks: Vec<Check> = serde_json::from_value(json!([
            {"name": "clock", "node": "n1", "result": "ok", "detail": "0.1 s apart"},
            {"name": "mtu", "node": "n2", "result": "failed", "detail": "1500 through the tunnel to n1 is lost",
             "advice": "set the underlay's MTU to 1600"},
            {"name": "versions", "result": "skipped", "detail": "n3 is away", "node": null},
        ]))
        .unwrap();
        let said = "\
CHECK     NODE  RESULT     DETAIL
clock     n1    ✓ ok       0.1 s apart
mtu       n2    ✗ failed   1500 through the tunnel to n1 is lost
versions  -     - skipped  n3 is away

mtu on n2: 1500 through the tunnel to n1 is lost
  → set the underlay's MTU to 1600

✗ 1 of 3 checks need a look
";
        assert_eq!(draw(&checks, Paint::OFF), said);
        assert!(draw(&checks[..1], Paint::OFF).ends_with("\n✓ all is well\n"));
    }
}
