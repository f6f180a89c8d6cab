//! Results of an end-to-end run, spec by spec; and how they compare with those of another network.
//!
//! Read from Ginkgo's JSON report, which keeps apart what was left out by a pattern and what a spec
//! said of itself. Kept as a table of three columns, so that a change of a baseline shows as a diff.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// How a spec ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It failed, or was cut short.
    Failed,
    /// It found that it does not apply.
    Skipped,
}

/// A spec that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// How it ended.
    pub outcome: Outcome,
    /// Its duration, in whole seconds.
    pub seconds: u64,
    /// What it said last, in one line.
    pub message: String,
}

/// All specs that were run, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The specs.
    pub specs: BTreeMap<String, Spec>,
}

/// A spec that is not as in the baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It passed there, and does not here.
    Worse(String),
    /// It passed there, and was not run here.
    Missing(String),
    /// It passes here only.
    Better(String),
}

/// A report or a table that cannot be read.
#[derive(Debug, Error)]
pub enum ReportError {
    /// It is not Ginkgo's.
    #[error("this is no report of Ginkgo")]
    Json(#[from] serde_json::Error),
    /// A line of a table is not an outcome, a tab and a name.
    #[error("line {0} of the table is neither a comment nor an outcome and a name")]
    Line(usize),
}

// === impl Report ===

impl Report {
    /// Reads a report that Ginkgo wrote with `--json-report`.
    pub fn from_ginkgo(json: &[u8]) -> Result<Self, ReportError> {
        let suites: Vec<Suite> = serde_json::from_slice(json)?;
        let mut specs = BTreeMap::new();
        for spec in suites.into_iter().flat_map(|suite| suite.spec_reports) {
            let message = one_line(&spec.failure.message);
            let outcome = match spec.state.as_str() {
                "passed" => Outcome::Passed,
                // Left out by a pattern: it does not say why.
                "skipped" if message.is_empty() => continue,
                "skipped" => Outcome::Skipped,
                "pending" => continue,
                _ => Outcome::Failed,
            };
            // Of what is no spec, such as the suite's own set-up, only failures count.
            if spec.leaf_node_type != "It" && outcome != Outcome::Failed {
                continue;
            }
            let mut words = spec.container_hierarchy_texts.unwrap_or_default();
            let leaf =
                if spec.leaf_node_type == "It" { spec.leaf_node_text } else { spec.leaf_node_type };
            words.push(leaf);
            let seconds = spec.run_time / 1_000_000_000;
            specs.insert(words.join(" "), Spec { outcome, seconds, message });
        }
        Ok(Self { specs })
    }

    /// Reads a table that [`Report::to_table`] wrote.
    pub fn from_table(table: &str) -> Result<Self, ReportError> {
        let mut specs = BTreeMap::new();
        for (index, line) in table.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut columns = line.splitn(3, '\t');
            let outcome = columns.next().and_then(Outcome::from_word);
            let (Some(outcome), Some(name)) = (outcome, columns.next()) else {
                return Err(ReportError::Line(index + 1));
            };
            let message = columns.next().unwrap_or_default().to_owned();
            specs.insert(name.to_owned(), Spec { outcome, seconds: 0, message });
        }
        Ok(Self { specs })
    }

    /// A table: outcome, name, and what a spec that did not pass said. Durations are not in it, since
    /// each run has others.
    pub fn to_table(&self) -> String {
        let line = |(name, spec): (&String, &Spec)| match spec.message.as_str() {
            "" => format!("{}\t{name}\n", spec.outcome),
            message => format!("{}\t{name}\t{message}\n", spec.outcome),
        };
        self.specs.iter().map(line).collect()
    }

    /// How many ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.specs.values().filter(|spec| spec.outcome == outcome).count()
    }

    /// What is not as in a baseline. Specs that failed or were skipped there are nobody's debt here.
    pub fn differences(&self, baseline: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        for (name, _) in baseline.passed() {
            match self.specs.get(name).map(|spec| spec.outcome) {
                Some(Outcome::Passed) => {}
                Some(_) => found.push(Difference::Worse(name.clone())),
                None => found.push(Difference::Missing(name.clone())),
            }
        }
        let there = |name: &String| baseline.specs.get(name).map(|spec| spec.outcome);
        let better = self.passed().filter(|(name, _)| there(name) != Some(Outcome::Passed));
        found.extend(better.map(|(name, _)| Difference::Better(name.clone())));
        found
    }

    fn passed(&self) -> impl Iterator<Item = (&String, &Spec)> {
        self.specs.iter().filter(|(_, spec)| spec.outcome == Outcome::Passed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, spec) in &self.specs {
            writeln!(f, "{:<4}  {:>4} s  {name}", spec.outcome, spec.seconds)?;
            if !spec.message.is_empty() {
                writeln!(f, "              {}", spec.message)?;
            }
        }
        let count = |outcome| self.count(outcome);
        let (passed, failed, skipped) =
            (count(Outcome::Passed), count(Outcome::Failed), count(Outcome::Skipped));
        writeln!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

// === impl Difference ===

impl Difference {
    /// Whether it is a reason to refuse.
    pub fn is_bad(&self) -> bool {
        !matches!(self, Self::Better(_))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, name) = match self {
            Self::Worse(name) => ("passes in the baseline only", name),
            Self::Missing(name) => ("passes in the baseline, not run", name),
            Self::Better(name) => ("passes here only", name),
        };
        write!(f, "{what}: {name}")
    }
}

// === impl Outcome ===

impl Outcome {
    fn from_word(word: &str) -> Option<Self> {
        [Self::Passed, Self::Failed, Self::Skipped].into_iter().find(|o| o.to_string() == word)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "pass",
            Self::Failed => "FAIL",
            Self::Skipped => "skip",
        })
    }
}

/// The first words, without line breaks or tabs.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(LONGEST).collect()
}

/// `types.Report` of Ginkgo v2, as far as it is of use here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Vec<SpecReport>,
}

/// `types.SpecReport` of Ginkgo v2.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpecReport {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    /// In nanoseconds.
    run_time: u64,
    #[serde(default)]
    failure: Failure,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(name: &str, state: &str, message: &str) -> serde_json::Value {
        json!({
            "ContainerHierarchyTexts": ["[sig-network] DNS"],
            "LeafNodeType": "It",
            "LeafNodeText": name,
            "State": state,
            "RunTime": 2_600_000_000_u64,
            "Failure": {"Message": message},
        })
    }

    fn report(specs: &[serde_json::Value]) -> Report {
        let json = json!([{"SuitePath": "/x", "SpecReports": specs}]);
        Report::from_ginkgo(&serde_json::to_vec(&json).unwrap()).unwrap()
    }

    #[test]
    fn what_was_left_out_is_not_what_does_not_apply() {
        let set_up = json!({"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed",
            "RunTime": 0, "ContainerHierarchyTexts": null});
        let report = report(&[
            set_up,
            spec("answers", "passed", ""),
            spec("is not meant", "skipped", ""),
            spec("needs a cloud", "skipped", "only for\n\tgce"),
            spec("hangs", "timedout", "A suite timeout occurred"),
        ]);
        let table = report.to_table();
        assert_eq!(
            table,
            "pass\t[sig-network] DNS answers
FAIL\t[sig-network] DNS hangs\tA suite timeout occurred
skip\t[sig-network] DNS needs a cloud\tonly for gce
"
        );
        assert_eq!(report.specs["[sig-network] DNS answers"].seconds, 2);
        let again = Report::from_table(&format!("# a comment\n{table}")).unwrap();
        assert_eq!(again.to_table(), table);
        assert!(report.to_string().ends_with("1 passed, 1 failed, 1 skipped\n"));
    }

    #[test]
    fn a_suite_that_fails_before_its_specs_fails() {
        let set_up = json!({"LeafNodeType": "SynchronizedBeforeSuite", "LeafNodeText": "",
            "State": "failed", "RunTime": 0, "Failure": {"Message": "no nodes"}});
        assert_eq!(report(&[set_up]).to_table(), "FAIL\tSynchronizedBeforeSuite\tno nodes\n");
    }

    #[test]
    fn only_what_passed_in_the_baseline_is_owed() {
        let read = |table: &str| Report::from_table(table).unwrap();
        let baseline = read("pass\ta\npass\tb\npass\tc\nFAIL\td\nskip\te\n");
        let here = read("pass\ta\nFAIL\tb\npass\td\nskip\te\n");
        let differences = here.differences(&baseline);
        let expected = [
            Difference::Worse("b".to_owned()),
            Difference::Missing("c".to_owned()),
            Difference::Better("d".to_owned()),
        ];
        assert_eq!(differences, expected);
        assert_eq!(differences.iter().filter(|difference| difference.is_bad()).count(), 2);
    }

    #[test]
    fn the_recorded_baselines_pass() {
        for table in [include_str!("../baseline-ipv4.tsv"), include_str!("../baseline-dual.tsv")] {
            let baseline = Report::from_table(table).unwrap();
            assert_eq!(baseline.count(Outcome::Failed), 0);
            assert!(baseline.count(Outcome::Passed) >= 45);
        }
    }

    #[test]
    fn wrong_input_is_told() {
        assert!(matches!(Report::from_ginkgo(b"[{"), Err(ReportError::Json(_))));
        assert!(matches!(Report::from_table("pass\ta\nodd\tb\n"), Err(ReportError::Line(2))));
        assert!(matches!(Report::from_table("pass"), Err(ReportError::Line(1))));
    }
}
